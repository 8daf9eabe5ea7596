// Kernel set-up, control flow, dispatch, and what a thread knows of its place.
#include "codegen/common/KernelEmitter.h"
#include "codegen/common/Atomics.h"
#include "codegen/common/Buffers.h"
#include "codegen/common/Conversions.h"
#include "codegen/common/DebugLog.h"
#include "codegen/common/DotSteps.h"
#include "codegen/common/Dots.h"
#include "codegen/common/Emitter.h"
#include "codegen/common/SmallFloats.h"
#include "codegen/common/Words.h"
#include "passes/Kernel.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/MemoryOrder.h"
#include "passes/analysis/Registers.h"
#include "passes/analysis/Warps.h"
#include "passes/loops/LoopHints.h"
#include "runtime/Symbol.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/MDBuilder.h"

using namespace mlir;

namespace sectile {

KernelEmitter::KernelEmitter(llvm::Module &module, const TargetHooks &hooks, func::FuncOp function,
                             bool reportsDivisors)
    : b(module.getContext()), hooks(hooks), target(hooks.target), module(module), source(function),
      reportsDivisors(reportsDivisors), warps(warpsOf(function)), entry(module.getContext()),
      debug(module) {}

LogicalResult KernelEmitter::run() {
  if (!source->hasAttr(cta::warpsAttr))
    return source.emitError("kernel without '") << cta::warpsAttr << "'";
  SmallVector<llvm::Type *> types;
  for (Type type : source.getArgumentTypes()) {
    llvm::Type *scalar = isa<RankedTensorType>(type)     ? nullptr
                         : isa<cta::TensorMapType>(type) ? b.getPtrTy()
                                                         : typeOf(type);
    if (!scalar)
      return source.emitError("a kernel cannot take an argument of type ") << type;
    types.push_back(scalar);
  }
  auto *type = llvm::FunctionType::get(b.getVoidTy(), types, /*isVarArg=*/false);
  kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                  symbolOf(source.getName()), module);
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  kernel->addFnAttr("target-cpu", target.cpu);
  if (!target.features.empty())
    kernel->addFnAttr("target-features", target.features);
  const bool movesRegisters =
      llvm::any_of(source.getBody().getOps<cta::PartitionOp>(),
                   [](cta::PartitionOp partition) { return !partition.getRegisters().empty(); });
  const unsigned threads = launchedWarpsOf(source) * target.warpSize;
  hooks.setUpKernel(*kernel, threads, clusterOf(source), movesRegisters);
  const auto limit = [&](StringRef name) -> unsigned {
    auto number = source->getAttrOfType<IntegerAttr>(name);
    return number ? number.getInt() : 0;
  };
  const unsigned maxRegisters = limit(cta::maxRegistersAttr),
                 minPrograms = limit(cta::minProgramsAttr);
  if (movesRegisters && (maxRegisters || minPrograms > 1))
    source.emitRemark("max_registers and min_programs have no effect: the warps of this kernel "
                      "hand registers to each other");
  else if (maxRegisters || minPrograms)
    hooks.limitRegisters(*kernel, threads, maxRegisters, minPrograms);
  for (auto [i, argument] : llvm::enumerate(source.getArguments())) {
    llvm::Argument *value = kernel->getArg(i);
    value->addAttr(llvm::Attribute::NoUndef);
    if (isa<cta::TensorMapType>(argument.getType())) {
      constexpr unsigned mapBytes = 128, mapAlignment = 64;
      value->addAttr(llvm::Attribute::getWithByValType(
          b.getContext(), llvm::ArrayType::get(b.getInt8Ty(), mapBytes)));
      value->addAttr(llvm::Attribute::getWithAlignment(b.getContext(), llvm::Align(mapAlignment)));
      value->addAttr(llvm::Attribute::get(b.getContext(), "nvvm.grid_constant"));
    }
    auto divisible = source.getArgAttrOfType<IntegerAttr>(i, tile::divisibleAttr);
    if (divisible && value->getType()->isPointerTy() && divisible.getInt() > 1)
      value->addAttr(llvm::Attribute::getWithAlignment(
          b.getContext(), llvm::Align(divisible.getInt() & -divisible.getInt())));
    define(argument, {value});
  }

  debug.begin(*kernel, source.getLoc(), hooks.lineTables());
  auto *first = llvm::BasicBlock::Create(b.getContext(), "entry", kernel);
  auto *body = llvm::BasicBlock::Create(b.getContext(), "body", kernel);
  entry.SetInsertPoint(first);
  entry.SetCurrentDebugLocation(debug.at(source.getLoc()));
  thread = hooks.threadIndex(entry);
  entry.SetInsertPoint(entry.CreateBr(body));
  b.SetInsertPoint(body);
  if (!source.getBody().hasOneBlock())
    return source.emitError("a kernel's body must be one block");
  dotSteps = chooseSteps(source, target);
  beginOverlap();
  if (failed(emitBlock(source.getBody().front())))
    return failure();
  debug.finish();
  return success();
}

std::optional<DotSteps> KernelEmitter::stepsOf(cta::DotOp op) const {
  auto length = dotSteps.find(op);
  return length == dotSteps.end() ? std::nullopt : planSteps(op, length->second);
}

//===-- Partitions ----------------------------------------------------------------------------===//

/// What comes after it is for further partitions and for the main one.
LogicalResult KernelEmitter::emitPartition(cta::PartitionOp op) {
  if (op->getParentOp() != source)
    return op.emitError("is no partition of this kernel");
  const unsigned first = firstWarpOf(op) * target.warpSize;
  auto add = [&](const char *name) {
    return llvm::BasicBlock::Create(b.getContext(), name, kernel);
  };
  llvm::BasicBlock *warpgroup = add("partition"), *end = add("partition.end"),
                   *others = add("others");
  ArrayRef<int32_t> counts = op.getRegisters();
  llvm::Value *index = b.CreateSub(thread, b.getInt32(first));
  b.CreateCondBr(b.CreateICmpULT(index, b.getInt32(op.getWarps() * target.warpSize)), warpgroup,
                 others);
  b.SetInsertPoint(warpgroup);
  if (!counts.empty())
    setRegisters(counts[0]);
  if (op.getComputes()) {
    if (failed(emitComputing(op, index)))
      return failure();
    b.CreateBr(end);
  } else {
    auto *one = add("partition.thread");
    b.CreateCondBr(b.CreateIsNull(index), one, end);
    b.SetInsertPoint(one);
    forOneThread = true;
    if (failed(emitBlock(op.getBody().front())))
      return failure();
    forOneThread = false;
    b.CreateBr(end);
  }
  b.SetInsertPoint(end);
  b.CreateRetVoid();
  b.SetInsertPoint(others);
  if (isa<cta::PartitionOp>(op->getNextNode()))
    return success();
  if (!counts.empty())
    setRegisters(counts[1]);
  ownBarrier = mainBarrier;
  return success();
}

/// All warps of a partition, as a block of their own. What is known of a thread's place is that of
/// other threads there.
LogicalResult KernelEmitter::emitComputing(cta::PartitionOp op, llvm::Value *index) {
  auto *body = llvm::BasicBlock::Create(b.getContext(), "partition.body", kernel);
  llvm::Value *const outerThread = std::exchange(thread, index);
  llvm::Value *const outerLane = std::exchange(lane, nullptr);
  const auto outerEntry = entry.saveIP();
  auto outerParts = std::move(threadParts);
  auto outerCombined = std::move(combined);
  threadParts.clear();
  combined.clear();
  const unsigned outerWarps = std::exchange(warps, op.getWarps());
  const unsigned outerBarrier = std::exchange(ownBarrier, barrierOf(op));
  entry.SetInsertPoint(b.CreateBr(body));
  b.SetInsertPoint(body);
  LogicalResult result = emitBlock(op.getBody().front());
  thread = outerThread;
  lane = outerLane;
  entry.restoreIP(outerEntry);
  threadParts = std::move(outerParts);
  combined = std::move(outerCombined);
  warps = outerWarps;
  ownBarrier = outerBarrier;
  return result;
}

void KernelEmitter::setRegisters(unsigned count) {
  const unsigned launched = launchedRegistersOf(launchedWarpsOf(source), target);
  if (count != launched)
    hooks.setRegisters(b, count, /*isMore=*/count > launched);
}

unsigned KernelEmitter::firstNamedBarrier() const { return sectile::firstNamedBarrier(source); }

LogicalResult KernelEmitter::emitNamedBarrier(tile::NamedBarrierOp op) {
  if (ownBarrier == 0 || forOneThread)
    return op.emitError("is no barrier of computing partitions");
  const unsigned number = firstNamedBarrier() + op.getNumber();
  const unsigned threads = op.getWarps() * target.warpSize;
  if (op.getArrives())
    hooks.barrierArrive(b, threads, b.getInt32(number));
  else
    hooks.barrier(b, threads, b.getInt32(number));
  return success();
}

//===-- Launches that overlap -----------------------------------------------------------------===//

WaitPoint waitPointOf(func::FuncOp kernel, const Target &target) {
  if (!target.dependentLaunch)
    return WaitPoint::None;
  const bool waits = kernel.walk([](tile::WaitDependenciesOp) { return WalkResult::interrupt(); })
                         .wasInterrupted();
  return waits ? WaitPoint::ByHand : WaitPoint::Start;
}

/// A kernel that does not say where it waits does so before anything else: then it may overlap the
/// launch ahead of it, whatever that writes.
void KernelEmitter::beginOverlap() {
  source.walk([&](Operation *op) {
    waitsAlways |= isa<tile::WaitDependenciesOp>(op) && op->getParentOp() == source;
    saysWhenToLaunch |= isa<tile::LaunchDependentsOp>(op);
    isShort &= !isa<scf::ForOp, scf::WhileOp, cta::DotOp, cta::DotStartOp, cta::DotBeginOp>(op);
  });
  const bool waitsFirst = waitPointOf(source, target) == WaitPoint::Start;
  if (waitsAlways || waitsFirst)
    letStartBefore = endOfWork(waitsFirst);
  if (!waitsFirst)
    return;
  locate(source.getLoc());
  waitDependencies();
  waitsAlways = true;
}

/// Where most of a kernel's work is done: its first write to global memory behind its loops, or
/// what is behind them. Null where it has not waited by then.
Operation *KernelEmitter::endOfWork(bool waitsFirst) {
  Block &body = source.getBody().front();
  Operation *begin = &body.front(), *waited = nullptr;
  for (Operation &op : body) {
    if (isa<scf::ForOp, scf::WhileOp>(op))
      begin = op.getNextNode();
    if (isa<tile::WaitDependenciesOp>(op))
      waited = &op;
  }
  Operation *end = begin;
  while (end && !writesGlobalMemory(end))
    end = end->getNextNode();
  if (!end && begin != &body.front())
    end = begin;
  const bool hasWaited = end && (waitsFirst || (waited && waited->isBeforeInBlock(end)));
  return hasWaited ? end : nullptr;
}

/// The launch behind this one starts when all before this one is done, so that it has this one
/// alone to wait for. Its blocks wait beside this launch's and slow them down, so it starts late.
void KernelEmitter::waitDependencies() {
  hooks.waitDependencies(b);
  if (!saysWhenToLaunch && !letStartBefore)
    hooks.launchDependents(b, !isShort);
}

/// Who sees that this launch is done sees what the one ahead of it wrote: one that waits in some
/// cases only waits here in the others.
void KernelEmitter::emitReturn() {
  if (!waitsAlways)
    hooks.waitDependencies(b);
  b.CreateRetVoid();
}

//===-- Values --------------------------------------------------------------------------------===//

Registers &KernelEmitter::registers(Value value) {
  auto found = values.find(value);
  assert(found != values.end() && "a value used before it is emitted");
  return found->second;
}

void KernelEmitter::define(Value value, Registers registers) {
  values[value] = std::move(registers);
}

llvm::Type *KernelEmitter::typeOf(Type element) {
  llvm::LLVMContext &context = b.getContext();
  return llvm::TypeSwitch<Type, llvm::Type *>(element)
      .Case([&](IntegerType type) { return b.getIntNTy(type.getWidth()); })
      .Case([&](IndexType) { return b.getInt64Ty(); })
      .Case([&](Float16Type) { return llvm::Type::getHalfTy(context); })
      .Case([&](BFloat16Type) { return llvm::Type::getBFloatTy(context); })
      .Case([&](Float32Type) { return llvm::Type::getFloatTy(context); })
      .Case([&](Float64Type) { return llvm::Type::getDoubleTy(context); })
      .Case<FloatType>([&](Type type) { return isFp8(type) ? b.getInt8Ty() : nullptr; })
      .Case([&](tile::PtrType) { return llvm::PointerType::get(context, 1); })
      .Default([](Type) { return nullptr; });
}

llvm::Type *KernelEmitter::memoryTypeOf(Type element) {
  if (element.isInteger(1))
    return b.getInt8Ty();
  if (isa<tile::PtrType>(element))
    return b.getInt64Ty();
  return typeOf(element);
}

llvm::Value *KernelEmitter::toMemory(llvm::Value *value) {
  if (value->getType()->isIntegerTy(1))
    return b.CreateZExt(value, b.getInt8Ty());
  if (value->getType()->isPointerTy())
    return b.CreatePtrToInt(value, b.getInt64Ty());
  return value;
}

llvm::Value *KernelEmitter::fromMemory(llvm::Value *value, llvm::Type *type) {
  if (type->isIntegerTy(1))
    return b.CreateIsNotNull(value);
  if (type->isPointerTy())
    return b.CreateIntToPtr(value, type);
  return value;
}

//===-- Places --------------------------------------------------------------------------------===//

llvm::Value *KernelEmitter::laneIndex() {
  if (!lane)
    lane = entry.CreateAnd(thread, target.warpSize - 1);
  return lane;
}

ThreadPart linearMap(llvm::IRBuilder<> &b, llvm::Value *value, uint32_t mask,
                     ArrayRef<uint32_t> images) {
  // Bits that move by the same distance move together.
  std::map<int, uint32_t> byDistance;
  uint32_t once = 0, twice = 0;
  for (auto [from, image] : llvm::enumerate(images))
    for (uint32_t rest = image; rest; rest &= rest - 1) {
      byDistance[int(llvm::countr_zero(rest)) - int(from)] |= 1u << from;
      twice |= once & rest & -rest;
      once |= rest & -rest;
    }
  ThreadPart part;
  part.bits = once;
  for (auto [distance, moved] : byDistance) {
    llvm::Value *bits = moved == mask ? value : b.CreateAnd(value, moved);
    bits = distance > 0   ? b.CreateShl(bits, distance, "", /*HasNUW=*/true, /*HasNSW=*/true)
           : distance < 0 ? b.CreateLShr(bits, -distance)
                          : bits;
    part.value = !part.value ? bits
                 : twice     ? b.CreateXor(part.value, bits)
                             : b.CreateOr(part.value, bits, "", /*IsDisjoint=*/true);
  }
  return part;
}

ThreadPart KernelEmitter::threadPart(ArrayRef<uint32_t> laneImages, ArrayRef<uint32_t> warpImages) {
  std::vector<uint32_t> images(laneImages);
  images.resize(llvm::Log2_32(target.warpSize), 0);
  llvm::append_range(images, warpImages);
  auto [known, isNew] = threadParts.try_emplace(images);
  if (isNew)
    known->second = linearMap(entry, thread, numThreads() - 1, images);
  return known->second;
}

llvm::Value *KernelEmitter::warpPart(ArrayRef<uint32_t> warpImages) {
  llvm::Value *part = threadPart({}, warpImages).value;
  if (!part)
    return nullptr;
  llvm::Value *&value = combined[{part, 0}];
  if (!value)
    value = hooks.shuffle(entry, part, entry.getInt32(0));
  return value;
}

std::pair<llvm::Value *, uint32_t> KernelEmitter::combine(const ThreadPart &part,
                                                          uint32_t constant) {
  uint32_t shared = constant & part.bits;
  if (!shared)
    return {part.value, constant};
  llvm::Value *&value = combined[{part.value, shared}];
  if (!value)
    value = entry.CreateXor(part.value, shared);
  return {value, constant & ~part.bits};
}

ArrayRef<unsigned> KernelEmitter::firstCopies(const Layout &layout) {
  ArrayRef<uint32_t> images = layout.packed(In::Register);
  if (!layout.freeBits(In::Register))
    return {};
  std::vector<uint32_t> key(images);
  key.push_back(layout.numRepeats());
  auto [known, isNew] = copies.try_emplace(key);
  if (isNew) {
    llvm::DenseMap<uint32_t, unsigned> first;
    SmallVector<unsigned> core;
    for (unsigned reg = 0; reg < layout.coreRegisters(); ++reg)
      core.push_back(first.try_emplace(layout.applyPacked(Place::of(reg)), reg).first->second);
    for (unsigned reg = 0; reg < layout.numRegisters(); ++reg)
      known->second.push_back(reg - reg % layout.coreRegisters() +
                              core[reg % layout.coreRegisters()]);
  }
  return known->second;
}

llvm::Value *KernelEmitter::isWriter(const Layout &layout) {
  uint32_t lanes = layout.freeBits(In::Lane);
  uint32_t warpBits = layout.freeBits(In::Warp);
  uint32_t mask = lanes | warpBits * target.warpSize;
  if (!mask)
    return nullptr;
  llvm::Value *&known = combined[{nullptr, mask}];
  if (!known)
    known = entry.CreateIsNull(entry.CreateAnd(thread, mask));
  return known;
}

llvm::Value *KernelEmitter::isWriter(Type type) {
  if (const Layout *layout = cta::layoutOf(type))
    return isWriter(*layout);
  llvm::Value *&known = combined[{nullptr, ~0u}];
  if (!known)
    known = entry.CreateIsNull(thread);
  return known;
}

void KernelEmitter::under(llvm::Value *condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto *inside = llvm::BasicBlock::Create(b.getContext(), "inside", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "after", kernel);
  b.CreateCondBr(condition, inside, after);
  b.SetInsertPoint(inside);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

llvm::Value *KernelEmitter::sharedAddress(uint32_t offset) {
  llvm::GlobalVariable *array = module.getGlobalVariable("sectile_shared");
  if (!array) {
    auto *type = llvm::ArrayType::get(b.getInt8Ty(), 0);
    array = new llvm::GlobalVariable(
        module, type, /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage, nullptr,
        "sectile_shared", nullptr, llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
    array->setAlignment(llvm::Align(1024));
  }
  return offset ? b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), array, offset) : array;
}

/// A value of any size moved in pieces of 32 bits by `move`.
static llvm::Value *moveWords(llvm::IRBuilder<> &b, llvm::Value *value,
                              function_ref<llvm::Value *(llvm::Value *)> move) {
  llvm::Type *type = value->getType();
  if (type->isIntegerTy(32))
    return move(value);
  unsigned bits = type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits();
  llvm::Type *whole = b.getIntNTy(bits);
  llvm::Value *asInteger =
      type->isPointerTy() ? b.CreatePtrToInt(value, whole) : b.CreateBitCast(value, whole);
  llvm::Value *result = nullptr;
  if (bits <= 32) {
    result = b.CreateTrunc(move(b.CreateZExt(asInteger, b.getInt32Ty())), whole);
  } else {
    auto *pieces = llvm::FixedVectorType::get(b.getInt32Ty(), bits / 32);
    llvm::Value *from = b.CreateBitCast(asInteger, pieces);
    llvm::Value *to = llvm::PoisonValue::get(pieces);
    for (unsigned i = 0; i < bits / 32; ++i)
      to = b.CreateInsertElement(to, move(b.CreateExtractElement(from, i)), i);
    result = b.CreateBitCast(to, whole);
  }
  return type->isPointerTy() ? b.CreateIntToPtr(result, type) : b.CreateBitCast(result, type);
}

llvm::Value *KernelEmitter::shuffleXor(llvm::Value *value, unsigned mask) {
  return moveWords(b, value, [&](llvm::Value *word) { return hooks.shuffleXor(b, word, mask); });
}

llvm::Value *KernelEmitter::shuffle(llvm::Value *value, llvm::Value *from) {
  return moveWords(b, value, [&](llvm::Value *word) { return hooks.shuffle(b, word, from); });
}

//===-- Operations ----------------------------------------------------------------------------===//

void KernelEmitter::locate(Location location) { b.SetCurrentDebugLocation(debug.at(location)); }

LogicalResult KernelEmitter::emitBlock(Block &block) {
  // What is emitted for a nested block is not known behind it.
  const functions::ReducedAngles outer = angles;
  for (Operation &op : block) {
    locate(op.getLoc());
    if (&op == letStartBefore && !saysWhenToLaunch)
      hooks.launchDependents(b, !isShort);
    if (failed(emit(op)))
      return failure();
  }
  angles = outer;
  return success();
}

LogicalResult KernelEmitter::emit(Operation &op) {
  bool ok = true, known = true;
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](func::ReturnOp) { emitReturn(); })
      .Case([&](scf::ForOp loop) { emitFor(loop, ok); })
      .Case([&](scf::IfOp branch) { emitIf(branch, ok); })
      .Case([&](scf::WhileOp loop) { emitWhile(loop, ok); })
      .Case<scf::YieldOp, scf::ConditionOp, tile::YieldOp>([](Operation *) {})
      .Default([&](Operation *) { known = false; });
  if (known)
    return success(ok);
  StringRef dialect = op.getName().getDialectNamespace();
  known = true;
  if (dialect == "tile" || dialect == "cta") {
    LogicalResult result = dialect == "tile" ? emitTileOp(op, known) : emitCtaOp(op, known);
    if (known)
      return result;
    return op.emitError("code generation knows no operation '")
           << op.getName() << "' at this stage";
  }
  return emitElementwise(op);
}

LogicalResult KernelEmitter::emitTileOp(Operation &op, bool &known) {
  LogicalResult result = success();
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](tile::ProgramIdOp id) { define(id, {hooks.programId(b, id.getAxis())}); })
      .Case([&](tile::NumProgramsOp n) { define(n, {hooks.numPrograms(b, n.getAxis())}); })
      .Case([&](tile::ArangeOp arange) { emitArange(arange); })
      .Case([&](tile::SplatOp splat) {
        const Layout *layout = cta::layoutOf(splat.getType());
        define(splat, Registers(layout->numRegisters(), scalar(splat.getSource())));
      })
      .Case([&](tile::ExpandDimsOp expand) {
        Layout natural = cta::layoutOf(expand.getSource().getType())->expandDim(expand.getAxis());
        result = rename(expand, natural, registers(expand.getSource()), expand);
      })
      .Case([&](tile::ReshapeOp reshape) { result = emitReshape(reshape); })
      .Case([&](tile::BroadcastOp broadcast) { result = emitBroadcast(broadcast); })
      .Case([&](tile::PermuteOp permute) { result = emitPermute(permute); })
      .Case([&](tile::JoinOp join) { result = emitJoin(join); })
      .Case([&](tile::SplitOp split) { result = emitSplit(split); })
      .Case([&](tile::GatherOp gather) { result = emitGather(*this, gather); })
      .Case([&](tile::AddPtrOp add) {
        llvm::Type *element =
            memoryTypeOf(cast<tile::PtrType>(tile::elementType(add.getType())).getElement());
        Registers sums;
        ArrayRef<unsigned> first;
        if (const Layout *layout = cta::layoutOf(add.getType()))
          first = firstCopies(*layout);
        Registers &pointers = registers(add.getPtr()), &offsets = registers(add.getOffset());
        for (auto [i, pointer] : llvm::enumerate(pointers))
          sums.push_back(!first.empty() && first[i] < i
                             ? sums[first[i]]
                             : b.CreateGEP(element, pointer, offsets[i]));
        define(add, std::move(sums));
      })
      .Case([&](tile::ReduceOp reduce) { result = emitReduce(*this, reduce); })
      .Case([&](tile::ScanOp scan) { result = emitScan(*this, scan); })
      .Case([&](tile::HistogramOp histogram) { result = emitHistogram(*this, histogram); })
      .Case([&](tile::MapOp map) { result = emitMap(map); })
      .Case([&](tile::InlineAsmOp assembly) { result = emitInlineAsm(assembly); })
      .Case([&](tile::ExternCallOp call) { emitExternCall(call); })
      .Case<tile::FpCastOp, tile::PtrToIntOp, tile::IntToPtrOp, tile::MinimumNumberOp,
            tile::MaximumNumberOp>([&](auto) { result = emitElementwise(op); })
      .Case([&](tile::LoadOp load) { result = emitLoad(load); })
      .Case([&](tile::StoreOp store) { emitStore(store); })
      .Case([&](tile::AssumeOp assume) { b.CreateAssumption(scalar(assume.getCondition())); })
      .Case([&](tile::HintOp hint) { define(hint, registers(hint.getSource())); })
      .Case([&](tile::AtomicRMWOp atomic) { result = emitAtomic(*this, atomic); })
      .Case([&](tile::AtomicCasOp atomic) { result = emitAtomic(*this, atomic); })
      .Case([&](tile::BarrierOp) { memoryBarrier(); })
      .Case([&](tile::NamedBarrierOp barrier) { result = emitNamedBarrier(barrier); })
      .Case([&](tile::WaitDependenciesOp) { waitDependencies(); })
      .Case([&](tile::LaunchDependentsOp) { hooks.launchDependents(b, true); })
      .Default([&](Operation *) { known = false; });
  return result;
}

LogicalResult KernelEmitter::emitCtaOp(Operation &op, bool &known) {
  LogicalResult result = success();
  llvm::TypeSwitch<Operation *>(&op)
      .Case([&](cta::BarrierOp) { barrier(); })
      .Case([&](cta::TurnWaitOp wait) { emitTurn(*this, wait.getOutside(), /*waits=*/true); })
      .Case([&](cta::TurnPassOp pass) { emitTurn(*this, pass.getOutside(), /*waits=*/false); })
      .Case([&](cta::ProxyFenceOp fence) {
        if (fence->hasAttr(globalFenceAttr))
          hooks.globalProxyFence(b);
        else
          hooks.proxyFence(b);
      })
      .Case([&](cta::AddressOp address) {
        Registers numbers;
        for (llvm::Value *pointer : registers(address.getSource()))
          numbers.push_back(b.CreatePtrToInt(pointer, b.getInt64Ty()));
        define(address, std::move(numbers));
      })
      .Case([&](cta::AssertOp check) { emitAssert(*this, check); })
      .Case([&](cta::RecordOp record) { result = emitRecord(*this, record); })
      .Case([&](cta::ConvertLayoutOp convert) { result = emitConvertLayout(*this, convert); })
      .Case([&](cta::AlongKOp same) { define(same, registers(same.getSource())); })
      .Case([&](cta::OfBlockOp same) { define(same, registers(same.getSource())); })
      .Case([&](cta::ExtractSliceOp slice) { emitExtractSlice(slice); })
      .Case([&](cta::DotOp dot) { result = emitDot(*this, dot); })
      .Case([&](cta::DotBeginOp begin) {
        Registers sums = registers(begin.getSums());
        hooks.warpgroupSums(b, sums);
        define(begin, std::move(sums));
      })
      .Case([&](cta::DotStartOp start) { result = emitDotStart(*this, start); })
      .Case([&](cta::DotsWaitOp wait) { hooks.warpgroupWait(b, wait.getPending(), {}); })
      .Case([&](cta::DotWaitOp wait) {
        Registers known = registers(wait.getDot());
        const size_t count = known.size();
        llvm::Type *word = known.front()->getType(), *type = nullptr;
        unsigned perWord = 1;
        if (wait.getBefore()) {
          const Registers before = registers(wait.getBefore());
          type = before.front()->getType();
          perWord = word->getPrimitiveSizeInBits() / type->getPrimitiveSizeInBits();
          for (size_t first = 0; first < before.size(); first += perWord)
            known.push_back(packWords(b, ArrayRef(before).slice(first, perWord), word));
        }
        hooks.warpgroupWait(b, wait.getPending(), known);
        if (wait.getAfter()) {
          Registers after;
          for (llvm::Value *value : ArrayRef<llvm::Value *>(known).drop_front(count))
            unpackWords(b, value, type, perWord, after);
          define(wait.getAfter(), std::move(after));
        }
        known.resize(count);
        define(wait.getSums(), std::move(known));
      })
      .Case([&](cta::AllocOp alloc) { result = emitAlloc(*this, alloc); })
      .Case([&](cta::ChannelOp channel) { result = emitChannel(*this, channel); })
      .Case([&](cta::SlotOp slot) { emitSlot(*this, slot); })
      .Case<cta::RingAdvanceOp, cta::RingSlotOp, cta::RingParityOp>(
          [&](auto ring) { emitRing(*this, ring); })
      .Case([&](cta::PermuteBufferOp permute) { define(permute, {scalar(permute.getSource())}); })
      .Case([&](cta::LocalLoadOp load) { emitLocalLoad(*this, load); })
      .Case([&](cta::LocalStoreOp store) { emitLocalStore(*this, store); })
      .Case([&](cta::BufferLoadOp load) { result = emitLoad(load); })
      .Case([&](cta::BufferStoreOp store) { emitStore(store); })
      .Case([&](cta::AsyncCopyOp copy) { result = emitAsyncCopy(*this, copy); })
      .Case([&](cta::MbarriersOp barriers) { result = emitMbarriers(*this, barriers); })
      .Case([&](cta::MbarrierWaitOp wait) { emitMbarrierWait(*this, wait); })
      .Case([&](cta::MbarrierArriveOp arrive) { emitMbarrierArrive(*this, arrive); })
      .Case([&](cta::MbarrierSignalOp signal) { emitMbarrierSignal(*this, signal); })
      .Case([&](cta::PartitionOp partition) { result = emitPartition(partition); })
      .Case([&](cta::ClusterBarrierOp) { emitClusterBarrier(*this); })
      .Case([&](cta::ClusterAcquireOp acquire) { emitClusterAcquire(*this, acquire); })
      .Case([&](cta::TensorCopyOp copy) { emitTensorCopy(*this, copy); })
      .Case([&](cta::TensorStoreOp store) { emitTensorStore(*this, store); })
      .Case([&](cta::TensorStoreWaitOp wait) {
        hooks.tensorStoresWait(b, wait.getLater(), wait.getWritten());
      })
      // A target without asynchronous copies has none in flight.
      .Case([&](cta::AsyncCommitOp) {
        if (target.asyncCopy)
          hooks.asyncCommit(b);
      })
      .Case([&](cta::AsyncWaitOp wait) {
        if (target.asyncCopy)
          hooks.asyncWait(b, wait.getPending());
      })
      .Default([&](Operation *) { known = false; });
  return result;
}

//===-- Control flow --------------------------------------------------------------------------===//

/// Phis for values that come from `block`; the caller adds what comes from elsewhere.
static Registers makePhis(llvm::IRBuilder<> &b, const Registers &incoming,
                          llvm::BasicBlock *block) {
  Registers phis;
  for (llvm::Value *value : incoming) {
    llvm::PHINode *phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, block);
    phis.push_back(phi);
  }
  return phis;
}

static void addIncoming(const Registers &phis, const Registers &incoming, llvm::BasicBlock *block) {
  for (auto [phi, value] : llvm::zip_equal(phis, incoming))
    cast<llvm::PHINode>(phi)->addIncoming(value, block);
}

void keepRolled(llvm::Instruction *back) {
  llvm::LLVMContext &context = back->getContext();
  auto *keep = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  auto *loop = llvm::MDNode::getDistinct(context, {nullptr, keep});
  loop->replaceOperandWith(0, loop);
  back->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

/// A loop that carries dots in flight. They are waited for on the way out of the loop, where no
/// iteration ended otherwise: when the wait comes where the way around the loop meets it, ptxas may
/// take what reads the sums behind it for a reader of sums in flight, and runs all dots one after
/// another.
void KernelEmitter::emitForInFlight(scf::ForOp op, bool &ok) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *body = llvm::BasicBlock::Create(b.getContext(), "loop.body", kernel);
  auto *exit = llvm::BasicBlock::Create(b.getContext(), "loop.exit", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "loop.end", kernel);
  llvm::Value *lower = scalar(op.getLowerBound()), *upper = scalar(op.getUpperBound());
  llvm::Value *step = scalar(op.getStep());
  auto isInside = [&](llvm::Value *at) {
    return op.getUnsignedCmp() ? b.CreateICmpULT(at, upper) : b.CreateICmpSLT(at, upper);
  };
  b.CreateCondBr(isInside(lower), body, after);
  b.SetInsertPoint(body);
  llvm::PHINode *induction = b.CreatePHI(lower->getType(), 2);
  induction->addIncoming(lower, before);
  define(op.getInductionVar(), {induction});
  SmallVector<Registers> phis;
  for (auto [initial, argument] : llvm::zip_equal(op.getInitArgs(), op.getRegionIterArgs())) {
    phis.push_back(makePhis(b, registers(initial), before));
    define(argument, phis.back());
  }
  ok = succeeded(emitBlock(*op.getBody()));
  if (!ok)
    return;
  locate(op.getLoc());
  llvm::Value *next = b.CreateAdd(induction, step, "", op.getUnsignedCmp(), !op.getUnsignedCmp());
  llvm::BasicBlock *last = b.GetInsertBlock();
  induction->addIncoming(next, last);
  for (auto [i, yielded] : llvm::enumerate(op.getYieldedValues()))
    addIncoming(phis[i], registers(yielded), last);
  llvm::Instruction *back = b.CreateCondBr(isInside(next), body, exit);
  if (op->hasAttr(hints::unroll))
    keepRolled(back);
  b.SetInsertPoint(exit);
  hooks.warpgroupWait(b, /*pending=*/0, {});
  b.CreateBr(after);
  b.SetInsertPoint(after);
  for (auto [initial, yielded, result] :
       llvm::zip_equal(op.getInitArgs(), op.getYieldedValues(), op.getResults())) {
    Registers merged = makePhis(b, registers(initial), before);
    addIncoming(merged, registers(yielded), exit);
    define(result, std::move(merged));
  }
}

void KernelEmitter::emitFor(scf::ForOp op, bool &ok) {
  if (llvm::any_of(op.getResultTypes(), llvm::IsaPred<cta::InFlightType>))
    return emitForInFlight(op, ok);
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *header = llvm::BasicBlock::Create(b.getContext(), "loop", kernel);
  auto *body = llvm::BasicBlock::Create(b.getContext(), "loop.body", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "loop.end", kernel);
  llvm::Value *lower = scalar(op.getLowerBound()), *upper = scalar(op.getUpperBound());
  llvm::Value *step = scalar(op.getStep());
  b.CreateBr(header);
  b.SetInsertPoint(header);
  llvm::PHINode *induction = b.CreatePHI(lower->getType(), 2);
  induction->addIncoming(lower, before);
  define(op.getInductionVar(), {induction});
  SmallVector<Registers> phis;
  for (auto [initial, argument, result] :
       llvm::zip_equal(op.getInitArgs(), op.getRegionIterArgs(), op.getResults())) {
    phis.push_back(makePhis(b, registers(initial), before));
    define(argument, phis.back());
    define(result, phis.back());
  }
  llvm::Value *more =
      op.getUnsignedCmp() ? b.CreateICmpULT(induction, upper) : b.CreateICmpSLT(induction, upper);
  b.CreateCondBr(more, body, after);
  b.SetInsertPoint(body);
  ok = succeeded(emitBlock(*op.getBody()));
  if (!ok)
    return;
  locate(op.getLoc());
  // A loop whose last step passes the end of its type has no sense either way.
  llvm::Value *next = b.CreateAdd(induction, step, "", op.getUnsignedCmp(), !op.getUnsignedCmp());
  induction->addIncoming(next, b.GetInsertBlock());
  for (auto [i, yielded] : llvm::enumerate(op.getYieldedValues()))
    addIncoming(phis[i], registers(yielded), b.GetInsertBlock());
  llvm::Instruction *back = b.CreateBr(header);
  // The kernel has said how often: no more than that.
  if (op->hasAttr(hints::unroll))
    keepRolled(back);
  b.SetInsertPoint(after);
}

void KernelEmitter::emitIf(scf::IfOp op, bool &ok) {
  auto *thenBlock = llvm::BasicBlock::Create(b.getContext(), "then", kernel);
  auto *elseBlock = llvm::BasicBlock::Create(b.getContext(), "else", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "end", kernel);
  b.CreateCondBr(scalar(op.getCondition()), thenBlock, elseBlock);
  b.SetInsertPoint(thenBlock);
  ok = succeeded(emitBlock(*op.thenBlock()));
  if (!ok)
    return;
  thenBlock = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(elseBlock);
  if (op.elseBlock())
    ok = succeeded(emitBlock(*op.elseBlock()));
  if (!ok)
    return;
  elseBlock = b.GetInsertBlock();
  b.CreateBr(after);
  b.SetInsertPoint(after);
  locate(op.getLoc());
  for (OpResult result : op.getResults()) {
    unsigned i = result.getResultNumber();
    Registers phis = makePhis(b, registers(op.thenYield().getOperand(i)), thenBlock);
    addIncoming(phis, registers(op.elseYield().getOperand(i)), elseBlock);
    define(result, std::move(phis));
  }
}

void KernelEmitter::emitWhile(scf::WhileOp op, bool &ok) {
  llvm::BasicBlock *before = b.GetInsertBlock();
  auto *header = llvm::BasicBlock::Create(b.getContext(), "while", kernel);
  auto *body = llvm::BasicBlock::Create(b.getContext(), "while.body", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "while.end", kernel);
  b.CreateBr(header);
  b.SetInsertPoint(header);
  SmallVector<Registers> phis;
  for (auto [initial, argument] : llvm::zip_equal(op.getInits(), op.getBeforeArguments())) {
    phis.push_back(makePhis(b, registers(initial), before));
    define(argument, phis.back());
  }
  ok = succeeded(emitBlock(*op.getBeforeBody()));
  if (!ok)
    return;
  scf::ConditionOp condition = op.getConditionOp();
  for (auto [value, argument, result] :
       llvm::zip_equal(condition.getArgs(), op.getAfterArguments(), op.getResults())) {
    define(argument, registers(value));
    define(result, registers(value));
  }
  b.CreateCondBr(scalar(condition.getCondition()), body, after);
  b.SetInsertPoint(body);
  ok = succeeded(emitBlock(*op.getAfterBody()));
  if (!ok)
    return;
  locate(op.getLoc());
  for (auto [i, yielded] : llvm::enumerate(op.getYieldOp().getOperands()))
    addIncoming(phis[i], registers(yielded), b.GetInsertBlock());
  b.CreateBr(header);
  b.SetInsertPoint(after);
}

} // namespace sectile
