// A lambda that is not told where its scores lie.
// expect: a lambda of flash::scores takes \(Score, const At &, operands...\)
#include <sectile/flash.h>
using namespace sectile;
auto scores() {
  return flash::scores([](flash::Score s) { return s * 2.0f; });
}
