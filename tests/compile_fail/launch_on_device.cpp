// A launch goes to a stream.
// expect: a launch goes to a stream, as in kernel.launch\(device.stream\(\)
// only: a launch goes to a stream, as in kernel.launch\(device.stream\(\)
#include <sectile/sectile.h>
sectile::Kernel scale{"scale", [](sectile::Ptr<float> x, sectile::Int by) {
                        sectile::store(x, sectile::load(x) * by);
                      }};
void run([[maybe_unused]] const sectile::Device &device,
         [[maybe_unused]] const sectile::Stream &stream, const sectile::Buffer<float> &x) {
  scale.launch(device, 1, x, 2);
}
