// A kernel stores its results.
// expect: a kernel returns nothing: store its results
#include <sectile/language.h>
#include <sectile/signature.h>

auto kernel = [](sectile::Int n) { return n; };
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
