// Gives every buffer, channel and scratch its place in shared memory: those that are never alive at
// the same time may share one.
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/SharedMemory.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "llvm/Support/MathExtras.h"

namespace sectile {
#define GEN_PASS_DEF_PLACESHARED
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

/// An allocation in shared memory and its live range, in program order.
struct Item {
  Operation *op;
  int64_t bytes, alignment;
  unsigned begin, end;
  /// The only computing partition that uses it, null for the main one; nothing where several do.
  std::optional<Operation *> partition;
  int64_t offset = 0;

  bool isAliveWith(const Item &other) const {
    return !partition || partition != other.partition || (begin <= other.end && other.begin <= end);
  }
};

/// Numbers operations in program order. An operation with regions ends after all in them.
class Order {
public:
  explicit Order(Operation *root) { visit(root); }
  unsigned begin(Operation *op) const { return numbers.lookup(op).first; }
  unsigned end(Operation *op) const { return numbers.lookup(op).second; }
  unsigned last() const { return next; }

private:
  void visit(Operation *op) {
    unsigned begin = next++;
    for (Region &region : op->getRegions())
      for (Operation &inner : region.getOps())
        visit(&inner);
    numbers[op] = {begin, next++};
  }

  DenseMap<Operation *, std::pair<unsigned, unsigned>> numbers;
  unsigned next = 0;
};

/// Swizzles want buffers that start where their pattern does; small things only full vectors.
int64_t alignmentOf(Operation *op, int64_t bytes) {
  auto swizzled = [](const Layout &layout) {
    return llvm::any_of(layout.packed(In::Offset),
                        [](uint32_t v) { return llvm::popcount(v) > 1; });
  };
  cta::BufferType buffer;
  if (auto alloc = dyn_cast<cta::AllocOp>(op))
    buffer = alloc.getType();
  else if (auto channel = dyn_cast<cta::ChannelOp>(op))
    buffer = channel.getType().getBuffer();
  if (buffer && swizzled(buffer.getLayout().getLayout()))
    return std::clamp<int64_t>(llvm::bit_floor<uint64_t>(buffer.getBytes()), 16, 1024);
  return bytes >= 128 ? 128 : 16;
}

/// From which operation's number to which other's something needs what `owner` placed.
class Lifetime {
public:
  Lifetime(Operation *owner, const Order &order)
      : owner(owner), order(order), begin(order.begin(owner)), end(order.end(owner)) {
    // The chip keeps what it counts there.
    if (isa<cta::MbarriersOp>(owner)) {
      end = order.last();
      return;
    }
    // What other warps have the engine write there may come when the readers have ended.
    if (auto channel = dyn_cast<cta::ChannelOp>(owner);
        channel && channel.getBetweenWarps() && channel->hasAttr(cta::maskedAttr))
      end = order.last();
    for (Value result : owner->getResults())
      follow(result);
    if (copied)
      end = afterCopies();
  }

  std::pair<unsigned, unsigned> numbers() const { return {begin, end}; }

private:
  void follow(Value value) {
    for (Operation *user : value.getUsers()) {
      reach(user);
      if (isa<cta::AsyncCopyOp>(user))
        copied = true;
      if (auto start = dyn_cast<cta::DotStartOp>(user))
        followDot(start);
      if (isa<cta::PermuteBufferOp, cta::SlotOp, cta::AcquireOp, cta::WaitOp>(user))
        for (Value result : user->getResults())
          if (isa<cta::BufferType>(result.getType()))
            follow(result);
    }
  }

  void reach(Operation *user) {
    Operation *ancestor = owner->getBlock()->findAncestorOpInBlock(*user);
    // What leaves the block can be read at any time.
    if (ancestor && !user->hasTrait<OpTrait::IsTerminator>()) {
      end = std::max(end, order.end(ancestor));
      return;
    }
    if (!ancestor)
      begin = 0;
    end = order.last();
  }

  // A dot in flight reads its operands until it is waited for: by a later wait in its block, or by
  // the wait for its sums.
  void followDot(cta::DotStartOp start) {
    unsigned later = 0; // dots
    for (Operation *op = start->getNextNode(); op; op = op->getNextNode()) {
      later += isa<cta::DotStartOp>(op);
      auto allWait = dyn_cast<cta::DotsWaitOp>(op);
      auto wait = dyn_cast<cta::DotWaitOp>(op);
      if ((wait && wait.getPending() <= later) || (allWait && allWait.getPending() <= later))
        return reach(op);
    }
    SmallVector<Value> flying{start.getResult()};
    DenseSet<Value> seen;
    while (!flying.empty())
      for (OpOperand &use : flying.pop_back_val().getUses()) {
        Operation *user = use.getOwner();
        auto add = [&](Value value) {
          if (seen.insert(value).second)
            flying.push_back(value);
        };
        if (isa<cta::DotStartOp>(user)) {
          add(user->getResult(0));
        } else if (auto loop =
                       dyn_cast<scf::ForOp>(isa<scf::YieldOp>(user) ? user->getParentOp() : user)) {
          const unsigned number =
              use.getOperandNumber() - (isa<scf::YieldOp>(user) ? 0 : loop.getNumControlOperands());
          // In the next iteration it is in flight from the beginning on.
          if (loop->isProperAncestor(owner))
            begin = std::min(begin, order.begin(loop));
          add(loop.getRegionIterArg(number));
          add(loop.getResult(number));
        } else {
          reach(user);
        }
      }
  }

  // Asynchronous copies write until all of them have been waited for.
  unsigned afterCopies() const {
    for (auto wait : owner->getBlock()->getOps<cta::AsyncWaitOp>())
      if (wait.getPending() == 0 && order.begin(wait) > end)
        return order.end(wait);
    return order.last();
  }

  Operation *owner;
  const Order &order;
  unsigned begin, end;
  bool copied = false;
};

std::string inKiB(int64_t bytes) {
  std::string text = std::to_string(bytes / 1024);
  if (int64_t tenths = bytes % 1024 * 10 / 1024)
    text += "." + std::to_string(tenths);
  return text + " KiB";
}

struct PlaceShared : sectile::impl::PlaceSharedBase<PlaceShared> {
  void runOnOperation() override {
    func::FuncOp kernel = getOperation();
    FailureOr<Target> target = targetOf(kernel);
    if (failed(target) || failed(checkLayouts(kernel, *target)))
      return signalPassFailure();
    SmallVector<Item> items = collect(kernel);
    // With a place of its own, small scratch needs no barrier before it is written again: the one
    // inside the next scratch's operation does that. Where there is no room for it, space counts.
    int64_t total = place(items, /*spread=*/true);
    if (total > target->maxSharedBytes)
      total = place(items, /*spread=*/false);
    // Set even when it is too much: the compiler's callers use it to classify the failure.
    Builder builder(&getContext());
    kernel->setAttr(cta::sharedBytesAttr, builder.getI32IntegerAttr(total));
    if (total > target->maxSharedBytes) {
      reportExcess(kernel, *target, items, total);
      return signalPassFailure();
    }
    for (const Item &item : items)
      setSharedOffset(item.op, item.offset);
  }

  static SmallVector<Item> collect(func::FuncOp kernel) {
    Order order(kernel);
    SmallVector<Item> items;
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      int64_t bytes = sharedBytes(op);
      if (!bytes)
        return;
      std::pair<unsigned, unsigned> alive{order.begin(op), order.end(op)};
      if (isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(op))
        alive = Lifetime(op, order).numbers();
      items.push_back({op, bytes, alignmentOf(op, bytes), alive.first, alive.second,
                       ownPartitionOf(op, computingPartitionsOf(kernel).empty())});
    });
    return items;
  }

  /// Producer partitions do not count: whoever reads what they copy has waited for them.
  static std::optional<Operation *> ownPartitionOf(Operation *op, bool isOne) {
    auto computing = [](Operation *user) {
      auto partition = dyn_cast_if_present<cta::PartitionOp>(partitionOf(user));
      return partition && partition.getComputes() ? partition.getOperation() : nullptr;
    };
    if (isOne || !isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(op))
      return isOne ? nullptr : computing(op);
    std::optional<Operation *> found;
    SmallVector<Operation *> users(op->getUsers());
    while (!users.empty()) {
      Operation *user = users.pop_back_val();
      // The place of a slot that no loop changes is worked out ahead of the partition that uses it.
      if (isa<cta::SlotOp, cta::PermuteBufferOp>(user)) {
        llvm::append_range(users, user->getUsers());
        continue;
      }
      if (auto partition = dyn_cast_if_present<cta::PartitionOp>(partitionOf(user));
          partition && !partition.getComputes())
        continue;
      if (found && *found != computing(user))
        return std::nullopt;
      found = computing(user);
    }
    return found.value_or(nullptr);
  }

  static bool isSmallScratch(const Item &item) {
    return item.bytes <= 2048 && !isa<cta::AllocOp, cta::ChannelOp, cta::MbarriersOp>(item.op);
  }

  // Neighbours among the small scratches: those that follow each other, and around a loop the last
  // and the first.
  static bool areNeighbours(ArrayRef<Item *> scratches, const Item *a, const Item *b) {
    auto at = [&](const Item *item) { return llvm::find(scratches, item) - scratches.begin(); };
    auto [first, second] = std::minmax({at(a), at(b)}); // a list: by value
    if (second - first == 1)
      return true;
    auto loop = scratches[first]->op->getParentOfType<LoopLikeOpInterface>();
    auto isIn = [&](Item *item) { return loop->isProperAncestor(item->op); };
    return loop && isIn(scratches[second]) && (first == 0 || !isIn(scratches[first - 1])) &&
           (second + 1 == std::ssize(scratches) || !isIn(scratches[second + 1]));
  }

  static bool largerFirst(const Item *a, const Item *b) {
    return std::pair(-a->bytes, a->begin) < std::pair(-b->bytes, b->begin);
  }

  /// Largest first, each at the lowest offset that nothing alive with it takes. The bytes in all.
  static int64_t place(MutableArrayRef<Item> items, bool spread) {
    SmallVector<Item *> bySize, scratches, placed;
    for (Item &item : items) {
      bySize.push_back(&item);
      if (isSmallScratch(item))
        scratches.push_back(&item);
    }
    llvm::sort(bySize, largerFirst);
    int64_t total = 0;
    for (Item *item : bySize) {
      SmallVector<Item *> others;
      for (Item *other : placed) {
        bool together = item->isAliveWith(*other);
        if (spread && isSmallScratch(*item) && isSmallScratch(*other))
          together |= areNeighbours(scratches, item, other);
        if (together)
          others.push_back(other);
      }
      llvm::sort(others, [](Item *a, Item *b) { return a->offset < b->offset; });
      item->offset = 0;
      for (Item *other : others)
        if (item->offset + item->bytes > other->offset)
          item->offset = std::max<int64_t>(
              item->offset, llvm::alignTo(other->offset + other->bytes, item->alignment));
        else
          break;
      placed.push_back(item);
      total = std::max(total, item->offset + item->bytes);
    }
    return total;
  }

  static void reportExcess(func::FuncOp kernel, const Target &target, ArrayRef<Item> items,
                           int64_t total) {
    InFlightDiagnostic error = kernel.emitError()
                               << "kernel '" << kernel.getName() << "' needs " << inKiB(total)
                               << " of shared memory, " << target.name << " has "
                               << inKiB(target.maxSharedBytes)
                               << ": lower the stages or the tile's extents";
    // What is alive with the topmost one; what other times need does not matter.
    const Item *top = llvm::max_element(items, [](const Item &a, const Item &b) {
      return a.offset + a.bytes < b.offset + b.bytes;
    });
    SmallVector<const Item *> largest;
    for (const Item &item : items)
      if ((&item == top || item.isAliveWith(*top)) && item.bytes >= 103) // 0.1 KiB
        largest.push_back(&item);
    llvm::sort(largest, largerFirst);
    for (const Item *item : ArrayRef(largest).take_front(3)) {
      Diagnostic &note = error.attachNote(item->op->getLoc());
      note << inKiB(item->bytes) << " are for ";
      if (auto alloc = dyn_cast<cta::AllocOp>(item->op))
        note << "a tile of " << tileText(alloc.getType());
      else if (auto channel = dyn_cast<cta::ChannelOp>(item->op))
        note << channel.getType().getDepth() << " stages of a tile of "
             << tileText(channel.getType().getBuffer());
      else
        note << "scratch of " << item->op->getName();
    }
  }

  static std::string tileText(cta::BufferType buffer) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    for (int64_t extent : buffer.getShape())
      stream << extent << 'x';
    stream << buffer.getElement();
    return text;
  }
};

} // namespace
