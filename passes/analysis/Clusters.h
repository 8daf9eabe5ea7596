// What the programs of a cluster have in common.
#ifndef SECTILE_PASSES_ANALYSIS_CLUSTERS_H
#define SECTILE_PASSES_ANALYSIS_CLUSTERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace sectile {

/// How many programs along the grid's first axis run side by side; 1 without clusters.
unsigned clusterOf(mlir::func::FuncOp kernel);

/// Whether a program may wait for another one: a loop without a count asks memory, by atomic
/// operations or volatile loads. Programs of a cluster that copy for each other wait for each other
/// as well, and both at once need not end.
bool mayAwaitPrograms(mlir::func::FuncOp kernel);

/// Values that all programs of a cluster compute alike: from arguments, constants, other axes of
/// the grid, and the program's number divided by a multiple of the cluster's size.
class ClusterValues {
public:
  explicit ClusterValues(unsigned cluster) : cluster(cluster) {}

  bool areAlike(mlir::Value value);
  bool areAlike(mlir::ValueRange values);

  /// Whether the programs run an operation equally often: it depends on like values alone.
  bool runAlike(mlir::Operation *op);

private:
  bool find(mlir::Value value);

  const unsigned cluster;
  /// Of what loops carry it is taken for true until it has been found.
  llvm::DenseMap<mlir::Value, bool> known;
};

} // namespace sectile

#endif
