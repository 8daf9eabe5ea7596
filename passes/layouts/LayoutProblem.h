// The assignment of layouts as one problem over a whole kernel: who has a layout, what depends on
// it, what it costs, and the search for the cheapest.
#ifndef SECTILE_PASSES_LAYOUTS_LAYOUTPROBLEM_H
#define SECTILE_PASSES_LAYOUTS_LAYOUTPROBLEM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/layouts/LayoutCosts.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <map>
#include <set>
#include <unordered_map>

namespace sectile {

/// Numbers layouts, so that they are compared and remembered by number.
class LayoutTable {
public:
  unsigned idOf(const Layout &layout);
  const Layout &operator[](unsigned id) const { return *layouts[id]; }

private:
  struct Hash {
    size_t operator()(const Layout &layout) const { return hash_value(layout); }
  };
  std::unordered_map<Layout, unsigned, Hash> ids;
  std::vector<const Layout *> layouts;
};

/// A *node* is what has one layout: an operation on tiles with its results, or a value that loops
/// and branches carry, all the way. Tiles that take little to compute (arange, splat and what is
/// made of them) belong to no node: whoever needs one has it made in the layout it needs.
class LayoutProblem {
public:
  LayoutProblem(mlir::func::FuncOp kernel, const Target &target);

  /// Chooses the layouts.
  void solve();

  /// How many times the conversions of a value were weighed so far.
  uint64_t countWeighed() const { return weighed; }

  /// Whether a tile is made anew in any layout it is needed in.
  bool isCheap(mlir::Value tile) const { return cheap.contains(tile); }
  /// The chosen layout of a tile that is not cheap.
  const Layout &layoutOf(mlir::Value tile);
  /// The layout in which an operation wants a tile, by what was chosen; null when it is nobody's.
  const Layout *required(mlir::OpOperand &operand);
  /// A layout for a tile of which nothing is known, where an operation is.
  Layout plain(mlir::RankedTensorType type, mlir::Operation *op) const {
    return costs.plain(type, op);
  }

private:
  static constexpr unsigned none = ~0u;

  struct Node {
    mlir::Operation *op = nullptr; // null for what is carried
    llvm::SmallVector<mlir::Value, 2> values;
    llvm::SmallVector<mlir::OpOperand *, 4> operands;
    double weight = 1;
    unsigned layout = none;
    bool onlyProposals = false;
    llvm::SmallVector<unsigned, 4> proposals; // its own, the likeliest first
    llvm::SmallVector<unsigned, 8> candidates;
    llvm::DenseMap<unsigned, double> costs;
    llvm::SmallVector<unsigned, 4> around; // numbers of its values and its operands'
  };

  // A layout that one node proposes, and what follows from it for the others.
  struct Label {
    unsigned seed;
    std::vector<unsigned> layouts; // per node, or none
  };

  void findCheapTiles();
  void addNodes();
  void addCarried(llvm::ArrayRef<mlir::Value> values, llvm::ArrayRef<mlir::OpOperand *> operands,
                  double weight);
  void propose();
  void addLabel(unsigned seed, unsigned layout);
  void choose(bool reversed);
  /// Gives a node another layout, and its operands' values another user's wish.
  void setLayout(unsigned node, unsigned layout);
  /// The same for good: gains that it may change count as unknown.
  void moveTo(unsigned node, unsigned layout);
  /// Other than before where a node's gains may have changed.
  uint64_t stateAround(unsigned node) const;
  /// Notes what all users want of all values.
  void noteWishes();
  void improve();
  bool improveOne(unsigned node);
  bool grow(const Label &label);

  // Layout numbers along an edge: of a node's values, of an operand given its owner's layout (none
  // when any will do), and back.
  unsigned valueLayout(unsigned node, unsigned layout);
  /// Whether a node's layout is that of its operands, from which its values' follows.
  static bool takesOwnLayout(mlir::Operation *op);
  unsigned operandLayoutOf(mlir::OpOperand &operand, unsigned node, unsigned layout);
  unsigned followingLayout(mlir::OpOperand &operand, unsigned node, unsigned layout);
  bool accepts(const Node &node, unsigned layout) const;

  double costOfNode(unsigned node, unsigned layout);
  double costOfConversion(unsigned from, unsigned to, unsigned bits, unsigned spareBytes);
  /// Conversions of one value for all that use it.
  double costOfValue(mlir::Value value);
  /// What a node and the values around it cost now.
  double costAround(unsigned node);
  /// How that changes with another layout.
  double gain(unsigned node, unsigned layout);
  double totalCost();
  /// Each once.
  llvm::SmallVector<unsigned, 8> neighbours(unsigned node) const;

  // A use of a value by a node, in the order of the value's uses.
  struct Use {
    mlir::OpOperand *operand;
    bool canGoAhead;
    bool mayStay; // in shared memory, where the use reads it
    bool isReadAlongK;
  };
  // What the users of a value want of it. A tile that hundreds of operations use would else be
  // asked about them all whenever one of them changes.
  struct Wishes {
    std::vector<Use> uses;
    std::map<unsigned, std::set<unsigned>> usesOf; // of a layout, by number
    bool isMixed = false;                          // uses differ in that
    uint64_t state = 0; // increased by what another user's gain may depend on
  };

  mlir::func::FuncOp kernel;
  LayoutCosts costs;
  LayoutTable table;
  std::vector<Node> nodes;
  std::vector<Label> labels;
  llvm::DenseSet<mlir::Value> cheap;
  llvm::DenseMap<mlir::Value, unsigned> producer;
  llvm::DenseMap<mlir::OpOperand *, unsigned> consumer;
  llvm::DenseMap<mlir::Value, unsigned> valueNumbers; // of those that nodes produce
  std::vector<Wishes> wishes;                         // by them
  uint64_t weighed = 0;
  llvm::DenseMap<mlir::OpOperand *, unsigned> useNumbers; // of its value
  llvm::DenseMap<std::pair<mlir::OpOperand *, unsigned>, unsigned> requiredMemo;
  llvm::DenseMap<std::pair<unsigned, unsigned>, unsigned> reducedMemo;
  llvm::DenseMap<std::tuple<unsigned, unsigned, unsigned, unsigned>, double> conversionMemo;
};

} // namespace sectile

#endif
