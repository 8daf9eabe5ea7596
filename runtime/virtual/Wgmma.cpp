// The arithmetic of wgmma: operands from shared memory and registers, sums by register.
#include "runtime/virtual/MmaKernels.h"
#include "runtime/virtual/SmallFloats.h"
#include "runtime/virtual/Swizzle.h"
#include "runtime/virtual/Warpgroup.h"
#include <bit>
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr unsigned rowBytes = 32; // of an operand: what one wgmma takes of k
constexpr unsigned chunkBytes = 16;

// Swizzles by the descriptor's mode: how wide a row of their pattern is.
constexpr uint32_t swizzleWidths[] = {chunkBytes, 128, 64, 32};

// PTX: row lane / 4 of the warp's 16, or the one 8 below, and two neighbours in every 8 columns.
size_t wordOf(unsigned n, unsigned warp, unsigned lane, unsigned element) {
  const unsigned row = 16 * warp + lane / 4 + 8 * (element / 2 % 2);
  return size_t(row) * n + 8 * (element / 4) + lane % 4 * 2 + element % 2;
}

uint32_t bitsOfHalf(uint32_t half) {
  return std::bit_cast<uint32_t>(floatFromHalf(uint16_t(half)));
}
uint32_t halfOfBits(uint32_t bits) { return halfFromFloat(std::bit_cast<float>(bits)); }

const std::array<float, 1 << 16> &allHalves() {
  static const auto table = [] {
    std::array<float, 1 << 16> values;
    for (unsigned i = 0; i < values.size(); ++i)
      values[i] = floatFromHalf(uint16_t(i));
    return values;
  }();
  return table;
}

// The operand's rows as floats, which hold all of their types exactly.
void widen(Element type, const char *raw, unsigned rows, float *to) {
  static const std::array<float, 256> e4m3 = widenAll(e4m3Format), e5m2 = widenAll(e5m2Format);
  auto each = [&]<class Raw>(Raw, auto convert) {
    for (unsigned i = 0; i < rows * rowBytes / sizeof(Raw); ++i) {
      Raw value;
      std::memcpy(&value, raw + i * sizeof(Raw), sizeof(Raw));
      to[i] = convert(value);
    }
  };
  switch (type) {
  case Element::F16:
    return each(uint16_t(), [&halves = allHalves()](uint16_t half) { return halves[half]; });
  case Element::BF16:
    return each(uint16_t(), [](uint16_t value) { return floatFromBfloat(value); });
  case Element::TF32: // the unit drops the low 13 bits
    return each(uint32_t(), [](uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); });
  default: {
    const auto &table = type == Element::E4M3 ? e4m3 : e5m2;
    return each(uint8_t(), [&](uint8_t value) { return table[value]; });
  }
  }
}

// multiply(row, column, tile) for all tiles of 16 by 8 sums.
template <class Number, class Multiply>
void eachTile(WgmmaSums &sums, bool accumulates, Multiply multiply) {
  constexpr size_t tileRow = mmaN * sizeof(Number);
  for (unsigned row = 0; row < wgmmaRows; row += mmaMaxM)
    for (unsigned column = 0; column < sums.n; column += mmaN) {
      Number tile[mmaMaxM * mmaN] = {};
      uint32_t *words = sums.words.data() + size_t(row) * sums.n + column;
      for (unsigned i = 0; i < mmaMaxM && accumulates; ++i)
        std::memcpy(tile + i * mmaN, words + size_t(i) * sums.n, tileRow);
      multiply(row, column, tile);
      for (unsigned i = 0; i < mmaMaxM; ++i)
        std::memcpy(words + size_t(i) * sums.n, tile + i * mmaN, tileRow);
    }
}

} // namespace

uint32_t WgmmaSums::registerOf(unsigned warp, unsigned lane, unsigned index) const {
  if (type != Element::F16)
    return words[wordOf(n, warp, lane, index)];
  return halfOfBits(words[wordOf(n, warp, lane, 2 * index)]) |
         halfOfBits(words[wordOf(n, warp, lane, 2 * index + 1)]) << 16;
}

void WgmmaSums::setRegister(unsigned warp, unsigned lane, unsigned index, uint32_t word) {
  if (type != Element::F16) {
    words[wordOf(n, warp, lane, index)] = word;
    return;
  }
  words[wordOf(n, warp, lane, 2 * index)] = bitsOfHalf(word & 0xffff);
  words[wordOf(n, warp, lane, 2 * index + 1)] = bitsOfHalf(word >> 16);
}

// Offsets in a descriptor have 14 bits and count 16 bytes.
SharedMatrix::SharedMatrix(uint64_t descriptor, bool isTransposed, unsigned rows)
    : isTransposed(isTransposed), lines(isTransposed ? rowBytes / 2 : rows),
      chunks(isTransposed ? rows / 8 : rowBytes / chunkBytes) {
  auto offset = [&](unsigned shift) { return uint32_t(descriptor >> shift & 0x3fff) * 16; };
  const uint32_t leading = offset(16), stride = offset(32);
  start = offset(0);
  base = uint32_t(descriptor >> 49 & 7);
  width = swizzleWidths[descriptor >> 62];
  const bool swaps = isTransposed && width == chunkBytes;
  lineStride = swaps ? leading : stride;
  chunkStride = swaps ? stride : leading;
}

uint32_t SharedMatrix::address(unsigned line, unsigned chunk) const {
  const unsigned wide = width / chunkBytes;
  const uint32_t linear = start + line % 8 * width + line / 8 * lineStride +
                          chunk % wide * chunkBytes + chunk / wide * chunkStride;
  return swizzled(linear, width, base) & 0x3ffff;
}

void SharedMatrix::read(const char *shared, char *rows) const {
  eachChunk([&](uint32_t address, unsigned line, unsigned chunk) {
    const char *from = shared + address;
    if (!isTransposed) {
      std::memcpy(rows + line * rowBytes + chunk * chunkBytes, from, chunkBytes);
      return;
    }
    for (unsigned i = 0; i < 8; ++i)
      std::memcpy(rows + (8 * chunk + i) * rowBytes + 2 * line, from + 2 * i, 2);
  });
}

void Wgmma::execute(const char *shared) const {
  char a[wgmmaRows * rowBytes], b[256 * rowBytes];
  if (shape.aInRegisters) {
    // As for mma.sync: rows g and g + 8, and these again 16 bytes further along k.
    for (unsigned thread = 0; thread < 128; ++thread)
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 2);
        std::memcpy(a + row * rowBytes + thread % 4 * 4 + 16 * (i / 2), &aWords[thread * 4 + i], 4);
      }
  } else {
    matrixA().read(shared, a);
  }
  matrixB().read(shared, b);

  const MmaKernels &kernels = mmaKernels();
  if (shape.accumulator == Element::S32) {
    auto bytes = [](const char *raw, unsigned row) {
      return reinterpret_cast<const uint8_t *>(raw) + row * rowBytes;
    };
    eachTile<int32_t>(*sums, accumulates, [&](unsigned row, unsigned column, int32_t *tile) {
      kernels.int8(bytes(a, row), bytes(b, column), shape.a == Element::S8, shape.b == Element::S8,
                   tile, mmaMaxM, rowBytes, /*saturate=*/false);
    });
    return;
  }
  float wideA[wgmmaRows * rowBytes], wideB[256 * rowBytes];
  widen(shape.a, a, wgmmaRows, wideA);
  widen(shape.b, b, shape.n, wideB);
  const unsigned k = shape.a == Element::TF32                              ? rowBytes / 4
                     : shape.a == Element::F16 || shape.a == Element::BF16 ? rowBytes / 2
                                                                           : rowBytes;
  eachTile<float>(*sums, accumulates, [&](unsigned row, unsigned column, float *tile) {
    kernels.f32(wideA + row * k, wideB + column * k, tile, mmaMaxM, k);
  });
  if (shape.accumulator == Element::F16)
    for (uint32_t &word : sums->words)
      word = bitsOfHalf(halfOfBits(word));
}

} // namespace sectile::vgpu
