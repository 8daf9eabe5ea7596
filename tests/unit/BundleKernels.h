// Kernels that the bundle's tests have twice: as the compiler takes them, and sealed.
#pragma once
#include <sectile/sectile.h>

struct BundleBlock {
  int size = 128;
};
SECTILE_CONFIG(BundleBlock, size)

// z = x + y + 1, in a program that has no body for it.
void launchSealed(const sectile::Stream &stream, const sectile::Buffer<float> &x,
                  const sectile::Buffer<float> &y, const sectile::Buffer<float> &z, int n,
                  BundleBlock block);
