// What tests ask of the fake CUDA driver, besides the driver's own functions.
#pragma once
#include <cstddef>

extern "C" {
// The next `times` calls of this symbol do nothing and return this error; with 0 it works again.
void fakeCudaFail(const char *symbol, int error, int times);
// How often the symbol was called so far; with nullptr, all symbols together.
int fakeCudaCalls(const char *symbol);
// Objects (memory, streams, events, graphs, modules) that live now.
int fakeCudaLive();
// A context of somebody else's on a device, and its end.
void *fakeCudaContext(int device);
void fakeCudaDestroyContext(void *context);
// From now on the device's primary context is as after an error inside a kernel.
void fakeCudaBreak(int device);
// How often the driver compiled PTX.
int fakeCudaCompiles();
struct FakeLaunch {
  unsigned grid[3], threads, sharedBytes;
  void *stream;
  bool dependent;
  // Of a kernel called fake_map, its third argument: what cuTensorMapEncodeTiled was given, as
  // type, rank, address, two extents, a stride, two sides of the box, and the swizzle.
  unsigned long long map[16];
};
// The last launch that was made.
FakeLaunch fakeCudaLastLaunch();
}
