// A lambda with a state of its own.
// expect: what flash calls is a lambda with typed parameters, not mutable
#include <sectile/flash.h>
using namespace sectile;
auto scores() {
  return flash::scores([](flash::Score s, const flash::At &) mutable { return s; });
}
