// Tensor maps of the virtual GPU: what cuTensorMapEncodeTiled takes, as it is. Kernels get them as
// they get a chip's, 128 bytes by value or in global memory.
#pragma once
#include <cstdint>

namespace sectile {
struct TensorMapValues;
}

namespace sectile::vgpu {

// Numbered as in the driver's API.
enum class TensorType : uint8_t {
  U8,
  U16,
  U32,
  S32,
  U64,
  S64,
  F16,
  F32,
  F64,
  BF16,
  F32Flushed, // subnormals are zero
  TF32,
  TF32Flushed
};

unsigned bytesOf(TensorType type);

// Dimension 0 is contiguous. There is no interleaving.
struct alignas(64) TensorMap {
  static constexpr uint64_t magicNumber = 0x70616d5f65746373;

  uint64_t magic = 0;       // set by encode()
  uint64_t address = 0;     // in bytes, as all of these; a multiple of 16
  uint64_t extents[5] = {}; // elements
  uint64_t strides[4] = {}; // bytes, of dimensions 1 to 4
  uint32_t box[5] = {};     // elements, of which each steps[i]th is taken, the first one too
  TensorType type = TensorType::U8;
  uint8_t rank = 0;          // 1 to 5
  uint8_t swizzle = 0;       // bytes: 0, 32, 64 or 128
  bool fillsWithNaN = false; // elements outside; else with zeros
  // From 1 to 8. The one of dimension 0 counts for nothing.
  uint8_t steps[5] = {1, 1, 1, 1, 1};

  // How many of the box's elements in dimension i of 1 to 4 are taken.
  uint32_t taken(unsigned i) const { return (box[i] + steps[i] - 1) / steps[i]; }
  // Bytes of a row of the box, and from row to row in shared memory.
  uint32_t rowBytes() const { return box[0] * bytesOf(type); }
  uint32_t rowPitch() const { return swizzle ? swizzle : rowBytes(); }

  // The map with its magic number. Throws std::invalid_argument for what the driver would refuse.
  static TensorMap encode(TensorMap map);
  // The map that a launch plan asks for. It may have no elements, which a driver does not take.
  static TensorMap of(const TensorMapValues &values);
};

static_assert(sizeof(TensorMap) == 128);

} // namespace sectile::vgpu
