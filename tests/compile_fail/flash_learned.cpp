// A learned operand that comes without its gradient.
// expect: an operand that is learned is given by flash::learned
#include <sectile/flash.h>
using namespace sectile;
auto scores(const Tensor<const float, 3> &values) {
  return flash::scores(
      [](flash::Score s, const flash::At &at, flash::Learned<flash::Along::heads> slope) {
        return s * at.per_head(slope);
      },
      values);
}
