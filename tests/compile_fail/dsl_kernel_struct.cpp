// A struct before the last parameter is one of traced values.
// expect: structs of these, after which you write SECTILE_STRUCT\(Type, field, ...\)
#include <sectile/language.h>
#include <sectile/signature.h>

struct Pair {
  sectile::Int a, b;
};
auto kernel = [](Pair, sectile::Int) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
