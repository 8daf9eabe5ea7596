// A store has the pointer first.
// expect: the pointer comes first: sc::store\(p \+ i, value, mask\)
// only: the pointer comes first: sc::store\(p \+ i, value, mask\)
#include <sectile/language.h>

void kernel(const sectile::Ptr<float> &x, const sectile::Tile<float> &y) {
  sectile::store(y, x);
  sectile::store(1, x);
}
