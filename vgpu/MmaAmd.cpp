// MFMA and WMMA: fragments gathered from the lanes into matrices, and back, as AMD's documents of
// the instruction sets lay them out.
#include "vgpu/MmaKernels.h"
#include "vgpu/SmallFloats.h"
#include "vgpu/WarpOps.h"
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr unsigned maxSide = 32, maxOperandBytes = 1024;

unsigned bytesOf(Element element) {
  switch (element) {
  case Element::F64:
    return 8;
  case Element::TF32:
  case Element::F32:
  case Element::S32:
    return 4;
  case Element::F16:
  case Element::BF16:
    return 2;
  default:
    return 1;
  }
}

struct Position {
  unsigned row, column;
};

/// Which elements a lane holds. An operand's are those of A; of B the same of its transpose.
struct Fragments {
  explicit Fragments(const WarpOp &op)
      : op(op.op), shape(MmaShape::decode(op.modifiers)), lanes(op.op == Op::Mfma ? 64 : 32),
        bytes(bytesOf(shape.a)),
        operandElements(op.op == Op::WmmaHalves ? 16 : shape.m * shape.k / lanes),
        sumElements(shape.m * shape.n / lanes) {}

  Position ofOperand(unsigned lane, unsigned i) const {
    switch (op) {
    case Op::WmmaHalves: // the halves of the wave hold the same
      return {lane % 16, i};
    case Op::Wmma: // both halves of the wave in turn, every 8 bytes
      return {lane % 16,
              i / (8 / bytes) * (16 / bytes) + lane / 16 * (8 / bytes) + i % (8 / bytes)};
    default:
      return {lane % shape.m, lane / shape.m * operandElements + i};
    }
  }

  Position ofSum(unsigned lane, unsigned i) const {
    switch (op) {
    case Op::WmmaHalves:
      return {2 * i + lane / 16, lane % 16};
    case Op::Wmma:
      return {8 * (lane / 16) + i, lane % 16};
    default:
      if (shape.accumulator == Element::F64)
        return {4 * i + lane / 16, lane % 16};
      return {i / 4 * (256 / shape.n) + 4 * (lane / shape.n) + i % 4, lane % shape.n};
    }
  }

  unsigned operandWords() const { return operandElements * bytes / 4; }

  Op op;
  MmaShape shape;
  unsigned lanes, bytes, operandElements, sumElements;
};

// Both with K along the rows of memory.
void gather(const WarpOp &op, const Fragments &fragments, char *a, char *b) {
  unsigned bytes = fragments.bytes, k = fragments.shape.k;
  for (unsigned lane = 0; lane < fragments.lanes; ++lane) {
    auto *from = reinterpret_cast<const char *>(op.registers(lane));
    for (char *to : {a, b})
      for (unsigned i = 0; i < fragments.operandElements; ++i, from += bytes) {
        Position at = fragments.ofOperand(lane, i);
        std::memcpy(to + (at.row * k + at.column) * bytes, from, bytes);
      }
  }
}

/// An 8-bit format whose zero has one sign, and whose code of the other is its one NaN. The
/// exponent's bias is one more than usual.
std::array<float, 256> unsignedZero(unsigned mantissaBits) {
  std::array<float, 256> values;
  int bias = 1 << (6 - mantissaBits);
  for (unsigned code = 0; code < 256; ++code) {
    unsigned exponent = (code & 0x7f) >> mantissaBits, mantissa = code & ((1u << mantissaBits) - 1);
    if (exponent)
      mantissa |= 1u << mantissaBits;
    float value =
        std::ldexp(float(mantissa), int(std::max(1u, exponent)) - bias - int(mantissaBits));
    values[code] = code == 0x80 ? std::bit_cast<float>(0x7fc00000u) : code & 0x80 ? -value : value;
  }
  return values;
}

const float *valuesOf(Element element) {
  static const std::array<float, 256> e4m3 = widenAll(e4m3Format), e5m2 = widenAll(e5m2Format),
                                      e4m3fnuz = unsignedZero(3), e5m2fnuz = unsignedZero(2);
  switch (element) {
  case Element::E4M3:
    return e4m3.data();
  case Element::E5M2:
    return e5m2.data();
  case Element::E4M3FNUZ:
    return e4m3fnuz.data();
  default:
    return e5m2fnuz.data();
  }
}

// Runs `multiply(a, b, d)` on 16 rows of A, 8 columns of B and their sums at a time: each pointer
// is to the operand's own elements.
template <class Raw, class Sum, class Multiply>
void inBlocks(const WarpOp &op, const Fragments &fragments, Multiply multiply) {
  const MmaShape &shape = fragments.shape;
  alignas(32) char a[maxOperandBytes], b[maxOperandBytes];
  gather(op, fragments, a, b);
  alignas(32) Sum d[maxSide / mmaN][maxSide * mmaN];
  unsigned first = 2 * fragments.operandWords(), words = sizeof(Sum) / 4;
  auto eachSum = [&](auto visit) {
    for (unsigned lane = 0; lane < fragments.lanes; ++lane)
      for (unsigned i = 0; i < fragments.sumElements; ++i) {
        Position at = fragments.ofSum(lane, i);
        visit(op.registers(lane), i * words, d[at.column / mmaN][at.row * mmaN + at.column % mmaN]);
      }
  };
  eachSum([&](const uint32_t *registers, unsigned word, Sum &sum) {
    std::memcpy(&sum, registers + first + word, sizeof sum);
  });
  for (unsigned column = 0; column < shape.n; column += mmaN)
    for (unsigned row = 0; row < shape.m; row += mmaMaxM)
      multiply(reinterpret_cast<const Raw *>(a) + row * shape.k,
               reinterpret_cast<const Raw *>(b) + column * shape.k, d[column / mmaN] + row * mmaN);
  eachSum([&](uint32_t *registers, unsigned word, const Sum &sum) {
    std::memcpy(registers + word, &sum, sizeof sum);
  });
}

} // namespace

void runAmdMma(const WarpOp &op) {
  if (!op.wholeWarp())
    return;
  Fragments fragments(op);
  const MmaShape &shape = fragments.shape;
  const MmaKernels &kernels = mmaKernels();
  auto each = [&](auto kernel) {
    return [&shape, kernel](auto *a, auto *b, auto *d) { kernel(a, b, d, mmaMaxM, shape.k); };
  };
  switch (shape.a) {
  case Element::F16:
    return inBlocks<uint16_t, float>(op, fragments, each(kernels.f16));
  case Element::BF16:
    return inBlocks<uint16_t, float>(op, fragments, each(kernels.bf16));
  case Element::TF32:
    return inBlocks<uint32_t, float>(op, fragments, each(kernels.tf32));
  case Element::F32:
    return inBlocks<float, float>(op, fragments, each(kernels.f32));
  case Element::F64:
    return inBlocks<double, double>(op, fragments, each(kernels.f64));
  case Element::S8:
  case Element::U8:
    return inBlocks<uint8_t, int32_t>(op, fragments, [&](auto *a, auto *b, auto *d) {
      kernels.int8(a, b, shape.a == Element::S8, shape.b == Element::S8, d, mmaMaxM, shape.k,
                   shape.saturate);
    });
  default:
    return inBlocks<uint8_t, float>(op, fragments, [&](auto *a, auto *b, auto *d) {
      kernels.fp8(a, b, valuesOf(shape.a), valuesOf(shape.b), d, mmaMaxM, shape.k);
    });
  }
}

} // namespace sectile::vgpu
