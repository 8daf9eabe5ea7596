// An Int takes no floating-point number.
// expect: a kernel's Int takes an integer
#include <sectile/sectile.h>
sectile::Kernel nothing{"nothing", [](sectile::Int) {}};
void run(const sectile::Stream &stream) { nothing.launch(stream, 1, 2.5); }
