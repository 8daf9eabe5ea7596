// Which neighbours in a tile are neighbours in value: what decides how wide memory accesses can be.
#ifndef SECTILE_PASSES_ANALYSIS_CONTIGUITY_H
#define SECTILE_PASSES_ANALYSIS_CONTIGUITY_H

#include "ir/tile/Tile.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Intervals.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile {

/// What is known along one dimension. Runs are aligned: a run of length r starts at a multiple of
/// r, and r divides the extent, which need not be a power of two. For pointers a step of one is one
/// element, and divisors are in bytes.
struct Run {
  int64_t contiguity = 1; ///< length of runs of values that grow by one
  int64_t constancy = 1;  ///< length of runs of equal values
  int64_t divisibility =
      1;           ///< power of two that divides the first value of every run of `contiguity`
  int64_t gap = 1; ///< what neighbours grow by; with Certainty::mostly it may be more than one
  bool operator==(const Run &) const = default;
};

/// What is known of an integer, a pointer or a tile of them. A scalar has one dimension of
/// extent 1.
struct Contiguity {
  llvm::SmallVector<Run, 2> dims;
  Interval interval; ///< every element, as a signed number
  /// The same where the value becomes a place, a size or a divisor: arithmetic that is marked to
  /// fit (ir/tile/Overflow.h) did.
  Interval place;
  /// By how many bits arithmetic that is marked to fit can exceed its type, at most `farBits`.
  /// Products of products add up.
  unsigned excess = 0;
  static constexpr unsigned farBits = 14;

  const Run &operator[](unsigned dim) const { return dims[dim]; }
  bool operator==(const Contiguity &) const = default;
  /// Whether nobody expects the numbers to wrap, as a number of programs times the extent of a tile
  /// does not; a hash does.
  bool isNear() const { return excess < farBits; }
  /// What every element is, if that is known.
  std::optional<int64_t> constant() const;

  /// Nothing known about a value of this type, but that pointers are multiples of what they point
  /// to.
  static Contiguity unknown(mlir::Type type);
};

/// Bytes from one element to the next where pointers of this type point; 1 for integers.
int64_t stepOf(mlir::Type type);

/// The power of two that divides the first value of every aligned run of `length` along a
/// dimension.
int64_t divisibilityOfRuns(const Run &run, int64_t length, int64_t step);

enum class Certainty {
  /// Holds even if promises are false.
  proven,
  /// Holds if promises are true.
  always,
  /// What to expect: the places that a number is taken apart into by an extent that is not known
  /// are neighbours except at row ends, numbers up to 16 apart still lie close by, and what is
  /// divided is not negative.
  mostly
};

/// The analysis of every value in an operation, by abstract interpretation: loops are repeated
/// until nothing changes.
///
/// MLIR's dataflow framework and its analysis of integer ranges are not used. Runs need the walk
/// over loops anyway, ranges come along in it, and neither knows of promises or of arithmetic that
/// is marked to fit.
class ContiguityAnalysis {
public:
  explicit ContiguityAnalysis(mlir::Operation *root, Certainty certainty = Certainty::always);
  const Contiguity &operator[](mlir::Value value) const;
  Certainty getCertainty() const { return certainty; }

private:
  void visit(mlir::Block &block);
  void visit(mlir::Operation &op);
  void visitRegions(mlir::Operation &op);
  void collect(mlir::Value promise, mlir::Block *block);
  /// Whether each element of a sum that is marked to fit is that of one of its parts and others
  /// that are not negative.
  bool isAtLeast(mlir::Value sum, mlir::Value part) const;
  void visitIf(mlir::scf::IfOp branch);
  void visitFor(mlir::scf::ForOp loop);
  void visitWhile(mlir::scf::WhileOp loop);
  /// Sets what is known of a value to this, and to what was promised of it.
  void set(mlir::Value value, Contiguity what);
  void copy(mlir::ValueRange to, mlir::ValueRange from);
  /// Sets each to what holds of both others.
  void setJoined(mlir::ValueRange to, mlir::ValueRange a, mlir::ValueRange b);
  /// Weakens what is known of values that a loop carries to what holds of the next ones too;
  /// whether that took anything away.
  bool weaken(mlir::ValueRange carried, mlir::ValueRange next);

  /// What `assume` says of a number.
  struct Promise {
    bool nonNegative = false;
    int64_t divisor = 1;
  };

  Certainty certainty;
  llvm::DenseMap<mlir::Value, Promise> promises;
  llvm::DenseMap<mlir::Value, Contiguity> known;
};

/// What holds of an operation's only result, given what holds of its operands.
Contiguity inferContiguity(mlir::Operation &op, llvm::ArrayRef<const Contiguity *> operands,
                           Certainty certainty = Certainty::always);

/// What is known of a block of a view: its address, and per dimension where it begins, how far the
/// view goes and how many elements are from one index to the next.
struct BlockContiguity {
  const Contiguity *ptr;
  llvm::SmallVector<const Contiguity *, 4> offsets, extents, strides;
  llvm::ArrayRef<int64_t> shape;

  /// Whether an index along a dimension may be less than zero, or beyond the extent.
  bool mayBeBelow(unsigned dim) const { return !offsets[dim]->place.isNonNegative(); }
  bool mayBeBeyond(unsigned dim) const {
    return extents[dim]->place.low - offsets[dim]->place.high < shape[dim];
  }
};

/// What holds of pointers at offsets, which count elements of `step` bytes, from one pointer.
Contiguity pointersAt(const Contiguity &base, const Contiguity &offsets, int64_t step);

/// What holds of the pointers to a block whose elements have `step` bytes.
Contiguity pointersOfBlock(const BlockContiguity &block, int64_t step, Certainty certainty);

/// What holds of the mask of a block's elements that are within the view; nothing where all are.
std::optional<Contiguity> maskOfBlock(const BlockContiguity &block);

/// What holds of a value that is one or the other. `step` is stepOf their type.
Contiguity joined(const Contiguity &a, const Contiguity &b, int64_t step);

} // namespace sectile

#endif
