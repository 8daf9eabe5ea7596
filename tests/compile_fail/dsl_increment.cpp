// There is one way to count.
// expect: write i \+= 1
// only: write i \+= 1
#include <sectile/language.h>

void kernel(sectile::Int i) {
  ++i;
  i++;
}
