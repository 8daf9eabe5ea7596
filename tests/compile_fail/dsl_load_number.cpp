// A load takes a pointer.
// expect: sc::load takes a pointer, as in sc::load\(p \+ i, mask, other\)
// only: sc::load takes a pointer, as in sc::load\(p \+ i, mask, other\)
#include <sectile/language.h>

auto kernel(const sectile::Int &i) { return sectile::load(i); }
