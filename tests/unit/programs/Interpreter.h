// Runs tile IR element by element, before any pass: what compiled code must agree with.
#pragma once
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <stdexcept>
#include <vector>

namespace sectile::test {

/// Elements of one type in memory. Floats are whole numbers here, so that every order of summation
/// gives the same.
struct Buffer {
  unsigned bytes; ///< of one element
  std::vector<int64_t> elements;
};

/// A number that its type cannot hold exactly: the program is none to test with.
struct Inexact : std::runtime_error {
  Inexact() : std::runtime_error("a number that is not exact in its type") {}
};

/// Interprets one program of a kernel.
class Interpreter {
public:
  Interpreter(std::vector<Buffer> &buffers, int64_t program) : buffers(buffers), program(program) {}

  /// The address of a buffer, as an argument.
  static int64_t addressOf(unsigned buffer) { return int64_t(buffer + 1) << 40; }

  void run(mlir::func::FuncOp kernel, llvm::ArrayRef<int64_t> arguments);

private:
  using Elements = std::vector<int64_t>;
  struct View {
    int64_t address;
    Elements extents, strides;
  };

  llvm::SmallVector<Elements> run(mlir::Block &block);
  void run(mlir::Operation &op);
  void runFor(mlir::scf::ForOp loop);
  void runReduce(tile::ReduceOp op);
  void runDot(tile::DotOp op);
  void runBlock(mlir::Value viewed, mlir::ValueRange offsets, llvm::ArrayRef<int64_t> shape,
                llvm::function_ref<void(size_t element, int64_t address, bool inside)> access);
  Elements elementwise(mlir::Operation &op);
  int64_t &at(int64_t address);

  std::vector<Buffer> &buffers;
  int64_t program;
  llvm::DenseMap<mlir::Value, Elements> values;
  llvm::DenseMap<mlir::Value, View> views;
};

} // namespace sectile::test
