// A C++ `if` on a traced value has no answer while tracing.
// expect: a traced value has no truth value while the kernel is traced: write sc::when
#include <sectile/language.h>

void kernel(sectile::Int n) {
  if (n < 3)
    n = 3;
}
