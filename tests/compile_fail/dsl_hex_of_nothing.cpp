// What is printed in hexadecimal has a text before it.
// expect: no viable conversion from|could not convert|cannot convert
#include <sectile/language.h>

void kernel(const sectile::Tile<int> &x) { sectile::device_print(sectile::hex(x)); }
