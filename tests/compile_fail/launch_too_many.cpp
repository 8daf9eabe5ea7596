// A launch with more arguments than parameters.
// expect: this call has more arguments than the kernel has parameters
// only: this call has more arguments than the kernel has parameters
#include <sectile/sectile.h>
sectile::Kernel scale{"scale", [](sectile::Ptr<float> x, sectile::Int by) {
                        sectile::store(x, sectile::load(x) * by);
                      }};
void run([[maybe_unused]] const sectile::Device &device,
         [[maybe_unused]] const sectile::Stream &stream, const sectile::Buffer<float> &x) {
  scale.launch(stream, 1, x, 2, 3, 4);
}
