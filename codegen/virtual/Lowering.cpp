// Memory accesses, address spaces and calls of a kernel, rewritten for the machine.
#include "codegen/virtual/Lowering.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/CycleInfo.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include <algorithm>

using namespace llvm;

namespace sectile::vgpu {
namespace {

// The address spaces of both targets.
constexpr unsigned genericSpace = 0, globalSpace = 1, sharedSpace = 3, constantSpace = 4,
                   privateSpace = 5, clusterSpace = 7;

// Shared memory of the block, which is part of its cluster's.
bool isShared(unsigned space) { return space == sharedSpace || space == clusterSpace; }

SiteKind accessKind(unsigned space, uint32_t flags) {
  SiteKind load = isShared(space)        ? SiteKind::SharedLoad
                  : space == globalSpace ? SiteKind::GlobalLoad
                                         : SiteKind::GenericLoad;
  unsigned offset = flags & accessAtomic ? 2 : flags & accessStore ? 1 : 0;
  return SiteKind(unsigned(load) + offset);
}

AtomicOrdering orderingOf(const Instruction &instruction) {
  if (const auto *load = dyn_cast<LoadInst>(&instruction))
    return load->getOrdering();
  if (const auto *store = dyn_cast<StoreInst>(&instruction))
    return store->getOrdering();
  if (const auto *update = dyn_cast<AtomicRMWInst>(&instruction))
    return update->getOrdering();
  if (const auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
    return exchange->getMergedOrdering();
  if (const auto *fence = dyn_cast<FenceInst>(&instruction))
    return fence->getOrdering();
  return AtomicOrdering::NotAtomic;
}

// A call that only the machine has a use for.
bool isForMachine(const Instruction &instruction) {
  const auto *call = dyn_cast<CallInst>(&instruction);
  const Function *callee = call ? call->getCalledFunction() : nullptr;
  return callee && callee->getName().starts_with(pseudo::divisor);
}

// Whether it makes accesses before or after it wait for an atomic one.
bool isFence(const Instruction &instruction) {
  if (const auto *call = dyn_cast<CallInst>(&instruction)) {
    const Function *callee = call->getCalledFunction();
    return callee && callee->getName().starts_with("llvm.nvvm.membar.");
  }
  return !instruction.hasMetadata(machineMark) && isStrongerThanMonotonic(orderingOf(instruction));
}

bool isPrivate(const Value *pointer) {
  if (pointer->getType()->getPointerAddressSpace() == privateSpace)
    return true;
  return isa<AllocaInst>(getUnderlyingObject(pointer));
}

} // namespace

Lowering::Lowering(Function &kernel, Value *thread, VirtualObject &object)
    : builder(kernel.getContext()), kernel(kernel), thread(thread), object(object),
      layout(kernel.getParent()->getDataLayout()) {
  BasicBlock &entry = kernel.getEntryBlock();
  builder.SetInsertPoint(&entry, entry.begin());
  registers = builder.CreateAlloca(builder.getInt32Ty(), nullptr, "registers");
  registers->setAlignment(Align(16));
}

Value *Lowering::threadField(uint32_t offset, Type *type) {
  Value *address = builder.CreateConstInBoundsGEP1_32(builder.getInt8Ty(), thread, offset);
  return builder.CreateLoad(type, address);
}

CallInst *Lowering::machineCall(StringRef name, Type *result, ArrayRef<Value *> arguments) {
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  FunctionCallee callee = kernel.getParent()->getOrInsertFunction(
      ("sectile_vg_" + name).str(), FunctionType::get(result, types, /*isVarArg=*/false));
  CallInst *call = builder.CreateCall(callee, arguments);
  call->setDoesNotThrow();
  return call;
}

Value *Lowering::siteOf(const Instruction &instruction, SiteKind kind, StringRef name) {
  Site site;
  site.kind = kind;
  site.name = name.str();
  if (const DebugLoc &location = instruction.getDebugLoc()) {
    site.line = location.getLine();
    site.column = location.getCol();
    if (const auto *scope = dyn_cast_or_null<DIScope>(location.getScope()))
      site.file = scope->getFilename().str();
  }
  object.sites.push_back(std::move(site));
  return builder.getInt32(uint32_t(object.sites.size() - 1));
}

Value *Lowering::sharedAddress(Value *pointer) {
  Value *address = builder.CreatePtrToInt(pointer, builder.getInt64Ty());
  if (!isShared(pointer->getType()->getPointerAddressSpace())) {
    Value *origin = threadField(offsetof(ThreadHeader, shared), builder.getInt64Ty());
    address = builder.CreateSub(address, origin);
  }
  return builder.CreateTrunc(address, builder.getInt32Ty());
}

// A pointer of any address space as a pointer the host can follow.
Value *Lowering::hostAddress(Value *pointer) {
  if (!isShared(pointer->getType()->getPointerAddressSpace()))
    return builder.CreateAddrSpaceCast(pointer, builder.getPtrTy());
  Value *origin = threadField(offsetof(ThreadHeader, shared), builder.getPtrTy());
  Value *offset = builder.CreateZExt(sharedAddress(pointer), builder.getInt64Ty());
  return builder.CreateGEP(builder.getInt8Ty(), origin, offset);
}

void Lowering::lowerAccess(Instruction &instruction, unsigned pointerOperand, Type *type,
                           Align align, uint32_t flags, StringRef name) {
  Value *pointer = instruction.getOperand(pointerOperand);
  unsigned space = pointer->getType()->getPointerAddressSpace();
  if (space == constantSpace || isPrivate(pointer) || instruction.hasMetadata(machineMark))
    return;
  builder.SetInsertPoint(&instruction);
  const AtomicOrdering ordering = orderingOf(instruction);
  if (isReleaseOrStronger(ordering))
    fence(fenceReleases);
  if (instruction.isVolatile() || (instruction.isAtomic() && !(flags & accessAtomic)))
    flags |= accessVolatile;
  if (hasFences && flags & (accessVolatile | accessAtomic))
    flags |= accessFenced;
  if (space == clusterSpace)
    flags |= accessCluster;
  uint64_t bytes = layout.getTypeStoreSize(type).getFixedValue();
  Value *site = siteOf(instruction, accessKind(space, flags), name);
  Value *base = isShared(space) ? sharedAddress(pointer)
                                : builder.CreatePtrToInt(pointer, builder.getInt64Ty());
  Value *host = nullptr;
  // The hardware splits what is wider than 16 bytes, or than the alignment the access states.
  for (uint64_t done = 0; done < bytes;) {
    uint64_t width = std::min<uint64_t>({16, align.value(), PowerOf2Ceil(bytes - done)});
    while (width > bytes - done)
      width /= 2;
    Value *address = done ? builder.CreateAdd(base, ConstantInt::get(base->getType(), done)) : base;
    Value *access = builder.getInt32(uint32_t(width) | flags);
    if (isShared(space)) {
      Value *part =
          machineCall("access_shared", builder.getPtrTy(), {thread, address, access, site});
      host = host ? host : part;
    } else {
      machineCall(space == globalSpace ? "access_global" : "access_generic", builder.getVoidTy(),
                  {thread, address, access, site});
    }
    done += width;
  }
  if (host)
    instruction.setOperand(pointerOperand, host);
  // What the metadata promised about memory no longer holds next to the machine's calls.
  instruction.dropUnknownNonDebugMetadata();
  if (isAcquireOrStronger(ordering)) {
    builder.SetInsertPoint(instruction.getNextNode());
    fence(fenceAcquires);
  }
}

// Before the instruction the machine's function is called where the condition holds, which is
// seldom.
void Lowering::tellOf(Instruction &instruction, Value *condition, StringRef function, Value *site) {
  MDNode *seldom = MDBuilder(kernel.getContext()).createUnlikelyBranchWeights();
  builder.SetInsertPoint(SplitBlockAndInsertIfThen(condition, instruction.getIterator(),
                                                   /*Unreachable=*/false, seldom));
  machineCall(function, builder.getVoidTy(), {thread, site});
  builder.SetInsertPoint(&instruction);
}

void Lowering::checkDivisor(Instruction &instruction, Value *divisor, StringRef function) {
  if (isKnownNonZero(divisor, SimplifyQuery(layout, &instruction)))
    return;
  builder.SetInsertPoint(&instruction);
  tellOf(instruction, builder.CreateIsNull(divisor), function,
         siteOf(instruction, SiteKind::Trap, "division"));
}

// The host traps where the quotient does not exist or does not fit.
void Lowering::lowerDivision(BinaryOperator &division) {
  Value *dividend = division.getOperand(0), *divisor = division.getOperand(1);
  if (!division.getType()->isIntegerTy())
    return;
  checkDivisor(division, divisor, "divide_by_zero");
  const auto opcode = division.getOpcode();
  if (isa<Constant>(divisor) || (opcode != Instruction::SDiv && opcode != Instruction::SRem))
    return;
  builder.SetInsertPoint(&division);
  Type *type = divisor->getType();
  const auto lowest = APInt::getSignedMinValue(type->getIntegerBitWidth());
  Value *wraps = builder.CreateAnd(builder.CreateICmpEQ(dividend, builder.getInt(lowest)),
                                   builder.CreateICmpEQ(divisor, Constant::getAllOnesValue(type)));
  tellOf(division, wraps, "divide_overflows", siteOf(division, SiteKind::Trap, "division"));
}

void Lowering::fence(uint32_t order) {
  machineCall("fence", builder.getVoidTy(), {thread, builder.getInt32(order)});
}

void Lowering::lowerFence(FenceInst &instruction) {
  if (!isFence(instruction))
    return;
  builder.SetInsertPoint(&instruction);
  const AtomicOrdering ordering = instruction.getOrdering();
  fence((isAcquireOrStronger(ordering) ? fenceAcquires : 0) |
        (isReleaseOrStronger(ordering) ? fenceReleases : 0) |
        (instruction.hasMetadata(blockMark) ? fenceOfBlock : 0));
}

Value *Lowering::predicatedAccess(CallInst &call, Value *pointer, Type *type, Value *predicate,
                                  uint32_t flags) {
  if (hasFences && flags & (accessVolatile | accessAtomic))
    flags |= accessFenced;
  auto bytes = uint32_t(layout.getTypeStoreSize(type));
  assert(bytes <= 16 && (isPowerOf2_32(bytes) || flags & accessWords) &&
         "a predicated access is one of the hardware's");
  Value *site = siteOf(call, accessKind(globalSpace, flags), call.getCalledFunction()->getName());
  Value *access =
      builder.CreateSelect(predicate, builder.getInt32(bytes | flags), builder.getInt32(0));
  machineCall("access_global", builder.getVoidTy(),
              {thread, builder.CreatePtrToInt(pointer, builder.getInt64Ty()), access, site});
  Value *host = builder.CreateAddrSpaceCast(pointer, builder.getPtrTy());
  return builder.CreateSelect(predicate, host, registers);
}

void Lowering::lowerCast(AddrSpaceCastInst &cast) {
  unsigned from = cast.getSrcAddressSpace(), to = cast.getDestAddressSpace();
  builder.SetInsertPoint(&cast);
  Value *result = nullptr;
  if (isShared(from) && to == genericSpace)
    result = hostAddress(cast.getPointerOperand());
  else if (isShared(to))
    result = builder.CreateIntToPtr(sharedAddress(cast.getPointerOperand()), cast.getType());
  if (!result)
    return;
  cast.replaceAllUsesWith(result);
  cast.eraseFromParent();
}

// As on a chip, an address in shared memory says in its upper bits which block of the cluster it is
// of, where a program looks at them.
void Lowering::lowerAddressNumber(PtrToIntInst &number) {
  if (!isShared(number.getPointerAddressSpace()) ||
      number.getType()->getScalarSizeInBits() <= clusterRankShift)
    return;
  builder.SetInsertPoint(number.getNextNode());
  Value *rank = threadField(offsetof(ThreadHeader, clusterRank), builder.getInt32Ty());
  Value *bits =
      builder.CreateZExtOrTrunc(builder.CreateShl(rank, clusterRankShift), number.getType());
  auto *whole = cast<Instruction>(builder.CreateOr(&number, bits));
  number.replaceUsesWithIf(whole, [&](Use &use) { return use.getUser() != whole; });
}

void Lowering::lowerAlloca(AllocaInst &alloca) {
  if (alloca.getAddressSpace() == genericSpace)
    return;
  builder.SetInsertPoint(&alloca);
  AllocaInst *local =
      builder.CreateAlloca(alloca.getAllocatedType(), genericSpace, alloca.getArraySize());
  local->setAlignment(alloca.getAlign());
  alloca.replaceAllUsesWith(builder.CreateAddrSpaceCast(local, alloca.getType()));
  alloca.eraseFromParent();
}

// memcpy, memmove and memset: both sides are checked as ranges, then the host's own do the work.
void Lowering::lowerMemoryCall(CallInst &call) {
  auto &memory = cast<MemIntrinsic>(call);
  builder.SetInsertPoint(&call);
  Value *bytes = builder.CreateZExtOrTrunc(memory.getLength(), builder.getInt64Ty());
  auto side = [&](Value *pointer, uint32_t flags) {
    Value *host = hostAddress(pointer);
    unsigned space = pointer->getType()->getPointerAddressSpace();
    if (space != constantSpace && !isPrivate(pointer)) {
      Value *site = siteOf(call, accessKind(space, flags), call.getCalledFunction()->getName());
      machineCall("range", builder.getVoidTy(),
                  {thread, builder.CreatePtrToInt(host, builder.getInt64Ty()), bytes,
                   builder.getInt32(flags), site});
    }
    return host;
  };
  if (auto *set = dyn_cast<MemSetInst>(&memory)) {
    Value *target = side(memory.getRawDest(), accessStore);
    builder.CreateMemSet(target, set->getValue(), bytes, memory.getDestAlign());
  } else {
    auto &transfer = cast<MemTransferInst>(memory);
    Value *source = side(transfer.getRawSource(), 0);
    Value *target = side(transfer.getRawDest(), accessStore);
    builder.CreateMemMove(target, transfer.getDestAlign(), source, transfer.getSourceAlign(),
                          bytes);
  }
  call.eraseFromParent();
}

void Lowering::flatten(Value *value, SmallVectorImpl<Value *> &words) {
  Type *type = value->getType();
  if (type->isPointerTy()) {
    bool shared = isShared(type->getPointerAddressSpace());
    flatten(shared ? sharedAddress(value) : builder.CreatePtrToInt(value, builder.getInt64Ty()),
            words);
    return;
  }
  if (!type->isIntegerTy())
    value =
        builder.CreateBitCast(value, builder.getIntNTy(unsigned(layout.getTypeSizeInBits(type))));
  unsigned bits = value->getType()->getIntegerBitWidth();
  if (bits <= 32) {
    words.push_back(builder.CreateZExt(value, builder.getInt32Ty()));
    return;
  }
  for (unsigned shift = 0; shift < bits; shift += 32)
    words.push_back(builder.CreateTrunc(builder.CreateLShr(value, shift), builder.getInt32Ty()));
}

Value *Lowering::unflatten(Type *type, Value *from, unsigned &word) {
  if (auto *structure = dyn_cast<StructType>(type)) {
    Value *result = PoisonValue::get(structure);
    for (auto [index, element] : enumerate(structure->elements()))
      result = builder.CreateInsertValue(result, unflatten(element, from, word), unsigned(index));
    return result;
  }
  unsigned bits = unsigned(layout.getTypeSizeInBits(type));
  Value *address = builder.CreateConstInBoundsGEP1_32(builder.getInt32Ty(), from, word);
  unsigned words = std::max(1u, (bits + 31) / 32);
  word += words;
  Value *whole = builder.CreateAlignedLoad(builder.getIntNTy(32 * words), address, Align(4));
  whole = builder.CreateTrunc(whole, builder.getIntNTy(bits));
  if (type->isPointerTy())
    return builder.CreateIntToPtr(whole, type);
  return builder.CreateBitCast(whole, type);
}

Value *Lowering::inRegisters(ArrayRef<Value *> values) {
  SmallVector<Value *> words;
  for (Value *value : values)
    flatten(value, words);
  noteRegisters(unsigned(words.size()));
  for (auto [index, word] : enumerate(words))
    builder.CreateStore(
        word, builder.CreateConstInBoundsGEP1_32(builder.getInt32Ty(), registers, unsigned(index)));
  return registers;
}

Value *Lowering::warpCall(CallInst &call, SiteKind kind, Op op, uint32_t modifiers, Value *mask,
                          ArrayRef<Value *> arguments, Type *type) {
  inRegisters(arguments);
  Value *site = siteOf(call, kind, call.getCalledFunction()->getName());
  machineCall("warp", builder.getVoidTy(),
              {thread, site, builder.getInt32(uint32_t(op)), builder.getInt32(modifiers),
               builder.CreateZExt(mask, builder.getInt64Ty()), registers});
  type = type ? type : call.getType();
  if (type->isVoidTy())
    return nullptr;
  unsigned word = 0;
  Value *result = unflatten(type, registers, word);
  noteRegisters(word);
  return result;
}

Error Lowering::lowerCall(CallInst &call) {
  if (call.isInlineAsm())
    return createStringError(
        "inline assembly cannot run on the virtual GPU: %s",
        cast<InlineAsm>(call.getCalledOperand())->getAsmString().str().c_str());
  Function *callee = call.getCalledFunction();
  if (!callee)
    return createStringError("an indirect call cannot run on the virtual GPU");
  if (isa<MemIntrinsic>(call)) {
    lowerMemoryCall(call);
    return Error::success();
  }
  StringRef name = callee->getName();
  if (const IntrinsicRule *rule = findIntrinsicRule(name)) {
    builder.SetInsertPoint(&call);
    Expected<Value *> value = rule->build(*this, call, *rule);
    if (!value)
      return value.takeError();
    if (*value && !call.getType()->isVoidTy())
      call.replaceAllUsesWith(*value);
    call.eraseFromParent();
    return Error::success();
  }
  // The host's code generator knows the intrinsics that belong to no target.
  if (callee->isIntrinsic() && !Intrinsic::isTargetIntrinsic(callee->getIntrinsicID()))
    return Error::success();
  return createStringError("the virtual GPU does not know %s", name.str().c_str());
}

// Each basic block adds its length to the thread's count when it ends.
void Lowering::countInstructions() {
  for (BasicBlock &block : kernel) {
    uint64_t length = 0;
    for (Instruction &instruction : block)
      length += !isa<PHINode, AllocaInst>(instruction) && !instruction.hasMetadata(machineMark) &&
                !isForMachine(instruction);
    builder.SetInsertPoint(block.getTerminator());
    Type *type = builder.getInt64Ty();
    Value *address = builder.CreateConstInBoundsGEP1_32(builder.getInt8Ty(), thread,
                                                        offsetof(ThreadHeader, instructions));
    auto mark = [&](Instruction *instruction) {
      instruction->setMetadata(machineMark, MDNode::get(kernel.getContext(), {}));
      return instruction;
    };
    Value *count = mark(builder.CreateLoad(type, address));
    mark(builder.CreateStore(builder.CreateAdd(count, builder.getInt64(length)), address));
  }
}

// Where a loop goes round, the machine is asked once the thread has used up what it may execute. A
// thread that goes on for ever goes round some loop for ever.
void Lowering::makeLoopsInterruptible() {
  SmallVector<std::pair<const BasicBlock *, const BasicBlock *>> edges;
  FindFunctionBackedges(kernel, edges);
  SmallPtrSet<const BasicBlock *, 8> ends;
  for (const auto &[end, start] : edges)
    ends.insert(end);
  SmallVector<BasicBlock *> blocks(make_pointer_range(kernel));
  for (BasicBlock *block : blocks) {
    if (!ends.contains(block))
      continue;
    const auto located = find_if(reverse(*block), [](const Instruction &instruction) {
      return bool(instruction.getDebugLoc());
    });
    Instruction *last = block->getTerminator();
    builder.SetInsertPoint(last);
    Type *type = builder.getInt64Ty();
    Value *executed = threadField(offsetof(ThreadHeader, instructions), type);
    Value *allowed = threadField(offsetof(ThreadHeader, allowed), type);
    Value *site = siteOf(located == block->rend() ? *last : *located, SiteKind::Loop, "loop");
    tellOf(*last, builder.CreateICmpUGT(executed, allowed), "overrun", site);
  }
}

// Sites count in the order of blocks, and the machine takes lanes that have gone different ways on
// from the first of their sites. So the blocks of inner loops stand first: lanes that have left a
// loop wait for the others, be it in the next iteration of a loop around it.
void Lowering::orderBlocks() {
  CycleInfo cycles;
  cycles.compute(kernel);
  ReversePostOrderTraversal<Function *> order(&kernel);
  std::vector<std::vector<BasicBlock *>> ofDepth;
  for (BasicBlock *block : order) {
    const unsigned depth = cycles.getCycleDepth(block);
    ofDepth.resize(std::max<size_t>(ofDepth.size(), depth + 1));
    ofDepth[depth].push_back(block);
  }
  BasicBlock *last = &kernel.getEntryBlock();
  for (const std::vector<BasicBlock *> &blocks : reverse(ofDepth))
    for (BasicBlock *block : blocks)
      if (block != &kernel.getEntryBlock()) {
        block->moveAfter(last);
        last = block;
      }
}

Error Lowering::run() {
  orderBlocks();
  countInstructions();
  std::vector<Instruction *> instructions;
  for (Instruction &instruction : llvm::instructions(kernel))
    instructions.push_back(&instruction);
  hasFences = any_of(instructions, [](const Instruction *each) { return isFence(*each); });
  // Accesses first: they look through casts to find private memory.
  for (Instruction *instruction : instructions) {
    if (auto *load = dyn_cast<LoadInst>(instruction))
      lowerAccess(*load, 0, load->getType(), load->getAlign(), 0, "load");
    else if (auto *store = dyn_cast<StoreInst>(instruction))
      lowerAccess(*store, 1, store->getValueOperand()->getType(), store->getAlign(), accessStore,
                  "store");
    else if (auto *update = dyn_cast<AtomicRMWInst>(instruction))
      lowerAccess(*update, 0, update->getValOperand()->getType(), update->getAlign(),
                  accessStore | accessAtomic, "atomicrmw");
    else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(instruction))
      lowerAccess(*exchange, 0, exchange->getCompareOperand()->getType(), exchange->getAlign(),
                  accessStore | accessAtomic, "cmpxchg");
    else if (auto *order = dyn_cast<FenceInst>(instruction))
      lowerFence(*order);
    else if (auto *division = dyn_cast<BinaryOperator>(instruction);
             division && division->isIntDivRem())
      lowerDivision(*division);
  }
  for (Instruction *instruction : instructions) {
    if (auto *call = dyn_cast<CallInst>(instruction)) {
      if (Error error = lowerCall(*call))
        return error;
    } else if (auto *cast = dyn_cast<AddrSpaceCastInst>(instruction)) {
      lowerCast(*cast);
    } else if (auto *number = dyn_cast<PtrToIntInst>(instruction)) {
      lowerAddressNumber(*number);
    } else if (auto *alloca = dyn_cast<AllocaInst>(instruction); alloca && alloca != registers) {
      lowerAlloca(*alloca);
    } else if (isa<InvokeInst, CallBrInst>(instruction)) {
      return createStringError("the virtual GPU cannot run exceptions or asm goto");
    }
  }
  makeLoopsInterruptible();
  registers->setAllocatedType(ArrayType::get(builder.getInt32Ty(), registerWords));
  return Error::success();
}

} // namespace sectile::vgpu
