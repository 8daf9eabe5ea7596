// Code is specialised for integers and extents, so that is what may vary.
// expect: a Varying<T> is an Int, a Scalar of an integer type, or a View, whose extents vary
#include <sectile/language.h>
#include <sectile/signature.h>

auto kernel = [](sectile::Varying<sectile::Ptr<float>>) {};
auto count = sectile::detail::Signature<decltype(kernel)>::args_count;
