// Two learned operands that share a slot of a score's derivatives.
// expect: of two learned operands along the same, each has a tag of its own
#include <sectile/flash.h>
using namespace sectile;
auto scores(const flash::LearnedTensor<3> &slopes, const flash::LearnedTensor<3> &shifts) {
  return flash::scores(
      [](flash::Score s, const flash::At &at, flash::Learned<flash::Along::heads> slope,
         flash::Learned<flash::Along::heads> shift) {
        return s * at.per_head(slope) + at.per_head(shift);
      },
      slopes, shifts);
}
