// A generic lambda does not say what its operands are.
// expect: a lambda that flash calls has typed parameters, it is not a generic one
#include <sectile/flash.h>
using namespace sectile;
auto scores() {
  return flash::scores([](auto s, const flash::At &) { return s; });
}
