// Atomic operations need elements of at least 32 bits, or 16-bit floats.
// expect: atomic operations work on integers of 32 and 64 bits, half, bfloat16, float and double
#include <sectile/language.h>

void kernel(sectile::Ptr<std::int8_t> x) { sectile::atomic_add(x, 1); }
