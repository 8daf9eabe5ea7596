// mma.sync, ldmatrix and stmatrix: fragments gathered from the lanes into matrices, and back, as
// PTX lays them out.
#include "vgpu/MmaKernels.h"
#include "vgpu/SmallFloats.h"
#include "vgpu/WarpOps.h"
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr unsigned lanes = 32;

unsigned bytesOf(Element element) {
  switch (element) {
  case Element::F16:
  case Element::BF16:
    return 2;
  case Element::E4M3:
  case Element::E5M2:
  case Element::S8:
  case Element::U8:
    return 1;
  case Element::F64:
    return 8;
  default:
    return 4;
  }
}

// In all these fragments a lane is a row group g = lane / 4 and a position t = lane % 4, and a
// register (of one double or one word) holds neighbours along k. A: register r is row g + 8 (r % 2)
// (g alone where m is 8), position t of the r / 2-th group of four registers' worth of columns. B:
// register r is column g, likewise. C: rows g, then g + 8, two neighbours along n each.
struct Fragments {
  explicit Fragments(const MmaShape &shape)
      : shape(shape), registerBytes(shape.a == Element::F64 ? 8 : 4),
        perRegister(registerBytes / bytesOf(shape.a)), wordsPerRegister(registerBytes / 4),
        rowGroups(shape.m / 8), steps(shape.k / (4 * perRegister)) {}

  unsigned aRegisters() const { return rowGroups * steps; }
  unsigned bRegisters() const { return steps; }

  void gather(const WarpOp &op, char *a, char *b) const {
    if (registerBytes == 4)
      gatherRegisters<4>(op, a, b);
    else
      gatherRegisters<8>(op, a, b);
  }

  // Calls visit(matrix index of the pair's first element, pointer to the pair's words): in C the
  // operands come after A and B, results from the first word on.
  template <class Visit>
  void eachPair(const WarpOp &op, bool results, unsigned pairWords, Visit visit) const {
    unsigned skip = results ? 0 : (aRegisters() + bRegisters()) * wordsPerRegister;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      uint32_t *words = op.registers(lane) + skip;
      for (unsigned half = 0; half < rowGroups; ++half, words += pairWords)
        visit((lane / 4 + 8 * half) * mmaN + lane % 4 * 2, words);
    }
  }

  template <unsigned bytes> void gatherRegisters(const WarpOp &op, char *a, char *b) const {
    size_t rowBytes = size_t(shape.k) * bytesOf(shape.a);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const uint32_t *words = op.registers(lane);
      unsigned g = lane / 4, t = lane % 4;
      for (unsigned r = 0; r < aRegisters(); ++r, words += bytes / 4)
        std::memcpy(a + (g + 8 * (r % rowGroups)) * rowBytes + (t + 4 * (r / rowGroups)) * bytes,
                    words, bytes);
      for (unsigned r = 0; r < bRegisters(); ++r, words += bytes / 4)
        std::memcpy(b + g * rowBytes + (t + 4 * r) * bytes, words, bytes);
    }
  }

  MmaShape shape;
  unsigned registerBytes, perRegister, wordsPerRegister, rowGroups, steps;
};

void floatMma(const WarpOp &op, const Fragments &fragments) {
  const MmaShape &shape = fragments.shape;
  alignas(32) char a[mmaMaxM * mmaMaxK * 4], b[mmaN * mmaMaxK * 4];
  alignas(32) float d[mmaMaxM * mmaN];
  fragments.gather(op, a, b);
  bool halves = shape.accumulator == Element::F16;
  if (halves)
    fragments.eachPair(op, false, 1, [&](unsigned index, const uint32_t *words) {
      d[index] = floatFromHalf(uint16_t(*words));
      d[index + 1] = floatFromHalf(uint16_t(*words >> 16));
    });
  else
    fragments.eachPair(op, false, 2, [&](unsigned index, const uint32_t *words) {
      std::memcpy(d + index, words, 8);
    });
  static const std::array<float, 256> e4m3 = widenAll(e4m3Format), e5m2 = widenAll(e5m2Format);
  const MmaKernels &kernels = mmaKernels();
  switch (shape.a) {
  case Element::F16:
    kernels.f16(reinterpret_cast<uint16_t *>(a), reinterpret_cast<uint16_t *>(b), d, shape.m,
                shape.k);
    break;
  case Element::BF16:
    kernels.bf16(reinterpret_cast<uint16_t *>(a), reinterpret_cast<uint16_t *>(b), d, shape.m,
                 shape.k);
    break;
  case Element::TF32:
    kernels.tf32(reinterpret_cast<uint32_t *>(a), reinterpret_cast<uint32_t *>(b), d, shape.m,
                 shape.k);
    break;
  default:
    kernels.fp8(reinterpret_cast<uint8_t *>(a), reinterpret_cast<uint8_t *>(b),
                (shape.a == Element::E4M3 ? e4m3 : e5m2).data(),
                (shape.b == Element::E4M3 ? e4m3 : e5m2).data(), d, shape.m, shape.k);
  }
  if (halves)
    fragments.eachPair(op, true, 1, [&](unsigned index, uint32_t *words) {
      *words = halfFromFloat(d[index]) | uint32_t(halfFromFloat(d[index + 1])) << 16;
    });
  else
    fragments.eachPair(op, true, 2,
                       [&](unsigned index, uint32_t *words) { std::memcpy(words, d + index, 8); });
}

void doubleMma(const WarpOp &op, const Fragments &fragments) {
  double a[mmaMaxM * 16], b[mmaN * 16], d[mmaMaxM * mmaN];
  fragments.gather(op, reinterpret_cast<char *>(a), reinterpret_cast<char *>(b));
  fragments.eachPair(op, false, 4, [&](unsigned index, const uint32_t *words) {
    std::memcpy(d + index, words, 16);
  });
  mmaKernels().f64(a, b, d, fragments.shape.m, fragments.shape.k);
  fragments.eachPair(op, true, 4,
                     [&](unsigned index, uint32_t *words) { std::memcpy(words, d + index, 16); });
}

void integerMma(const WarpOp &op, const Fragments &fragments) {
  const MmaShape &shape = fragments.shape;
  uint8_t a[mmaMaxM * mmaMaxK], b[mmaN * mmaMaxK];
  int32_t d[mmaMaxM * mmaN];
  fragments.gather(op, reinterpret_cast<char *>(a), reinterpret_cast<char *>(b));
  fragments.eachPair(op, false, 2, [&](unsigned index, const uint32_t *words) {
    std::memcpy(d + index, words, 8);
  });
  mmaKernels().int8(a, b, shape.a == Element::S8, shape.b == Element::S8, d, shape.m, shape.k,
                    shape.saturate);
  fragments.eachPair(op, true, 2,
                     [&](unsigned index, uint32_t *words) { std::memcpy(words, d + index, 8); });
}

} // namespace

void runMma(const WarpOp &op) {
  if (!op.wholeWarp())
    return;
  Fragments fragments(MmaShape::decode(op.modifiers));
  switch (fragments.shape.accumulator) {
  case Element::F64:
    doubleMma(op, fragments);
    break;
  case Element::S32:
    integerMma(op, fragments);
    break;
  default:
    floatMma(op, fragments);
  }
}

// Lane 8i + r gives the address of row r of matrix i: eight elements of two bytes. Each lane gets,
// or gives, one word of each matrix: two neighbours of row lane / 4, or of column lane / 4 where
// the matrix is transposed.
void runMatrixMove(const WarpOp &op) {
  if (!op.wholeWarp())
    return;
  Block &block = op.block;
  unsigned count = op.modifiers & 0xff;
  bool transpose = op.modifiers & matrixTranspose, store = op.op == Op::StMatrix;
  block.countMatrixRequest(op.site);
  uint32_t rows[32];
  for (unsigned i = 0; i < 8 * count; ++i)
    rows[i] = op.registers(i)[0];
  for (unsigned matrix = 0; matrix < count; ++matrix) {
    uint16_t elements[8][8];
    const uint32_t *offsets = rows + 8 * matrix;
    if (!block.matrixRows(op.warp, op.site, 8 * matrix, offsets, transpose, store))
      return;
    if (!store)
      for (unsigned row = 0; row < 8; ++row)
        std::memcpy(elements[row], block.sharedAt(offsets[row]), 16);
    for (unsigned lane = 0; lane < lanes; ++lane) {
      uint32_t &word = op.registers(lane)[store ? 1 + matrix : matrix];
      for (unsigned part = 0; part < 2; ++part) {
        unsigned major = lane / 4, minor = lane % 4 * 2 + part;
        uint16_t &element = transpose ? elements[minor][major] : elements[major][minor];
        if (store)
          element = uint16_t(word >> 16 * part);
        else
          word = (part ? word & 0xffff : 0) | uint32_t(element) << 16 * part;
      }
    }
    if (store)
      for (unsigned row = 0; row < 8; ++row)
        std::memcpy(block.sharedAt(offsets[row]), elements[row], 16);
  }
}

} // namespace sectile::vgpu
