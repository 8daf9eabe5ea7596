// The arithmetic of wgmma: operands from shared memory and registers, sums by register.
#include "vgpu/MmaKernels.h"
#include "vgpu/SmallFloats.h"
#include "vgpu/Swizzle.h"
#include "vgpu/Warpgroup.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

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
  default: // tf32, of which the unit drops the low 13 bits
    return each(uint32_t(), [](uint32_t bits) { return std::bit_cast<float>(bits & ~0x1fffu); });
  }
}

// A number as significand * 2^(exponent - `point`), the first bit of a normal one at `point`.
struct Scaled {
  int significand, exponent;
};
constexpr int fp8Point = 3, floatPoint = 23;

// Both formats of fp8, with e5m2's two bits behind the point shifted to e4m3's three.
std::array<Scaled, 256> scaledAll(const std::array<float, 256> &values, int least) {
  std::array<Scaled, 256> all{};
  for (unsigned i = 0; i < all.size(); ++i)
    if (std::isfinite(values[i]) && values[i] != 0) {
      const int exponent = std::max(std::ilogb(values[i]), least);
      all[i] = {int(std::ldexp(values[i], fp8Point - exponent)), exponent};
    }
  return all;
}

Scaled scaled(float value) {
  const int exponent = std::max(std::ilogb(value), -126);
  return {int(std::ldexp(value, floatPoint - exponent)), exponent};
}

// Toward zero.
int64_t shiftedRight(int64_t value, int by) {
  const int bits = std::min(by, 62);
  return value < 0 ? -(-value >> bits) : value >> bits;
}

struct Fp8Operand {
  const std::array<float, 256> &values;
  const std::array<Scaled, 256> &scaled;

  static Fp8Operand of(Element type) {
    static const std::array<float, 256> e4m3 = widenAll(e4m3Format), e5m2 = widenAll(e5m2Format);
    static const auto scaledE4m3 = scaledAll(e4m3, -6), scaledE5m2 = scaledAll(e5m2, -14);
    return type == Element::E4M3 ? Fp8Operand{e4m3, scaledE4m3} : Fp8Operand{e5m2, scaledE5m2};
  }
};

// One sum of 32 products of fp8 and `c`, as Hopper has it: every term is cut off 13 bits behind the
// point of the one with the largest exponent, the rest is exact. A sum in f32 is cut off to 13 bits
// in turn. (Xie et al., "MMA-Sim", arXiv:2511.10909.)
float addFp8(const Fp8Operand &a, const uint8_t *row, const Fp8Operand &b, const uint8_t *column,
             float c, bool isF32) {
  constexpr int kept = 13;
  float plain = c;
  int largest = c == 0 ? std::numeric_limits<int>::min() : std::max(std::ilogb(c), -126);
  for (unsigned i = 0; i < rowBytes; ++i) {
    plain += a.values[row[i]] * b.values[column[i]];
    const Scaled &x = a.scaled[row[i]], &y = b.scaled[column[i]];
    if (x.significand && y.significand)
      largest = std::max(largest, x.exponent + y.exponent);
  }
  if (!std::isfinite(plain))
    return plain;
  if (largest == std::numeric_limits<int>::min())
    return 0;
  int64_t sum = 0;
  for (unsigned i = 0; i < rowBytes; ++i) {
    const Scaled &x = a.scaled[row[i]], &y = b.scaled[column[i]];
    if (const int64_t product = x.significand * y.significand)
      sum += shiftedRight(product << (kept - 2 * fp8Point), largest - x.exponent - y.exponent);
  }
  if (c != 0) {
    const Scaled start = scaled(c);
    sum += shiftedRight(start.significand, floatPoint - kept + largest - start.exponent);
  }
  for (int64_t bit = 1; isF32 && std::abs(sum) >= bit << (kept + 1); bit *= 2)
    sum -= sum % (2 * bit);
  return std::ldexp(float(sum), largest - kept);
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
  auto bytes = [](const char *raw, unsigned row) {
    return reinterpret_cast<const uint8_t *>(raw) + row * rowBytes;
  };
  if (shape.accumulator == Element::S32) {
    eachTile<int32_t>(*sums, accumulates, [&](unsigned row, unsigned column, int32_t *tile) {
      kernels.int8(bytes(a, row), bytes(b, column), shape.a == Element::S8, shape.b == Element::S8,
                   tile, mmaMaxM, rowBytes, /*saturate=*/false);
    });
    return;
  }
  if (shape.a == Element::E4M3 || shape.a == Element::E5M2) {
    const Fp8Operand left = Fp8Operand::of(shape.a), right = Fp8Operand::of(shape.b);
    eachTile<float>(*sums, accumulates, [&](unsigned row, unsigned column, float *tile) {
      for (unsigned i = 0; i < mmaMaxM; ++i)
        for (unsigned j = 0; j < mmaN; ++j)
          tile[i * mmaN + j] = addFp8(left, bytes(a, row + i), right, bytes(b, column + j),
                                      tile[i * mmaN + j], shape.accumulator == Element::F32);
    });
  } else {
    float wideA[wgmmaRows * rowBytes / 2], wideB[256 * rowBytes / 2];
    widen(shape.a, a, wgmmaRows, wideA);
    widen(shape.b, b, shape.n, wideB);
    const unsigned k = shape.a == Element::TF32 ? rowBytes / 4 : rowBytes / 2;
    eachTile<float>(*sums, accumulates, [&](unsigned row, unsigned column, float *tile) {
      kernels.f32(wideA + row * k, wideB + column * k, tile, mmaMaxM, k);
    });
  }
  if (shape.accumulator == Element::F16)
    for (uint32_t &word : sums->words)
      word = bitsOfHalf(halfOfBits(word));
}

} // namespace sectile::vgpu
