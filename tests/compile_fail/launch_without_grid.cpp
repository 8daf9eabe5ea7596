// A launch says how many programs run.
// expect: the grid comes after the stream
// only: the grid comes after the stream
#include <sectile/sectile.h>
sectile::Kernel scale{"scale", [](sectile::Ptr<float> x, sectile::Int by) {
                        sectile::store(x, sectile::load(x) * by);
                      }};
void run([[maybe_unused]] const sectile::Device &device,
         [[maybe_unused]] const sectile::Stream &stream, const sectile::Buffer<float> &x) {
  scale.launch(stream, x, 2);
}
