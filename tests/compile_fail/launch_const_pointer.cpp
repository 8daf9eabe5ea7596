// A kernel that writes takes no address of constants.
// expect: (no matching member function|no matching function|could not convert)
#include <sectile/sectile.h>
sectile::Kernel clear{"clear", [](sectile::Ptr<float> x) { sectile::store(x, 0.0f); }};
void run(const sectile::Stream &stream, const float *x) { clear.launch(stream, 1, x); }
