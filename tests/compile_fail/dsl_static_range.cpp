// What is unrolled while tracing has bounds of the host.
// expect: a bound of sc::arange is a number of the host
#include <sectile/language.h>

void loop(sectile::Int n) {
  for (auto i : sectile::static_range(0, n))
    (void)i;
}
