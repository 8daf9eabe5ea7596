// What C++ knows while tracing is no value of the device.
// expect: sc::device_print prints tiles, traced numbers and pointers
#include <sectile/language.h>

void kernel() { sectile::device_print("block ", 64); }
