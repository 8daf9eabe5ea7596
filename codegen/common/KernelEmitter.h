// Emits one kernel: operation by operation, every tile as one LLVM value per register of its
// layout.
#ifndef SECTILE_CODEGEN_COMMON_KERNELEMITTER_H
#define SECTILE_CODEGEN_COMMON_KERNELEMITTER_H

#include "codegen/common/DebugInfo.h"
#include "codegen/common/Functions.h"
#include "codegen/common/TargetHooks.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/IRBuilder.h"
#include <functional>
#include <map>
#include <vector>

namespace sectile {

/// What a thread holds of an MLIR value: one LLVM value for a scalar, one per register for a tile.
/// A buffer is its address.
using Registers = llvm::SmallVector<llvm::Value *, 0>;

/// A number that a linear map over GF(2) gives: of a thread's place in the block, or of a loop's
/// step.
struct ThreadPart {
  llvm::Value *value = nullptr; ///< i32; nullptr is zero
  uint32_t bits = 0;            ///< that may be set
};

/// The xor of the images of the bits that are set in `value`, of which `mask` may be; as an i32.
ThreadPart linearMap(llvm::IRBuilder<> &b, llvm::Value *value, uint32_t mask,
                     llvm::ArrayRef<uint32_t> images);

struct DotSteps;

class KernelEmitter {
public:
  KernelEmitter(llvm::Module &module, const TargetHooks &hooks, mlir::func::FuncOp function,
                bool reportsDivisors);
  mlir::LogicalResult run();

  // What follows is for the parts that emit shared-memory accesses, conversions, reductions, dots.
  llvm::IRBuilder<> b;
  const TargetHooks &hooks;
  const Target &target;

  /// Of each computing partition, the main one included.
  unsigned numThreads() const { return warps * target.warpSize; }
  /// All threads of the partition meet: TargetHooks::barrier.
  void barrier() { hooks.barrier(b, ownBarrier ? numThreads() : 0, b.getInt32(ownBarrier)); }
  void memoryBarrier() {
    hooks.memoryBarrier(b, ownBarrier ? numThreads() : 0, b.getInt32(ownBarrier));
  }
  /// The number of the first barrier that is not for all warps of some partition.
  unsigned firstNamedBarrier() const;
  /// Whether what is emitted is for one thread.
  bool isForOneThread() const { return forOneThread; }
  /// In the partition that is emitted, from 0.
  llvm::Value *threadIndex() const { return thread; }
  llvm::Value *laneIndex();

  Registers &registers(mlir::Value value);
  llvm::Value *scalar(mlir::Value value) { return registers(value).front(); }
  void define(mlir::Value value, Registers registers);

  /// The LLVM type of one element in a register, and in memory.
  llvm::Type *typeOf(mlir::Type element);
  llvm::Type *memoryTypeOf(mlir::Type element);
  /// A value between its type in registers and in memory.
  llvm::Value *toMemory(llvm::Value *value);
  llvm::Value *fromMemory(llvm::Value *value, llvm::Type *type);

  /// The xor of the images of the lane and warp bits that are set; emitted once, in the entry.
  ThreadPart threadPart(llvm::ArrayRef<uint32_t> laneImages, llvm::ArrayRef<uint32_t> warpImages);
  /// The same of the warp bits alone, from one lane, so that the assembler may see that it is the
  /// same in all; nullptr for zero.
  llvm::Value *warpPart(llvm::ArrayRef<uint32_t> warpImages);
  /// part ^ constant, as an i32 emitted in the entry plus a constant: as much as possible goes to
  /// the latter, which addresses take for free. The first is nullptr for zero.
  std::pair<llvm::Value *, uint32_t> combine(const ThreadPart &part, uint32_t constant);

  /// For every register of a layout the first register that holds the same; nothing when all
  /// differ.
  llvm::ArrayRef<unsigned> firstCopies(const Layout &layout);
  /// Whether this thread is the one that writes its elements, where several hold the same; nullptr
  /// when every thread is.
  llvm::Value *isWriter(const Layout &layout);
  /// Emits what happens only where the condition holds; nullptr is everywhere.
  void under(llvm::Value *condition, llvm::function_ref<void()> body);

  /// The same for a tile's or a scalar's type. Every thread has a scalar: the first one writes it.
  llvm::Value *isWriter(mlir::Type type);

  /// How a dot by matrix instructions loops over K; nothing where it is unrolled.
  std::optional<DotSteps> stepsOf(cta::DotOp op) const;

  /// The address `offset` bytes into the kernel's shared memory.
  llvm::Value *sharedAddress(uint32_t offset);

  /// Moves a 32-bit word, or any number as such words, between lanes.
  llvm::Value *shuffleXor(llvm::Value *value, unsigned mask);
  llvm::Value *shuffle(llvm::Value *value, llvm::Value *from);

  /// Emits a block's operations; its arguments are defined before.
  mlir::LogicalResult emitBlock(mlir::Block &block);
  void beginOverlap();
  mlir::Operation *endOfWork(bool waitsFirst);
  void waitDependencies();
  void emitReturn();

private:
  mlir::LogicalResult emit(mlir::Operation &op);
  mlir::LogicalResult emitTileOp(mlir::Operation &op, bool &known);
  mlir::LogicalResult emitCtaOp(mlir::Operation &op, bool &known);
  void locate(mlir::Location location);

  // Elementwise operations.
  using Elementwise = std::function<llvm::Value *(llvm::ArrayRef<llvm::Value *>)>;
  Elementwise arithmetic(mlir::Operation &op);
  Elementwise conversion(mlir::Operation &op);
  Elementwise function(mlir::Operation &op);
  mlir::LogicalResult emitElementwise(mlir::Operation &op);
  /// Conversions of 8-bit floats two at a time, where the chip has them; false where it has not.
  bool emitFp8Pairs(mlir::Operation &op);
  mlir::LogicalResult emitConstant(mlir::arith::ConstantOp op);
  template <class Op> void emitExtendedMultiply(Op op, bool isSigned);
  llvm::Constant *constantOf(mlir::Attribute value, mlir::Type type);

  // Element by element, with code of the user's.
  mlir::LogicalResult emitMap(tile::MapOp op);
  mlir::LogicalResult emitInlineAsm(tile::InlineAsmOp op);
  void emitExternCall(tile::ExternCallOp op);
  /// The registers of a tile that hold different elements.
  llvm::SmallVector<unsigned> distinctRegisters(mlir::Type type);
  /// All registers, where those that differ are known.
  void copyRegisters(mlir::Type type, Registers &values);

  // Shapes.
  void emitArange(tile::ArangeOp op);
  mlir::LogicalResult emitReshape(tile::ReshapeOp op);
  mlir::LogicalResult emitBroadcast(tile::BroadcastOp op);
  void emitExtractSlice(cta::ExtractSliceOp op);
  mlir::LogicalResult emitPermute(tile::PermuteOp op);
  mlir::LogicalResult emitJoin(tile::JoinOp op);
  mlir::LogicalResult emitSplit(tile::SplitOp op);
  mlir::LogicalResult rename(mlir::Operation *op, const Layout &natural,
                             llvm::ArrayRef<llvm::Value *> values, mlir::Value result);

  // Global memory.
  /// By pointers, or at offsets in a buffer.
  template <typename Op> mlir::LogicalResult emitLoad(Op op);
  template <typename Op> void emitStore(Op op);
  struct AccessShape;
  struct Places;
  AccessShape accessShape(mlir::Type tile, mlir::Type element, std::optional<int32_t> vector);

  // Control flow.
  void emitFor(mlir::scf::ForOp op, bool &ok);
  void emitForInFlight(mlir::scf::ForOp op, bool &ok);
  void emitIf(mlir::scf::IfOp op, bool &ok);
  void emitWhile(mlir::scf::WhileOp op, bool &ok);
  mlir::LogicalResult emitPartition(cta::PartitionOp op);
  mlir::LogicalResult emitComputing(cta::PartitionOp op, llvm::Value *index);
  void setRegisters(unsigned count);
  mlir::LogicalResult emitNamedBarrier(tile::NamedBarrierOp op);

  llvm::Module &module;
  mlir::func::FuncOp source;
  const bool reportsDivisors;
  bool waitsAlways = false, saysWhenToLaunch = false;
  bool isShort = true;                       ///< neither loops nor dots
  mlir::Operation *letStartBefore = nullptr; ///< what the launch behind this one starts at
  unsigned warps;                            ///< of the partition that is emitted
  /// The number of the barrier at which its threads meet (passes/analysis/Warps.h).
  unsigned ownBarrier = 0;
  bool forOneThread = false;
  llvm::Function *kernel = nullptr;
  functions::ReducedAngles angles;
  llvm::Value *thread = nullptr;
  llvm::Value *lane = nullptr;
  /// At the end of the block that the partition begins with: for what depends on the thread only.
  llvm::IRBuilder<> entry;
  KernelDebugInfo debug;
  llvm::DenseMap<mlir::Value, Registers> values;
  llvm::DenseMap<mlir::Operation *, int64_t> dotSteps; ///< of the dots that loop
  std::map<std::vector<uint32_t>, ThreadPart> threadParts;
  llvm::DenseMap<std::pair<llvm::Value *, uint32_t>, llvm::Value *> combined;
  std::map<std::vector<uint32_t>, std::vector<unsigned>> copies;
};

/// Keeps LLVM from unrolling the loop that this branch closes.
void keepRolled(llvm::Instruction *back);

} // namespace sectile

#endif
