// What a sealed program has of a kernel: no body.
#define SECTILE_SEALED
#include "BundleKernels.h"

using namespace sectile;

namespace {
const Kernel kernel{"bundled",
                    [](Ptr<const float>, Ptr<const float>, Ptr<float>, Int, const BundleBlock &) {
                      // Nothing of the language here would be compiled either.
                    }};
} // namespace

void launchSealed(const Stream &stream, const Buffer<float> &x, const Buffer<float> &y,
                  const Buffer<float> &z, int n, BundleBlock block) {
  kernel.launch(stream, cdiv(n, block.size), x, y, z, n, block);
}
