// A tile in shared memory as the threads of a distributed layout see it.
#ifndef SECTILE_CODEGEN_COMMON_SHAREDTILE_H
#define SECTILE_CODEGEN_COMMON_SHAREDTILE_H

#include "codegen/common/KernelEmitter.h"
#include "ir/layout/Shared.h"

namespace sectile {

/// Where each register of a thread lies in a buffer. Byte addresses are a part that depends on the
/// thread, emitted once per kernel, and a constant; `moving`, in bytes, is xored to both.
class SharedPlaces {
public:
  SharedPlaces(KernelEmitter &emitter, const Layout &distributed, const Layout &buffer,
               unsigned elementBytes, llvm::Value *base, ThreadPart moving = {});

  /// The address of a register's element; the number includes the repeat.
  llvm::Value *address(unsigned reg);
  /// The same with another part for the thread.
  llvm::Value *address(unsigned reg, const ThreadPart &part);
  /// Bytes from one offset of the buffer to the next, for a bit of a lane or a warp.
  uint32_t image(In in, unsigned bit) const {
    return map.basis(in, bit)[In::Offset] * elementBytes;
  }
  ThreadPart part() const { return own; }
  /// The thread's part of the addresses that matrix instructions take.
  ThreadPart rowsOf(const MatrixAccess &matrices) const;

private:
  llvm::Value *move(llvm::Value *variable, uint32_t variableBits, uint32_t constant);

  KernelEmitter &emitter;
  PlaceMap map;
  unsigned elementBytes, coreRegisters, coreBytes;
  llvm::Value *base;
  ThreadPart own, moving;
  llvm::DenseMap<std::pair<llvm::Value *, uint32_t>, llvm::Value *> moved;
  llvm::DenseMap<std::pair<llvm::Value *, llvm::BasicBlock *>, llvm::Value *> starts;
};

/// Reads registers from a buffer as planSharedAccess says. What one access brings along is kept for
/// later.
class SharedReader {
public:
  SharedReader(KernelEmitter &emitter, const Layout &distributed, const Layout &buffer,
               mlir::Type element, llvm::Value *base, ThreadPart moving = {});

  llvm::Value *get(unsigned reg);
  Registers all();
  /// Registers `reg` and the following that fill a 32-bit word together, as an i32; an element of
  /// 64 bits as it is.
  llvm::Value *word(unsigned reg);

private:
  void load(unsigned reg);

  KernelEmitter &emitter;
  Layout layout;
  llvm::Type *type, *memoryType;
  SharedPlaces places;
  SharedAccess access;
  ThreadPart matrixRows;
  llvm::SmallVector<unsigned> groupOf; ///< of core registers: the access that has them
  Registers loaded;
  llvm::SmallVector<llvm::Value *, 0> words; ///< by register / elements per word
};

/// Writes a tile's registers to a buffer as planSharedAccess says. Of threads that hold the same,
/// one writes.
void storeShared(KernelEmitter &emitter, llvm::ArrayRef<llvm::Value *> values,
                 const Layout &distributed, const Layout &buffer, mlir::Type element,
                 llvm::Value *base);

} // namespace sectile

#endif
