// What a function returns in a tuple is traced, too.
// expect: a function of a kernel returns traced values: .* are Tile, Ptr, View or structs
#include <sectile/language.h>

sectile::Function count{"count", [](sectile::Int i) { return std::tuple(i, 3); }};
void call(sectile::Int i) { count(i); }
