// arith and math operations, register by register.
#include "codegen/common/Functions.h"
#include "codegen/common/KernelEmitter.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/common/SmallFloats.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/loops/LoopHints.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/PatternMatch.h"

using namespace mlir;
using Args = llvm::ArrayRef<llvm::Value *>;

namespace sectile {

//===-- Constants -----------------------------------------------------------------------------===//

llvm::Constant *KernelEmitter::constantOf(Attribute value, Type type) {
  llvm::Type *to = typeOf(type);
  if (!to)
    return nullptr;
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return llvm::ConstantInt::get(to, integer.getValue().sextOrTrunc(to->getIntegerBitWidth()));
  if (auto number = dyn_cast<FloatAttr>(value)) {
    if (to->isIntegerTy()) // an 8-bit float is its bits
      return llvm::ConstantInt::get(to, number.getValue().bitcastToAPInt());
    return llvm::ConstantFP::get(to, number.getValue());
  }
  return nullptr;
}

LogicalResult KernelEmitter::emitConstant(arith::ConstantOp op) {
  if (const Layout *layout = cta::layoutOf(op.getType())) {
    auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
    llvm::Constant *value =
        splat ? constantOf(splat.getSplatValue<Attribute>(), tile::elementType(op.getType()))
              : nullptr;
    if (!value)
      return op.emitError("a constant tile must have one value throughout");
    define(op, Registers(layout->numRegisters(), value));
    return success();
  }
  llvm::Constant *value = constantOf(op.getValue(), op.getType());
  if (!value)
    return op.emitError("a constant of type ") << op.getType() << " has no code";
  define(op, {value});
  return success();
}

//===-- Arithmetic ----------------------------------------------------------------------------===//

/// Whether the chip's own instructions are exact enough for an operation on f32.
template <class Op> static bool isApproximate(Op op) {
  return tile::elementType(op.getType()).isF32() &&
         arith::bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::afn);
}

static llvm::CmpInst::Predicate predicateOf(arith::CmpIPredicate predicate) {
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq:
    return llvm::CmpInst::ICMP_EQ;
  case P::ne:
    return llvm::CmpInst::ICMP_NE;
  case P::slt:
    return llvm::CmpInst::ICMP_SLT;
  case P::sle:
    return llvm::CmpInst::ICMP_SLE;
  case P::sgt:
    return llvm::CmpInst::ICMP_SGT;
  case P::sge:
    return llvm::CmpInst::ICMP_SGE;
  case P::ult:
    return llvm::CmpInst::ICMP_ULT;
  case P::ule:
    return llvm::CmpInst::ICMP_ULE;
  case P::ugt:
    return llvm::CmpInst::ICMP_UGT;
  case P::uge:
    return llvm::CmpInst::ICMP_UGE;
  }
  llvm_unreachable("an unknown comparison");
}

static llvm::CmpInst::Predicate predicateOf(arith::CmpFPredicate predicate) {
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::AlwaysFalse:
    return llvm::CmpInst::FCMP_FALSE;
  case P::OEQ:
    return llvm::CmpInst::FCMP_OEQ;
  case P::OGT:
    return llvm::CmpInst::FCMP_OGT;
  case P::OGE:
    return llvm::CmpInst::FCMP_OGE;
  case P::OLT:
    return llvm::CmpInst::FCMP_OLT;
  case P::OLE:
    return llvm::CmpInst::FCMP_OLE;
  case P::ONE:
    return llvm::CmpInst::FCMP_ONE;
  case P::ORD:
    return llvm::CmpInst::FCMP_ORD;
  case P::UEQ:
    return llvm::CmpInst::FCMP_UEQ;
  case P::UGT:
    return llvm::CmpInst::FCMP_UGT;
  case P::UGE:
    return llvm::CmpInst::FCMP_UGE;
  case P::ULT:
    return llvm::CmpInst::FCMP_ULT;
  case P::ULE:
    return llvm::CmpInst::FCMP_ULE;
  case P::UNE:
    return llvm::CmpInst::FCMP_UNE;
  case P::UNO:
    return llvm::CmpInst::FCMP_UNO;
  case P::AlwaysTrue:
    return llvm::CmpInst::FCMP_TRUE;
  }
  llvm_unreachable("an unknown comparison");
}

template <class Op> static std::pair<bool, bool> wrapFlags(Op op) {
  auto flags = op.getOverflowFlags();
  return {bitEnumContainsAny(flags, arith::IntegerOverflowFlags::nuw),
          bitEnumContainsAny(flags, arith::IntegerOverflowFlags::nsw)};
}

/// `value` as a sum of another value and a constant.
static std::pair<llvm::Value *, llvm::APInt> withoutConstant(llvm::Value *value) {
  using namespace llvm::PatternMatch;
  llvm::Value *rest;
  const llvm::APInt *constant;
  if (match(value, m_Add(m_Value(rest), m_APInt(constant))))
    return {rest, *constant};
  return {value, llvm::APInt::getZero(value->getType()->getIntegerBitWidth())};
}

/// left + right, which wraps, with constants added last. An element that a thread reads for several
/// of its own, as a stencil does, then has one place and one mask, however it came to be a
/// neighbour, and is read once. LLVM would turn the comparisons into a form for each way.
static llvm::Value *addWrapping(llvm::IRBuilder<> &b, llvm::Value *left, llvm::Value *right) {
  if (isa<llvm::Constant>(left) && isa<llvm::Constant>(right))
    return b.CreateAdd(left, right);
  auto [x, ofLeft] = withoutConstant(left);
  auto [y, ofRight] = isa<llvm::ConstantInt>(right)
                          ? std::pair<llvm::Value *, llvm::APInt>(
                                nullptr, cast<llvm::ConstantInt>(right)->getValue())
                          : withoutConstant(right);
  const llvm::APInt constant = ofLeft + ofRight;
  llvm::Value *sum = y ? b.CreateAdd(x, y) : x;
  return constant.isZero() ? sum
                           : b.CreateAdd(sum, llvm::ConstantInt::get(sum->getType(), constant));
}

/// It touches nothing that the kernel does, so that what stands around it is optimized as ever.
static void reportDivisor(llvm::IRBuilder<> &b, llvm::Value *divisor) {
  llvm::Module &module = *b.GetInsertBlock()->getModule();
  llvm::Type *type = divisor->getType();
  const std::string name = (pseudo::divisor + "i" + llvm::Twine(type->getIntegerBitWidth())).str();
  llvm::FunctionCallee callee = module.getOrInsertFunction(name, b.getVoidTy(), type);
  auto *function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setOnlyAccessesInaccessibleMemory();
  for (auto attribute : {llvm::Attribute::NoUnwind, llvm::Attribute::WillReturn,
                         llvm::Attribute::NoCallback, llvm::Attribute::NoFree})
    function->addFnAttr(attribute);
  b.CreateCall(callee, divisor);
}

/// What it divides by instead, 1, where LLVM has undefined behaviour, which also takes away what
/// stands around it: the test that a quotient is not used, or the loop that its operands were
/// fetched ahead of. By 0 anything may come out. The lowest number by -1 wraps to itself, and
/// leaves nothing: as by 1.
static llvm::Value *divisor(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y, bool isSigned,
                            bool reports) {
  if (auto *known = dyn_cast<llvm::ConstantInt>(y);
      known && !known->isZero() && !(isSigned && known->isMinusOne()))
    return y;
  if (reports)
    reportDivisor(b, y);
  llvm::Type *type = y->getType();
  auto *one = llvm::ConstantInt::get(type, 1);
  if (!isSigned)
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, y, one);
  auto lowest = llvm::APInt::getSignedMinValue(type->getIntegerBitWidth());
  llvm::Value *wraps = b.CreateAnd(b.CreateICmpEQ(x, llvm::ConstantInt::get(type, lowest)),
                                   b.CreateICmpEQ(y, llvm::ConstantInt::getAllOnesValue(type)));
  return b.CreateSelect(b.CreateOr(wraps, b.CreateIsNull(y)), one, y);
}

/// Floor and ceiling of signed quotients from the truncated one.
static llvm::Value *divideSigned(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Value *y,
                                 bool towardsPositive, bool reports) {
  y = divisor(b, x, y, /*isSigned=*/true, reports);
  llvm::Value *quotient = b.CreateSDiv(x, y), *rest = b.CreateSRem(x, y);
  llvm::Value *opposite =
      b.CreateICmpSLT(b.CreateXor(x, y), llvm::ConstantInt::get(x->getType(), 0));
  llvm::Value *wrongSide = towardsPositive ? b.CreateNot(opposite) : opposite;
  llvm::Value *adjust = b.CreateZExt(b.CreateAnd(b.CreateIsNotNull(rest), wrongSide), x->getType());
  return towardsPositive ? b.CreateAdd(quotient, adjust) : b.CreateSub(quotient, adjust);
}

KernelEmitter::Elementwise KernelEmitter::arithmetic(Operation &op) {
  using Make = Elementwise;
  using Ops = llvm::Instruction::BinaryOps;
  // FMAs may be formed, as CUDA's and HIP's compilers do by default.
  llvm::FastMathFlags contract;
  contract.setAllowContract();
  const bool reports = reportsDivisors && !op.hasAttr(computedAheadAttr);
  auto binary = [&](Ops opcode) -> Make {
    return [this, opcode](Args v) { return b.CreateBinOp(opcode, v[0], v[1]); };
  };
  auto division = [&](Ops opcode) -> Make {
    const bool isSigned = opcode == Ops::SDiv || opcode == Ops::SRem;
    return [this, opcode, isSigned, reports](Args v) {
      return b.CreateBinOp(opcode, v[0], divisor(b, v[0], v[1], isSigned, reports));
    };
  };
  auto contracted = [&](Ops opcode) -> Make {
    return [this, opcode, contract](Args v) {
      llvm::Value *result = b.CreateBinOp(opcode, v[0], v[1]);
      if (auto *instruction = dyn_cast<llvm::Instruction>(result))
        instruction->setFastMathFlags(contract);
      return result;
    };
  };
  auto wrapping = [&](Ops opcode, std::pair<bool, bool> flags) -> Make {
    return [this, opcode, flags](Args v) {
      llvm::Value *result = b.CreateBinOp(opcode, v[0], v[1]);
      if (auto *instruction = dyn_cast<llvm::BinaryOperator>(result)) {
        instruction->setHasNoUnsignedWrap(flags.first);
        instruction->setHasNoSignedWrap(flags.second);
      }
      return result;
    };
  };
  auto intrinsic = [&](llvm::Intrinsic::ID id) -> Make {
    return [this, id](Args v) { return b.CreateBinaryIntrinsic(id, v[0], v[1]); };
  };
  using namespace llvm;
  return llvm::TypeSwitch<Operation *, Make>(&op)
      .Case([&](arith::AddIOp o) -> Make {
        if (wrapFlags(o) == std::pair(false, false))
          return [this](Args v) { return addWrapping(b, v[0], v[1]); };
        return wrapping(Ops::Add, wrapFlags(o));
      })
      .Case([&](arith::SubIOp o) -> Make {
        return [this, flags = wrapFlags(o), otherwise = wrapping(Ops::Sub, wrapFlags(o))](Args v) {
          auto *constant = dyn_cast<llvm::ConstantInt>(v[1]);
          return constant && flags == std::pair(false, false)
                     ? addWrapping(b, v[0], b.getInt(-constant->getValue()))
                     : otherwise(v);
        };
      })
      .Case([&](arith::MulIOp o) { return wrapping(Ops::Mul, wrapFlags(o)); })
      .Case([&](arith::ShLIOp o) { return wrapping(Ops::Shl, wrapFlags(o)); })
      .Case([&](arith::ShRSIOp) { return binary(Ops::AShr); })
      .Case([&](arith::ShRUIOp) { return binary(Ops::LShr); })
      .Case([&](arith::DivSIOp) { return division(Ops::SDiv); })
      .Case([&](arith::DivUIOp) { return division(Ops::UDiv); })
      .Case([&](arith::RemSIOp) { return division(Ops::SRem); })
      .Case([&](arith::RemUIOp) { return division(Ops::URem); })
      .Case([&](arith::CeilDivSIOp) -> Make {
        return [this, reports](Args v) { return divideSigned(b, v[0], v[1], true, reports); };
      })
      .Case([&](arith::FloorDivSIOp) -> Make {
        return [this, reports](Args v) { return divideSigned(b, v[0], v[1], false, reports); };
      })
      .Case([&](arith::CeilDivUIOp) -> Make {
        return [this, reports](Args v) {
          llvm::Value *by = divisor(b, v[0], v[1], /*isSigned=*/false, reports);
          llvm::Value *rest = b.CreateIsNotNull(b.CreateURem(v[0], by));
          return b.CreateAdd(b.CreateUDiv(v[0], by), b.CreateZExt(rest, v[0]->getType()));
        };
      })
      .Case([&](arith::AndIOp) { return binary(Ops::And); })
      .Case([&](arith::OrIOp) { return binary(Ops::Or); })
      .Case([&](arith::XOrIOp) { return binary(Ops::Xor); })
      .Case([&](arith::MaxSIOp) { return intrinsic(Intrinsic::smax); })
      .Case([&](arith::MaxUIOp) { return intrinsic(Intrinsic::umax); })
      .Case([&](arith::MinSIOp) { return intrinsic(Intrinsic::smin); })
      .Case([&](arith::MinUIOp) { return intrinsic(Intrinsic::umin); })
      .Case([&](arith::AddFOp) { return contracted(Ops::FAdd); })
      .Case([&](arith::SubFOp) { return contracted(Ops::FSub); })
      .Case([&](arith::MulFOp) { return contracted(Ops::FMul); })
      .Case([&](arith::DivFOp o) -> Make {
        return isApproximate(o) ? nullptr : binary(Ops::FDiv); // that one is among the functions
      })
      .Case([&](arith::NegFOp) -> Make { return [this](Args v) { return b.CreateFNeg(v[0]); }; })
      .Case([&](arith::MaximumFOp) { return intrinsic(Intrinsic::maximum); })
      .Case([&](arith::MinimumFOp) { return intrinsic(Intrinsic::minimum); })
      // These take -0 for less than +0, as chips do and as constants are folded.
      .Case([&](tile::MaximumNumberOp) { return intrinsic(Intrinsic::maximumnum); })
      .Case([&](tile::MinimumNumberOp) { return intrinsic(Intrinsic::minimumnum); })
      .Case([&](arith::CmpIOp o) -> Make {
        return [this, p = predicateOf(o.getPredicate())](Args v) {
          return b.CreateICmp(p, v[0], v[1]);
        };
      })
      .Case([&](arith::CmpFOp o) -> Make {
        return [this, p = predicateOf(o.getPredicate())](Args v) {
          return b.CreateFCmp(p, v[0], v[1]);
        };
      })
      .Case([&](arith::SelectOp) -> Make {
        return [this](Args v) { return b.CreateSelect(v[0], v[1], v[2]); };
      })
      .Default([](Operation *) { return nullptr; });
}

//===-- Conversions ---------------------------------------------------------------------------===//

/// An f32 or f64 toward zero, saturating. LLVM's own conversions give poison out of range, which
/// would be the whole kernel's.
static llvm::Value *floatToInteger(llvm::IRBuilder<> &b, const TargetHooks &hooks, llvm::Value *x,
                                   llvm::Type *to, bool isSigned) {
  unsigned bits = to->getIntegerBitWidth();
  if (bits >= 32)
    return hooks.toInteger(b, x, to, isSigned);
  // Chips convert to 32 bits at least.
  llvm::Value *wide = hooks.toInteger(b, x, b.getInt32Ty(), isSigned);
  auto clamp = [&](llvm::Intrinsic::ID id, const APInt &bound) {
    wide = b.CreateBinaryIntrinsic(id, wide, b.getInt(isSigned ? bound.sext(32) : bound.zext(32)));
  };
  if (isSigned) {
    clamp(llvm::Intrinsic::smax, APInt::getSignedMinValue(bits));
    clamp(llvm::Intrinsic::smin, APInt::getSignedMaxValue(bits));
  } else {
    clamp(llvm::Intrinsic::umin, APInt::getMaxValue(bits));
  }
  return b.CreateTrunc(wide, to);
}

KernelEmitter::Elementwise KernelEmitter::conversion(Operation &op) {
  using Make = Elementwise;
  if (op.getNumOperands() != 1 || op.getNumResults() != 1)
    return nullptr;
  Type fromType = tile::elementType(op.getOperand(0).getType());
  Type toType = tile::elementType(op.getResult(0).getType());
  llvm::Type *to = typeOf(toType);
  if (!to)
    return nullptr;
  using Cast = llvm::Instruction::CastOps;
  auto cast = [&](Cast opcode) -> Make {
    return [this, opcode, to](Args v) { return b.CreateCast(opcode, v[0], to); };
  };
  bool fromSmall = isFp8(fromType), toSmall = isFp8(toType);
  auto convert = [&](FloatRounding how) -> Make {
    return [this, fromType, toType, how](Args v) {
      return convertFloat(b, v[0], fromType, toType, how);
    };
  };
  return llvm::TypeSwitch<Operation *, Make>(&op)
      .Case([&](arith::ExtFOp) { return convert({}); })
      .Case([&](arith::TruncFOp o) -> Make {
        auto mode = o.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even);
        if (mode != arith::RoundingMode::to_nearest_even &&
            mode != arith::RoundingMode::toward_zero)
          return nullptr;
        // 8-bit floats saturate, unless told otherwise.
        return convert({mode == arith::RoundingMode::toward_zero ? tile::Rounding::TowardZero
                                                                 : tile::Rounding::NearestEven,
                        toSmall});
      })
      .Case([&](tile::PtrToIntOp) { return cast(Cast::PtrToInt); })
      .Case([&](tile::IntToPtrOp) { return cast(Cast::IntToPtr); })
      .Case([&](tile::FpCastOp o) { return convert({o.getRounding(), o.getSaturate()}); })
      .Case([&](arith::ExtSIOp) { return cast(Cast::SExt); })
      .Case([&](arith::ExtUIOp) { return cast(Cast::ZExt); })
      .Case([&](arith::TruncIOp) { return cast(Cast::Trunc); })
      .Case<arith::SIToFPOp, arith::UIToFPOp>([&](auto o) -> Make {
        bool isSigned = isa<arith::SIToFPOp>(o);
        if (toType.isBF16() && fromType.getIntOrFloatBitWidth() > 24)
          return [this, isSigned](Args v) { return integerToBF16(b, v[0], isSigned); };
        if (!toSmall)
          return cast(isSigned ? Cast::SIToFP : Cast::UIToFP);
        FloatFormat kind = FloatFormat::of(toType);
        return [this, kind, isSigned](Args v) {
          llvm::Type *wide = b.getFloatTy();
          return narrow(b, isSigned ? b.CreateSIToFP(v[0], wide) : b.CreateUIToFP(v[0], wide), kind,
                        {.saturate = true});
        };
      })
      .Case<arith::FPToSIOp, arith::FPToUIOp>([&](auto o) -> Make {
        bool isSigned = isa<arith::FPToSIOp>(o);
        return [this, isSigned, fromType, fromSmall, to](Args v) {
          llvm::Value *x = v[0];
          if (fromSmall)
            x = widen(b, x, FloatFormat::of(fromType));
          else if (!x->getType()->isDoubleTy())
            x = b.CreateFPExt(x, b.getFloatTy());
          return floatToInteger(b, hooks, x, to, isSigned);
        };
      })
      .Case([&](arith::BitcastOp) -> Make {
        return [this, to](Args v) { return b.CreateBitCast(v[0], to); };
      })
      .Case([&](arith::IndexCastOp) -> Make {
        return [this, to](Args v) { return b.CreateSExtOrTrunc(v[0], to); };
      })
      .Case([&](arith::IndexCastUIOp) -> Make {
        return [this, to](Args v) { return b.CreateZExtOrTrunc(v[0], to); };
      })
      .Default([](Operation *) { return nullptr; });
}

//===-- Functions -----------------------------------------------------------------------------===//

KernelEmitter::Elementwise KernelEmitter::function(Operation &op) {
  using Make = Elementwise;
  using namespace llvm;
  auto unary = [&](Intrinsic::ID id) -> Make {
    return [this, id](Args v) { return b.CreateUnaryIntrinsic(id, v[0]); };
  };
  // Functions of f16 and bf16 are computed in f32: no chip has more than approximations of them.
  auto computed = [&](llvm::Value *(*make)(functions::Builder &, llvm::Value *)) -> Make {
    return [this, make](Args v) {
      llvm::Type *type = v[0]->getType();
      bool narrow = type->isHalfTy() || type->isBFloatTy();
      functions::Builder builder(b, hooks, angles);
      llvm::Value *x = narrow ? b.CreateFPExt(v[0], b.getFloatTy()) : v[0];
      llvm::Value *result = make(builder, x);
      return narrow ? b.CreateFPTrunc(result, type) : result;
    };
  };
  auto computedOfTwo =
      [&](llvm::Value *(*make)(functions::Builder &, llvm::Value *, llvm::Value *)) -> Make {
    return [this, make](Args v) {
      llvm::Type *type = v[0]->getType();
      bool narrow = type->isHalfTy() || type->isBFloatTy();
      functions::Builder builder(b, hooks, angles);
      auto wide = [&](llvm::Value *x) { return narrow ? b.CreateFPExt(x, b.getFloatTy()) : x; };
      llvm::Value *x = wide(v[0]), *y = wide(v[1]);
      llvm::Value *result = make(builder, x, y);
      return narrow ? b.CreateFPTrunc(result, type) : result;
    };
  };
  return llvm::TypeSwitch<Operation *, Make>(&op)
      .Case([&](arith::RemFOp) { return computedOfTwo(functions::remainder); })
      .Case([&](math::Atan2Op) { return computedOfTwo(functions::atan2); })
      .Case([&](math::PowFOp) { return computedOfTwo(functions::pow); })
      .Case([&](math::TanOp) { return computed(functions::tan); })
      .Case([&](math::AsinOp) { return computed(functions::asin); })
      .Case([&](math::AcosOp) { return computed(functions::acos); })
      .Case([&](math::AtanOp) { return computed(functions::atan); })
      .Case([&](math::SinhOp) { return computed(functions::sinh); })
      .Case([&](math::CoshOp) { return computed(functions::cosh); })
      .Case([&](math::AsinhOp) { return computed(functions::asinh); })
      .Case([&](math::AcoshOp) { return computed(functions::acosh); })
      .Case([&](math::AtanhOp) { return computed(functions::atanh); })
      .Case([&](math::CbrtOp) { return computed(functions::cbrt); })
      .Case([&](math::AbsFOp) { return unary(Intrinsic::fabs); })
      .Case([&](math::FloorOp) { return unary(Intrinsic::floor); })
      .Case([&](math::CeilOp) { return unary(Intrinsic::ceil); })
      .Case([&](math::TruncOp) { return unary(Intrinsic::trunc); })
      .Case([&](math::RoundEvenOp) { return unary(Intrinsic::rint); })
      .Case([&](math::RoundOp) { return unary(Intrinsic::round); })
      .Case([&](math::AbsIOp) -> Make {
        return
            [this](Args v) { return b.CreateBinaryIntrinsic(Intrinsic::abs, v[0], b.getFalse()); };
      })
      .Case([&](math::CopySignOp) -> Make {
        return [this](Args v) -> llvm::Value * {
          llvm::Type *type = v[0]->getType();
          if (type->getPrimitiveSizeInBits() > 16)
            return b.CreateCopySign(v[0], v[1]);
          // LLVM cannot copy signs between all types of 16 bits.
          llvm::Type *word = b.getInt16Ty();
          llvm::Value *magnitude = b.CreateAnd(b.CreateBitCast(v[0], word), 0x7fff);
          llvm::Value *sign = b.CreateAnd(b.CreateBitCast(v[1], word), 0x8000);
          return b.CreateBitCast(b.CreateOr(magnitude, sign), type);
        };
      })
      .Case([&](math::FmaOp) -> Make {
        return [this](Args v) {
          return b.CreateIntrinsic(Intrinsic::fma, {v[0]->getType()}, {v[0], v[1], v[2]});
        };
      })
      .Case([&](math::CountLeadingZerosOp) -> Make {
        return
            [this](Args v) { return b.CreateBinaryIntrinsic(Intrinsic::ctlz, v[0], b.getFalse()); };
      })
      .Case([&](math::CountTrailingZerosOp) -> Make {
        return
            [this](Args v) { return b.CreateBinaryIntrinsic(Intrinsic::cttz, v[0], b.getFalse()); };
      })
      .Case([&](math::CtPopOp) { return unary(Intrinsic::ctpop); })
      .Case([&](math::SqrtOp) { return computed(functions::sqrt); })
      .Case([&](math::RsqrtOp) { return computed(functions::rsqrt); })
      .Case([&](math::ExpOp o) {
        return computed(isApproximate(o) ? functions::fastExp : functions::exp);
      })
      .Case([&](arith::DivFOp) { return computedOfTwo(functions::fastDivide); })
      .Case([&](math::Exp2Op) { return computed(functions::exp2); })
      .Case([&](math::ExpM1Op) { return computed(functions::expm1); })
      .Case([&](math::LogOp) { return computed(functions::log); })
      .Case([&](math::Log2Op) { return computed(functions::log2); })
      .Case([&](math::Log10Op) { return computed(functions::log10); })
      .Case([&](math::Log1pOp) { return computed(functions::log1p); })
      .Case([&](math::SinOp) { return computed(functions::sin); })
      .Case([&](math::CosOp) { return computed(functions::cos); })
      .Case([&](math::TanhOp) { return computed(functions::tanh); })
      .Case([&](math::ErfOp) { return computed(functions::erf); })
      .Default([](Operation *) { return nullptr; });
}

//===-- All registers -------------------------------------------------------------------------===//

template <class Op> void KernelEmitter::emitExtendedMultiply(Op op, bool isSigned) {
  Registers lows, highs;
  for (auto [x, y] : llvm::zip_equal(registers(op.getLhs()), registers(op.getRhs()))) {
    unsigned bits = x->getType()->getIntegerBitWidth();
    llvm::Type *wide = b.getIntNTy(2 * bits);
    auto extend = [&](llvm::Value *v) {
      return isSigned ? b.CreateSExt(v, wide) : b.CreateZExt(v, wide);
    };
    llvm::Value *product = b.CreateMul(extend(x), extend(y));
    lows.push_back(b.CreateTrunc(product, x->getType()));
    highs.push_back(b.CreateTrunc(b.CreateLShr(product, bits), x->getType()));
  }
  define(op.getLow(), std::move(lows));
  define(op.getHigh(), std::move(highs));
}

bool KernelEmitter::emitFp8Pairs(Operation &op) {
  if (!isa<arith::ExtFOp, arith::TruncFOp, tile::FpCastOp>(op) || !hooks.convertsFp8())
    return false;
  Value source = op.getOperand(0), result = op.getResult(0);
  Type from = tile::elementType(source.getType()), to = tile::elementType(result.getType());
  auto isUsual = [](Type type) { return isa<Float8E4M3FNType, Float8E5M2Type>(type); };
  bool narrows = isUsual(to) && !isFp8(from);
  if (!narrows && !(isUsual(from) && !isFp8(to)))
    return false;
  if (auto cast = dyn_cast<tile::FpCastOp>(op);
      cast &&
      (!cast.getSaturate() || (narrows && cast.getRounding() != tile::Rounding::NearestEven)))
    return false;
  if (auto truncate = dyn_cast<arith::TruncFOp>(op);
      truncate && truncate.getRoundingmode().value_or(arith::RoundingMode::to_nearest_even) !=
                      arith::RoundingMode::to_nearest_even)
    return false;

  Registers in = registers(source), out(in.size());
  SmallVector<unsigned> distinct = distinctRegisters(result.getType());
  for (unsigned i = 0; i < distinct.size(); i += 2) {
    unsigned low = distinct[i], high = distinct[std::min<size_t>(i + 1, distinct.size() - 1)];
    if (narrows) {
      auto single = [&](llvm::Value *x) {
        return from.isF64() ? narrowDouble(b, x, /*odd=*/true) : b.CreateFPCast(x, b.getFloatTy());
      };
      llvm::Value *x = single(in[low]), *y = high == low ? x : single(in[high]);
      llvm::Value *pair = hooks.narrowFp8(b, x, y, isa<Float8E5M2Type>(to));
      out[low] = b.CreateTrunc(pair, b.getInt8Ty());
      out[high] = b.CreateTrunc(b.CreateLShr(pair, high == low ? 0 : 8), b.getInt8Ty());
    } else {
      llvm::Type *i16 = b.getInt16Ty();
      llvm::Value *pair = b.CreateZExt(in[low], i16);
      if (high != low)
        pair = b.CreateOr(pair, b.CreateShl(b.CreateZExt(in[high], i16), 8));
      llvm::Value *halves = hooks.widenFp8(b, pair, isa<Float8E5M2Type>(from));
      for (unsigned reg : {low, high})
        out[reg] = convertFloat(b, b.CreateExtractElement(halves, uint64_t(reg == low ? 0 : 1)),
                                Float16Type::get(op.getContext()), to,
                                {.saturate = isa<tile::FpCastOp>(op)});
    }
  }
  copyRegisters(result.getType(), out);
  define(result, std::move(out));
  return true;
}

LogicalResult KernelEmitter::emitElementwise(Operation &op) {
  if (emitFp8Pairs(op))
    return success();
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return emitConstant(constant);
  if (auto multiply = dyn_cast<arith::MulUIExtendedOp>(op))
    return emitExtendedMultiply(multiply, false), success();
  if (auto multiply = dyn_cast<arith::MulSIExtendedOp>(op))
    return emitExtendedMultiply(multiply, true), success();

  Elementwise make = arithmetic(op);
  if (!make)
    make = conversion(op);
  if (!make)
    make = function(op);
  bool smallArithmetic =
      !isa<arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp, tile::FpCastOp,
           arith::FPToSIOp, arith::FPToUIOp, arith::SIToFPOp, arith::UIToFPOp>(op) &&
      llvm::any_of(op.getOperandTypes(), [](Type type) { return isFp8(tile::elementType(type)); });
  if (!make || op.getNumResults() != 1 || smallArithmetic) {
    InFlightDiagnostic error = op.emitError("code generation has no code for '")
                               << op.getName() << "'";
    if (op.getNumOperands())
      error << " on " << tile::elementType(op.getOperand(0).getType());
    return error;
  }

  SmallVector<const Registers *, 3> operands;
  for (Value operand : op.getOperands())
    operands.push_back(&registers(operand));
  ArrayRef<unsigned> first;
  unsigned count = 1;
  if (const Layout *layout = cta::layoutOf(op.getResult(0).getType())) {
    first = firstCopies(*layout);
    count = layout->numRegisters();
  }
  Registers results;
  results.reserve(count);
  SmallVector<llvm::Value *, 3> arguments(operands.size());
  for (unsigned reg = 0; reg < count; ++reg) {
    if (!first.empty() && first[reg] < reg) {
      results.push_back(results[first[reg]]);
      continue;
    }
    // A scalar operand goes with every register: the condition of a select.
    for (auto [argument, operand] : llvm::zip_equal(arguments, operands))
      argument = operand->size() == 1 ? operand->front() : (*operand)[reg];
    results.push_back(make(arguments));
  }
  define(op.getResult(0), std::move(results));
  return success();
}

} // namespace sectile
