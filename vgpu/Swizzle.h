// How the swizzles of TMA and wgmma permute shared memory: 16-byte chunks within rows as wide as
// the swizzle change places by their address.
#pragma once
#include <cstdint>

namespace sectile::vgpu {

// `width` is 32, 64 or 128 bytes, or 16 for no swizzle. 128 bytes of addresses are one row of the
// pattern, which starts `base` rows behind a multiple of 1024.
inline uint32_t swizzled(uint32_t address, uint32_t width, uint32_t base = 0) {
  return address ^ (address / 128 - base) % (width / 16) * 16;
}

} // namespace sectile::vgpu
