// What differs between vendors when cta IR becomes LLVM IR: the emitter asks these functions.
#ifndef SECTILE_CODEGEN_COMMON_TARGETHOOKS_H
#define SECTILE_CODEGEN_COMMON_TARGETHOOKS_H

#include "ir/Target.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/tile/Tile.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include <variant>

namespace sectile {

/// One access of one thread to global memory.
struct ThreadAccess {
  llvm::Value *pointer = nullptr;
  /// Bytes from the pointer, which all threads have in common, as an i32 from 0 to 2^31 - 1; what
  /// it is where the predicate is false does not matter. nullptr: at the pointer.
  llvm::Value *offset = nullptr;
  llvm::Value *predicate = nullptr; ///< i1; nullptr is true
  llvm::Align align;
  tile::Cache cache = tile::Cache::Default;
  tile::Eviction eviction = tile::Eviction::Normal;
  bool isVolatile = false;

  bool isPlain() const {
    return cache == tile::Cache::Default && eviction == tile::Eviction::Normal && !isVolatile;
  }
};

/// One atomic operation of one thread on global memory, in no order with others.
struct AtomicAccess {
  llvm::Value *pointer = nullptr;
  llvm::Value *predicate = nullptr; ///< i1; nullptr is true
  tile::Scope scope = tile::Scope::Device;
};

class TargetHooks {
public:
  explicit TargetHooks(const Target &target) : target(target) {}
  virtual ~TargetHooks();
  static std::unique_ptr<TargetHooks> create(const Target &target);

  const Target &target;

  //===-- Kernels and their places ------------------------------------------------------------===//

  /// Calling convention, attributes and module flags of a kernel launched with `threads` threads,
  /// in clusters of `cluster` blocks. `movesRegisters`: whether it has setRegisters().
  virtual void setUpKernel(llvm::Function &kernel, unsigned threads, unsigned cluster,
                           bool movesRegisters) const = 0;
  /// Lets a kernel that was set up have so many registers a thread, and leaves room for so many
  /// blocks on a multiprocessor; 0: no limit.
  virtual void limitRegisters(llvm::Function &kernel, unsigned threads, unsigned maxRegisters,
                              unsigned minBlocks) const = 0;
  /// How source lines get into the code.
  virtual llvm::DICompileUnit::DebugEmissionKind lineTables() const {
    return llvm::DICompileUnit::LineTablesOnly;
  }
  /// The thread's number within its block.
  virtual llvm::Value *threadIndex(llvm::IRBuilder<> &b) const = 0;
  virtual llvm::Value *programId(llvm::IRBuilder<> &b, unsigned axis) const = 0;
  virtual llvm::Value *numPrograms(llvm::IRBuilder<> &b, unsigned axis) const = 0;

  //===-- Threads meeting
  //-----------------------------------------------------------------------===//

  /// All threads of the block meet, or if `threads` is not 0 so many at the barrier of this number;
  /// shared memory is in order before and after. Only targets with Target::tensorCopy have the
  /// latter.
  virtual void barrier(llvm::IRBuilder<> &b, unsigned threads, llvm::Value *number) const = 0;
  /// The same for shared and global memory.
  virtual void memoryBarrier(llvm::IRBuilder<> &b, unsigned threads, llvm::Value *number) const = 0;
  /// Counts as one that came to the barrier, and does not wait.
  virtual void barrierArrive(llvm::IRBuilder<> &b, unsigned threads, llvm::Value *number) const;
  /// Orders shared memory among the lanes of a warp.
  virtual void warpBarrier(llvm::IRBuilder<> &b) const = 0;
  /// The i32 that lane `lane ^ mask` of the warp has.
  virtual llvm::Value *shuffleXor(llvm::IRBuilder<> &b, llvm::Value *value,
                                  unsigned mask) const = 0;
  /// The i32 that lane `from` has.
  virtual llvm::Value *shuffle(llvm::IRBuilder<> &b, llvm::Value *value,
                               llvm::Value *from) const = 0;

  //===-- Global memory
  //-------------------------------------------------------------------------===//

  /// Reads a `type` (an integer or a vector of them, 8 to 128 bits); `other` where the predicate is
  /// false.
  virtual llvm::Value *load(llvm::IRBuilder<> &b, const ThreadAccess &access, llvm::Type *type,
                            llvm::Value *other) const = 0;
  virtual void store(llvm::IRBuilder<> &b, const ThreadAccess &access,
                     llvm::Value *value) const = 0;

  /// Combines memory with a number, or a vector of two 16-bit floats each by itself, as one; gives
  /// what was there before, zero where the predicate is false.
  virtual llvm::Value *atomicUpdate(llvm::IRBuilder<> &b, const AtomicAccess &access,
                                    tile::AtomicKind kind, llvm::Value *value) const = 0;
  /// Writes an integer where memory holds the expected one; gives what was there before, zero where
  /// the predicate is false.
  virtual llvm::Value *atomicExchange(llvm::IRBuilder<> &b, const AtomicAccess &access,
                                      llvm::Value *expected, llvm::Value *value) const = 0;
  /// Orders this thread's accesses before it with those after it, as the others of `scope` see
  /// them: a release before an atomic operation, an acquire after one.
  void fence(llvm::IRBuilder<> &b, llvm::AtomicOrdering order, tile::Scope scope) const;

  /// Waits for the launches that this one depends on, and lets those start that depend on this one.
  /// Nothing where launches do not overlap.
  virtual void waitDependencies(llvm::IRBuilder<> &) const {}
  /// In a large grid, too, or in small ones alone.
  virtual void launchDependents(llvm::IRBuilder<> &, bool /*inAnyGrid*/) const {}

  /// Copies `bytes` bytes to shared memory without waiting, zeros where the predicate is false.
  /// Only for targets with Target::asyncCopy, as the next two.
  virtual void asyncCopy(llvm::IRBuilder<> &b, const ThreadAccess &from, llvm::Value *to,
                         unsigned bytes) const;
  virtual void asyncCommit(llvm::IRBuilder<> &b) const;
  virtual void asyncWait(llvm::IRBuilder<> &b, unsigned pending) const;

  //===-- Matrix units
  //--------------------------------------------------------------------------===//

  /// Reads 1, 2 or 4 matrices of 8 rows of 16 bytes from shared memory, one i32 of each per lane;
  /// lane 8·i + r gives the address of row r of matrix i. Only for targets with Target::matrixLoad.
  virtual llvm::SmallVector<llvm::Value *, 4> matrixLoad(llvm::IRBuilder<> &b, llvm::Value *row,
                                                         unsigned count, bool transposed) const;
  /// Writes such matrices. Only for targets with Target::matrixStore.
  virtual void matrixStore(llvm::IRBuilder<> &b, llvm::Value *row,
                           llvm::ArrayRef<llvm::Value *> matrices, bool transposed) const;
  /// One matrix instruction on the fragments of a thread, as i32 or f64 values; replaces acc.
  virtual void mma(llvm::IRBuilder<> &b, const MmaInstruction &instruction,
                   llvm::ArrayRef<llvm::Value *> a, llvm::ArrayRef<llvm::Value *> bRegisters,
                   llvm::MutableArrayRef<llvm::Value *> acc) const = 0;

  /// What a thread wrote to shared memory so far, cp.async's copies that it has waited for too, is
  /// there for instructions that read it themselves, once the threads have met. These and the next
  /// are for targets that have such.
  virtual void proxyFence(llvm::IRBuilder<> &b) const;
  /// What a thread has seen in global memory so far is there for copies that it asks for later.
  virtual void globalProxyFence(llvm::IRBuilder<> &b) const;
  /// An mbarrier, at an address in shared memory, that so many arrivals complete a phase of.
  virtual void mbarrierInit(llvm::IRBuilder<> &b, llvm::Value *barrier, unsigned arrivals) const;
  /// This thread arrives, and so many more bytes have to be copied in this phase.
  virtual void mbarrierExpect(llvm::IRBuilder<> &b, llvm::Value *barrier, llvm::Value *bytes) const;
  /// Waits until the phase of this parity is over.
  virtual void mbarrierWait(llvm::IRBuilder<> &b, llvm::Value *barrier, llvm::Value *parity) const;
  /// What was made of mbarriers is there for the cluster's other block once both have met.
  virtual void mbarriersFence(llvm::IRBuilder<> &b) const;
  /// This block's number in its cluster, an i32, and a barrier of all the cluster's threads.
  virtual llvm::Value *clusterRank(llvm::IRBuilder<> &b) const;
  virtual void clusterBarrier(llvm::IRBuilder<> &b) const;
  /// Arrives at the mbarrier of the block of this rank that lies where `barrier` does here. That
  /// block sees nothing of what this thread wrote.
  virtual void mbarrierArriveAt(llvm::IRBuilder<> &b, llvm::Value *barrier,
                                llvm::Value *rank) const;
  /// Arrives at an mbarrier of this block: what the thread did before is over for who waits there.
  virtual void mbarrierArrive(llvm::IRBuilder<> &b, llvm::Value *barrier) const;
  /// From here on each thread of this warpgroup has so many registers: more than before, or less.
  virtual void setRegisters(llvm::IRBuilder<> &b, unsigned count, bool isMore) const;
  /// Copies the box of a tensor map at these coordinates to shared memory; its bytes count for the
  /// mbarrier. `toBoth`: to the same place of both blocks of the cluster, each with its mbarrier.
  virtual void tensorCopy(llvm::IRBuilder<> &b, llvm::Value *map,
                          llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *to,
                          llvm::Value *barrier, bool toBoth) const;
  /// Stores the box of a tensor map at these coordinates from shared memory, or adds it to memory.
  virtual void tensorStore(llvm::IRBuilder<> &b, llvm::Value *map,
                           llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *from,
                           bool adds) const;
  /// After the last of several that are waited for together.
  virtual void tensorStoresCommit(llvm::IRBuilder<> &b) const;
  /// Waits until this thread's stores have read shared memory, or have been `written`, the last
  /// `later` of them excepted.
  virtual void tensorStoresWait(llvm::IRBuilder<> &b, unsigned later, bool written) const;
  /// An operand in shared memory: the address of the buffer, as an i32, and where in it.
  struct SharedOperand {
    llvm::Value *buffer;
    MatrixDescriptor place;
  };
  /// Before the first of several matrix instructions that are in flight together: registers that
  /// were written are theirs from here on.
  virtual void warpgroupBegin(llvm::IRBuilder<> &b) const;
  /// One of them, whose A is in shared memory or, as words, in registers. Replaces acc, the f32 of
  /// one thread, by what may be used for the next ones or by warpgroupWait alone.
  virtual void warpgroupMma(llvm::IRBuilder<> &b, const MmaInstruction &instruction,
                            const std::variant<SharedOperand, llvm::ArrayRef<llvm::Value *>> &a,
                            const SharedOperand &bOperand,
                            llvm::MutableArrayRef<llvm::Value *> acc) const;
  /// After the last of them.
  virtual void warpgroupCommit(llvm::IRBuilder<> &b) const;
  /// Waits until at most the `pending` latest of what was committed are in flight. Replaces sums of
  /// the others by their values.
  virtual void warpgroupWait(llvm::IRBuilder<> &b, unsigned pending,
                             llvm::MutableArrayRef<llvm::Value *> sums) const;
  /// Before a loop whose matrix instructions add to these sums: they are in registers from here on.
  virtual void warpgroupSums(llvm::IRBuilder<> &b, llvm::MutableArrayRef<llvm::Value *> sums) const;
  /// Copies words of A to registers that nothing else writes.
  virtual void warpgroupOperand(llvm::IRBuilder<> &b,
                                llvm::MutableArrayRef<llvm::Value *> words) const;
  /// An f32 rounded to what matrix units take as tf32, as an i32.
  virtual llvm::Value *roundToTF32(llvm::IRBuilder<> &b, llvm::Value *value) const;

  //===-- Functions
  //-----------------------------------------------------------------------------===//

  /// 2^x and 1/√x of f32, at most two units in the last place off. A 2^x that is subnormal may be
  /// 0: chips need not scale it.
  virtual llvm::Value *exp2(llvm::IRBuilder<> &b, llvm::Value *x) const = 0;
  virtual llvm::Value *rsqrt(llvm::IRBuilder<> &b, llvm::Value *x) const = 0;
  /// 1/x of f32, one unit in the last place off; 0 where that would be subnormal.
  virtual llvm::Value *reciprocalNormal(llvm::IRBuilder<> &b, llvm::Value *x) const = 0;

  /// An f32 or f64 toward zero as an i32 or i64. What is out of range gives the nearest number that
  /// is not, NaN zero.
  virtual llvm::Value *toInteger(llvm::IRBuilder<> &b, llvm::Value *x, llvm::Type *type,
                                 bool isSigned) const;

  /// Whether the chip converts 8-bit floats: e4m3fn, or e5m2 where `e5m2`.
  virtual bool convertsFp8() const { return false; }
  /// Two f32 rounded to nearest even, saturating, as an i16; and two in an i16 as two f16.
  virtual llvm::Value *narrowFp8(llvm::IRBuilder<> &b, llvm::Value *low, llvm::Value *high,
                                 bool e5m2) const;
  virtual llvm::Value *widenFp8(llvm::IRBuilder<> &b, llvm::Value *pair, bool e5m2) const;

protected:
  /// What LLVM calls a scope.
  virtual llvm::StringRef scopeName(tile::Scope scope) const = 0;
  llvm::SyncScope::ID scopeOf(llvm::IRBuilder<> &b, tile::Scope scope) const;
  /// The value that `then` gives under the predicate, else `otherwise`.
  static llvm::Value *valueUnderBranch(llvm::IRBuilder<> &b, llvm::Value *predicate,
                                       llvm::function_ref<llvm::Value *()> then,
                                       llvm::Value *otherwise);
  /// A plain load or store under a branch on the predicate.
  static llvm::Value *loadUnderBranch(llvm::IRBuilder<> &b, const ThreadAccess &access,
                                      llvm::Type *type, llvm::Value *other);
  static void storeUnderBranch(llvm::IRBuilder<> &b, const ThreadAccess &access,
                               llvm::Value *value);
  /// Gives the instruction LLVM's one hint: what is used once need not stay in the caches.
  static llvm::Instruction *hinted(llvm::IRBuilder<> &b, const ThreadAccess &access,
                                   llvm::Instruction *instruction);
};

std::unique_ptr<TargetHooks> createNvidiaHooks(const Target &target);
std::unique_ptr<TargetHooks> createAmdHooks(const Target &target);

} // namespace sectile

#endif
