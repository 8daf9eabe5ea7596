// What passes ask of the kernel they work on: its target, its warps, its stages, its operations.
#ifndef SECTILE_PASSES_KERNEL_H
#define SECTILE_PASSES_KERNEL_H

#include "ir/Target.h"
#include "ir/layout/Shared.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/STLExtras.h"

namespace sectile {

/// The target that the module around `op` is compiled for; an error at `op` when there is none or
/// none such.
mlir::FailureOr<Target> targetOf(mlir::Operation *op);

/// How a target's shared memory serves accesses.
BankModel banksOf(const Target &target);
/// The same for the target that the module around `op` is compiled for; most chips' banks where it
/// names none.
BankModel banksOf(mlir::Operation *op);

/// Warps of the main partition of this kernel: 4 when it does not say. A computing partition has
/// its own (analysis/Warps.h).
unsigned warpsOf(mlir::func::FuncOp kernel);

/// With those of its partitions: what a launch has.
unsigned launchedWarpsOf(mlir::func::FuncOp kernel);

/// Whether a value is a tile or sums in flight, of which each warp has its own part.
bool isOfWarps(mlir::Value value);

/// Whether an operation in `root`, or that itself, meets a condition on operations of some kind.
template <typename Condition> bool anyIn(mlir::Operation *root, Condition meets) {
  using Op = typename llvm::function_traits<Condition>::template arg_t<0>;
  return root->walk([&](Op op) { return mlir::WalkResult(mlir::failure(meets(op))); })
      .wasInterrupted();
}
/// Whether all of them pass a check. The first that does not ends it.
template <typename Check> mlir::LogicalResult checkAll(mlir::Operation *root, Check check) {
  using Op = typename llvm::function_traits<Check>::template arg_t<0>;
  return mlir::failure(anyIn(root, [&](Op op) { return mlir::failed(check(op)); }));
}

/// All operations of a kind in `root`, which may be changed then.
template <typename Op> llvm::SmallVector<Op> allIn(mlir::Operation *root) {
  llvm::SmallVector<Op> found;
  root->walk([&](Op op) { found.push_back(op); });
  return found;
}

/// The operation of the kernel's own block that `op` is in, or that it is.
mlir::Operation *outermostAround(mlir::Operation *op);

/// Whether the user made channels, named barriers or mbarriers, so that mistakes are theirs.
bool hasChannelsByHand(mlir::func::FuncOp kernel);

/// Begins an error about a channel, a named barrier or a dot in flight: the user's where the kernel
/// has channels by hand or named barriers, and else the compiler's own.
mlir::InFlightDiagnostic channelError(mlir::Operation *op);

/// Stages where neither the launch nor the loop says how many.
inline constexpr unsigned usualStages = 3;
/// How many uses of a channel are in flight in this kernel's pipelined loops.
unsigned stagesOf(mlir::func::FuncOp kernel);
/// The same of a loop, which may say for itself.
unsigned stagesOf(mlir::LoopLikeOpInterface loop);

} // namespace sectile

#endif
