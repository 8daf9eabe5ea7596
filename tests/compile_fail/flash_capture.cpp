// A lambda that captures: its kernel, which is compiled once, would keep the first value.
// expect: a lambda that flash calls captures nothing
#include <sectile/flash.h>
using namespace sectile;
auto scores(float factor) {
  return flash::scores([factor](flash::Score s, const flash::At &) { return s * factor; });
}
