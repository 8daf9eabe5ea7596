// A Ptr<const T> is read only.
// expect: a Ptr<const T> cannot be stored to
#include <sectile/language.h>

void kernel(sectile::Ptr<const float> x) { sectile::store(x, 1.0f); }
