// The amdgcn intrinsics and sectile.amd pseudo-intrinsics that the virtual GPU runs.
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/virtual/Rules.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"
#include <algorithm>

using namespace llvm;

namespace sectile::vgpu::rules {
namespace {

constexpr uint64_t word(Op op) { return uint64_t(op); }

// Operation `first` with modifiers `second` over all lanes; the operands are the arguments.
Result allLanes(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  return lowering.warpCall(call, SiteKind::WarpOp, Op(rule.first), uint32_t(rule.second),
                           lowering.allLanes(), SmallVector<Value *>(call.args()));
}

// The same for operations that move a value of any width between lanes, one word at a time: the
// first `second` arguments are values, the others go with every word.
Result eachWord(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Type *type = call.getType();
  const DataLayout &layout = call.getModule()->getDataLayout();
  auto bits = unsigned(layout.getTypeSizeInBits(type));
  unsigned words = std::max(1u, (bits + 31) / 32), values = unsigned(rule.second);
  Type *whole = builder.getIntNTy(32 * words);
  auto widen = [&](Value *value) -> Value * {
    if (value->getType()->isPointerTy())
      value = builder.CreatePtrToInt(value, builder.getIntNTy(bits));
    return builder.CreateZExt(builder.CreateBitCast(value, builder.getIntNTy(bits)), whole);
  };
  Value *result = ConstantInt::get(whole, 0);
  for (unsigned i = 0; i < words; ++i) {
    SmallVector<Value *> operands;
    for (auto [index, argument] : enumerate(call.args())) {
      Value *value = argument;
      if (index < values)
        value = builder.CreateTrunc(builder.CreateLShr(widen(value), 32 * i), builder.getInt32Ty());
      operands.push_back(value);
    }
    Value *part = lowering.warpCall(call, SiteKind::WarpOp, Op(rule.first), 0, lowering.allLanes(),
                                    operands, builder.getInt32Ty());
    result = builder.CreateOr(result, builder.CreateShl(builder.CreateZExt(part, whole), 32 * i));
  }
  result = builder.CreateTrunc(result, builder.getIntNTy(bits));
  return type->isPointerTy() ? builder.CreateIntToPtr(result, type)
                             : builder.CreateBitCast(result, type);
}

// Conversion to an integer by the intrinsic `first`.
Result toInteger(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  Value *x = call.getArgOperand(0);
  return lowering.builder.CreateIntrinsic(Intrinsic::ID(rule.first), {call.getType(), x->getType()},
                                          {x});
}

Result barrier(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *site = lowering.siteOf(call, SiteKind::Barrier, call.getCalledFunction()->getName());
  Value *zero = builder.getInt32(0);
  Value *kind = builder.getInt32(uint32_t(rule.first));
  lowering.machineCall("barrier", builder.getInt32Ty(),
                       {lowering.threadValue(), site, kind, zero, zero, zero});
  return nullptr;
}

// How many of the mask's bits below the own lane are set, added to the second operand; `first` is
// the mask's offset.
Result maskedCount(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *lane =
      builder.CreateZExt(lowering.threadField(offsetof(ThreadHeader, lane), builder.getInt32Ty()),
                         builder.getInt64Ty());
  Value *below =
      builder.CreateSub(builder.CreateShl(builder.getInt64(1), lane), builder.getInt64(1));
  Value *part = builder.CreateTrunc(builder.CreateLShr(below, rule.first), builder.getInt32Ty());
  Value *chosen = builder.CreateAnd(call.getArgOperand(0), part);
  return builder.CreateAdd(builder.CreateUnaryIntrinsic(Intrinsic::ctpop, chosen),
                           call.getArgOperand(1));
}

Result pointerField(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  Value *address = lowering.threadField(uint32_t(rule.first), lowering.builder.getInt64Ty());
  return lowering.builder.CreateIntToPtr(address, call.getType());
}

Result reciprocal(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  return lowering.builder.CreateFDiv(ConstantFP::get(call.getType(), 1.0), call.getArgOperand(0));
}

Result reciprocalRoot(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  IRBuilder<> &builder = lowering.builder;
  Value *root = builder.CreateUnaryIntrinsic(Intrinsic::sqrt, call.getArgOperand(0));
  return builder.CreateFDiv(ConstantFP::get(call.getType(), 1.0), root);
}

// Bits [offset, offset + width) of the first operand; signed where `first` says so.
Result bitField(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Type *type = call.getType();
  unsigned bits = type->getIntegerBitWidth();
  Value *offset = builder.CreateAnd(call.getArgOperand(1), bits - 1);
  Value *width = builder.CreateAnd(call.getArgOperand(2), bits - 1);
  Value *shifted =
      builder.CreateLShr(call.getArgOperand(0), builder.CreateZExtOrTrunc(offset, type));
  Value *up =
      builder.CreateZExtOrTrunc(builder.CreateAnd(builder.CreateNeg(width), bits - 1), type);
  Value *top = builder.CreateShl(shifted, up);
  Value *field = rule.first ? builder.CreateAShr(top, up) : builder.CreateLShr(top, up);
  return builder.CreateSelect(builder.CreateIsNull(width), ConstantInt::get(type, 0), field);
}

std::optional<Element> elementOf(StringRef text, bool isFnuz) {
  return StringSwitch<std::optional<Element>>(text)
      .Case("f16", Element::F16)
      .Cases({"bf16", "bf16.1k"}, Element::BF16)
      .Case("xf32", Element::TF32)
      .Case("f32", Element::F32)
      .Case("f64", Element::F64)
      .Case("fp8", isFnuz ? Element::E4M3FNUZ : Element::E4M3)
      .Case("bf8", isFnuz ? Element::E5M2FNUZ : Element::E5M2)
      .Cases({"i8", "iu8"}, Element::S8)
      .Default(std::nullopt);
}

// <sum>.<m>x<n>x<k>, then the operands' format, or formats with a point between them.
std::optional<MmaShape> parseMma(StringRef name, bool isFnuz) {
  MmaShape shape{};
  auto [sum, rest] = name.split('.');
  if (rest.consumeInteger(10, shape.m) || !rest.consume_front("x") ||
      rest.consumeInteger(10, shape.n) || !rest.consume_front("x") ||
      rest.consumeInteger(10, shape.k))
    return std::nullopt;
  rest.consume_front(".");
  std::optional<Element> a = elementOf(rest, isFnuz), b = a;
  if (!a) {
    a = elementOf(rest.split('.').first, isFnuz);
    b = elementOf(rest.split('.').second, isFnuz);
  }
  if (!a || !b)
    return std::nullopt;
  shape.a = *a;
  shape.b = *b;
  shape.accumulator = sum == "i32" ? Element::S32 : sum == "f64" ? Element::F64 : Element::F32;
  return shape;
}

Result unknown(CallInst &call) {
  return createStringError("the virtual GPU does not know %s",
                           call.getCalledFunction()->getName().str().c_str());
}

unsigned bitsOf(Element element) {
  switch (element) {
  case Element::F64:
    return 64;
  case Element::TF32:
  case Element::F32:
  case Element::S32:
    return 32;
  case Element::F16:
  case Element::BF16:
    return 16;
  default:
    return 8;
  }
}

uint64_t bitsOf(Value *value) { return value->getType()->getPrimitiveSizeInBits().getFixedValue(); }

// (a, b, c, and how blocks are broadcast, which one block cannot be)
Result mfma(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  StringRef chip = call.getFunction()->getFnAttribute(chipAttribute).getValueAsString();
  std::optional<MmaShape> shape = parseMma(
      call.getCalledFunction()->getName().drop_front(rule.name.size() - 1), chip == "gfx942");
  if (!shape || (shape->m != 16 && shape->m != 32) || shape->n != shape->m)
    return unknown(call);
  // Forms of several blocks have more to multiply than one matrix.
  unsigned bits = bitsOf(shape->a);
  if (bitsOf(call.getArgOperand(0)) * 64 != uint64_t(shape->m) * shape->k * bits)
    return unknown(call);
  for (unsigned modifier : {3, 4, 5})
    if (auto *value = dyn_cast<ConstantInt>(call.getArgOperand(modifier));
        !value || !value->isZero())
      return unknown(call);
  SmallVector<Value *> operands(call.args().begin(), call.args().begin() + 3);
  return lowering.warpCall(call, SiteKind::Mma, Op::Mfma, shape->encode(), lowering.allLanes(),
                           operands);
}

// (a, b, c), or (a is signed, a, b is signed, b, c, clamp) for integers
Result wmma(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  StringRef name = call.getCalledFunction()->getName().drop_front(rule.name.size() - 1);
  // The types of vectors follow the formats.
  std::optional<MmaShape> shape = parseMma(name.take_front(name.find(".v")), false);
  if (!shape || shape->m != 16 || shape->n != 16 || shape->k != 16)
    return unknown(call);
  SmallVector<Value *> operands(call.args());
  if (shape->a == Element::S8) {
    auto flag = [&](unsigned index) {
      return cast<ConstantInt>(call.getArgOperand(index))->isOne();
    };
    shape->a = flag(0) ? Element::S8 : Element::U8;
    shape->b = flag(2) ? Element::S8 : Element::U8;
    shape->saturate = flag(5);
    operands = {call.getArgOperand(1), call.getArgOperand(3), call.getArgOperand(4)};
  }
  uint64_t lanes = 256 * bitsOf(shape->a) / bitsOf(operands[0]);
  if (operands.size() != 3 || bitsOf(operands[2]) != 256 || (lanes != 16 && lanes != 32))
    return unknown(call);
  return lowering.warpCall(call, SiteKind::Mma, lanes == 16 ? Op::WmmaHalves : Op::Wmma,
                           shape->encode(), lowering.allLanes(), operands);
}

// A resource is the address that it begins at: the rules below know its size and that it has no
// stride. (address, stride, bytes, flags)
Result resource(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  auto is = [&](unsigned argument, uint64_t value) {
    auto *constant = dyn_cast<ConstantInt>(call.getArgOperand(argument));
    return constant && constant->getZExtValue() == value;
  };
  if (!is(1, 0) || !is(2, pseudo::amdBufferBytes))
    return unknown(call);
  IRBuilder<> &builder = lowering.builder;
  Value *address = builder.CreatePtrToInt(call.getArgOperand(0), builder.getInt64Ty());
  return builder.CreateIntToPtr(address, call.getType());
}

// Loads and stores through a resource: (resource, offset, a second offset, cache policy), behind
// the value of a store. Beyond the end a load gives zero, and nothing is stored.
Result bufferAccess(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  const bool isStore = rule.first;
  auto *second = dyn_cast<ConstantInt>(call.getArgOperand(isStore + 2));
  if (!second || !second->isZero())
    return unknown(call);
  Type *type = isStore ? call.getArgOperand(0)->getType() : call.getType();
  const uint64_t bytes = call.getModule()->getDataLayout().getTypeStoreSize(type);
  Value *base = builder.CreatePtrToInt(call.getArgOperand(isStore), builder.getInt64Ty());
  Value *offset = builder.CreateZExt(call.getArgOperand(isStore + 1), builder.getInt64Ty());
  Value *inside = builder.CreateICmpULE(offset, builder.getInt64(pseudo::amdBufferBytes - bytes));
  Value *pointer = builder.CreateIntToPtr(builder.CreateAdd(base, offset), builder.getPtrTy(1));
  // LLVM leaves out of a load what nobody uses, so that three words may be left, or the last of
  // four.
  const uint32_t flags = (isStore ? accessStore : 0) | (bytes > 4 ? accessWords : 0);
  Value *address = lowering.predicatedAccess(call, pointer, type, inside, flags);
  if (isStore) {
    builder.CreateAlignedStore(call.getArgOperand(0), address, Align(1));
    return nullptr;
  }
  Value *loaded = builder.CreateAlignedLoad(type, address, Align(1));
  return builder.CreateSelect(inside, loaded, Constant::getNullValue(type));
}

#define FIELD(member) field, offsetof(ThreadHeader, member)

constexpr IntrinsicRule amd[] = {
    {"llvm.amdgcn.workitem.id.x", FIELD(thread[0])},
    {"llvm.amdgcn.workitem.id.y", FIELD(thread[1])},
    {"llvm.amdgcn.workitem.id.z", FIELD(thread[2])},
    {"llvm.amdgcn.workgroup.id.x", FIELD(block[0])},
    {"llvm.amdgcn.workgroup.id.y", FIELD(block[1])},
    {"llvm.amdgcn.workgroup.id.z", FIELD(block[2])},
    {"llvm.amdgcn.wavefrontsize", FIELD(warpSize)},
    {"llvm.amdgcn.dispatch.ptr", pointerField, offsetof(ThreadHeader, dispatch)},
    {"llvm.amdgcn.implicitarg.ptr", pointerField, offsetof(ThreadHeader, implicitArgs)},
    {"llvm.amdgcn.mbcnt.lo", maskedCount, 0},
    {"llvm.amdgcn.mbcnt.hi", maskedCount, 32},

    // Waves.
    {"llvm.amdgcn.ballot.*", allLanes, word(Op::Ballot)},
    {"llvm.amdgcn.readfirstlane.*", eachWord, word(Op::ReadFirstLane), 1},
    {"llvm.amdgcn.readlane.*", eachWord, word(Op::ReadLane), 1},
    {"llvm.amdgcn.ds.bpermute", allLanes, word(Op::BackPermute)},
    {"llvm.amdgcn.ds.permute", allLanes, word(Op::Permute)},
    {"llvm.amdgcn.ds.swizzle", allLanes, word(Op::Swizzle)},
    {"llvm.amdgcn.update.dpp.*", eachWord, word(Op::Dpp), 2},
    {"llvm.amdgcn.permlane32.swap", allLanes, word(Op::LaneSwap), 32},
    {"llvm.amdgcn.permlane16.swap", allLanes, word(Op::LaneSwap), 16},
    {"llvm.amdgcn.permlane16.*", eachWord, word(Op::PermuteInRow), 2},
    {"llvm.amdgcn.permlanex16.*", eachWord, word(Op::PermuteAcrossRows), 2},
    {"llvm.amdgcn.wave.barrier", allLanes, word(Op::WarpSync)},

    {"llvm.amdgcn.mfma.*", mfma},
    {"llvm.amdgcn.wmma.*", wmma},

    {"llvm.amdgcn.make.buffer.rsrc.*", resource},
    {"llvm.amdgcn.raw.ptr.buffer.load.*", bufferAccess, 0},
    {"llvm.amdgcn.raw.ptr.buffer.store.*", bufferAccess, 1},

    {"llvm.amdgcn.s.barrier", barrier, uint64_t(BarrierKind::Sync) | barrierAligned},

    // Mathematics.
    {"llvm.amdgcn.exp2.*", generic, Intrinsic::exp2},
    {"llvm.amdgcn.log.*", generic, Intrinsic::log2},
    {"llvm.amdgcn.sqrt.*", generic, Intrinsic::sqrt},
    {"llvm.amdgcn.rcp.*", reciprocal},
    {"llvm.amdgcn.rsq.*", reciprocalRoot},
    {"llvm.amdgcn.sin.f32", hostCall, 0, 0, "amd_sin"},
    {"llvm.amdgcn.cos.f32", hostCall, 0, 0, "amd_cos"},
    {"llvm.amdgcn.fract.f32", hostCall, 0, 0, "amd_fract"},
    {"llvm.amdgcn.fmed3.f32", hostCall, 0, 0, "amd_fmed3"},
    {"llvm.amdgcn.cvt.pkrtz", hostCall, 0, 0, "amd_pkrtz"},
    {"sectile.amd.cvt.i32.*", toInteger, Intrinsic::fptosi_sat},
    {"sectile.amd.cvt.u32.*", toInteger, Intrinsic::fptoui_sat},
    {"llvm.amdgcn.perm", hostCall, 0, 0, "amd_perm"},
    {"llvm.amdgcn.ubfe.*", bitField, 0},
    {"llvm.amdgcn.sbfe.*", bitField, 1},

    // Clocks and hints: the machine's accesses are complete when they return.
    {"llvm.amdgcn.s.memtime", query, 0, 0, "clock"},
    {"llvm.amdgcn.s.memrealtime", query, 0, 0, "clock"},
    {"llvm.amdgcn.s.wait*", nothing},
    {"llvm.amdgcn.s.sleep*", nothing},
    {"llvm.amdgcn.s.setprio*", nothing},
    {"llvm.amdgcn.sched.*", nothing},
    {"llvm.amdgcn.iglp.opt", nothing},
};

} // namespace

ArrayRef<IntrinsicRule> amdRules() { return amd; }

} // namespace sectile::vgpu::rules
