// Kernels over rows on one very long row: with SECTILE_TEST_ALL=1 of a million elements.
#include "KernelTest.h"

using namespace sectile;
using namespace sectile::test;

class LongRows : public OnDevice {
protected:
  static std::int64_t length() {
    const char *all = std::getenv("SECTILE_TEST_ALL");
    return all && std::string_view(all) == "1" ? (1 << 20) + 1 : 40001;
  }
};
SECTILE_INSTANTIATE_ON(LongRows, "virtual:sm_80,virtual:sm_90a");

TEST_P(LongRows, AreRight) {
  for (const char *kernel : {"softmax", "softmax_backward", "log_softmax", "log_softmax_backward",
                             "layer_norm", "layer_norm_backward", "rms_norm", "rms_norm_backward"})
    expectRight(device, {kernel, {{"...", 1}, {"N", length()}}, {}, {}, "f16"});
  for (const char *kernel : {"cross_entropy", "cross_entropy_backward"})
    expectRight(device, {kernel, {{"...", 1}, {"V", length()}}, {}, {}, "bf16"});
}
