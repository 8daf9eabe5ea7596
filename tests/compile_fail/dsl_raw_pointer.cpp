// A pointer of C++ is none of the kernel's.
// expect: a kernel's pointers are sc::Ptr<T>, not T \*
// only: a kernel's pointers are sc::Ptr<T>, not T \*
#include <sectile/language.h>

void kernel(float *x) { sectile::store(x, sectile::load(x)); }
