// What a query sees is no function that has a gradient.
// expect: no operand of flash::where is learned
#include <sectile/flash.h>
using namespace sectile;
auto visibility(const flash::LearnedTensor<3> &values) {
  return flash::where(
      [](const flash::At &at, flash::Learned<flash::Along::heads> slope) {
        return at.distance() < at.per_head(slope).value();
      },
      values);
}
