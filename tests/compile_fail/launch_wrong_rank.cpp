// A View of rank 2 takes no tensor of rank 3.
// expect: a kernel's View<T, N> or View<const T, N> takes a Tensor<T, N>
#include <sectile/sectile.h>
sectile::Kernel nothing{"nothing", [](sectile::View<float, 2>) {}};
void run(const sectile::Stream &stream, const sectile::Buffer<float> &x) {
  nothing.launch(stream, 1, sectile::tensor(x, {2, 2, 2}));
}
