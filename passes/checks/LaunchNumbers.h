// The numbers that a kernel's scalars have in one launch. What the launch decides (arguments,
// places in the grid, contents of memory) is open until somebody chooses it, as what is computed
// from it has to be.
#ifndef SECTILE_PASSES_CHECKS_LAUNCHNUMBERS_H
#define SECTILE_PASSES_CHECKS_LAUNCHNUMBERS_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/Scalars.h"
#include <vector>

namespace sectile {

class LaunchNumbers {
public:
  explicit LaunchNumbers(mlir::func::FuncOp kernel);

  /// Lets loads in loops, of what the kernel never changes, give the same number for the same
  /// address, whoever makes them.
  void findMemory();
  bool isOfMemory(mlir::Operation *load) const { return places.contains(load); }
  /// What the address of such a load is computed from.
  llvm::ArrayRef<mlir::Value> stepsTo(mlir::Operation *load) const {
    return places.find(load)->second.steps;
  }
  /// Whether a value is computed from such loads; also through what loops `carry`.
  bool readsMemory(mlir::Value value, bool carry) const;

  /// Gives a value a place; false where it has one, or can have no number.
  bool add(mlir::Value value);
  bool has(mlir::Value value) const { return indices.contains(value); }
  unsigned indexOf(mlir::Value value) const { return indices.at(value); }

  /// Another launch begins, of which nothing is known.
  void begin();
  /// Values, by their places, are about to be computed again.
  void forget(llvm::ArrayRef<unsigned> values);

  Number at(unsigned index) const { return numbers[index]; }
  void setAt(unsigned index, Number number) {
    numbers[index] = number;
    ++choices;
  }
  /// What is known of a value; nothing where it has no place.
  Number of(mlir::Value value);
  llvm::SmallVector<Number> of(mlir::ValueRange values);
  void set(mlir::Value value, Number number);
  void set(mlir::ValueRange values, mlir::ValueRange from);

  /// Whether the numbers are those of a launch that there can be. They are while all that was
  /// chosen was for the launch to decide, and one number for all who compute with it.
  bool areSure() const { return sure; }
  /// Something was assumed that need not follow from the launch.
  void guess() { sure = false; }

  /// How far apart two numbers are chosen, of which one has to be less than the other.
  int64_t reach = 1;

  /// How many iterations a loop does, where that is known.
  Number tripsOf(mlir::scf::ForOp loop);

  /// Makes a value that is open this number, by what it is computed from.
  void choose(mlir::Value value, int64_t number) { choose(value, number, 0); }
  /// Makes a value this number, or what is next to it of all that it can be, whatever it is
  /// computed from. That is a guess.
  void fix(mlir::Value value, int64_t number);
  bool isFixed(unsigned index) const { return fixed[index]; }

private:
  void choose(mlir::Value value, int64_t number, unsigned nesting);
  void chooseComparison(mlir::arith::CmpIOp compare, bool holds, unsigned nesting);
  bool isMadeOnce(mlir::Value value) const;
  std::pair<void *, int64_t> addressOf(mlir::Operation *load);

  mlir::func::FuncOp kernel;
  mlir::Operation *parted = nullptr; ///< the first partition
  llvm::DenseMap<mlir::Value, unsigned> indices;
  llvm::DenseMap<mlir::Operation *, ScalarPlace> places; ///< of loads that memory decides
  std::optional<ContiguityAnalysis> contiguity;          ///< once something asks

  // Of a launch.
  std::vector<Number> numbers;
  std::map<std::pair<void *, int64_t>, int64_t> memory; ///< as far as it was chosen
  std::vector<bool> fixed;
  std::vector<unsigned> openSince; ///< how many choices left the number open
  unsigned choices = 0;
  bool sure = true;
};

} // namespace sectile

#endif
