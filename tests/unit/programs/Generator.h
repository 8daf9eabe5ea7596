// Random kernels in tile IR, of numbers that stay exact.
#pragma once
#include "Interpreter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include <random>

namespace sectile::test {

/// Makes a kernel of arguments (ptr<i32> in, ptr<f16> left, ptr<f16> right, ptr<i32> out, i32 n,
/// i32 m), which reads the first three buffers, of `inputElements` elements each, and stores tiles
/// of i32 one after the other in `out`.
class Generator {
public:
  static constexpr int64_t inputElements = 1 << 14;

  Generator(mlir::MLIRContext *context, unsigned seed);
  mlir::OwningOpRef<mlir::ModuleOp> make();

  /// Elements that the kernel stores, known once it is made.
  int64_t outputElements() const { return stored; }

private:
  using Shape = llvm::SmallVector<int64_t, 3>;

  unsigned pick(unsigned n) { return random() % n; }
  bool coin() { return pick(2); }
  Shape someShape();
  mlir::Type i32() { return builder.getI32Type(); }
  mlir::RankedTensorType tileOf(llvm::ArrayRef<int64_t> shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }

  mlir::Value number(int64_t value);
  mlir::Value splat(mlir::Value scalar, llvm::ArrayRef<int64_t> shape);
  mlir::Value range(llvm::ArrayRef<int64_t> shape, unsigned along, int64_t start);
  mlir::Value rowMajor(llvm::ArrayRef<int64_t> shape, int64_t start);
  mlir::Value small(mlir::Value tile, int64_t bits);
  mlir::Value someScalar();
  mlir::Value someTile();
  mlir::Value someTileOf(llvm::ArrayRef<int64_t> shape);
  mlir::Value someMask(llvm::ArrayRef<int64_t> shape);

  void statement(unsigned depth);
  mlir::Value makeTile(llvm::ArrayRef<int64_t> shape);
  mlir::Value gather(llvm::ArrayRef<int64_t> shape);
  mlir::Value block(llvm::ArrayRef<int64_t> shape);
  mlir::Value binary(mlir::Value a, mlir::Value b);
  mlir::Value reshaped(mlir::Value tile);
  mlir::Value reduced(mlir::Value tile);
  mlir::Value dot(mlir::Value like);
  mlir::Value floating(mlir::Value a, mlir::Value b);
  mlir::Value matmul();
  mlir::Value attention();
  void loop(unsigned depth);
  void whileLoop();
  void branch(unsigned depth);
  void store(mlir::Value tile);
  mlir::Value convert(mlir::Value tile, mlir::Type element);
  mlir::Value wholeNumbers(mlir::Value tile);
  mlir::Value matrix(mlir::Value base, mlir::Value rows, mlir::Value columns, mlir::Value pitch,
                     bool turned);
  mlir::Value load(mlir::Value view, mlir::Value row, mlir::Value column, int64_t rows,
                   int64_t columns);
  mlir::Value turned(mlir::Value tile);

  std::mt19937 random;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::func::FuncOp kernel;
  std::vector<mlir::Value> tiles, scalars; ///< of i32, visible at the builder's place
  std::vector<int64_t> extents; ///< few per program, so that tiles meet others of their shape
  int64_t stored = 0;
};

} // namespace sectile::test
