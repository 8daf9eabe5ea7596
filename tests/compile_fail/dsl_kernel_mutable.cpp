// A kernel is traced once, so it keeps nothing.
// expect: a kernel's lambda is not mutable
#include <sectile/language.h>
#include <sectile/signature.h>

auto kernel = [calls = 0](sectile::Int) mutable { ++calls; };
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
