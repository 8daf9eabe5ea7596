// Arithmetic on integers: it wraps at the type's width.
#include "ir/tile/Overflow.h"
#include "jit/interpreter/Elementwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <algorithm>
#include <bit>

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// f takes two words, or two signed numbers, and gives the result's bits, or more.
template <auto f> void unsignedBinary(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Lanes a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  const uint64_t mask = result.type.mask();
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = f(a[i], b[i], result.type.bits) & mask;
  run.set(op.getResult(0), std::move(result));
}

template <auto f> void signedBinary(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Lanes a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  const uint64_t mask = result.type.mask();
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = uint64_t(f(a.asSigned(i), b.asSigned(i), result.type.bits)) & mask;
  run.set(op.getResult(0), std::move(result));
}

/// Arithmetic that may leave the width: remembers where it did though it has to fit, and where an
/// operand had. f works on 64 bits, in which nothing narrower overflows.
template <auto f> void wrapping(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Elements &left = run.get(op.getOperand(0)), &right = run.get(op.getOperand(1));
  const Lanes a(left), b(right);
  const unsigned bits = result.type.bits;
  const uint64_t mask = result.type.mask();
  const bool watched = tile::isMarkedToFit(op) && bits < 64;
  for (size_t i = 0; i < result.size(); ++i) {
    const uint64_t full = f(a[i], b[i], bits);
    result.words[i] = full & mask;
    if (a.wrapped(i) || b.wrapped(i) ||
        (watched &&
         f(uint64_t(a.asSigned(i)), uint64_t(b.asSigned(i)), bits) != uint64_t(result.asSigned(i))))
      result.setWrapped(i);
  }
  run.set(op.getResult(0), std::move(result));
}

/// Remembers for an operation's result where an operand had wrapped that had to fit.
void keepWrapped(Run &run, Operation &op, unsigned operand) {
  const Elements &from = run.get(op.getOperand(operand));
  if (from.wrapped.empty())
    return;
  const Lanes lanes(from);
  Elements &result = run.amend(op.getResult(0));
  for (size_t i = 0; i < result.size(); ++i)
    if (lanes.wrapped(i))
      result.setWrapped(i);
}

template <auto f, bool isSigned> void division(Run &run, Operation &op) {
  const Elements &divisor = run.get(op.getOperand(1));
  for (size_t i = 0; i < divisor.size(); ++i)
    if (divisor[i] == 0)
      run.fail(vgpu::FindingKind::Trap, op, "an integer is divided by zero",
               placeText(i, divisor.shape));
  if constexpr (isSigned)
    signedBinary<f>(run, op);
  else
    unsignedBinary<f>(run, op);
  // What is divided is taken as it has wrapped; a divisor is a size.
  keepWrapped(run, op, 1);
}

/// The lesser of two is a place if both are.
void lesser(Run &run, Operation &op) {
  signedBinary<[](int64_t a, int64_t b, unsigned) { return std::min(a, b); }>(run, op);
  keepWrapped(run, op, 0);
  keepWrapped(run, op, 1);
}

// Shifts by the width or more push every bit out.
constexpr auto shl = [](uint64_t a, uint64_t b, unsigned bits) -> uint64_t {
  return b >= bits ? 0 : a << b;
};
constexpr auto shrU = [](uint64_t a, uint64_t b, unsigned bits) -> uint64_t {
  return b >= bits ? 0 : a >> b;
};
constexpr auto shrS = [](int64_t a, int64_t b, unsigned bits) -> int64_t {
  return b < 0 || b >= int64_t(bits) ? (a < 0 ? -1 : 0) : a >> b;
};

// The one signed quotient that does not fit wraps to the dividend.
constexpr auto divS = [](int64_t a, int64_t b, unsigned) -> int64_t {
  return b == -1 ? int64_t(-uint64_t(a)) : a / b;
};
constexpr auto remS = [](int64_t a, int64_t b, unsigned) -> int64_t { return b == -1 ? 0 : a % b; };
constexpr auto floorDiv = [](int64_t a, int64_t b, unsigned bits) -> int64_t {
  return divS(a, b, bits) - (remS(a, b, bits) != 0 && (a < 0) != (b < 0));
};
constexpr auto ceilDivS = [](int64_t a, int64_t b, unsigned bits) -> int64_t {
  return divS(a, b, bits) + (remS(a, b, bits) != 0 && (a < 0) == (b < 0));
};

void compare(Run &run, Operation &op) {
  using enum arith::CmpIPredicate;
  Elements result = resultFor(run, op);
  const Lanes a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  auto each = [&](auto holds) {
    for (size_t i = 0; i < result.size(); ++i)
      result.words[i] = holds(i);
  };
  switch (cast<arith::CmpIOp>(op).getPredicate()) {
  case eq:
    each([&](size_t i) { return a[i] == b[i]; });
    break;
  case ne:
    each([&](size_t i) { return a[i] != b[i]; });
    break;
  case slt:
    each([&](size_t i) { return a.asSigned(i) < b.asSigned(i); });
    break;
  case sle:
    each([&](size_t i) { return a.asSigned(i) <= b.asSigned(i); });
    break;
  case sgt:
    each([&](size_t i) { return a.asSigned(i) > b.asSigned(i); });
    break;
  case sge:
    each([&](size_t i) { return a.asSigned(i) >= b.asSigned(i); });
    break;
  case ult:
    each([&](size_t i) { return a[i] < b[i]; });
    break;
  case ule:
    each([&](size_t i) { return a[i] <= b[i]; });
    break;
  case ugt:
    each([&](size_t i) { return a[i] > b[i]; });
    break;
  case uge:
    each([&](size_t i) { return a[i] >= b[i]; });
    break;
  }
  run.set(op.getResult(0), std::move(result));
}

/// Low and high halves of a product.
template <bool isSigned> void extendedProduct(Run &run, Operation &op) {
  Elements low = resultFor(run, op, 0), high = resultFor(run, op, 1);
  const Lanes a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  const unsigned bits = low.type.bits;
  for (size_t i = 0; i < low.size(); ++i) {
    __extension__ using Wide = unsigned __int128;
    __extension__ using SignedWide = __int128;
    const Wide product =
        isSigned ? Wide(SignedWide(a.asSigned(i)) * b.asSigned(i)) : Wide(a[i]) * b[i];
    low.words[i] = uint64_t(product) & low.type.mask();
    high.words[i] = uint64_t(product >> bits) & low.type.mask();
  }
  run.set(op.getResult(0), std::move(low));
  run.set(op.getResult(1), std::move(high));
}

void addExtended(Run &run, Operation &op) {
  Elements sum = resultFor(run, op, 0), carry = resultFor(run, op, 1);
  const Lanes a(run.get(op.getOperand(0))), b(run.get(op.getOperand(1)));
  for (size_t i = 0; i < sum.size(); ++i) {
    sum.words[i] = (a[i] + b[i]) & sum.type.mask();
    carry.words[i] = sum.words[i] < a[i];
  }
  run.set(op.getResult(0), std::move(sum));
  run.set(op.getResult(1), std::move(carry));
}

template <auto f> void unary(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Lanes a(run.get(op.getOperand(0)));
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = f(a[i], result.type.bits) & result.type.mask();
  run.set(op.getResult(0), std::move(result));
}

constexpr auto maxS = [](int64_t a, int64_t b, unsigned) { return std::max(a, b); };
constexpr auto minU = [](uint64_t a, uint64_t b, unsigned) { return std::min(a, b); };
constexpr auto maxU = [](uint64_t a, uint64_t b, unsigned) { return std::max(a, b); };
constexpr auto magnitude = [](uint64_t a, unsigned bits) -> uint64_t {
  return a >> (bits - 1) ? ~a + 1 : a;
};
/// Of an element's bits, not of the word's.
constexpr auto leadingZeros = [](uint64_t a, unsigned bits) -> uint64_t {
  return uint64_t(std::countl_zero(a)) - (64 - bits);
};

} // namespace

void addIntegers(Table &table) {
  table["arith.addi"] = wrapping<[](uint64_t a, uint64_t b, unsigned) { return a + b; }>;
  table["arith.subi"] = wrapping<[](uint64_t a, uint64_t b, unsigned) { return a - b; }>;
  table["arith.muli"] = wrapping<[](uint64_t a, uint64_t b, unsigned) { return a * b; }>;
  table["arith.shli"] = wrapping<shl>;
  table["arith.shrsi"] = signedBinary<shrS>;
  table["arith.shrui"] = unsignedBinary<shrU>;
  table["arith.andi"] = unsignedBinary<[](uint64_t a, uint64_t b, unsigned) { return a & b; }>;
  table["arith.ori"] = unsignedBinary<[](uint64_t a, uint64_t b, unsigned) { return a | b; }>;
  table["arith.xori"] = unsignedBinary<[](uint64_t a, uint64_t b, unsigned) { return a ^ b; }>;
  table["arith.divsi"] = division<divS, true>;
  table["arith.remsi"] = division<remS, true>;
  table["arith.floordivsi"] = division<floorDiv, true>;
  table["arith.ceildivsi"] = division<ceilDivS, true>;
  table["arith.divui"] = division<[](uint64_t a, uint64_t b, unsigned) { return a / b; }, false>;
  table["arith.remui"] = division<[](uint64_t a, uint64_t b, unsigned) { return a % b; }, false>;
  table["arith.ceildivui"] =
      division<[](uint64_t a, uint64_t b, unsigned) { return a / b + (a % b != 0); }, false>;
  table["arith.minsi"] = lesser;
  table["arith.maxsi"] = signedBinary<maxS>;
  table["arith.minui"] = unsignedBinary<minU>;
  table["arith.maxui"] = unsignedBinary<maxU>;
  table["arith.cmpi"] = compare;
  table["arith.mulsi_extended"] = extendedProduct<true>;
  table["arith.mului_extended"] = extendedProduct<false>;
  table["arith.addui_extended"] = addExtended;
  table["math.absi"] = unary<magnitude>;
  table["math.ctpop"] = unary<[](uint64_t a, unsigned) { return uint64_t(std::popcount(a)); }>;
  table["math.ctlz"] = unary<leadingZeros>;
  table["math.cttz"] = unary<[](uint64_t a, unsigned bits) {
    return a ? uint64_t(std::countr_zero(a)) : uint64_t(bits);
  }>;
}

} // namespace sectile::interpreter
