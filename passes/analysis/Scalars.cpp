// What scalar arithmetic gives for numbers. Operands are evaluated in 64 bits and the result is cut
// to its type's.
#include "passes/analysis/Scalars.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir;

namespace sectile {

int64_t signExtended(uint64_t value, unsigned bits) {
  return bits >= 64 ? int64_t(value) : llvm::SignExtend64(value, bits);
}
uint64_t zeroExtended(int64_t value, unsigned bits) {
  return bits >= 64 ? uint64_t(value) : uint64_t(value) & llvm::maskTrailingOnes<uint64_t>(bits);
}

unsigned bitsOfScalar(Type type) {
  return type.isIndex() ? IndexType::kInternalStorageBitWidth : type.getIntOrFloatBitWidth();
}

bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned bits) {
  const uint64_t ua = zeroExtended(a, bits), ub = zeroExtended(b, bits);
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return a == b;
  case arith::CmpIPredicate::ne:
    return a != b;
  case arith::CmpIPredicate::slt:
    return a < b;
  case arith::CmpIPredicate::sle:
    return a <= b;
  case arith::CmpIPredicate::sgt:
    return a > b;
  case arith::CmpIPredicate::sge:
    return a >= b;
  case arith::CmpIPredicate::ult:
    return ua < ub;
  case arith::CmpIPredicate::ule:
    return ua <= ub;
  case arith::CmpIPredicate::ugt:
    return ua > ub;
  case arith::CmpIPredicate::uge:
    return ua >= ub;
  }
  llvm_unreachable("all predicates are above");
}

bool isScalarArithmetic(Operation *op) {
  return op &&
         isa<arith::ConstantOp, arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::DivSIOp,
             arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp, arith::CeilDivUIOp,
             arith::FloorDivSIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp, arith::ShLIOp,
             arith::ShRSIOp, arith::ShRUIOp, arith::MinSIOp, arith::MaxSIOp, arith::MinUIOp,
             arith::MaxUIOp, arith::CmpIOp, arith::SelectOp, arith::ExtSIOp, arith::ExtUIOp,
             arith::TruncIOp, arith::IndexCastOp, arith::IndexCastUIOp, math::AbsIOp, math::CtPopOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp, cta::RingAdvanceOp,
             cta::RingSlotOp, cta::RingParityOp>(op) &&
         op->getResult(0).getType().isIntOrIndex();
}

Number evaluate(Operation *op, ArrayRef<Number> operands) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue();
  if (isa<arith::SelectOp>(op)) {
    if (operands[0])
      return *operands[0] ? operands[1] : operands[2];
    return operands[1] == operands[2] ? operands[1] : std::nullopt;
  }
  const unsigned bits = bitsOfScalar(op->getOperand(0).getType()),
                 resultBits = bitsOfScalar(op->getResult(0).getType());
  if (isa<arith::AndIOp>(op) && (operands[0] == 0 || operands[1] == 0))
    return 0;
  if (!llvm::all_of(operands, [](const Number &operand) { return operand.has_value(); }))
    return std::nullopt;
  const int64_t a = *operands[0], b = operands.size() > 1 ? *operands[1] : 0;
  const uint64_t ua = zeroExtended(a, bits), ub = zeroExtended(b, bits);
  if (isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::CeilDivSIOp,
          arith::CeilDivUIOp, arith::FloorDivSIOp>(op) &&
      (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())))
    return std::nullopt;
  if (isa<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>(op) && ub >= bits)
    return std::nullopt;
  const uint64_t result =
      llvm::TypeSwitch<Operation *, uint64_t>(op)
          .Case([&](arith::AddIOp) { return uint64_t(a) + uint64_t(b); })
          .Case([&](arith::SubIOp) { return uint64_t(a) - uint64_t(b); })
          .Case([&](arith::MulIOp) { return uint64_t(a) * uint64_t(b); })
          .Case([&](arith::DivSIOp) { return a / b; })
          .Case([&](arith::DivUIOp) { return ua / ub; })
          .Case([&](arith::RemSIOp) { return a % b; })
          .Case([&](arith::RemUIOp) { return ua % ub; })
          .Case([&](arith::CeilDivSIOp) { return llvm::divideCeilSigned(a, b); })
          .Case([&](arith::CeilDivUIOp) { return llvm::divideCeil(ua, ub); })
          .Case([&](arith::FloorDivSIOp) { return llvm::divideFloorSigned(a, b); })
          .Case([&](arith::AndIOp) { return a & b; })
          .Case([&](arith::OrIOp) { return a | b; })
          .Case([&](arith::XOrIOp) { return a ^ b; })
          .Case([&](arith::ShLIOp) { return ua << ub; })
          .Case([&](arith::ShRSIOp) { return a >> ub; })
          .Case([&](arith::ShRUIOp) { return ua >> ub; })
          .Case([&](arith::MinSIOp) { return std::min(a, b); })
          .Case([&](arith::MaxSIOp) { return std::max(a, b); })
          .Case([&](arith::MinUIOp) { return std::min(ua, ub); })
          .Case([&](arith::MaxUIOp) { return std::max(ua, ub); })
          .Case([&](arith::CmpIOp op) { return compare(op.getPredicate(), a, b, bits); })
          .Case([&](math::AbsIOp) { return a < 0 ? 0 - uint64_t(a) : uint64_t(a); })
          .Case([&](math::CtPopOp) { return llvm::popcount(ua); })
          .Case([&](math::CountLeadingZerosOp) { return llvm::countl_zero(ua) - (64 - bits); })
          .Case([&](math::CountTrailingZerosOp) {
            return std::min<unsigned>(llvm::countr_zero(ua), bits);
          })
          .Case<arith::ExtUIOp, arith::IndexCastUIOp>([&](auto) { return ua; })
          .Case<cta::RingAdvanceOp, cta::RingSlotOp, cta::RingParityOp>(
              [&](auto ring) { return ring.resultOf(ua); })
          .Default([&](Operation *) { return a; });
  return signExtended(result, resultBits);
}

} // namespace sectile
