// A struct before the last parameter is one of traced values.
// expect: the others are Ptr, View, Int, Tile<T> and plain structs of these
#include <sectile/language.h>
#include <sectile/signature.h>

struct Scaled {
  sectile::Int at;
  float factor;
};
auto kernel = [](Scaled, sectile::Int) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
