// The same for the first element.
// expect: write sc::load\(p\) to read, sc::store\(p, value\) to write
// only: write sc::load\(p\) to read, sc::store\(p, value\) to write
#include <sectile/language.h>

void kernel(const sectile::Ptr<float> &x) { *x = 1; }
