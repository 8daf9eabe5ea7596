// Two f16 sums share a register: no instruction adds to them while threads go on.
// expect: sums in flight are float, double or int32
#include <sectile/cta.h>
namespace sc = sectile;
void kernel(const sc::Tile<sc::half> &tile, const sc::cta::InFlight<sc::half> &sums) {
  sc::cta::dot_async(tile, tile, sums);
}
