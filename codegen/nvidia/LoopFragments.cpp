// Fragments of a that wgmma reads from registers in a loop. ptxas 12.8 to 13.0, which the drivers
// of those versions contain, loses a fragment that the loop did not make: where the loop has a
// branch, they give its registers to a fragment made later in the same iteration, which the next
// iteration then reads in its place. 13.1 does not. A fragment made within the loop has no such
// life, so each that is not gets a copy there. The copy is a shuffle of a lane with itself, as the
// assembler sees through moves and arithmetic, and takes them out of the loop again.
#include "codegen/nvidia/LoopFragments.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile {
namespace {

/// Whether a value may differ from one iteration to the next.
bool varies(const Value *value, const Loop &loop, SmallPtrSetImpl<const Value *> &seen) {
  auto *instruction = dyn_cast<Instruction>(value);
  if (!instruction || !loop.contains(instruction) || !seen.insert(instruction).second)
    return false;
  return isa<PHINode>(instruction) || instruction->mayReadOrWriteMemory() ||
         any_of(instruction->operands(),
                [&](const Use &operand) { return varies(operand, loop, seen); });
}

/// Whether each iteration computes the value anew: neither found nor carried into it.
bool isMadeIn(const Value *value, const Loop &loop) {
  while (auto *cast = dyn_cast<BitCastInst>(value))
    value = cast->getOperand(0);
  auto *phi = dyn_cast<PHINode>(value);
  if (phi && phi->getParent() == loop.getHeader())
    return false;
  SmallPtrSet<const Value *, 32> seen;
  return varies(value, loop, seen);
}

bool isFence(const Instruction &instruction) {
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  return call && call->getIntrinsicID() == Intrinsic::nvvm_wgmma_fence_sync_aligned;
}

/// Registers may not change between the fence and the instruction, but for what is made there.
Instruction *placeOfCopy(CallInst &wgmma, const Value *fragment) {
  for (Instruction *at = wgmma.getPrevNode(); at && at != fragment; at = at->getPrevNode())
    if (isFence(*at))
      return at;
  return &wgmma;
}

/// The call that copies a fragment to registers of its own, and which of its arguments that is.
std::pair<CallInst *, unsigned> copyOf(Value *fragment) {
  auto *part = dyn_cast<ExtractValueInst>(fragment);
  auto *call = part ? dyn_cast<CallInst>(part->getAggregateOperand()) : nullptr;
  const Function *called = call ? call->getCalledFunction() : nullptr;
  if (!called || !called->getName().starts_with(pseudo::nvWgmmaOperand))
    return {};
  return {call, part->getIndices().front()};
}

void copyFragments(CallInst &wgmma, unsigned first, const Loop &loop) {
  for (unsigned i = first; i < first + 4; ++i) {
    CallInst *reader = &wgmma;
    unsigned number = i;
    if (auto [call, argument] = copyOf(wgmma.getArgOperand(i)); call)
      reader = call, number = argument;
    Value *fragment = reader->getArgOperand(number);
    if (isMadeIn(fragment, loop))
      continue;
    IRBuilder<> b(reader == &wgmma ? placeOfCopy(wgmma, fragment) : reader);
    Value *lane = b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_read_ptx_sreg_laneid, {});
    reader->setArgOperand(number,
                          b.CreateIntrinsic(b.getInt32Ty(), Intrinsic::nvvm_shfl_sync_idx_i32,
                                            {b.getInt32(~0u), fragment, lane, b.getInt32(31)}));
  }
}

} // namespace

void makeFragmentsInLoops(Module &module) {
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    SmallVector<std::pair<CallInst *, unsigned>> calls;
    for (Instruction &instruction : instructions(function))
      if (auto *call = dyn_cast<CallInst>(&instruction); call && call->getCalledFunction())
        if (auto wgmma = pseudo::Wgmma::parse(call->getCalledFunction()->getName());
            wgmma && wgmma->aInRegisters)
          calls.push_back({call, wgmma->registers()});
    if (calls.empty())
      continue;
    const DominatorTree dominators(function);
    const LoopInfo loops(dominators);
    for (auto [call, first] : calls)
      if (const Loop *loop = loops.getLoopFor(call->getParent()))
        copyFragments(*call, first, *loop);
  }
}

} // namespace sectile
