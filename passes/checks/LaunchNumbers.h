// The numbers that a kernel's scalars have in one run of the check. What the launch decides
// (arguments, places in the grid, contents of memory) is open until somebody chooses it.
//
// A scalar that is open is an expression: an operation and its operands. Two values of one
// expression are one number, wherever they are computed. So what was chosen for a loop of one
// partition, in one iteration of the loops around it, holds for the copy of the loop in another one
// as long as both compute their bounds alike, and only then. No number that passes leave on copied
// loops could tell that.
#ifndef SECTILE_PASSES_CHECKS_LAUNCHNUMBERS_H
#define SECTILE_PASSES_CHECKS_LAUNCHNUMBERS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/Scalars.h"
#include <map>
#include <tuple>
#include <vector>

namespace sectile {

/// What a value is in a run: a number, or an expression by its place in a table.
struct Scalar {
  bool isOpen;
  int64_t number;
  auto operator<=>(const Scalar &) const = default;
};

class LaunchNumbers {
public:
  /// `isParted`: some of the kernel's code is run by several partitions, each for itself.
  LaunchNumbers(mlir::func::FuncOp kernel, bool isParted);

  /// Gives a value a place; false where it has one, or is no scalar.
  bool add(mlir::Value value);
  bool has(mlir::Value value) const { return indices.contains(value); }
  unsigned indexOf(mlir::Value value) const { return indices.at(value); }
  /// Whether the operation gives the same for the same operands, whoever does it.
  bool isExpression(mlir::Operation *op) const { return op && kinds.contains(op); }

  /// Another launch begins, of which nothing is known.
  void begin();
  /// Values, by their places, are about to be computed again.
  void forget(llvm::ArrayRef<unsigned> values);
  /// What a value is now; nothing where the loop or branch that gives it was not run yet.
  std::optional<Scalar> scalarOf(mlir::Value value);
  /// The number of a value, where it is known.
  Number of(mlir::Value value);
  llvm::SmallVector<Number> of(mlir::ValueRange values);
  void set(mlir::Value value, int64_t number);
  void set(mlir::ValueRange values, mlir::ValueRange from);

  /// Makes a value that is open this number, by what it is computed from where that has an inverse.
  /// If the value cannot be that number, it becomes one that it can be.
  void choose(mlir::Value value, int64_t number);
  /// Makes a value that was open until it was chosen this number if it can be, whatever it is
  /// computed from. Nobody has seen yet what is computed from it.
  void fix(mlir::Value value, int64_t number);
  /// How a condition comes out. What it is combined from comes out first, so that a condition and
  /// its negation stay that; `comesOut` says of what is open.
  bool decide(mlir::Value condition, llvm::function_ref<bool()> comesOut);

  /// How many iterations a loop does, where that is known.
  Number tripsOf(mlir::scf::ForOp loop);

private:
  struct Expression {
    mlir::Value value; ///< that was the first to be it
    llvm::SmallVector<Scalar, 3> operands;
    Number number = {};
    bool isChosen = false;  ///< not computed
    unsigned openSince = 0; ///< how many choices left it open
  };
  Number of(Scalar scalar);
  void choose(Scalar scalar, int64_t number);
  void chooseOperands(mlir::Operation *op, llvm::ArrayRef<Scalar> operands, int64_t number);
  void set(Expression &expression, int64_t number);
  bool decide(Scalar condition, llvm::function_ref<bool()> comesOut);

  mlir::func::FuncOp kernel;
  std::optional<AddressAnalysis> addresses;     ///< where several partitions load
  std::optional<ContiguityAnalysis> contiguity; ///< once something asks
  llvm::DenseMap<mlir::Value, unsigned> indices;
  /// For an operation that is an expression, the first that is the same but for its operands.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> kinds;
  llvm::SmallVector<mlir::Operation *> different; ///< these

  // Of a launch.
  std::vector<std::optional<Scalar>> scalars;
  std::vector<Expression> expressions;
  /// By the operation, which of its results it is, and the operands.
  std::map<std::tuple<mlir::Operation *, unsigned, llvm::SmallVector<Scalar, 3>>, unsigned>
      numbered;
  unsigned choices = 0;
};

} // namespace sectile

#endif
