// Counts registers by liveness. The assembler reorders, rematerialises and folds; what it can gain
// by that is bounded here with two simplifications that favour the kernel: indices and addresses
// are free, and of two orders of a block the one that needs less counts.
#include "codegen/nvidia/RegisterEstimate.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile::nvidia {
namespace {

/// 32-bit registers of a value. Predicates have registers of their own.
unsigned registersOf(Type *type, const DataLayout &layout) {
  constexpr unsigned shared = 3; // its addresses have 32 bits
  if (!type->isSized() || type->isIntOrIntVectorTy(1))
    return 0;
  if (auto *structure = dyn_cast<StructType>(type)) {
    unsigned sum = 0;
    for (Type *element : structure->elements())
      sum += registersOf(element, layout);
    return sum;
  }
  if (auto *array = dyn_cast<ArrayType>(type))
    return array->getNumElements() * registersOf(array->getElementType(), layout);
  if (auto *pointer = dyn_cast<PointerType>(type))
    return pointer->getAddressSpace() == shared ? 1 : 2;
  return (layout.getTypeSizeInBits(type).getFixedValue() + 31) / 32;
}

using Values = DenseSet<const Value *>;

/// Integers and addresses that follow from arguments and the thread's place by arithmetic, also
/// through loops: they can be computed again wherever registers are short.
Values indicesOf(const Function &kernel) {
  Values indices;
  auto canBe = [](const Instruction &instruction) {
    if (!instruction.getType()->isIntOrPtrTy() || instruction.mayReadOrWriteMemory())
      return false;
    auto *call = dyn_cast<CallInst>(&instruction);
    return !call || (isa<IntrinsicInst>(call) && !call->isConvergent());
  };
  for (const Instruction &instruction : instructions(kernel))
    if (canBe(instruction))
      indices.insert(&instruction);
  auto operands = [](const Instruction &instruction) {
    auto *call = dyn_cast<CallInst>(&instruction);
    return call ? make_range(call->arg_begin(), call->arg_end())
                : make_range(instruction.op_begin(), instruction.op_end());
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instruction &instruction : instructions(kernel))
      if (indices.contains(&instruction) && !all_of(operands(instruction), [&](const Use &use) {
            return isa<Constant, Argument>(use) || indices.contains(use);
          }))
        changed |= indices.erase(&instruction);
  }
  return indices;
}

/// Whether results take the registers of operands: sums are changed where they are. What is taken
/// out of the results counts, not the structure beside it.
bool isInPlace(const Instruction &instruction) {
  auto *call = dyn_cast<CallInst>(&instruction);
  const Function *called = call ? call->getCalledFunction() : nullptr;
  return called && (called->getName().starts_with(pseudo::nvWgmma) ||
                    called->getName().starts_with(pseudo::nvWgmmaWait) ||
                    called->getName().starts_with(pseudo::nvWgmmaSums) ||
                    called->getName().starts_with(pseudo::nvWgmmaOperand));
}

class Liveness {
public:
  /// Values of `excluded` take no registers.
  Liveness(const Function &kernel, const Values &excluded) : kernel(kernel) {
    const DataLayout &layout = kernel.getParent()->getDataLayout();
    for (const Instruction &instruction : instructions(kernel))
      if (const unsigned size = registersOf(instruction.getType(), layout);
          size && !excluded.contains(&instruction) && !isInPlace(instruction)) {
        numbers.try_emplace(&instruction, sizes.size());
        sizes.push_back(size);
      }
    findLiveOut();
  }

  /// The most registers in use at one time, in the block that takes the most.
  unsigned peak() const {
    unsigned most = 0;
    for (const BasicBlock &block : kernel) {
      std::vector<const Instruction *> asWritten;
      for (const Instruction &instruction : block)
        asWritten.push_back(&instruction);
      most = std::max(most, std::min(peakOf(block, asWritten), peakOf(block, whenNeeded(block))));
    }
    return most;
  }

private:
  template <class Each> void forEach(const Instruction &user, Each each) const {
    for (const Use &use : user.operands())
      if (auto found = numbers.find(use.get()); found != numbers.end())
        each(found->second);
  }

  /// From what is alive after an instruction to what is before it.
  void stepBack(const Instruction &instruction, BitVector &alive) const {
    if (auto found = numbers.find(&instruction); found != numbers.end())
      alive.reset(found->second);
    if (!isa<PHINode>(instruction)) // its operands are alive at the ends of other blocks
      forEach(instruction, [&](unsigned value) { alive.set(value); });
  }

  void findLiveOut() {
    DenseMap<const BasicBlock *, BitVector> in;
    for (const BasicBlock &block : kernel)
      liveOut[&block] = in[&block] = BitVector(sizes.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (const BasicBlock &block : reverse(kernel)) {
        BitVector &out = liveOut[&block];
        for (const BasicBlock *next : successors(&block)) {
          out |= in[next];
          for (const PHINode &phi : next->phis())
            if (auto found = numbers.find(phi.getIncomingValueForBlock(&block));
                found != numbers.end())
              out.set(found->second);
        }
        BitVector alive = out;
        for (const Instruction &instruction : reverse(block))
          stepBack(instruction, alive);
        changed |= alive != in[&block];
        in[&block] = std::move(alive);
      }
    }
  }

  unsigned peakOf(const BasicBlock &block, ArrayRef<const Instruction *> order) const {
    BitVector alive = liveOut.at(&block);
    auto registers = [&] {
      unsigned sum = 0;
      for (unsigned value : alive.set_bits())
        sum += sizes[value];
      return sum;
    };
    unsigned most = registers();
    for (const Instruction *instruction : reverse(order)) {
      stepBack(*instruction, alive);
      most = std::max(most, registers());
    }
    return most;
  }

  /// The block's instructions with effects in their order, and before each what it needs; loads
  /// stay before what may be a barrier. What only later blocks need is last.
  std::vector<const Instruction *> whenNeeded(const BasicBlock &block) const {
    std::vector<const Instruction *> order;
    DenseSet<const Instruction *> placed;
    auto place = [&](const Instruction *root) {
      SmallVector<const Instruction *> stack{root};
      while (!stack.empty()) {
        const Instruction *top = stack.back();
        auto waits = [&](const Use &use) {
          auto *operand = dyn_cast<Instruction>(use);
          return operand && operand->getParent() == &block && !isa<PHINode>(operand) &&
                 !placed.contains(operand);
        };
        auto *missing = isa<PHINode>(top) ? top->op_end() : find_if(top->operands(), waits);
        if (missing != top->op_end()) {
          stack.push_back(cast<Instruction>(missing->get()));
          continue;
        }
        stack.pop_back();
        if (placed.insert(top).second)
          order.push_back(top);
      }
    };
    std::vector<const Instruction *> loads;
    for (const Instruction &instruction : block) {
      if (!instruction.mayHaveSideEffects() && !instruction.isTerminator()) {
        if (instruction.mayReadFromMemory())
          loads.push_back(&instruction);
        if (isa<PHINode>(instruction))
          place(&instruction);
        continue;
      }
      if (!isa<StoreInst>(instruction) && instruction.mayWriteToMemory()) {
        for_each(loads, place);
        loads.clear();
      }
      place(&instruction);
    }
    for (const Instruction &instruction : block)
      place(&instruction);
    return order;
  }

  const Function &kernel;
  DenseMap<const Value *, unsigned> numbers; ///< of values that take registers
  std::vector<unsigned> sizes;               ///< registers of each
  DenseMap<const BasicBlock *, BitVector> liveOut;
};

} // namespace

unsigned registerLimit(const Target &target, unsigned threads) {
  constexpr unsigned granularity = 8;
  return std::min(target.maxRegistersPerThread,
                  target.registersPerUnit / threads / granularity * granularity);
}

RegisterEstimate estimateRegisters(const Module &module) {
  RegisterEstimate estimate;
  for (const Function &function : module) {
    if (function.isDeclaration())
      continue;
    const unsigned fewest = Liveness(function, indicesOf(function)).peak();
    // Fitted to the library: the assembler folds some indices, and needs registers for itself.
    const unsigned usual = 12 + Liveness(function, {}).peak() * 4 / 5;
    estimate.fewest = std::max(estimate.fewest, fewest);
    estimate.usual = std::max({estimate.usual, fewest, usual});
  }
  return estimate;
}

} // namespace sectile::nvidia
