// Rewrites a kernel's instructions into plain host IR and calls of the machine.
#pragma once
#include "vgpu/VirtualObject.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/Error.h"
#include <algorithm>

namespace sectile::vgpu {

// Metadata of accesses that are none of the kernel's: they fetch its arguments, or count for the
// machine.
constexpr char machineMark[] = "sectile.machine";
// Metadata of fences that order the accesses of one block's threads only.
constexpr char blockMark[] = "sectile.block";

// Attribute of the kernel: the chip it is for, where intrinsics mean something else on each.
constexpr char chipAttribute[] = "sectile.chip";

class Lowering {
public:
  // `thread` is the kernel's argument that points to its ThreadHeader.
  Lowering(llvm::Function &kernel, llvm::Value *thread, VirtualObject &object);

  // Rewrites every instruction of the kernel.
  llvm::Error run();

  // What the tables of intrinsics build with. The builder stands before the call that is being
  // replaced.
  llvm::IRBuilder<> builder;
  llvm::Value *threadField(uint32_t offset, llvm::Type *type);
  // Calls sectile_vg_<name>.
  llvm::CallInst *machineCall(llvm::StringRef name, llvm::Type *result,
                              llvm::ArrayRef<llvm::Value *> arguments);
  llvm::Value *siteOf(const llvm::Instruction &instruction, SiteKind kind, llvm::StringRef name);
  // A shared pointer as the 32-bit offset it is. Generic pointers into shared memory are taken too.
  llvm::Value *sharedAddress(llvm::Value *pointer);
  llvm::Value *threadValue() const { return thread; }
  // Passes the call's arguments from `first` on through registers to sectile_vg_warp; gives the
  // call's result.
  llvm::Value *warpCall(llvm::CallInst &call, SiteKind kind, Op op, uint32_t modifiers,
                        llvm::Value *mask, llvm::ArrayRef<llvm::Value *> arguments,
                        llvm::Type *type = nullptr);
  // The values as words in the buffer that machine functions read, whose address it gives.
  llvm::Value *inRegisters(llvm::ArrayRef<llvm::Value *> values);
  // Announces a global access of one `type` to the machine where the predicate holds, aligned to
  // its size, or to words where `flags` say so; gives the address to use, which is private memory
  // where it does not hold.
  llvm::Value *predicatedAccess(llvm::CallInst &call, llvm::Value *pointer, llvm::Type *type,
                                llvm::Value *predicate, uint32_t flags);
  // A fence, where the builder stands; MachineAbi.h says what it may do.
  void fence(uint32_t order);
  // Where the instruction stands, this function of the machine is called if the divisor is zero.
  void checkDivisor(llvm::Instruction &instruction, llvm::Value *divisor, llvm::StringRef function);
  llvm::Value *allLanes() { return builder.getInt64(~0ull); }

private:
  llvm::Error lowerCall(llvm::CallInst &call);
  void orderBlocks();
  void countInstructions();
  void makeLoopsInterruptible();
  void lowerAccess(llvm::Instruction &instruction, unsigned pointerOperand, llvm::Type *type,
                   llvm::Align align, uint32_t flags, llvm::StringRef name);
  void lowerDivision(llvm::BinaryOperator &division);
  void tellOf(llvm::Instruction &instruction, llvm::Value *condition, llvm::StringRef function,
              llvm::Value *site);
  void lowerFence(llvm::FenceInst &fence);
  void lowerCast(llvm::AddrSpaceCastInst &cast);
  void lowerAddressNumber(llvm::PtrToIntInst &number);
  void lowerAlloca(llvm::AllocaInst &alloca);
  void lowerMemoryCall(llvm::CallInst &call);
  void flatten(llvm::Value *value, llvm::SmallVectorImpl<llvm::Value *> &words);
  llvm::Value *unflatten(llvm::Type *type, llvm::Value *registers, unsigned &word);
  llvm::Value *hostAddress(llvm::Value *pointer);

  llvm::Function &kernel;
  llvm::Value *thread;
  VirtualObject &object;
  const llvm::DataLayout &layout;
  bool hasFences = false;
  // One buffer for all warp operations, as large as the largest needs. Some write a few words that
  // the kernel does not ask for, and accesses under a false predicate go there.
  llvm::AllocaInst *registers = nullptr;
  unsigned registerWords = 16;
  void noteRegisters(unsigned words) { registerWords = std::max(registerWords, words); }
};

// One row of the table of intrinsics: how a call is replaced. `name` ending in '*' matches any
// suffix.
struct IntrinsicRule {
  llvm::StringRef name;
  // Builds the replacement and returns the value of the call (null for void).
  llvm::Expected<llvm::Value *> (*build)(Lowering &, llvm::CallInst &, const IntrinsicRule &);
  uint64_t first = 0;
  uint64_t second = 0;
  const char *symbol = nullptr;
};

// The rule for an intrinsic or pseudo-intrinsic; null when there is none.
const IntrinsicRule *findIntrinsicRule(llvm::StringRef name);

} // namespace sectile::vgpu
