// A Ptr<const T> is read only.
// expect: const elements of memory cannot be changed
#include <sectile/language.h>

void kernel(sectile::Ptr<const int> x) { sectile::atomic_cas(x, 0, 1); }
