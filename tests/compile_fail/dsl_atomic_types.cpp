// Atomic operations need elements of at least 16 bits.
// expect: atomic operations work on integers of 16, 32 and 64 bits, half, bfloat16, float and
#include <sectile/language.h>

void kernel(sectile::Ptr<std::int8_t> x) { sectile::atomic_add(x, 1); }
