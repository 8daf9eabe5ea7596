// Copies move whole bytes that memory holds.
// expect: a slot holds integers of 8 to 64 bits
#include <sectile/cta.h>
void kernel() { sectile::cta::Channel ring(2, sectile::cta::TileOf<bool>{64, 64}); }
