// A tile in shared memory in row-major order, whatever its extents: for elements that are found by
// numbers which the kernel computes, and for reshapes that move odd factors.
#ifndef SECTILE_CODEGEN_COMMON_ROWMAJOR_H
#define SECTILE_CODEGEN_COMMON_ROWMAJOR_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

/// Row-major numbers, among the elements of a tile of `shape`, of those whose coordinates a thread
/// holds in a layout.
class RowMajorIndex {
public:
  RowMajorIndex(KernelEmitter &emitter, const Layout &layout, llvm::ArrayRef<int64_t> shape);

  /// The number of a register's element, as an i32; without its part along the axis `without`.
  llvm::Value *of(unsigned reg, int without = -1);
  uint32_t stride(unsigned dim) const { return strides[dim]; }

private:
  KernelEmitter &emitter;
  Layout layout;
  llvm::SmallVector<uint32_t, 4> strides;
  llvm::SmallVector<ThreadPart, 4> parts; ///< of the coordinate along each dimension
};

void storeRowMajor(KernelEmitter &emitter, llvm::ArrayRef<llvm::Value *> values,
                   const Layout &layout, mlir::Type element, llvm::Value *base);
Registers loadRowMajor(KernelEmitter &emitter, const Layout &layout, mlir::Type element,
                       llvm::Value *base);
/// One element, by its number.
llvm::Value *loadElement(KernelEmitter &emitter, llvm::Value *number, mlir::Type element,
                         llvm::Value *base);

} // namespace sectile

#endif
