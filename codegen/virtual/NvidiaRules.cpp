// The NVVM intrinsics and sectile.nv pseudo-intrinsics that the virtual GPU runs: one row each in
// the table below.
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/virtual/Rules.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace sectile::vgpu::rules {
namespace {

constexpr uint64_t word(Op op) { return uint64_t(op); }

SiteKind kindOf(Op op) {
  return op >= Op::ShuffleIdx && op <= Op::ShuffleXor ? SiteKind::Shuffle : SiteKind::WarpOp;
}

// Operation `first` with modifiers `second`; the member mask is the first argument, the operands
// follow.
Result maskFirst(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  SmallVector<Value *> operands(drop_begin(call.args()));
  return lowering.warpCall(call, kindOf(Op(rule.first)), Op(rule.first), uint32_t(rule.second),
                           call.getArgOperand(0), operands);
}

// The same with the member mask last.
Result maskLast(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  SmallVector<Value *> operands(drop_end(call.args()));
  return lowering.warpCall(call, kindOf(Op(rule.first)), Op(rule.first), uint32_t(rule.second),
                           call.getArgOperand(call.arg_size() - 1), operands);
}

// Barrier of kind `first`: (id, count where `second` says so, predicate where the kind reduces).
Result barrier(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *count = rule.second ? call.getArgOperand(1) : builder.getInt32(0);
  Value *predicate = builder.getInt32(0);
  Value *last = call.getArgOperand(call.arg_size() - 1);
  if (last->getType()->isIntegerTy(1))
    predicate = builder.CreateZExt(last, builder.getInt32Ty());
  Value *site = lowering.siteOf(call, SiteKind::Barrier, call.getCalledFunction()->getName());
  Value *result =
      lowering.machineCall("barrier", builder.getInt32Ty(),
                           {lowering.threadValue(), site, builder.getInt32(uint32_t(rule.first)),
                            call.getArgOperand(0), count, predicate});
  if (call.getType()->isVoidTy())
    return nullptr;
  return builder.CreateTrunc(result, call.getType());
}

// Copies `first` bytes; the third argument, where there is one, says how many of them are read.
Result asyncCopy(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *bytes = builder.getInt32(uint32_t(rule.first));
  Value *site = lowering.siteOf(call, SiteKind::AsyncCopy, call.getCalledFunction()->getName());
  lowering.machineCall("async_copy", builder.getVoidTy(),
                       {lowering.threadValue(), site, lowering.sharedAddress(call.getArgOperand(0)),
                        builder.CreatePtrToInt(call.getArgOperand(1), builder.getInt64Ty()), bytes,
                        call.arg_size() > 2 ? call.getArgOperand(2) : bytes});
  return nullptr;
}

Result asyncCommit(Lowering &lowering, CallInst &, const IntrinsicRule &) {
  return lowering.machineCall("async_commit", lowering.builder.getVoidTy(),
                              {lowering.threadValue()});
}

Result waitDependencies(Lowering &lowering, CallInst &, const IntrinsicRule &) {
  return lowering.machineCall("wait_dependencies", lowering.builder.getVoidTy(),
                              {lowering.threadValue()});
}

Result launchDependents(Lowering &lowering, CallInst &, const IntrinsicRule &) {
  return lowering.machineCall("launch_dependents", lowering.builder.getVoidTy(),
                              {lowering.threadValue()});
}

Result asyncWait(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  Value *site = lowering.siteOf(call, SiteKind::AsyncWait, call.getCalledFunction()->getName());
  Value *mayStay = call.arg_size() ? call.getArgOperand(0) : lowering.builder.getInt32(~0u);
  return lowering.machineCall("async_wait", lowering.builder.getVoidTy(),
                              {lowering.threadValue(), site, mayStay});
}

// `first` matrices, transposed where `second` says so.
Result matrixMove(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  bool load = !call.getType()->isVoidTy();
  SmallVector<Value *> operands(call.args());
  operands[0] = lowering.sharedAddress(operands[0]);
  return lowering.warpCall(
      call, load ? SiteKind::MatrixLoad : SiteKind::MatrixStore, load ? Op::LdMatrix : Op::StMatrix,
      uint32_t(rule.first) | (rule.second ? matrixTranspose : 0), lowering.allLanes(), operands);
}

std::optional<Element> elementOf(StringRef text) {
  return StringSwitch<std::optional<Element>>(text)
      .Case("f16", Element::F16)
      .Case("bf16", Element::BF16)
      .Case("tf32", Element::TF32)
      .Case("f32", Element::F32)
      .Case("f64", Element::F64)
      .Case("e4m3", Element::E4M3)
      .Case("e5m2", Element::E5M2)
      .Case("s8", Element::S8)
      .Case("u8", Element::U8)
      .Case("s32", Element::S32)
      .Default(std::nullopt);
}

// <shape>.row.col[.satfinite].<types>, the types as LLVM abbreviates them.
std::optional<MmaShape> parseMma(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  if (parts.size() < 4 || parts[1] != "row" || parts[2] != "col")
    return std::nullopt;
  MmaShape shape{};
  StringRef size = parts[0];
  if (!size.consume_front("m") || size.consumeInteger(10, shape.m) || !size.consume_front("n") ||
      size.consumeInteger(10, shape.n) || !size.consume_front("k") ||
      size.consumeInteger(10, shape.k))
    return std::nullopt;
  auto types = ArrayRef(parts).drop_front(3);
  if (types.front() == "satfinite") {
    shape.saturate = true;
    types = types.drop_front();
  }
  SmallVector<Element> elements;
  for (StringRef text : types) {
    std::optional<Element> parsed = elementOf(text);
    if (!parsed)
      return std::nullopt;
    elements.push_back(*parsed);
  }
  auto isInteger = [](Element each) { return each == Element::S8 || each == Element::U8; };
  if (elements.size() == 4) { // result, a, b, sum
    shape.a = elements[1];
    shape.b = elements[2];
    shape.accumulator = elements[0];
  } else if (elements.size() == 2 && !isInteger(elements[0])) { // result and sum of halves
    if (elements[0] != elements[1])
      return std::nullopt;
    shape.a = shape.b = Element::F16;
    shape.accumulator = elements[0];
  } else if (elements.size() <= 2) { // a, b where it differs
    shape.a = elements.front();
    shape.b = elements.back();
    shape.accumulator = isInteger(shape.a)        ? Element::S32
                        : shape.a == Element::F64 ? Element::F64
                                                  : Element::F32;
  } else {
    return std::nullopt;
  }
  // The quarter-warp form of sm_70 has fragments of its own.
  if (shape.m == 8 && shape.a != Element::F64)
    return std::nullopt;
  return shape;
}

Result mma(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  StringRef name = call.getCalledFunction()->getName();
  std::optional<MmaShape> shape = parseMma(name.drop_front(rule.name.size() - 1));
  if (!shape)
    return createStringError("the virtual GPU does not know %s", name.str().c_str());
  return lowering.warpCall(call, SiteKind::Mma, Op::Mma, shape->encode(), lowering.allLanes(),
                           SmallVector<Value *>(call.args()));
}

// Operation `first` of a warp, with no operands.
Result wholeWarp(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  return lowering.warpCall(call, SiteKind::AsyncWait, Op(rule.first), 0, lowering.allLanes(), {});
}

Result wgmma(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  StringRef name = call.getCalledFunction()->getName();
  const auto parsed = pseudo::Wgmma::parse(name);
  if (!parsed || call.arg_size() != parsed->registers() + (parsed->aInRegisters ? 4 : 1) + 2)
    return createStringError("the virtual GPU does not know %s", name.str().c_str());
  WgmmaShape shape{};
  shape.n = parsed->n;
  shape.a = *elementOf(parsed->a);
  shape.b = *elementOf(parsed->b);
  shape.accumulator = *elementOf(parsed->sum);
  shape.aInRegisters = parsed->aInRegisters;
  shape.transposeA = parsed->transposeA;
  shape.transposeB = parsed->transposeB;
  return lowering.warpCall(call, SiteKind::Mma, Op::Wgmma, shape.encode(), lowering.allLanes(),
                           SmallVector<Value *>(call.args()));
}

Result wgmmaWait(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  StringRef name = call.getCalledFunction()->getName();
  const auto wait = pseudo::WgmmaWait::parse(name);
  if (!wait || wait->registers != call.arg_size() || wait->registers >> wgmmaWaitGroupsShift)
    return createStringError("the virtual GPU does not know %s", name.str().c_str());
  return lowering.warpCall(call, SiteKind::AsyncWait, Op::WgmmaWait,
                           wait->registers | wait->groups << wgmmaWaitGroupsShift,
                           lowering.allLanes(), SmallVector<Value *>(call.args()));
}

Result wgmmaSums(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  Value *all = PoisonValue::get(call.getType());
  for (auto [i, sum] : enumerate(call.args()))
    all = lowering.builder.CreateInsertValue(all, sum, unsigned(i));
  return all;
}

// LLVM's own wait, with no sums.
Result wgmmaWaitGroup(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  const auto groups = uint32_t(cast<ConstantInt>(call.getArgOperand(0))->getZExtValue());
  return lowering.warpCall(call, SiteKind::AsyncWait, Op::WgmmaWait, groups << wgmmaWaitGroupsShift,
                           lowering.allLanes(), {});
}

// An increase where `first` says so.
Result setMaxRegisters(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  const auto count = uint32_t(cast<ConstantInt>(call.getArgOperand(0))->getZExtValue());
  return lowering.warpCall(call, SiteKind::AsyncWait, Op::SetMaxRegisters,
                           count | (rule.first ? registersIncrease : 0), lowering.allLanes(), {});
}

// Of what `first` says.
Result proxyFence(Lowering &lowering, CallInst &, const IntrinsicRule &rule) {
  return lowering.machineCall(
      "fence_proxy", lowering.builder.getVoidTy(),
      {lowering.threadValue(), lowering.builder.getInt32(uint32_t(rule.first))});
}

// The operation `first` on an mbarrier; its operand is the second argument, or else `second`.
Result mbarrier(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *operand = call.arg_size() > 1
                       ? builder.CreateZExt(call.getArgOperand(1), builder.getInt64Ty())
                       : builder.getInt64(rule.second);
  Value *site = lowering.siteOf(call, SiteKind::AsyncWait, call.getCalledFunction()->getName());
  Value *result =
      lowering.machineCall("mbarrier", builder.getInt64Ty(),
                           {lowering.threadValue(), site, builder.getInt32(uint32_t(rule.first)),
                            lowering.sharedAddress(call.getArgOperand(0)), operand});
  return call.getType()->isVoidTy() ? nullptr : builder.CreateTrunc(result, call.getType());
}

// Which blocks of the cluster get a copy: the mask, where the flag behind the copy's arguments says
// that it counts, else 0.
Value *multicastMask(Lowering &lowering, const CallInst &call, unsigned mask, unsigned flag) {
  IRBuilder<> &builder = lowering.builder;
  if (cast<ConstantInt>(call.getArgOperand(flag))->isZero())
    return builder.getInt32(0);
  return builder.CreateZExt(call.getArgOperand(mask), builder.getInt32Ty());
}

// The address in the shared memory of another block of the cluster.
Result mapShared(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  IRBuilder<> &builder = lowering.builder;
  Value *offset = builder.CreateAnd(lowering.sharedAddress(call.getArgOperand(0)),
                                    (1u << clusterRankShift) - 1);
  Value *rank = builder.CreateShl(call.getArgOperand(1), clusterRankShift);
  Value *address = builder.CreateOr(builder.CreateOr(offset, rank), clusterTag);
  return builder.CreateIntToPtr(builder.CreateZExt(address, builder.getInt64Ty()), call.getType());
}

// It is a release unless `first` says that it is relaxed.
Result clusterArrive(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *site = lowering.siteOf(call, SiteKind::AsyncWait, call.getCalledFunction()->getName());
  return lowering.machineCall("cluster_arrive", builder.getVoidTy(),
                              {lowering.threadValue(), site, builder.getInt32(!rule.first)});
}

Result clusterWait(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  Value *site = lowering.siteOf(call, SiteKind::AsyncWait, call.getCalledFunction()->getName());
  return lowering.machineCall("cluster_wait", lowering.builder.getVoidTy(),
                              {lowering.threadValue(), site});
}

// Operation `first` on a tensor's tile; the rank stands at the end of the name. Loads into the
// cluster's shared memory, where `second` says so, have a mask of its blocks.
Result tensorCopy(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  StringRef name = call.getCalledFunction()->getName();
  StringRef dimensions = name.drop_front(rule.name.size() - 1);
  unsigned rank = 0;
  if (dimensions.consumeInteger(10, rank) || dimensions != "d" || rank < 1 || rank > tensorRanks)
    return createStringError("the virtual GPU does not know %s", name.str().c_str());
  const bool loads = BulkOp(rule.first) == BulkOp::Load;
  const unsigned map = loads ? 2 : 1;
  Value *blocks = rule.second ? multicastMask(lowering, call, map + rank + 1, map + rank + 3)
                              : builder.getInt32(0);
  SmallVector<Value *> values{call.getArgOperand(0),
                              loads ? call.getArgOperand(1) : builder.getInt32(0),
                              call.getArgOperand(map), blocks};
  for (unsigned i = 1; i <= rank; ++i)
    values.push_back(call.getArgOperand(map + i));
  Value *site = lowering.siteOf(call,
                                loads                                 ? SiteKind::AsyncCopy
                                : BulkOp(rule.first) == BulkOp::Store ? SiteKind::GlobalStore
                                                                      : SiteKind::GlobalAtomic,
                                name);
  return lowering.machineCall("tensor_copy", builder.getVoidTy(),
                              {lowering.threadValue(), site,
                               builder.getInt32(uint32_t(rule.first) | rank << bulkOpBits),
                               lowering.inRegisters(values)});
}

// (shared, mbarrier, global, bytes, …) or, where `first` stores, (global, shared, bytes, …).
Result bulkCopy(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  const bool loads = BulkOp(rule.first) == BulkOp::Load;
  Value *blocks = rule.second ? multicastMask(lowering, call, 4, 6) : builder.getInt32(0);
  auto argument = [&](unsigned i) { return call.getArgOperand(i); };
  SmallVector<Value *> values;
  if (loads)
    values = {argument(0), argument(1), argument(2), blocks, argument(3)};
  else
    values = {argument(1), builder.getInt32(0), argument(0), blocks, argument(2)};
  Value *site = lowering.siteOf(call, loads ? SiteKind::AsyncCopy : SiteKind::GlobalStore,
                                call.getCalledFunction()->getName());
  return lowering.machineCall("bulk_copy", builder.getVoidTy(),
                              {lowering.threadValue(), site, builder.getInt32(uint32_t(rule.first)),
                               lowering.inRegisters(values)});
}

Result bulkCommit(Lowering &lowering, CallInst &, const IntrinsicRule &) {
  return lowering.machineCall("bulk_commit", lowering.builder.getVoidTy(),
                              {lowering.threadValue()});
}

// Only for the reads where `first` says so.
Result bulkWait(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *site = lowering.siteOf(call, SiteKind::AsyncWait, call.getCalledFunction()->getName());
  return lowering.machineCall("bulk_wait", builder.getVoidTy(),
                              {lowering.threadValue(), site, call.getArgOperand(0),
                               builder.getInt32(uint32_t(rule.first))});
}

// The arrivals that a state says are pending: its low 32 bits.
Result pendingCount(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  return lowering.builder.CreateTrunc(call.getArgOperand(0), call.getType());
}

// sectile.nv.load.<T>.<hints>(address, predicate, other) and sectile.nv.store.<T>.<hints>(address,
// value, predicate): without the predicate the access goes to private memory and is none for the
// machine.
uint32_t volatileFlag(const CallInst &call) {
  return pseudo::isVolatile(pseudo::hintsOf(call.getCalledFunction()->getName())) ? accessVolatile
                                                                                  : 0;
}

Result predicatedLoad(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  Value *predicate = call.getArgOperand(1);
  Value *address = lowering.predicatedAccess(call, call.getArgOperand(0), call.getType(), predicate,
                                             volatileFlag(call));
  Value *loaded = lowering.builder.CreateAlignedLoad(call.getType(), address, Align(1));
  return lowering.builder.CreateSelect(predicate, loaded, call.getArgOperand(2));
}

Result predicatedStore(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  Value *value = call.getArgOperand(1);
  Value *address =
      lowering.predicatedAccess(call, call.getArgOperand(0), value->getType(),
                                call.getArgOperand(2), accessStore | volatileFlag(call));
  lowering.builder.CreateAlignedStore(value, address, Align(1));
  return nullptr;
}

std::optional<AtomicRMWInst::BinOp> atomicOperation(StringRef name) {
  auto [operation, type] = name.split('.');
  bool floats = name.rsplit('.').second.contains('f');
  bool isSigned = type.starts_with("s");
  return StringSwitch<std::optional<AtomicRMWInst::BinOp>>(operation)
      .Case("add", floats ? AtomicRMWInst::FAdd : AtomicRMWInst::Add)
      .Case("max", isSigned ? AtomicRMWInst::Max : AtomicRMWInst::UMax)
      .Case("min", isSigned ? AtomicRMWInst::Min : AtomicRMWInst::UMin)
      .Case("and", AtomicRMWInst::And)
      .Case("or", AtomicRMWInst::Or)
      .Case("xor", AtomicRMWInst::Xor)
      .Case("exch", AtomicRMWInst::Xchg)
      .Default(std::nullopt);
}

// sectile.nv.atomic.<scope>.<operation>.<type>(address, value, predicate) and
// sectile.nv.cas.<scope>.<type>(address, expected, value, predicate), as LLVM's own instructions,
// which are atomic among the host's threads.
Result atomicUpdate(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  StringRef name = call.getCalledFunction()->getName();
  auto operation = atomicOperation(name.drop_front(rule.name.size() - 1).split('.').second);
  if (!operation)
    return createStringError("the virtual GPU does not know %s", name.str().c_str());
  Value *predicate = call.getArgOperand(2);
  Value *address = lowering.predicatedAccess(call, call.getArgOperand(0), call.getType(), predicate,
                                             accessStore | accessAtomic);
  Align align(call.getType()->getPrimitiveSizeInBits() / 8);
  Value *before = builder.CreateAtomicRMW(*operation, address, call.getArgOperand(1), align,
                                          AtomicOrdering::Monotonic);
  return builder.CreateSelect(predicate, before, Constant::getNullValue(call.getType()));
}

Result atomicExchange(Lowering &lowering, CallInst &call, const IntrinsicRule &) {
  IRBuilder<> &builder = lowering.builder;
  Value *predicate = call.getArgOperand(3);
  Value *address = lowering.predicatedAccess(call, call.getArgOperand(0), call.getType(), predicate,
                                             accessStore | accessAtomic);
  Align align(call.getType()->getPrimitiveSizeInBits() / 8);
  Value *before = builder.CreateExtractValue(
      builder.CreateAtomicCmpXchg(address, call.getArgOperand(1), call.getArgOperand(2), align,
                                  AtomicOrdering::Monotonic, AtomicOrdering::Monotonic),
      0);
  return builder.CreateSelect(predicate, before, Constant::getNullValue(call.getType()));
}

// A fence of all memory; of the block's threads only where `first` says so.
Result fence(Lowering &lowering, CallInst &, const IntrinsicRule &rule) {
  lowering.fence(fenceAcquires | fenceReleases | (rule.first ? fenceOfBlock : 0));
  return nullptr;
}

// The intrinsic `first`, subnormal results flushed to zero.
Result flushed(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *result = cantFail(generic(lowering, call, rule));
  Value *magnitude = builder.CreateUnaryIntrinsic(Intrinsic::fabs, result);
  Value *small = builder.CreateFCmpOLT(
      magnitude, ConstantFP::get(call.getType(), APFloat::getSmallestNormalized(
                                                     call.getType()->getFltSemantics())));
  Value *zero = builder.CreateCopySign(ConstantFP::get(call.getType(), 0.0), result);
  return builder.CreateSelect(small, zero, result);
}

// Conversion to an integer with the rounding `first`, clamped to the range; unsigned where `second`
// says so. NaN is zero from f32 to 32 bits, else the sign bit alone.
Result toInteger(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *rounded = builder.CreateUnaryIntrinsic(Intrinsic::ID(rule.first), call.getArgOperand(0));
  Value *result =
      builder.CreateIntrinsic(rule.second ? Intrinsic::fptoui_sat : Intrinsic::fptosi_sat,
                              {call.getType(), rounded->getType()}, {rounded});
  unsigned bits = call.getType()->getIntegerBitWidth();
  if (bits == 32 && rounded->getType()->isFloatTy())
    return result;
  return builder.CreateSelect(builder.CreateFCmpUNO(rounded, rounded),
                              builder.getInt(APInt::getSignMask(bits)), result);
}

// Half of a double-width product; unsigned where `first` says so.
Result highProduct(Lowering &lowering, CallInst &call, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  unsigned bits = call.getType()->getIntegerBitWidth();
  Type *wide = builder.getIntNTy(2 * bits);
  auto extend = [&](Value *value) {
    return rule.first ? builder.CreateZExt(value, wide) : builder.CreateSExt(value, wide);
  };
  Value *product = builder.CreateMul(extend(call.getArgOperand(0)), extend(call.getArgOperand(1)));
  return builder.CreateTrunc(builder.CreateLShr(product, bits), call.getType());
}

Result laneMask(Lowering &lowering, CallInst &, const IntrinsicRule &rule) {
  IRBuilder<> &builder = lowering.builder;
  Value *lane = lowering.threadField(offsetof(ThreadHeader, lane), builder.getInt32Ty());
  Value *own = builder.CreateShl(builder.getInt32(1), lane);
  Value *below = builder.CreateSub(own, builder.getInt32(1));
  switch (rule.first) {
  case 0: // eq
    return own;
  case 1: // lt
    return below;
  case 2: // le
    return builder.CreateOr(below, own);
  case 3: // gt
    return builder.CreateNot(builder.CreateOr(below, own));
  default: // ge
    return builder.CreateNot(below);
  }
}

constexpr uint64_t aligned(BarrierKind kind) { return uint64_t(kind) | barrierAligned; }
constexpr uint64_t loose(BarrierKind kind) { return uint64_t(kind); }

constexpr uint64_t word(BulkOp op) { return uint64_t(op); }
constexpr uint64_t word(MbarrierOp op) { return uint64_t(op); }

#define FIELD(member) field, offsetof(ThreadHeader, member)

constexpr IntrinsicRule nvidia[] = {
    // Special registers.
    {"llvm.nvvm.read.ptx.sreg.tid.x", FIELD(thread[0])},
    {"llvm.nvvm.read.ptx.sreg.tid.y", FIELD(thread[1])},
    {"llvm.nvvm.read.ptx.sreg.tid.z", FIELD(thread[2])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", FIELD(block[0])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.y", FIELD(block[1])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.z", FIELD(block[2])},
    {"llvm.nvvm.read.ptx.sreg.ntid.x", FIELD(blockSize[0])},
    {"llvm.nvvm.read.ptx.sreg.ntid.y", FIELD(blockSize[1])},
    {"llvm.nvvm.read.ptx.sreg.ntid.z", FIELD(blockSize[2])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.x", FIELD(gridSize[0])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.y", FIELD(gridSize[1])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.z", FIELD(gridSize[2])},
    {"llvm.nvvm.read.ptx.sreg.laneid", FIELD(lane)},
    {"llvm.nvvm.read.ptx.sreg.warpid", FIELD(warp)},
    {"llvm.nvvm.read.ptx.sreg.nwarpid", FIELD(warpCount)},
    {"llvm.nvvm.read.ptx.sreg.warpsize", FIELD(warpSize)},
    {"llvm.nvvm.read.ptx.sreg.dynamic_smem_size", FIELD(sharedBytes)},

    // Clusters.
    {"llvm.nvvm.read.ptx.sreg.cluster.ctarank", FIELD(clusterRank)},
    {"llvm.nvvm.read.ptx.sreg.cluster.nctarank", FIELD(clusterSize)},
    {"llvm.nvvm.read.ptx.sreg.cluster.ctaid.x", FIELD(clusterBlock[0])},
    {"llvm.nvvm.read.ptx.sreg.cluster.ctaid.y", FIELD(clusterBlock[1])},
    {"llvm.nvvm.read.ptx.sreg.cluster.ctaid.z", FIELD(clusterBlock[2])},
    {"llvm.nvvm.read.ptx.sreg.cluster.nctaid.x", FIELD(clusterBlocks[0])},
    {"llvm.nvvm.read.ptx.sreg.cluster.nctaid.y", FIELD(clusterBlocks[1])},
    {"llvm.nvvm.read.ptx.sreg.cluster.nctaid.z", FIELD(clusterBlocks[2])},
    {"llvm.nvvm.read.ptx.sreg.clusterid.x", FIELD(cluster[0])},
    {"llvm.nvvm.read.ptx.sreg.clusterid.y", FIELD(cluster[1])},
    {"llvm.nvvm.read.ptx.sreg.clusterid.z", FIELD(cluster[2])},
    {"llvm.nvvm.read.ptx.sreg.nclusterid.x", FIELD(clusters[0])},
    {"llvm.nvvm.read.ptx.sreg.nclusterid.y", FIELD(clusters[1])},
    {"llvm.nvvm.read.ptx.sreg.nclusterid.z", FIELD(clusters[2])},
    {"llvm.nvvm.is_explicit_cluster", FIELD(isExplicitCluster)},
    {"llvm.nvvm.mapa.shared.cluster", mapShared},
    {"llvm.nvvm.barrier.cluster.arrive", clusterArrive},
    {"llvm.nvvm.barrier.cluster.arrive.aligned", clusterArrive},
    {"llvm.nvvm.barrier.cluster.arrive.relaxed", clusterArrive, 1},
    {"llvm.nvvm.barrier.cluster.arrive.relaxed.aligned", clusterArrive, 1},
    {"llvm.nvvm.barrier.cluster.wait", clusterWait},
    {"llvm.nvvm.barrier.cluster.wait.aligned", clusterWait},

    // Warps.
    {"llvm.nvvm.bar.warp.sync", maskFirst, word(Op::WarpSync)},
    {"llvm.nvvm.shfl.sync.idx.*", maskFirst, word(Op::ShuffleIdx)},
    {"llvm.nvvm.shfl.sync.up.*", maskFirst, word(Op::ShuffleUp)},
    {"llvm.nvvm.shfl.sync.down.*", maskFirst, word(Op::ShuffleDown)},
    {"llvm.nvvm.shfl.sync.bfly.*", maskFirst, word(Op::ShuffleXor)},
    {"llvm.nvvm.vote.all.sync", maskFirst, word(Op::VoteAll)},
    {"llvm.nvvm.vote.any.sync", maskFirst, word(Op::VoteAny)},
    {"llvm.nvvm.vote.uni.sync", maskFirst, word(Op::VoteUni)},
    {"llvm.nvvm.vote.ballot.sync", maskFirst, word(Op::Ballot)},
    {"llvm.nvvm.match.any.sync.i32", maskFirst, word(Op::MatchAny)},
    {"llvm.nvvm.match.any.sync.i64", maskFirst, word(Op::MatchAny), matchWide},
    {"llvm.nvvm.match.all.sync.i32p", maskFirst, word(Op::MatchAll)},
    {"llvm.nvvm.match.all.sync.i64p", maskFirst, word(Op::MatchAll), matchWide},
    {"llvm.nvvm.elect.sync", maskFirst, word(Op::Elect)},
    {"llvm.nvvm.redux.sync.add", maskLast, word(Op::ReduceAdd)},
    {"llvm.nvvm.redux.sync.min", maskLast, word(Op::ReduceMin)},
    {"llvm.nvvm.redux.sync.max", maskLast, word(Op::ReduceMax)},
    {"llvm.nvvm.redux.sync.umin", maskLast, word(Op::ReduceUMin)},
    {"llvm.nvvm.redux.sync.umax", maskLast, word(Op::ReduceUMax)},
    {"llvm.nvvm.redux.sync.and", maskLast, word(Op::ReduceAnd)},
    {"llvm.nvvm.redux.sync.or", maskLast, word(Op::ReduceOr)},
    {"llvm.nvvm.redux.sync.xor", maskLast, word(Op::ReduceXor)},
    {"llvm.nvvm.redux.sync.fmin", maskLast, word(Op::ReduceFMin)},
    {"llvm.nvvm.redux.sync.fmin.abs", maskLast, word(Op::ReduceFMin), reduceAbs},
    {"llvm.nvvm.redux.sync.fmin.NaN", maskLast, word(Op::ReduceFMin), reduceNaN},
    {"llvm.nvvm.redux.sync.fmin.abs.NaN", maskLast, word(Op::ReduceFMin), reduceAbs | reduceNaN},
    {"llvm.nvvm.redux.sync.fmax", maskLast, word(Op::ReduceFMax)},
    {"llvm.nvvm.redux.sync.fmax.abs", maskLast, word(Op::ReduceFMax), reduceAbs},
    {"llvm.nvvm.redux.sync.fmax.NaN", maskLast, word(Op::ReduceFMax), reduceNaN},
    {"llvm.nvvm.redux.sync.fmax.abs.NaN", maskLast, word(Op::ReduceFMax), reduceAbs | reduceNaN},
    {"llvm.nvvm.activemask", query, 0, 0, "active_lanes"},
    {"llvm.nvvm.read.ptx.sreg.lanemask.eq", laneMask, 0},
    {"llvm.nvvm.read.ptx.sreg.lanemask.lt", laneMask, 1},
    {"llvm.nvvm.read.ptx.sreg.lanemask.le", laneMask, 2},
    {"llvm.nvvm.read.ptx.sreg.lanemask.gt", laneMask, 3},
    {"llvm.nvvm.read.ptx.sreg.lanemask.ge", laneMask, 4},

    // Barriers.
    {"llvm.nvvm.barrier.cta.sync.aligned.all", barrier, aligned(BarrierKind::Sync)},
    {"llvm.nvvm.barrier.cta.sync.aligned.count", barrier, aligned(BarrierKind::Sync), 1},
    {"llvm.nvvm.barrier.cta.sync.all", barrier, loose(BarrierKind::Sync)},
    {"llvm.nvvm.barrier.cta.sync.count", barrier, loose(BarrierKind::Sync), 1},
    {"llvm.nvvm.barrier.cta.arrive.aligned.count", barrier, aligned(BarrierKind::Arrive), 1},
    {"llvm.nvvm.barrier.cta.arrive.count", barrier, loose(BarrierKind::Arrive), 1},
    {"llvm.nvvm.barrier.cta.red.and.aligned.all", barrier, aligned(BarrierKind::ReduceAnd)},
    {"llvm.nvvm.barrier.cta.red.and.aligned.count", barrier, aligned(BarrierKind::ReduceAnd), 1},
    {"llvm.nvvm.barrier.cta.red.and.all", barrier, loose(BarrierKind::ReduceAnd)},
    {"llvm.nvvm.barrier.cta.red.and.count", barrier, loose(BarrierKind::ReduceAnd), 1},
    {"llvm.nvvm.barrier.cta.red.or.aligned.all", barrier, aligned(BarrierKind::ReduceOr)},
    {"llvm.nvvm.barrier.cta.red.or.aligned.count", barrier, aligned(BarrierKind::ReduceOr), 1},
    {"llvm.nvvm.barrier.cta.red.or.all", barrier, loose(BarrierKind::ReduceOr)},
    {"llvm.nvvm.barrier.cta.red.or.count", barrier, loose(BarrierKind::ReduceOr), 1},
    {"llvm.nvvm.barrier.cta.red.popc.aligned.all", barrier, aligned(BarrierKind::ReducePopcount)},
    {"llvm.nvvm.barrier.cta.red.popc.aligned.count", barrier, aligned(BarrierKind::ReducePopcount),
     1},
    {"llvm.nvvm.barrier.cta.red.popc.all", barrier, loose(BarrierKind::ReducePopcount)},
    {"llvm.nvvm.barrier.cta.red.popc.count", barrier, loose(BarrierKind::ReducePopcount), 1},

    // Asynchronous copies.
    {"llvm.nvvm.cp.async.ca.shared.global.4", asyncCopy, 4},
    {"llvm.nvvm.cp.async.ca.shared.global.4.s", asyncCopy, 4},
    {"llvm.nvvm.cp.async.ca.shared.global.8", asyncCopy, 8},
    {"llvm.nvvm.cp.async.ca.shared.global.8.s", asyncCopy, 8},
    {"llvm.nvvm.cp.async.ca.shared.global.16", asyncCopy, 16},
    {"llvm.nvvm.cp.async.ca.shared.global.16.s", asyncCopy, 16},
    {"llvm.nvvm.cp.async.cg.shared.global.16", asyncCopy, 16},
    {"llvm.nvvm.cp.async.cg.shared.global.16.s", asyncCopy, 16},
    {"llvm.nvvm.cp.async.commit.group", asyncCommit},
    {"llvm.nvvm.cp.async.wait.group", asyncWait},
    {"llvm.nvvm.cp.async.wait.all", asyncWait},

    // mbarriers.
    {"llvm.nvvm.mbarrier.init", mbarrier, word(MbarrierOp::Init)},
    {"llvm.nvvm.mbarrier.inval", mbarrier, word(MbarrierOp::Invalidate)},
    {"llvm.nvvm.mbarrier.arrive", mbarrier, word(MbarrierOp::Arrive), 1},
    {"llvm.nvvm.mbarrier.arrive.drop", mbarrier, word(MbarrierOp::ArriveDrop), 1},
    {"llvm.nvvm.mbarrier.arrive.noComplete", mbarrier, word(MbarrierOp::ArriveNoComplete)},
    {"llvm.nvvm.mbarrier.test.wait", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.cp.async.mbarrier.arrive", mbarrier, word(MbarrierOp::CopyArrive)},
    {"llvm.nvvm.cp.async.mbarrier.arrive.noinc", mbarrier, word(MbarrierOp::CopyArriveNoInc)},
    {"llvm.nvvm.mbarrier.init.shared", mbarrier, word(MbarrierOp::Init)},
    {"llvm.nvvm.mbarrier.inval.shared", mbarrier, word(MbarrierOp::Invalidate)},
    {"llvm.nvvm.mbarrier.arrive.shared", mbarrier, word(MbarrierOp::Arrive), 1},
    {"llvm.nvvm.mbarrier.arrive.drop.shared", mbarrier, word(MbarrierOp::ArriveDrop), 1},
    {"llvm.nvvm.mbarrier.arrive.noComplete.shared", mbarrier, word(MbarrierOp::ArriveNoComplete)},
    {"llvm.nvvm.mbarrier.test.wait.shared", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.cp.async.mbarrier.arrive.shared", mbarrier, word(MbarrierOp::CopyArrive)},
    {"llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared", mbarrier,
     word(MbarrierOp::CopyArriveNoInc)},
    {"llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", mbarrier, word(MbarrierOp::Arrive)},
    {"llvm.nvvm.mbarrier.arrive.drop.scope.cta.space.cta", mbarrier, word(MbarrierOp::ArriveDrop)},
    {"llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", mbarrier,
     word(MbarrierOp::ArriveExpectBytes)},
    {"llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta", mbarrier, word(MbarrierOp::ExpectBytes)},
    {"llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta", mbarrier,
     word(MbarrierOp::CompleteBytes)},
    {"llvm.nvvm.mbarrier.test.wait.scope.cta.space.cta", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"llvm.nvvm.mbarrier.try.wait.scope.cta.space.cta", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"llvm.nvvm.mbarrier.try.wait.tl.scope.cta.space.cta", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.try.wait.parity.tl.scope.cta.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"llvm.nvvm.mbarrier.arrive.scope.cluster.space.cta", mbarrier, word(MbarrierOp::Arrive)},
    {"llvm.nvvm.mbarrier.arrive.drop.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::ArriveDrop)},
    {"llvm.nvvm.mbarrier.arrive.expect.tx.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::ArriveExpectBytes)},
    {"llvm.nvvm.mbarrier.expect.tx.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::ExpectBytes)},
    {"llvm.nvvm.mbarrier.complete.tx.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::CompleteBytes)},
    {"llvm.nvvm.mbarrier.test.wait.scope.cluster.space.cta", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.test.wait.parity.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"llvm.nvvm.mbarrier.try.wait.scope.cluster.space.cta", mbarrier, word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.try.wait.parity.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"llvm.nvvm.mbarrier.try.wait.tl.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::TestState)},
    {"llvm.nvvm.mbarrier.try.wait.parity.tl.scope.cluster.space.cta", mbarrier,
     word(MbarrierOp::TestParity)},
    {"sectile.nv.mbarrier_wait", mbarrier, word(MbarrierOp::Wait)},
    {"llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster", mbarrier, word(MbarrierOp::Arrive)},
    {"llvm.nvvm.mbarrier.arrive.drop.scope.cta.space.cluster", mbarrier,
     word(MbarrierOp::ArriveDrop)},
    {"llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cluster", mbarrier,
     word(MbarrierOp::ArriveExpectBytes)},
    {"llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cluster", mbarrier,
     word(MbarrierOp::ExpectBytes)},
    {"llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cluster", mbarrier,
     word(MbarrierOp::CompleteBytes)},
    {"llvm.nvvm.mbarrier.arrive.scope.cluster.space.cluster", mbarrier, word(MbarrierOp::Arrive)},
    {"llvm.nvvm.mbarrier.arrive.drop.scope.cluster.space.cluster", mbarrier,
     word(MbarrierOp::ArriveDrop)},
    {"llvm.nvvm.mbarrier.arrive.expect.tx.scope.cluster.space.cluster", mbarrier,
     word(MbarrierOp::ArriveExpectBytes)},
    {"llvm.nvvm.mbarrier.expect.tx.scope.cluster.space.cluster", mbarrier,
     word(MbarrierOp::ExpectBytes)},
    {"llvm.nvvm.mbarrier.complete.tx.scope.cluster.space.cluster", mbarrier,
     word(MbarrierOp::CompleteBytes)},
    {"llvm.nvvm.mbarrier.pending.count", pendingCount},

    // Bulk copies.
    {"llvm.nvvm.cp.async.bulk.tensor.g2s.tile.*", tensorCopy, word(BulkOp::Load), 1},
    {"llvm.nvvm.cp.async.bulk.tensor.g2s.cta.tile.*", tensorCopy, word(BulkOp::Load)},
    {"llvm.nvvm.cp.async.bulk.tensor.s2g.tile.*", tensorCopy, word(BulkOp::Store)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.add.tile.*", tensorCopy, word(BulkOp::Add)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.min.tile.*", tensorCopy, word(BulkOp::Min)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.max.tile.*", tensorCopy, word(BulkOp::Max)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.inc.tile.*", tensorCopy, word(BulkOp::Inc)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.dec.tile.*", tensorCopy, word(BulkOp::Dec)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.and.tile.*", tensorCopy, word(BulkOp::And)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.or.tile.*", tensorCopy, word(BulkOp::Or)},
    {"llvm.nvvm.cp.async.bulk.tensor.reduce.xor.tile.*", tensorCopy, word(BulkOp::Xor)},
    {"llvm.nvvm.cp.async.bulk.global.to.shared.cluster", bulkCopy, word(BulkOp::Load), 1},
    {"llvm.nvvm.cp.async.bulk.global.to.shared.cta", bulkCopy, word(BulkOp::Load)},
    {"llvm.nvvm.cp.async.bulk.shared.cta.to.global", bulkCopy, word(BulkOp::Store)},
    {"llvm.nvvm.cp.async.bulk.commit.group", bulkCommit},
    {"llvm.nvvm.cp.async.bulk.wait.group", bulkWait},
    {"llvm.nvvm.cp.async.bulk.wait.group.read", bulkWait, 1},
    {"llvm.nvvm.cp.async.bulk.prefetch.*", nothing},
    {"llvm.nvvm.cp.async.bulk.tensor.prefetch.*", nothing},

    // Matrices.
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.*", matrixMove, 1},
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16.*", matrixMove, 2},
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.*", matrixMove, 4},
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.trans.b16.*", matrixMove, 1, 1},
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.*", matrixMove, 2, 1},
    {"llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.*", matrixMove, 4, 1},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.b16.*", matrixMove, 1},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.b16.*", matrixMove, 2},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.b16.*", matrixMove, 4},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x1.trans.b16.*", matrixMove, 1, 1},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.trans.b16.*", matrixMove, 2, 1},
    {"llvm.nvvm.stmatrix.sync.aligned.m8n8.x4.trans.b16.*", matrixMove, 4, 1},
    {"llvm.nvvm.mma.*", mma},

    // Matrices of warpgroups.
    {"sectile.nv.wgmma.*", wgmma},
    {"sectile.nv.wgmma_wait.*", wgmmaWait},
    {"sectile.nv.wgmma_sums.*", wgmmaSums},
    {"sectile.nv.wgmma_operand.*", wgmmaSums},
    {"llvm.nvvm.wgmma.fence.sync.aligned", wholeWarp, word(Op::WgmmaFence)},
    {"llvm.nvvm.wgmma.commit_group.sync.aligned", wholeWarp, word(Op::WgmmaCommit)},
    {"llvm.nvvm.wgmma.wait_group.sync.aligned", wgmmaWaitGroup},

    // Predicated accesses and atomics.
    {"sectile.nv.load.*", predicatedLoad},
    {"sectile.nv.store.*", predicatedStore},
    {"sectile.nv.copy.4.*", asyncCopy, 4},
    {"sectile.nv.copy.8.*", asyncCopy, 8},
    {"sectile.nv.copy.16.*", asyncCopy, 16},
    {"sectile.nv.atomic.*", atomicUpdate},
    {"sectile.nv.cas.*", atomicExchange},

    // Mathematics.
    {"llvm.nvvm.ex2.approx.f32", hostCall, 0, 0, "ex2_f32"},
    {"llvm.nvvm.ex2.approx.ftz.f32", hostCall, 0, 0, "ex2_ftz_f32"},
    {"llvm.nvvm.ex2.approx.f16", hostCall, 0, 0, "ex2_f16"},
    {"llvm.nvvm.ex2.approx.v2f16", hostCall, 0, 0, "ex2_f16x2"},
    {"llvm.nvvm.ex2.approx.ftz.bf16", hostCall, 0, 0, "ex2_bf16"},
    {"llvm.nvvm.ex2.approx.ftz.v2bf16", hostCall, 0, 0, "ex2_bf16x2"},
    {"llvm.nvvm.lg2.approx.f", hostCall, 0, 0, "lg2_f32"},
    {"llvm.nvvm.lg2.approx.ftz.f", hostCall, 0, 0, "lg2_ftz_f32"},
    {"llvm.nvvm.rcp.approx.ftz.f", hostCall, 0, 0, "rcp_ftz_f32"},
    {"llvm.nvvm.rcp.rn.f", hostCall, 0, 0, "rcp_f32"},
    {"llvm.nvvm.rcp.rn.ftz.f", hostCall, 0, 0, "rcp_ftz_f32"},
    {"llvm.nvvm.rcp.rn.d", hostCall, 0, 0, "rcp_f64"},
    {"llvm.nvvm.rsqrt.approx.f", hostCall, 0, 0, "rsqrt_f32"},
    {"llvm.nvvm.rsqrt.approx.ftz.f", hostCall, 0, 0, "rsqrt_ftz_f32"},
    {"llvm.nvvm.rsqrt.approx.d", hostCall, 0, 0, "rsqrt_f64"},
    {"llvm.nvvm.sqrt.approx.f", generic, Intrinsic::sqrt},
    {"llvm.nvvm.sqrt.approx.ftz.f", flushed, Intrinsic::sqrt},
    {"llvm.nvvm.sqrt.f", generic, Intrinsic::sqrt},
    {"llvm.nvvm.sqrt.rn.f", generic, Intrinsic::sqrt},
    {"llvm.nvvm.sqrt.rn.ftz.f", flushed, Intrinsic::sqrt},
    {"llvm.nvvm.sqrt.rn.d", generic, Intrinsic::sqrt},
    {"llvm.nvvm.sin.approx.f", generic, Intrinsic::sin},
    {"llvm.nvvm.sin.approx.ftz.f", flushed, Intrinsic::sin},
    {"llvm.nvvm.cos.approx.f", generic, Intrinsic::cos},
    {"llvm.nvvm.cos.approx.ftz.f", flushed, Intrinsic::cos},
    {"sectile.nv.tanh.f32", generic, Intrinsic::tanh},
    {"llvm.nvvm.div.approx.f", hostCall, 0, 0, "div_f32"},
    {"llvm.nvvm.div.approx.ftz.f", hostCall, 0, 0, "div_ftz_f32"},
    {"llvm.nvvm.div.full", hostCall, 0, 0, "div_f32"},
    {"llvm.nvvm.div.full.ftz", hostCall, 0, 0, "div_ftz_f32"},
    {"llvm.nvvm.div.rn.f", hostCall, 0, 0, "div_f32"},
    {"llvm.nvvm.div.rn.ftz.f", hostCall, 0, 0, "div_ftz_f32"},
    {"llvm.nvvm.fma.rn.f", generic, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.ftz.f", flushed, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.d", generic, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.f16", generic, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.f16x2", generic, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.bf16", generic, Intrinsic::fma},
    {"llvm.nvvm.fma.rn.bf16x2", generic, Intrinsic::fma},
    {"llvm.nvvm.fmin.f", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.ftz.f", flushed, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.nan.f", generic, Intrinsic::minimum},
    {"llvm.nvvm.fmin.ftz.nan.f", flushed, Intrinsic::minimum},
    {"llvm.nvvm.fmin.d", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.f16", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.f16x2", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.nan.f16", generic, Intrinsic::minimum},
    {"llvm.nvvm.fmin.nan.f16x2", generic, Intrinsic::minimum},
    {"llvm.nvvm.fmin.bf16", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.bf16x2", generic, Intrinsic::minimumnum},
    {"llvm.nvvm.fmin.nan.bf16", generic, Intrinsic::minimum},
    {"llvm.nvvm.fmin.nan.bf16x2", generic, Intrinsic::minimum},
    {"llvm.nvvm.fmax.f", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.ftz.f", flushed, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.nan.f", generic, Intrinsic::maximum},
    {"llvm.nvvm.fmax.ftz.nan.f", flushed, Intrinsic::maximum},
    {"llvm.nvvm.fmax.d", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.f16", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.f16x2", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.nan.f16", generic, Intrinsic::maximum},
    {"llvm.nvvm.fmax.nan.f16x2", generic, Intrinsic::maximum},
    {"llvm.nvvm.fmax.bf16", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.bf16x2", generic, Intrinsic::maximumnum},
    {"llvm.nvvm.fmax.nan.bf16", generic, Intrinsic::maximum},
    {"llvm.nvvm.fmax.nan.bf16x2", generic, Intrinsic::maximum},
    {"llvm.nvvm.floor.f", generic, Intrinsic::floor},
    {"llvm.nvvm.floor.d", generic, Intrinsic::floor},
    {"llvm.nvvm.ceil.f", generic, Intrinsic::ceil},
    {"llvm.nvvm.ceil.d", generic, Intrinsic::ceil},
    {"llvm.nvvm.trunc.f", generic, Intrinsic::trunc},
    {"llvm.nvvm.trunc.d", generic, Intrinsic::trunc},
    {"llvm.nvvm.round.f", generic, Intrinsic::roundeven},
    {"llvm.nvvm.round.d", generic, Intrinsic::roundeven},
    {"llvm.nvvm.mulhi.i", highProduct, 0},
    {"llvm.nvvm.mulhi.ui", highProduct, 1},
    {"llvm.nvvm.mulhi.ll", highProduct, 0},
    {"llvm.nvvm.mulhi.ull", highProduct, 1},
    {"llvm.nvvm.prmt", hostCall, 0, 0, "prmt"},

    // Conversions.
    {"llvm.nvvm.f2i.rn", toInteger, Intrinsic::roundeven},
    {"llvm.nvvm.f2i.rz", toInteger, Intrinsic::trunc},
    {"llvm.nvvm.f2i.rm", toInteger, Intrinsic::floor},
    {"llvm.nvvm.f2i.rp", toInteger, Intrinsic::ceil},
    {"llvm.nvvm.f2ui.rn", toInteger, Intrinsic::roundeven, 1},
    {"llvm.nvvm.f2ui.rz", toInteger, Intrinsic::trunc, 1},
    {"llvm.nvvm.f2ll.rn", toInteger, Intrinsic::roundeven},
    {"llvm.nvvm.f2ll.rz", toInteger, Intrinsic::trunc},
    {"llvm.nvvm.f2ull.rz", toInteger, Intrinsic::trunc, 1},
    {"llvm.nvvm.d2i.rn", toInteger, Intrinsic::roundeven},
    {"llvm.nvvm.d2i.rz", toInteger, Intrinsic::trunc},
    {"llvm.nvvm.d2ui.rz", toInteger, Intrinsic::trunc, 1},
    {"llvm.nvvm.d2ll.rz", toInteger, Intrinsic::trunc},
    {"llvm.nvvm.d2ull.rz", toInteger, Intrinsic::trunc, 1},
    {"llvm.nvvm.f2f16.rn", hostCall, 0, 0, "f16_from_f32"},
    {"llvm.nvvm.f2f16.rz", hostCall, 0, 0, "f16_from_f32_rz"},
    {"llvm.nvvm.f2h.rn", hostCall, 0, 0, "f16_from_f32"},
    {"llvm.nvvm.f2bf16.rn", hostCall, 0, 0, "bf16_from_f32"},
    {"llvm.nvvm.f2bf16.rz", hostCall, 0, 0, "bf16_from_f32_rz"},
    {"llvm.nvvm.ff2f16x2.rn", hostCall, 0, 0, "f16x2_from_f32"},
    {"llvm.nvvm.ff2f16x2.rz", hostCall, 0, 0, "f16x2_from_f32_rz"},
    {"llvm.nvvm.ff2bf16x2.rn", hostCall, 0, 0, "bf16x2_from_f32"},
    {"llvm.nvvm.ff2bf16x2.rz", hostCall, 0, 0, "bf16x2_from_f32_rz"},
    {"llvm.nvvm.f2tf32.rna", hostCall, 0, 0, "tf32_rna"},
    {"llvm.nvvm.f2tf32.rn", hostCall, 0, 0, "tf32_rn"},
    {"llvm.nvvm.f2tf32.rz", hostCall, 0, 0, "tf32_rz"},
    {"llvm.nvvm.ff.to.e4m3x2.rn", hostCall, 0, 0, "e4m3x2_from_f32"},
    {"llvm.nvvm.ff.to.e5m2x2.rn", hostCall, 0, 0, "e5m2x2_from_f32"},
    {"llvm.nvvm.f16x2.to.e4m3x2.rn", hostCall, 0, 0, "e4m3x2_from_f16x2"},
    {"llvm.nvvm.f16x2.to.e5m2x2.rn", hostCall, 0, 0, "e5m2x2_from_f16x2"},
    {"llvm.nvvm.e4m3x2.to.f16x2.rn", hostCall, 0, 0, "f16x2_from_e4m3x2"},
    {"llvm.nvvm.e5m2x2.to.f16x2.rn", hostCall, 0, 0, "f16x2_from_e5m2x2"},

    // Clocks, fences and hints.
    {"llvm.nvvm.read.ptx.sreg.clock", query, 0, 0, "clock"},
    {"llvm.nvvm.read.ptx.sreg.clock64", query, 0, 0, "clock"},
    {"llvm.nvvm.read.ptx.sreg.globaltimer", query, 0, 0, "clock"},
    {"llvm.nvvm.reflect", constant, 0},
    {"llvm.nvvm.membar.cta", fence, 1},
    {"llvm.nvvm.membar.*", fence},
    {"llvm.nvvm.fence.proxy.async", proxyFence,
     proxyFenceMbarriers | proxyFenceShared | proxyFenceGlobal},
    {"llvm.nvvm.fence.proxy.async.global", proxyFence, proxyFenceGlobal},
    {"llvm.nvvm.fence.proxy.async.shared_cta", proxyFence, proxyFenceMbarriers | proxyFenceShared},
    {"llvm.nvvm.fence.proxy.async.shared_cluster", proxyFence,
     proxyFenceMbarriers | proxyFenceShared},
    {"llvm.nvvm.fence.mbarrier_init.release.cluster", proxyFence, proxyFenceMbarriers},
    {"llvm.nvvm.fence.*", nothing},
    {"llvm.nvvm.nanosleep", nothing},
    {"llvm.nvvm.prefetch.*", nothing},
    {"llvm.nvvm.prefetchu.*", nothing},
    {"llvm.nvvm.griddepcontrol.wait", waitDependencies},
    {"llvm.nvvm.griddepcontrol.launch.dependents", launchDependents},
    {"sectile.nv.wait_dependencies", waitDependencies},
    {"sectile.nv.launch_dependents", launchDependents},
    {"sectile.nv.launch_dependents_of_few", launchDependents},
    {"llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", setMaxRegisters},
    {"llvm.nvvm.setmaxnreg.inc.sync.aligned.u32", setMaxRegisters, 1},
};

} // namespace

ArrayRef<IntrinsicRule> nvidiaRules() { return nvidia; }

} // namespace sectile::vgpu::rules
