// A kernel's parameters are traced types, and one configuration.
// expect: a kernel's parameter is a Ptr, a View, an Int, a Tile<T>
#include <sectile/language.h>
#include <sectile/signature.h>

auto kernel = [](float *, sectile::Int) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
