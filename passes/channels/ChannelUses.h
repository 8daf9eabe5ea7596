// Which uses of each channel are in flight, at each of the operations on channels.
#ifndef SECTILE_PASSES_CHANNELS_CHANNELUSES_H
#define SECTILE_PASSES_CHANNELS_CHANNELUSES_H

#include "ir/cta/Cta.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace sectile {

/// Runs through a kernel's control flow, every loop until its states repeat, and follows the uses
/// of all channels: acquired, committed, waited for, released.
class ChannelUses {
public:
  /// Fails, having said where, when some path breaks the protocol: it acquires a slot while all are
  /// in use; commits, waits for or releases what is not there, or another use than the next; reads
  /// what is released, or releases what a dot in flight reads; does not wait exactly once for a
  /// dot; or leaves another number of uses in flight than a path that it joins.
  static mlir::FailureOr<ChannelUses> of(mlir::func::FuncOp kernel);

  /// Whether asynchronous copies fill one of these channels.
  bool isAsynchronous(mlir::ValueRange channels) const;

  /// Whether the copy engine fills one of these channels.
  bool isByEngine(mlir::ValueRange channels) const;

  /// How many groups of asynchronous copies are closed between the commit of the use that is waited
  /// for and the wait, on the path with the fewest.
  unsigned groupsAfter(cta::WaitOp wait) const { return groups.lookup(wait); }

  /// So many uses from a number on, which is a base, if it has one, and an offset.
  struct Numbered {
    mlir::Value base;
    int64_t offset = 0;
    unsigned count = 0;
  };
  /// The uses of a channel by hand that may be left when its producer ends: those that nobody
  /// waited for, or where another partition waits, the last of all. Slots and parities are those of
  /// the numbers, which may be two rounds of the ring too large.
  std::optional<Numbered> leftBehind(mlir::Value channel) const {
    auto found = left.find(channel);
    return found == left.end() ? std::nullopt : std::optional(found->second);
  }

private:
  class Walk;

  llvm::DenseSet<mlir::Value> asynchronous, byEngine;
  llvm::DenseMap<mlir::Operation *, unsigned> groups;
  llvm::DenseMap<mlir::Value, Numbered> left;
};

} // namespace sectile

#endif
