// A Ptr<float> takes no buffer of doubles.
// expect: a kernel's Ptr<T> or Ptr<const T> takes a Buffer<T>
#include <sectile/sectile.h>
sectile::Kernel clear{"clear", [](sectile::Ptr<float> x) { sectile::store(x, 0.0f); }};
void run(const sectile::Stream &stream, const sectile::Buffer<double> &x) {
  clear.launch(stream, 1, x);
}
