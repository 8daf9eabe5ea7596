// One operand too few.
// expect: flash is given one operand for each parameter of the lambda after the fixed ones
#include <sectile/flash.h>
using namespace sectile;
auto scores() {
  return flash::scores([](flash::Score s, const flash::At &, Float factor) { return s * factor; });
}
