// Predicated accesses, copies and atomics of global memory, wgmma, and waits at mbarriers, as
// inline assembly.
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/nvidia/LoopFragments.h"
#include "ir/tile/Tile.h"
#include "runtime/PtxForms.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile {
namespace {

/// How the type of an access is written: `.v4.b32`, its words, and their constraint.
struct AsmType {
  std::string suffix;
  unsigned words;
  Type *word; ///< as inline assembly takes it: i8 has no registers of its own
  const char *constraint;

  AsmType(IRBuilder<> &b, Type *type) {
    auto *vector = dyn_cast<FixedVectorType>(type);
    words = vector ? vector->getNumElements() : 1;
    unsigned bits = type->getScalarSizeInBits();
    suffix = (words > 1 ? ".v" + std::to_string(words) : "") + ".b" + std::to_string(bits);
    word = b.getIntNTy(std::max(bits, 16u));
    constraint = bits <= 16 ? "h" : bits == 32 ? "r" : "l";
  }
};

const char *cacheOfLoad(uint32_t hints) {
  switch (tile::Cache(pseudo::cacheOf(hints))) {
  case tile::Cache::AllLevels:
    return ".ca";
  case tile::Cache::Global:
    return ".cg";
  case tile::Cache::Streaming:
    return ".cs";
  case tile::Cache::Volatile:
    return ".cv";
  default: // the others are for stores
    return "";
  }
}

const char *cacheOfStore(uint32_t hints) {
  switch (tile::Cache(pseudo::cacheOf(hints))) {
  case tile::Cache::Global:
    return ".cg";
  case tile::Cache::Streaming:
    return ".cs";
  case tile::Cache::WriteBack:
    return ".wb";
  case tile::Cache::WriteThrough:
    return ".wt";
  default: // the others are for loads
    return "";
  }
}

/// How an access is to use the caches, in PTX: what stands behind the instruction's name, and which
/// policy of the L2 cache comes as its last operand. Priorities in L1 go with no cache operator,
/// and nothing goes with a volatile access.
struct Modifiers {
  std::string text = ".global";
  tile::Eviction policy = tile::Eviction::Normal;

  Modifiers(const char *cache, uint32_t hints) {
    if (pseudo::isVolatile(hints)) {
      text = ".volatile.global";
      return;
    }
    text += cache;
    policy = tile::Eviction(pseudo::evictionOf(hints));
    if (policy == tile::Eviction::Normal)
      return;
    if (!*cache)
      text += policy == tile::Eviction::First ? ".L1::evict_first" : ".L1::evict_last";
    text += ".L2::cache_hint";
  }
};

/// A policy of the L2 cache, made once per kernel at its start.
Value *policyOf(Function &kernel, tile::Eviction eviction) {
  StringRef name = eviction == tile::Eviction::First ? "evict_first" : "evict_last";
  BasicBlock &entry = kernel.getEntryBlock();
  for (Instruction &instruction : entry)
    if (instruction.getName() == name)
      return &instruction;
  IRBuilder<> b(&entry, entry.getFirstInsertionPt());
  auto *assembly = InlineAsm::get(FunctionType::get(b.getInt64Ty(), false),
                                  ("createpolicy.fractional.L2::" + name + ".b64 $0, 1.0;").str(),
                                  "=l", /*hasSideEffects=*/false);
  return b.CreateCall(assembly, {}, name);
}

/// `{$first, $first+1, …}`, or the operand itself when there is one.
std::string operands(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

SmallVector<Value *> wordsOf(IRBuilder<> &b, Value *value, const AsmType &type) {
  SmallVector<Value *> words;
  for (unsigned i = 0; i < type.words; ++i) {
    Value *word = type.words > 1 ? b.CreateExtractElement(value, i) : value;
    words.push_back(b.CreateZExt(word, type.word));
  }
  return words;
}

std::string repeated(const char *constraint, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i)
    text += std::string(text.empty() ? "" : ",") + constraint;
  return text;
}

/// Whether the predicate is known to be false. No such instruction is left to ptxas: it would work
/// out itself what tied operands are, and (13.0) it takes wrong halves of constants apart.
bool neverRuns(Value *predicate) {
  auto *known = dyn_cast<ConstantInt>(predicate);
  return known && known->isZero();
}

void lowerLoad(CallInst &call) {
  IRBuilder<> b(&call);
  Value *address = call.getArgOperand(0), *predicate = call.getArgOperand(1);
  if (neverRuns(predicate))
    return call.replaceAllUsesWith(call.getArgOperand(2));
  uint32_t hints = pseudo::hintsOf(call.getCalledFunction()->getName());
  AsmType type(b, call.getType());
  Modifiers modifiers(cacheOfLoad(hints), hints);
  bool hasPolicy = modifiers.policy != tile::Eviction::Normal;
  // The results start as `other`: operands tied to them.
  std::string text = "@$" + std::to_string(type.words + 1) + " ld" + modifiers.text + type.suffix +
                     " " + operands(0, type.words) + ", [$" + std::to_string(type.words) + "]" +
                     (hasPolicy ? ", $" + std::to_string(2 * type.words + 2) : "") + ";";
  std::string constraints = repeated((std::string("=") + type.constraint).c_str(), type.words);
  constraints += ",l,b";
  for (unsigned i = 0; i < type.words; ++i)
    constraints += "," + std::to_string(i);
  SmallVector<Value *> arguments{address, predicate};
  arguments.append(wordsOf(b, call.getArgOperand(2), type));
  if (hasPolicy) {
    constraints += ",l";
    arguments.push_back(policyOf(*call.getFunction(), modifiers.policy));
  }
  SmallVector<Type *> argumentTypes, words(type.words, type.word);
  for (Value *argument : arguments)
    argumentTypes.push_back(argument->getType());
  Type *result = type.words > 1 ? StructType::get(b.getContext(), words) : type.word;
  auto *assembly = InlineAsm::get(FunctionType::get(result, argumentTypes, false), text,
                                  constraints, /*hasSideEffects=*/true);
  Value *loaded = b.CreateCall(assembly, arguments);
  Value *value =
      type.words > 1 ? PoisonValue::get(call.getType()) : b.CreateTrunc(loaded, call.getType());
  for (unsigned i = 0; type.words > 1 && i < type.words; ++i)
    value = b.CreateInsertElement(value, b.CreateExtractValue(loaded, i), i);
  call.replaceAllUsesWith(value);
}

void lowerStore(CallInst &call) {
  if (neverRuns(call.getArgOperand(2)))
    return;
  IRBuilder<> b(&call);
  uint32_t hints = pseudo::hintsOf(call.getCalledFunction()->getName());
  AsmType type(b, call.getArgOperand(1)->getType());
  Modifiers modifiers(cacheOfStore(hints), hints);
  bool hasPolicy = modifiers.policy != tile::Eviction::Normal;
  std::string text = "@$1 st" + modifiers.text + type.suffix + " [$0], " + operands(2, type.words) +
                     (hasPolicy ? ", $" + std::to_string(type.words + 2) : "") + ";";
  std::string constraints = "l,b," + repeated(type.constraint, type.words);
  SmallVector<Value *> arguments{call.getArgOperand(0), call.getArgOperand(2)};
  arguments.append(wordsOf(b, call.getArgOperand(1), type));
  if (hasPolicy) {
    constraints += ",l";
    arguments.push_back(policyOf(*call.getFunction(), modifiers.policy));
  }
  SmallVector<Type *> argumentTypes;
  for (Value *argument : arguments)
    argumentTypes.push_back(argument->getType());
  auto *assembly = InlineAsm::get(FunctionType::get(b.getVoidTy(), argumentTypes, false), text,
                                  constraints, /*hasSideEffects=*/true);
  b.CreateCall(assembly, arguments);
}

/// Takes a number chosen by a conjunction, as the bytes that a masked copy reads are, from one
/// instruction. LLVM would choose once for each of the terms.
void chooseOnce(Use &number) {
  auto *select = dyn_cast<SelectInst>(number.get());
  if (!select || !isa<ConstantInt>(select->getTrueValue()) ||
      !isa<ConstantInt>(select->getFalseValue()))
    return;
  IRBuilder<> b(cast<Instruction>(number.getUser()));
  auto *type = FunctionType::get(number->getType(), {b.getInt1Ty()}, false);
  auto text = [](Value *value) { return std::to_string(cast<ConstantInt>(value)->getZExtValue()); };
  auto *assembly = InlineAsm::get(type,
                                  "selp.b32 $0, " + text(select->getTrueValue()) + ", " +
                                      text(select->getFalseValue()) + ", $1;",
                                  "=r,b", /*hasSideEffects=*/false);
  number.set(b.CreateCall(assembly, {select->getCondition()}));
}

void lowerCopy(CallInst &call, StringRef bytes) {
  chooseOnce(call.getArgOperandUse(2));
  IRBuilder<> b(&call);
  uint32_t hints = pseudo::hintsOf(call.getCalledFunction()->getName());
  bool throughL1 = bytes != "16" || tile::Cache(pseudo::cacheOf(hints)) == tile::Cache::AllLevels;
  std::string text = std::string("cp.async.") + (throughL1 ? "ca" : "cg") +
                     ".shared.global.L2::cache_hint [$0], [$1], " + bytes.str() + ", $2, $3;";
  Value *policy = policyOf(*call.getFunction(), tile::Eviction(pseudo::evictionOf(hints)));
  Value *to = b.CreatePtrToInt(call.getArgOperand(0), b.getInt32Ty());
  auto *type = FunctionType::get(
      b.getVoidTy(),
      {to->getType(), call.getArgOperand(1)->getType(), b.getInt32Ty(), b.getInt64Ty()}, false);
  b.CreateCall(InlineAsm::get(type, text, "r,l,r,l", /*hasSideEffects=*/true),
               {to, call.getArgOperand(1), call.getArgOperand(2), policy});
}

void lowerControl(CallInst &call, StringRef text) {
  IRBuilder<> b(&call);
  auto *type = FunctionType::get(b.getVoidTy(), false);
  b.CreateCall(InlineAsm::get(type, text, "~{memory}", /*hasSideEffects=*/true));
}

/// A chip takes note of these calls one after the other, each in 1.2 ns (H200), and programs do not
/// end before that. Short programs of large grids end early enough by themselves. If the product of
/// the extents overflows, that costs time only.
void lowerLaunchDependentsOfFew(CallInst &call) {
  lowerControl(call, "{\n\t"
                     ".reg .pred isSmall;\n\t"
                     ".reg .b32 programs, extent;\n\t"
                     "mov.u32 programs, %nctaid.x;\n\t"
                     "mov.u32 extent, %nctaid.y;\n\t"
                     "mul.lo.u32 programs, programs, extent;\n\t"
                     "mov.u32 extent, %nctaid.z;\n\t"
                     "mul.lo.u32 programs, programs, extent;\n\t"
                     "setp.le.u32 isSmall, programs, 1024;\n\t"
                     "@isSmall griddepcontrol.launch_dependents;\n\t"
                     "}");
}

/// A call of inline assembly that gives `count` values of the type `word`, tied to `sums`: what it
/// changes in place. The constraints and values of the operands that follow them come after.
void changeInPlace(CallInst &call, const std::string &text, ArrayRef<Value *> sums,
                   const std::string &more, ArrayRef<Value *> others) {
  IRBuilder<> b(&call);
  const auto count = unsigned(sums.size());
  Type *word = count ? sums.front()->getType() : nullptr;
  std::string constraints = count ? repeated(word->isFloatTy() ? "=f" : "=r", count) : "";
  SmallVector<Value *> arguments(sums);
  append_range(arguments, others);
  for (unsigned i = 0; i < count; ++i)
    constraints += "," + std::to_string(i);
  constraints += (constraints.empty() || more.empty() ? "" : ",") + more;
  constraints += constraints.empty() ? "~{memory}" : ",~{memory}";
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  // Inline assembly gives one value as it is, several as a structure.
  Type *result = count == 0   ? b.getVoidTy()
                 : count == 1 ? word
                              : StructType::get(b.getContext(), SmallVector<Type *>(count, word));
  auto *assembly = InlineAsm::get(FunctionType::get(result, types, false), text, constraints,
                                  /*hasSideEffects=*/true);
  CallInst *changed = b.CreateCall(assembly, arguments);
  changed->setConvergent();
  if (count == 1)
    call.replaceAllUsesWith(b.CreateInsertValue(PoisonValue::get(call.getType()), changed, 0u));
  else if (count)
    call.replaceAllUsesWith(changed);
}

void lowerWgmma(CallInst &call) {
  const auto wgmma = pseudo::Wgmma::parse(call.getCalledFunction()->getName());
  assert(wgmma && "the name of a wgmma that PTX does not have");
  const unsigned count = wgmma->registers(), aWords = wgmma->aInRegisters ? 4 : 1;
  SmallVector<Value *> operands(call.args());
  assert(operands.size() == count + aWords + 2 && "the arguments of a wgmma");
  // The tied inputs have numbers of their own.
  const unsigned a = 2 * count, b = a + aWords, accumulate = b + 1;
  std::string text = ("wgmma.mma_async.sync.aligned.m64n" + Twine(wgmma->n) + "k" +
                      Twine(wgmma->k) + "." + wgmma->sum + "." + wgmma->a + "." + wgmma->b + " ")
                         .str();
  std::string sums;
  for (unsigned i = 0; i < count; ++i)
    sums += (i ? ", $" : "$") + std::to_string(i);
  text += "{" + sums + "}, " + ::sectile::operands(a, aWords) + ", $" + std::to_string(b) + ", $" +
          std::to_string(accumulate);
  // Whether the operands are negated, for floats, and transposed, for those of 16 bits.
  if (wgmma->sum != "s32")
    text += ", 1, 1";
  if (wgmma->a == "f16" || wgmma->a == "bf16") {
    if (!wgmma->aInRegisters)
      text += wgmma->transposeA ? ", 1" : ", 0";
    text += wgmma->transposeB ? ", 1" : ", 0";
  }
  changeInPlace(call, text + ";", ArrayRef(operands).take_front(count),
                (wgmma->aInRegisters ? "r,r,r,r" : "l") + std::string(",l,b"),
                ArrayRef(operands).drop_front(count));
}

/// A wait for all dots comes first in its block, ahead of scalars that were moved there after the
/// loop: where they stand before it, ptxas takes what reads the sums for a reader of sums in flight
/// (C7514), and runs all dots one after another.
void moveToFront(CallInst &wait) {
  Instruction *before = &wait;
  while (Instruction *previous = before->getPrevNode()) {
    if (isa<PHINode>(previous) || previous->mayHaveSideEffects() ||
        is_contained(wait.args(), previous))
      break;
    before = previous;
  }
  if (before != &wait)
    wait.moveBefore(before->getIterator());
}

void lowerWgmmaWait(CallInst &call) {
  const auto wait = pseudo::WgmmaWait::parse(call.getCalledFunction()->getName());
  assert(wait && wait->registers == call.arg_size() && "the name of a wait for wgmma");
  if (wait->groups == 0)
    moveToFront(call);
  changeInPlace(call, "wgmma.wait_group.sync.aligned " + std::to_string(wait->groups) + ";",
                SmallVector<Value *>(call.args()), "", {});
}

void lowerThreadIndex(CallInst &call) {
  IRBuilder<> b(&call);
  call.replaceAllUsesWith(
      b.CreateCall(InlineAsm::get(FunctionType::get(b.getInt32Ty(), false), runtime::indexOfThread,
                                  "=r", /*hasSideEffects=*/false)));
}

void lowerWgmmaSums(CallInst &call) {
  changeInPlace(call, "", SmallVector<Value *>(call.args()), "", {});
}

void lowerWgmmaOperand(CallInst &call) {
  IRBuilder<> b(&call);
  const unsigned count = call.arg_size();
  // ptxas 13.0 looks for reads by dots in flight within an iteration only. It takes moves out, and
  // has arithmetic ahead of a wait that ends the dot of the iteration before, in the registers that
  // this reads. What it does not know before is which lanes are here: all.
  std::string text = "{\n\t.reg .b32 lanes;\n\tactivemask.b32 lanes;";
  for (unsigned i = 0; i < count; ++i)
    text += "\n\tand.b32 $" + std::to_string(i) + ", $" + std::to_string(count + i) + ", lanes;";
  text += "\n\t}";
  // Where they are written says the order of waits, which is that of all with side effects. The
  // first is written before the last is read.
  const SmallVector<Value *> words(call.args());
  const SmallVector<Type *> types(count, b.getInt32Ty());
  Type *result = count == 1 ? types.front() : StructType::get(b.getContext(), types);
  auto *assembly =
      InlineAsm::get(FunctionType::get(result, types, false), text,
                     repeated("=&r", count) + "," + repeated("r", count), /*hasSideEffects=*/true);
  CallInst *copied = b.CreateCall(assembly, words);
  copied->setConvergent();
  call.replaceAllUsesWith(
      count == 1 ? b.CreateInsertValue(PoisonValue::get(call.getType()), copied, 0u) : copied);
}

void lowerMbarrierWait(CallInst &call) {
  IRBuilder<> b(&call);
  constexpr char text[] = "{\n\t.reg .pred done;\n"
                          "again${:uid}:\n\t"
                          "mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n\t"
                          "@!done bra again${:uid};\n\t}";
  Value *address = b.CreatePtrToInt(call.getArgOperand(0), b.getInt32Ty());
  auto *type = FunctionType::get(b.getVoidTy(), {b.getInt32Ty(), b.getInt32Ty()}, false);
  b.CreateCall(InlineAsm::get(type, text, "r,r,~{memory}", /*hasSideEffects=*/true),
               {address, call.getArgOperand(1)})
      ->setConvergent();
}

/// The instruction `atom.relaxed.<scope>.global.<name>` for a call of (address, operands…,
/// predicate). Without its result it is a `red….<name>`, where there is one.
void lowerAtomic(CallInst &call, StringRef scope, StringRef name) {
  IRBuilder<> b(&call);
  unsigned count = call.arg_size() - 2; // operands
  Type *type = call.getType();
  if (neverRuns(call.getArgOperand(count + 1)))
    return call.replaceAllUsesWith(Constant::getNullValue(type));
  AsmType word(b, b.getIntNTy(type->getPrimitiveSizeInBits()));
  bool reduces = call.use_empty() && count == 1 && !name.starts_with("exch.");
  unsigned first = reduces ? 0 : 1;
  auto operand = [&](unsigned number) { return "$" + std::to_string(first + number); };
  std::string text = "@" + operand(count + 1) + (reduces ? " red" : " atom") + ".relaxed." +
                     scope.str() + ".global." + name.str() + " " + (reduces ? "" : "$0, ") + "[" +
                     operand(0) + "]";
  std::string constraints = reduces ? "l" : std::string("=") + word.constraint + ",l";
  SmallVector<Value *> arguments{call.getArgOperand(0)};
  for (unsigned i = 1; i <= count; ++i) {
    text += ", " + operand(i);
    constraints += std::string(",") + word.constraint;
    arguments.push_back(b.CreateBitCast(call.getArgOperand(i), word.word));
  }
  text += ";";
  constraints += ",b";
  arguments.push_back(call.getArgOperand(count + 1));
  if (!reduces) { // the result starts as zero
    constraints += ",0";
    arguments.push_back(ConstantInt::get(word.word, 0));
  }
  SmallVector<Type *> types;
  for (Value *argument : arguments)
    types.push_back(argument->getType());
  auto *function = FunctionType::get(reduces ? b.getVoidTy() : word.word, types, false);
  Value *result =
      b.CreateCall(InlineAsm::get(function, text, constraints, /*hasSideEffects=*/true), arguments);
  if (!reduces)
    call.replaceAllUsesWith(b.CreateBitCast(result, type));
}

bool isMaskedCopy(Intrinsic::ID id) {
  return id == Intrinsic::nvvm_cp_async_ca_shared_global_4_s ||
         id == Intrinsic::nvvm_cp_async_ca_shared_global_8_s ||
         id == Intrinsic::nvvm_cp_async_ca_shared_global_16_s ||
         id == Intrinsic::nvvm_cp_async_cg_shared_global_16_s;
}

} // namespace

void lowerNvidiaPseudoIntrinsics(Module &module) {
  makeFragmentsInLoops(module);
  for (Function &function : make_early_inc_range(module)) {
    StringRef name = function.getName();
    if (isMaskedCopy(function.getIntrinsicID()))
      for (User *user : function.users())
        chooseOnce(cast<CallInst>(user)->getArgOperandUse(2));
    if (function.getIntrinsicID() == Intrinsic::nvvm_wgmma_wait_group_sync_aligned)
      for (User *user : function.users())
        if (auto &wait = cast<CallInst>(*user); cast<ConstantInt>(wait.getArgOperand(0))->isZero())
          moveToFront(wait);
    void (*lower)(CallInst &) = nullptr;
    if (name.starts_with(pseudo::nvLoad))
      lower = lowerLoad;
    else if (name.starts_with(pseudo::nvStore))
      lower = lowerStore;
    else if (name.starts_with(pseudo::nvCopy))
      lower = [](CallInst &call) {
        StringRef name = call.getCalledFunction()->getName();
        lowerCopy(call, name.drop_front(pseudo::nvCopy.size()).split('.').first);
      };
    else if (name == pseudo::nvWaitDependencies)
      lower = [](CallInst &call) { lowerControl(call, "griddepcontrol.wait;"); };
    else if (name == pseudo::nvLaunchDependents)
      lower = [](CallInst &call) { lowerControl(call, "griddepcontrol.launch_dependents;"); };
    else if (name == pseudo::nvLaunchDependentsOfFew)
      lower = lowerLaunchDependentsOfFew;
    else if (function.getIntrinsicID() == Intrinsic::nvvm_read_ptx_sreg_tid_x)
      lower = lowerThreadIndex;
    else if (name.starts_with(pseudo::nvWgmma))
      lower = lowerWgmma;
    else if (name.starts_with(pseudo::nvWgmmaWait))
      lower = lowerWgmmaWait;
    else if (name.starts_with(pseudo::nvWgmmaSums))
      lower = lowerWgmmaSums;
    else if (name.starts_with(pseudo::nvWgmmaOperand))
      lower = lowerWgmmaOperand;
    else if (name == pseudo::nvMbarrierWait)
      lower = lowerMbarrierWait;
    else if (name.starts_with(pseudo::nvAtomic))
      lower = [](CallInst &call) {
        StringRef name = call.getCalledFunction()->getName();
        auto [scope, operation] = name.drop_front(pseudo::nvAtomic.size()).split('.');
        lowerAtomic(call, scope, operation);
      };
    else if (name.starts_with(pseudo::nvCas))
      lower = [](CallInst &call) {
        StringRef name = call.getCalledFunction()->getName();
        auto [scope, type] = name.drop_front(pseudo::nvCas.size()).split('.');
        lowerAtomic(call, scope, ("cas." + type).str());
      };
    if (!lower)
      continue;
    for (User *user : make_early_inc_range(function.users())) {
      auto &call = cast<CallInst>(*user);
      lower(call);
      call.eraseFromParent();
    }
    function.eraseFromParent();
  }
}

} // namespace sectile
