// What is checked while tracing is known while tracing.
// expect: sc::static_check takes a bool that is known while tracing
#include <sectile/language.h>

void kernel(const sectile::Int &n) { sectile::static_check(n < 3, "few"); }
