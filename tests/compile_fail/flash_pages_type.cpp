// A cache holds what q does, or codes.
// expect: pages are of the type of q, or of float8_e4m3, float8_e5m2, std::int8_t or std::uint8_t
#include <sectile/flash.h>
using namespace sectile;
auto attend(const Stream &stream, const Tensor<half, 3> &q, const flash::Pages<float> &pages) {
  return flash::attend(stream, q, pages, flash::plain(), flash::causal());
}
