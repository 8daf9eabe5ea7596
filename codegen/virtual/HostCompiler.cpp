// From a kernel's LLVM IR to a host object: one function over a thread's header and the launch's
// arguments.
#include "codegen/virtual/HostCompiler.h"
#include "codegen/virtual/Lowering.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/LEB128.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/xxhash.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/LowerAtomic.h"
#include <algorithm>
#include <cstdlib>
#include <mutex>

using namespace llvm;

namespace sectile::vgpu {
namespace {

constexpr unsigned sharedSpace = 3;

Expected<Function *> findKernel(Module &module) {
  Function *kernel = nullptr;
  for (Function &function : module) {
    CallingConv::ID convention = function.getCallingConv();
    if (convention != CallingConv::PTX_Kernel && convention != CallingConv::AMDGPU_KERNEL)
      continue;
    if (kernel)
      return createStringError("the module has two kernels: %s and %s",
                               kernel->getName().str().c_str(), function.getName().str().c_str());
    kernel = &function;
  }
  if (!kernel || kernel->isDeclaration())
    return createStringError("the module has no kernel");
  return kernel;
}

// The machine's calls need the thread, which only the kernel itself has: everything is inlined into
// it.
Error inlineAll(Function &kernel) {
  for (bool changed = true; changed;) {
    changed = false;
    SmallVector<CallInst *> calls;
    for (Instruction &instruction : instructions(kernel))
      if (auto *call = dyn_cast<CallInst>(&instruction))
        if (Function *callee = call->getCalledFunction(); callee && !callee->isDeclaration())
          calls.push_back(call);
    for (CallInst *call : calls) {
      Function *callee = call->getCalledFunction();
      if (callee == &kernel)
        return createStringError("kernel %s calls itself", kernel.getName().str().c_str());
      InlineFunctionInfo info;
      InlineResult result = InlineFunction(*call, info);
      if (!result.isSuccess())
        return createStringError("cannot inline %s: %s", callee->getName().str().c_str(),
                                 result.getFailureReason());
      changed = true;
    }
  }
  return Error::success();
}

// Shared variables become addresses in the block's arena: the module's own first, then the dynamic
// part.
void placeShared(Module &module, VirtualObject &object) {
  SmallVector<GlobalVariable *> variables;
  for (GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == sharedSpace)
      variables.push_back(&variable);
  const DataLayout &layout = module.getDataLayout();
  uint64_t offset = sharedOrigin;
  auto place = [&](GlobalVariable *variable, uint64_t address) {
    Type *integer = Type::getInt64Ty(module.getContext());
    Constant *pointer =
        ConstantExpr::getIntToPtr(ConstantInt::get(integer, address), variable->getType());
    variable->replaceAllUsesWith(pointer);
  };
  for (GlobalVariable *variable : variables) {
    if (variable->isDeclaration())
      continue;
    offset = alignTo(offset, variable->getAlign().valueOrOne());
    place(variable, offset);
    offset += layout.getTypeAllocSize(variable->getValueType());
  }
  offset = alignTo(offset, sharedOrigin);
  object.staticSharedBytes = uint32_t(offset - sharedOrigin);
  for (GlobalVariable *variable : variables)
    if (variable->isDeclaration())
      place(variable, offset);
  for (GlobalVariable *variable : variables)
    variable->eraseFromParent();
}

// Casts of shared addresses depend on the block, so they cannot stay inside constants.
void expandConstants(Function &kernel) {
  SmallVector<Constant *> constants;
  for (GlobalVariable &variable : kernel.getParent()->globals())
    constants.push_back(&variable);
  convertUsersOfConstantsToInstructions(constants, &kernel);
}

// void entry(ThreadHeader *thread, void **arguments), with the kernel's body.
Function *makeEntry(Function &kernel, VirtualObject &object) {
  Module &module = *kernel.getParent();
  LLVMContext &context = module.getContext();
  Type *pointer = PointerType::get(context, 0);
  auto *type = FunctionType::get(Type::getVoidTy(context), {pointer, pointer}, false);
  // Whatever the kernel and its libraries are named, the machine finds the entry.
  Function *entry = Function::Create(type, GlobalValue::ExternalLinkage, "sectile_entry", module);
  object.entry = entry->getName().str();
  entry->splice(entry->begin(), &kernel);
  IRBuilder<> builder(&entry->getEntryBlock(), entry->getEntryBlock().begin());
  Instruction *first = &entry->getEntryBlock().front();
  for (Argument &argument : kernel.args()) {
    Value *slot =
        builder.CreateConstInBoundsGEP1_32(pointer, entry->getArg(1), argument.getArgNo());
    Value *value = builder.CreateLoad(pointer, slot);
    if (Type *structure = argument.getPointeeInMemoryValueType()) {
      // A private copy, so that accesses to it are no accesses of global memory.
      AllocaInst *copy = builder.CreateAlloca(structure);
      copy->setAlignment(argument.getParamAlign().valueOrOne());
      builder.CreateStore(builder.CreateAlignedLoad(structure, value, Align(1)), copy);
      value = builder.CreateAddrSpaceCast(copy, argument.getType());
    } else {
      value = builder.CreateAlignedLoad(argument.getType(), value, Align(1));
    }
    argument.replaceAllUsesWith(value);
  }
  MDNode *mark = MDNode::get(context, {});
  for (auto at = entry->getEntryBlock().begin(); &*at != first; ++at)
    at->setMetadata(machineMark, mark);
  object.argumentCount = uint32_t(kernel.arg_size());
  object.maxRegisters = uint32_t(kernel.getFnAttributeAsParsedInteger("nvvm.maxnreg"));
  // Not as the processor that the host's code generator is to know.
  entry->addFnAttr(chipAttribute, kernel.getFnAttribute("target-cpu").getValueAsString());
  kernel.eraseFromParent();
  entry->addFnAttr(Attribute::NoUnwind);
  entry->addFnAttr("probe-stack", "inline-asm");
  return entry;
}

// Lists the module's remaining variables in the object, {address, size} each and a zero pair last:
// the machine lets the kernel read them.
void listGlobals(Module &module) {
  LLVMContext &context = module.getContext();
  Type *word = Type::getInt64Ty(context);
  SmallVector<Constant *> words;
  for (GlobalVariable &variable : module.globals()) {
    if (variable.isDeclaration())
      continue;
    words.push_back(ConstantExpr::getPtrToInt(&variable, word));
    words.push_back(
        ConstantInt::get(word, module.getDataLayout().getTypeAllocSize(variable.getValueType())));
  }
  words.append(2, ConstantInt::get(word, 0));
  auto *type = ArrayType::get(word, words.size());
  new GlobalVariable(module, type, /*isConstant=*/true, GlobalValue::ExternalLinkage,
                     ConstantArray::get(type, words),
                     StringRef(globalsSymbol.data(), globalsSymbol.size()));
}

void dropTargetDetails(Module &module) {
  for (NamedMDNode &node : make_early_inc_range(module.named_metadata()))
    node.eraseFromParent();
  for (StringRef name : {"llvm.used", "llvm.compiler.used"})
    if (GlobalVariable *used = module.getGlobalVariable(name))
      used->eraseFromParent();
  // Scopes name hardware's levels; on the host all of them are the whole machine. The machine is
  // told of fences what they order.
  LLVMContext &context = module.getContext();
  SmallVector<StringRef> scopes;
  context.getSyncScopeNames(scopes);
  MDNode *mark = MDNode::get(context, {});
  for (Function &function : module)
    for (Instruction &instruction : instructions(function)) {
      if (auto *update = dyn_cast<AtomicRMWInst>(&instruction))
        update->setSyncScopeID(SyncScope::System);
      else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction))
        exchange->setSyncScopeID(SyncScope::System);
      else if (auto *load = dyn_cast<LoadInst>(&instruction); load && load->isAtomic())
        load->setSyncScopeID(SyncScope::System);
      else if (auto *store = dyn_cast<StoreInst>(&instruction); store && store->isAtomic())
        store->setSyncScopeID(SyncScope::System);
      else if (auto *fence = dyn_cast<FenceInst>(&instruction)) {
        if (is_contained({"block", "workgroup", "wavefront", "singlethread"},
                         scopes[fence->getSyncScopeID()]))
          fence->setMetadata(blockMark, mark);
        if (fence->hasMetadata(LLVMContext::MD_mmra))
          fence->setMetadata(machineMark, mark); // of shared memory alone
        fence->setSyncScopeID(SyncScope::System);
      }
    }
}

// Functions that were inlined, and declarations without a caller.
void eraseDeadFunctions(Module &module, Function &entry) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Function &function : make_early_inc_range(module))
      if (&function != &entry && function.use_empty()) {
        function.eraseFromParent();
        changed = true;
      }
  }
}

// Updates of floats of 16 bits compare what was loaded with what memory holds. LLVM's own expansion
// lets what was loaded go through f32 on hosts that compute there, which quiets a signalling NaN:
// it would never be what memory holds.
void expandShortUpdates(Function &function) {
  SmallVector<AtomicRMWInst *> updates;
  for (Instruction &instruction : instructions(function))
    if (auto *update = dyn_cast<AtomicRMWInst>(&instruction);
        update && update->isFloatingPointOperation() &&
        update->getType()->getScalarSizeInBits() <= 16)
      updates.push_back(update);
  for (AtomicRMWInst *update : updates) {
    Type *type = update->getType();
    Type *bits = Type::getIntNTy(function.getContext(), type->getPrimitiveSizeInBits());
    BasicBlock *before = update->getParent();
    BasicBlock *after = before->splitBasicBlock(update->getIterator());
    auto *loop = BasicBlock::Create(function.getContext(), "update", &function, after);
    before->getTerminator()->eraseFromParent();
    IRBuilder<> builder(before);
    LoadInst *first =
        builder.CreateAlignedLoad(bits, update->getPointerOperand(), update->getAlign());
    first->setAtomic(AtomicOrdering::Monotonic, update->getSyncScopeID());
    builder.CreateBr(loop);
    builder.SetInsertPoint(loop);
    PHINode *expected = builder.CreatePHI(bits, 2);
    Value *updated =
        buildAtomicRMWValue(update->getOperation(), builder, builder.CreateBitCast(expected, type),
                            update->getValOperand());
    Value *exchange = builder.CreateAtomicCmpXchg(
        update->getPointerOperand(), expected, builder.CreateBitCast(updated, bits),
        update->getAlign(), update->getOrdering(), AtomicOrdering::Monotonic,
        update->getSyncScopeID());
    Value *found = builder.CreateExtractValue(exchange, 0);
    expected->addIncoming(first, before);
    expected->addIncoming(found, loop);
    builder.CreateCondBr(builder.CreateExtractValue(exchange, 1), after, loop);
    builder.SetInsertPoint(update);
    update->replaceAllUsesWith(builder.CreateBitCast(found, type));
    update->eraseFromParent();
  }
}

// The calls of two intrinsics in a function.
SmallVector<IntrinsicInst *> callsOf(Function &function, Intrinsic::ID first,
                                     Intrinsic::ID second) {
  SmallVector<IntrinsicInst *> calls;
  for (Instruction &instruction : instructions(function))
    if (auto *call = dyn_cast<IntrinsicInst>(&instruction))
      if (call->getIntrinsicID() == first || call->getIntrinsicID() == second)
        calls.push_back(call);
  return calls;
}

// LLVM's maximum and minimum for x86 take a signalling NaN for a number where the other operand is
// known to be one.
void keepSignallingNaNs(Function &function) {
  for (IntrinsicInst *extremum : callsOf(function, Intrinsic::maximum, Intrinsic::minimum)) {
    IRBuilder<> builder(extremum->getNextNode());
    Value *isNaN = builder.CreateFCmpUNO(extremum->getArgOperand(0), extremum->getArgOperand(1));
    Value *kept = builder.CreateSelect(isNaN, ConstantFP::getNaN(extremum->getType()), extremum);
    extremum->replaceUsesWithIf(kept, [&](Use &use) { return use.getUser() != kept; });
  }
}

// LLVM for x86 gives NaN for a number and a NaN where it knows that the number is one.
void expandExtrema(Function &function) {
  for (IntrinsicInst *call : callsOf(function, Intrinsic::maximumnum, Intrinsic::minimumnum)) {
    const bool isMaximum = call->getIntrinsicID() == Intrinsic::maximumnum;
    IRBuilder<> b(call);
    Type *type = call->getType();
    Type *word = type->getWithNewType(b.getIntNTy(type->getScalarSizeInBits()));
    Value *x = call->getArgOperand(0), *y = call->getArgOperand(1);
    Value *isNoX = b.CreateFCmpUNO(x, x), *isNoY = b.CreateFCmpUNO(y, y);
    Value *isFirst = isMaximum ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
    Value *chosen = b.CreateSelect(b.CreateOr(isFirst, isNoY), x, y);
    // Zeros are equal, and may differ in their signs.
    Value *xBits = b.CreateBitCast(x, word), *yBits = b.CreateBitCast(y, word);
    Value *joined = isMaximum ? b.CreateAnd(xBits, yBits) : b.CreateOr(xBits, yBits);
    Value *result = b.CreateSelect(b.CreateFCmpOEQ(x, y), b.CreateBitCast(joined, type), chosen);
    result = b.CreateSelect(b.CreateAnd(isNoX, isNoY), ConstantFP::getNaN(type), result);
    call->replaceAllUsesWith(result);
    call->eraseFromParent();
  }
}

// LLVM for x86 loses the sign where the result is rounded to 16 bits and the sign is that of a
// number of 16 bits in memory. Between numbers of 16 bits it could do what hideBits() is about.
void expandSigns(Function &function) {
  for (IntrinsicInst *call : callsOf(function, Intrinsic::copysign, Intrinsic::copysign)) {
    Type *type = call->getType();
    const unsigned bits = type->getScalarSizeInBits();
    if (bits != 16 && !isa<FPExtInst>(call->getArgOperand(1)))
      continue;
    IRBuilder<> b(call);
    Type *word = type->getWithNewType(b.getIntNTy(bits));
    auto masked = [&](unsigned operand, const APInt &mask) {
      return b.CreateAnd(b.CreateBitCast(call->getArgOperand(operand), word),
                         ConstantInt::get(word, mask));
    };
    Value *both =
        b.CreateOr(masked(0, APInt::getSignedMaxValue(bits)), masked(1, APInt::getSignMask(bits)));
    call->replaceAllUsesWith(b.CreateBitCast(both, type));
    call->eraseFromParent();
  }
}

// A value that LLVM knows nothing of.
Value *opaque(IRBuilder<> &b, Value *value) {
  Type *type = value->getType();
  return b.CreateCall(
      InlineAsm::get(FunctionType::get(type, {type}, false), "", "=r,0", /*hasSideEffects=*/false),
      {value});
}

// LLVM for x86 takes a bf16 number that is computed for positive where nothing but its sign is
// wanted, or stops. And integers that are taken for bf16 in one place it moves as bf16 elsewhere,
// which makes signalling NaNs quiet. So it does not get to know that they are the same bits.
void hideBits(Function &function) {
  SmallVector<BitCastInst *> casts;
  for (Instruction &instruction : instructions(function))
    if (auto *cast = dyn_cast<BitCastInst>(&instruction);
        cast && (cast->getSrcTy()->isBFloatTy() || cast->getDestTy()->isBFloatTy()))
      casts.push_back(cast);
  for (BitCastInst *cast : casts)
    if (cast->getSrcTy()->isIntegerTy()) {
      IRBuilder<> b(cast);
      cast->setOperand(0, opaque(b, cast->getOperand(0)));
    } else if (cast->getDestTy()->isIntegerTy()) {
      IRBuilder<> b(cast->getNextNode());
      Value *hidden = opaque(b, cast);
      cast->replaceUsesWithIf(hidden, [&](Use &use) { return use.getUser() != hidden; });
    }
}

// Instruction selection orders a block's instructions as one graph, in time that grows with its
// square and worse. Long blocks are cut by branches that LLVM cannot see through, or it would join
// the pieces again.
void cutLongBlocks(Function &function) {
  constexpr unsigned most = 1000;
  LLVMContext &context = function.getContext();
  BasicBlock *never = nullptr;
  SmallVector<BasicBlock *> blocks(llvm::make_pointer_range(function));
  for (BasicBlock *block : blocks)
    for (;;) {
      BasicBlock::iterator at = block->getFirstNonPHIOrDbgOrAlloca();
      unsigned count = 0;
      while (count < most && at != block->end() && !at->isTerminator())
        ++at, ++count;
      if (count < most)
        break;
      BasicBlock *rest = block->splitBasicBlock(at);
      if (!never) {
        never = BasicBlock::Create(context, "never", &function);
        new UnreachableInst(context, never);
      }
      block->getTerminator()->eraseFromParent();
      IRBuilder<> builder(block);
      Value *zero = opaque(builder, builder.getInt32(0));
      builder.CreateCondBr(builder.CreateIsNull(zero), rest, never);
      block = rest;
    }
}

// The largest frame of the object's functions: .stack_sizes holds (address, ULEB128 size) pairs.
uint32_t largestFrame(StringRef object) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(object, "object"));
  if (!file) {
    consumeError(file.takeError());
    return 0;
  }
  uint64_t largest = 0;
  for (const object::SectionRef &section : (*file)->sections()) {
    Expected<StringRef> name = section.getName();
    Expected<StringRef> contents = section.getContents();
    if (name && contents && *name == ".stack_sizes") {
      // Pairs of an address and a size.
      const uint8_t *at = contents->bytes_begin(), *end = contents->bytes_end();
      const int64_t address = (*file)->getBytesInAddress();
      while (end - at > address) {
        unsigned length = 0;
        largest = std::max(largest, decodeULEB128(at + address, &length, end));
        at += address + length;
      }
    }
    for (auto *failed : {&name, &contents})
      if (!*failed)
        consumeError(failed->takeError());
  }
  return uint32_t(largest);
}

} // namespace

// Asked once: where the host is a virtual machine itself, each question is a way out of it.
static const std::string &hostProcessor() {
  static const std::string name = sys::getHostCPUName().str();
  return name;
}
static const StringMap<bool> &hostFeatures() {
  static const StringMap<bool> features = sys::getHostCPUFeatures();
  return features;
}

unsigned hostOptLevel() {
  const char *level = std::getenv("SECTILE_VIRTUAL_OPT");
  return level && *level >= '0' && *level <= '3' && !level[1] ? unsigned(*level - '0') : 2;
}

Expected<std::unique_ptr<TargetMachine>> hostMachine(const HostOptions &options) {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  Triple triple(sys::getProcessTriple());
  std::string message;
  const Target *target = TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return createStringError(message);
  std::string features;
  if (options.cpu.empty())
    for (const auto &[name, enabled] : hostFeatures())
      features += (features.empty() ? "" : ",") + std::string(enabled ? "+" : "-") + name.str();
  // The host's conversions to bf16 take subnormal numbers for zero; no chip of ours does.
  if (triple.isX86())
    features += std::string(features.empty() ? "" : ",") + "-avx512bf16,-avxneconvert";
  TargetOptions targetOptions;
  targetOptions.AllowFPOpFusion = FPOpFusion::Standard; // fuses only what the IR marks `contract`
  targetOptions.EmitStackSizeSection = true;
  auto level = CodeGenOptLevel(options.optLevel);
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      triple, options.cpu.empty() ? StringRef(hostProcessor()) : StringRef(options.cpu), features,
      targetOptions, Reloc::PIC_, CodeModel::Small, level));
  if (!machine)
    return createStringError("LLVM cannot generate code for this host");
  return machine;
}

Expected<std::string> emitHostObject(Module &module, TargetMachine &machine) {
  SmallVector<char, 0> bytes;
  raw_svector_ostream stream(bytes);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, CodeGenFileType::ObjectFile))
    return createStringError("LLVM cannot write an object for this host");
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

std::string hostCpuName() {
  // Two machines may share a name and differ in what the operating system enables.
  static const std::string all = [] {
    std::string features;
    for (const auto &[name, enabled] : hostFeatures())
      if (enabled)
        features += name.str() + ",";
    return (hostProcessor() + "-" + Twine::utohexstr(xxh3_64bits(features)) + "-abi" +
            Twine(machineAbiVersion))
        .str();
  }();
  return all;
}

Expected<VirtualObject> compileForHost(const Module &input, const HostOptions &options) {
  std::unique_ptr<Module> module = CloneModule(input);
  VirtualObject object;
  object.hostCpu = options.cpu.empty() ? hostCpuName() : options.cpu;
  Expected<Function *> kernel = findKernel(*module);
  if (!kernel)
    return kernel.takeError();
  object.kernel = (*kernel)->getName().str();
  if (Error error = inlineAll(**kernel))
    return error;
  dropTargetDetails(*module);
  expandConstants(**kernel);
  placeShared(*module, object);

  Expected<std::unique_ptr<TargetMachine>> machine = hostMachine(options);
  if (!machine)
    return machine.takeError();
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());

  Function *entry = makeEntry(**kernel, object);
  eraseDeadFunctions(*module, *entry);
  if (Error error = Lowering(*entry, entry->getArg(0), object).run())
    return error;
  eraseDeadFunctions(*module, *entry);
  StripDebugInfo(*module);
  expandShortUpdates(*entry);
  keepSignallingNaNs(*entry);
  expandExtrema(*entry);
  expandSigns(*entry);
  hideBits(*entry);
  cutLongBlocks(*entry);
  listGlobals(*module);

  std::string problem;
  raw_string_ostream problemStream(problem);
  if (verifyModule(*module, &problemStream))
    return createStringError("the virtual GPU's lowering of %s is not valid: %s",
                             object.kernel.c_str(), problem.c_str());

  auto bytes = emitHostObject(*module, **machine);
  if (!bytes)
    return bytes.takeError();
  object.object = std::move(*bytes);
  object.stackBytes = largestFrame(object.object);
  return object;
}

} // namespace sectile::vgpu
