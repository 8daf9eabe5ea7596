// Which accesses to global memory may touch the same bytes, and whether the same threads do so:
// what decides where a program's loads and stores need a barrier in between, and which loads may
// move ahead of stores.
//
// An address is a sum of products of values that the compiler does not know: the kernel's argument,
// scalars, how often a loop has run, the index along an axis of the tile. Two addresses are
// compared by their difference, in which equal terms cancel. Signed arithmetic is taken not to
// overflow, as in C++.
#ifndef SECTILE_PASSES_ANALYSIS_ADDRESSES_H
#define SECTILE_PASSES_ANALYSIS_ADDRESSES_H

#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/Contiguity.h"
#include <map>
#include <memory>

namespace sectile {

/// A value in an address. An index along an axis has no value, the counter of a loop has that of
/// the induction variable; a tile that nothing is known of is indexed by `axes`, one for each of
/// its own (-1 where it has one element).
struct AddressFactor {
  const void *value = nullptr;
  bool isCounter = false;
  llvm::SmallVector<int, 2> axes;

  auto key() const { return std::tuple(value, isCounter, llvm::ArrayRef(axes)); }
  friend bool operator==(const AddressFactor &a, const AddressFactor &b) {
    return a.key() == b.key();
  }
  friend bool operator<(const AddressFactor &a, const AddressFactor &b) {
    return std::tie(a.value, a.isCounter, a.axes) < std::tie(b.value, b.isCounter, b.axes);
  }
  bool isIndex() const { return !value; }
};

/// Products, sorted, with their coefficients; the empty product has the constant. In bytes for
/// pointers.
using AddressProduct = std::vector<AddressFactor>;
using Address = std::map<AddressProduct, int64_t>;

/// Where a block is in a view whose elements all have different addresses. The access leaves out
/// what is not in the view.
struct PlaceInView {
  Address base;
  llvm::SmallVector<mlir::Value, 6> sizes; ///< extents, then strides
  llvm::SmallVector<Address, 3> places;    ///< of an element, along each dimension
};

/// Loops of which an iteration has ended since something was done, as bits. What is computed in
/// such a loop has another value now.
using EndedIterations = uint64_t;

/// One access of global memory.
struct GlobalAccess {
  mlir::Operation *op = nullptr;
  bool reads = false, writes = false;
  /// Done by one thread for all that hold the element, and not by each of them.
  bool once = false;
  /// Carried out at another time than the thread's own accesses.
  bool asynchronous = false;
  /// Of an atomic operation that may change places with others of its kind.
  std::optional<tile::AtomicKind> commutes;
  /// What the pointer is made from: arguments of the kernel and records of its log. None: anything.
  llvm::SmallVector<mlir::Value, 2> roots;
  Address address;
  std::optional<PlaceInView> inView;
  llvm::ArrayRef<int64_t> shape; ///< empty for a scalar
  const Layout *layout = nullptr;
  int64_t bytes = 0;         ///< of one element; 0: not known
  EndedIterations loops = 0; ///< those that the address changes in
};

class AddressAnalysis {
public:
  explicit AddressAnalysis(mlir::func::FuncOp kernel);

  /// What an operation does to global memory, if anything; not the operations in it.
  std::optional<GlobalAccess> accessOf(mlir::Operation *op);

  /// Whether the second access has to wait until other threads have done the first one: not both
  /// only read, some byte may be touched by both, and by different threads. `ended`: iterations
  /// that ended in between.
  bool needsOrder(const GlobalAccess &first, const GlobalAccess &second, EndedIterations ended);

  /// Whether some byte may be touched by both, whoever does it.
  bool mayOverlap(const GlobalAccess &first, const GlobalAccess &second, EndedIterations ended);

  /// The same at any two times, whichever comes first.
  bool mayEverOverlap(const GlobalAccess &first, const GlobalAccess &second);

  /// Whether the kernel may write what a load reads, ahead of it or at any time after it.
  bool mayBeWritten(mlir::Operation *load);

  /// Whether the kernel may write anything through an argument that a load or a copy reads: other
  /// programs then may write what it reads.
  bool mayShareArgument(mlir::Operation *load);

  /// The bit of a loop.
  EndedIterations bitOf(mlir::Operation *loop) const;

private:
  const Address &addressOf(mlir::Value value);
  std::optional<Address> infer(mlir::Value value);
  /// Of a block's elements; nothing when that takes too many products.
  std::optional<Address> addressOf(const ViewBlock &block);
  std::optional<Address> carried(mlir::scf::ForOp loop, unsigned index);
  llvm::ArrayRef<mlir::Value> rootsOf(mlir::Value pointer);
  EndedIterations loopsAround(mlir::Value value) const;
  EndedIterations loopsIn(const AddressProduct &product) const;
  int64_t divisorOf(const AddressProduct &product);

  std::optional<PlaceInView> placeIn(mlir::Value base, mlir::ValueRange extents,
                                     mlir::ValueRange strides, mlir::ValueRange offsets,
                                     llvm::ArrayRef<int64_t> shape);
  /// Whether the accesses are of one view that was the same at both times.
  bool areInOneView(const GlobalAccess &first, const GlobalAccess &second,
                    EndedIterations ended) const;

  /// An address of all elements of a tile, in units of some bytes.
  struct Side {
    const Address &address;
    llvm::ArrayRef<int64_t> shape;
    int64_t bytes;
  };
  struct Distance;
  Distance distance(const Side &first, const Side &second, EndedIterations ended);
  /// The same of their places along a dimension of the view that both are in.
  Distance distanceAlong(unsigned dim, const GlobalAccess &first, const GlobalAccess &second,
                         EndedIterations ended);
  static Side sideOf(const GlobalAccess &access) {
    return {access.address, access.shape, access.bytes};
  }

  mlir::func::FuncOp kernel;
  llvm::DenseMap<mlir::Operation *, unsigned> loopNumbers;
  /// What may have ended between two times: nothing, or an iteration of a loop, with those in it.
  llvm::SmallVector<EndedIterations> times{0};
  std::map<void *, Address> addresses;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> roots;
  std::unique_ptr<ContiguityAnalysis> contiguity; ///< once something asks
};

} // namespace sectile

#endif
