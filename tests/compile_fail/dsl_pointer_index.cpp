// Memory is read and written by functions.
// expect: write sc::load\(p \+ i\) to read, sc::store\(p \+ i, value\) to write
// only: write sc::load\(p \+ i\) to read, sc::store\(p \+ i, value\) to write
#include <sectile/language.h>

void kernel(const sectile::Ptr<float> &x, const sectile::Int &i) { x[i] = x[i + 1] * 2; }
