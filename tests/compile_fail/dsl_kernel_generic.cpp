// A kernel's parameters have types.
// expect: a kernel is a lambda with typed parameters, not a generic one
#include <sectile/language.h>
#include <sectile/signature.h>

auto kernel = [](auto) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
