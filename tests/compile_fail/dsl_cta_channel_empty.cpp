// A ring of nothing has nothing to wait for.
// expect: slots hold at least one tile
#include <sectile/cta.h>
void kernel() { sectile::cta::Channel<> ring(2); }
