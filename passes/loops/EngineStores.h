// Stores that the copy engine makes from shared memory.
#ifndef SECTILE_PASSES_LOOPS_ENGINESTORES_H
#define SECTILE_PASSES_LOOPS_ENGINESTORES_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/Addresses.h"
#include "passes/analysis/Contiguity.h"
#include "passes/memory/TensorBlock.h"

namespace sectile {

/// The stores of a kernel whose tiles go through shared memory anyway, or that threads would make
/// word by word, and its additions to memory whose results nobody uses. It is valid as long as the
/// kernel does not change.
class EngineStores {
public:
  EngineStores(mlir::func::FuncOp kernel, const Target &target)
      : kernel(kernel), target(target), contiguity(kernel), addresses(kernel) {}

  /// Bytes of shared memory that a loop over tiles needs at least besides the rings that a producer
  /// partition fills: for its stores in the smallest pieces, and for the scratch of all operations
  /// except those in `without`.
  int64_t bytesBeside(mlir::Operation *loop, llvm::DenseSet<mlir::Operation *> without);

  /// A tile on its way to memory, in equal pieces side by side along one dimension. Pieces take
  /// turns in two buffers, whose lines lie along `dim`.
  struct Pieces {
    unsigned dim = 0, along = 0, count = 1;
    cta::BufferType buffer;
    unsigned buffers() const { return std::min(count, 2u); }
    int64_t bytes() const;
  };
  /// The stores that the engine makes, and why it does not make the others.
  struct Plan {
    llvm::SmallVector<std::pair<mlir::Operation *, Pieces>> stores;
    llvm::SmallVector<std::pair<mlir::Operation *, std::string>> remarks;
  };
  /// Chooses, and changes nothing. A tile takes the place of rings that end with their loop; where
  /// rings live on, it takes the room that is left, in pieces if need be.
  Plan plan();
  void apply(const Plan &plan);

private:
  /// A store in a loop over tiles, maybe under a condition, and who waits for it.
  struct TileLoopStore {
    mlir::scf::IfOp branch;
    llvm::SmallVector<cta::TensorStoreWaitOp> waits;
    cta::TensorStoreWaitOp afterLoop;
  };

  llvm::SmallVector<mlir::Operation *> candidates();
  std::string whyNot(mlir::Operation *store, bool perTile);
  std::optional<Pieces> split(mlir::Operation *store, unsigned count,
                              std::optional<unsigned> along = std::nullopt);
  llvm::SmallVector<Pieces> splits(mlir::Operation *store);
  std::optional<Pieces> splitToFit(mlir::Operation *store, int64_t room);
  void storePerTile(mlir::Operation *store, const Pieces &pieces);
  void predicateStoreWaits();

  mlir::func::FuncOp kernel;
  const Target &target;
  ContiguityAnalysis contiguity;
  AddressAnalysis addresses;
  llvm::SmallVector<TileLoopStore> tileLoopStores;
};

} // namespace sectile

#endif
