// The explicit level, which a kernel's source includes itself: kernels that schedule their own
// copies and dots. Channels are rings of shared memory, a partition is warps of its own that fill
// them or compute from them, and dots run until the kernel waits.
#pragma once
#include <optional>
#include <sectile/control.h>
#include <sectile/shape.h>
#include <sectile/view.h>
#include <tuple>
#include <vector>

namespace sectile::cta {

// What a slot of a channel holds: a matrix of T.
template <class T> struct TileOf {
  static_assert(Element<T> && !std::is_const_v<T> && !std::same_as<T, bool>,
                "a slot holds integers of 8 to 64 bits, half, bfloat16, float, double or 8-bit "
                "floats, without const");
  std::int64_t rows, columns;
};

// 0 registers: all warps keep the number that they are launched with.
struct PartitionOptions {
  int warps = 4;     // a power of two if the partition computes
  int registers = 0; // of a thread of the partition
  int others = 0;    // of a thread of the rest; 0: all that are left
};

} // namespace sectile::cta

namespace sectile::detail {

struct SlotShape {
  Kind kind;
  std::int64_t rows, columns;
};

// A channel, and how many of its uses are in each state where the trace is. Uses count on from the
// oldest that is not released. Each partition counts for itself, and so does the code outside of
// them.
class Ring {
public:
  Ring(const Extent &depth, std::span<const SlotShape> tiles);
  Ring(const Ring &) = delete;
  Ring &operator=(const Ring &) = delete;

  Value acquire(std::size_t tile) const; // of the use that was acquired last
  void acquire(Location where);
  void commit(Location where);
  Value wait(std::size_t tile) const; // of the use that was waited for last
  void wait(Location where);
  void release(Location where);

private:
  Value use(int later, Location where) const;
  void next(Location where);
  void enter(Location where);
  bool isBetweenWarps() const;

  Value channel_, oldest_;
  std::vector<Value> filled_, read_;
  int acquired_ = 0, committed_ = 0, waited_ = 0;
  unsigned partition_ = 0;           // that the counts are of; 0 is the code outside of partitions
  std::optional<unsigned> filledBy_; // the partition
};

void fillSlot(const Value &slot, const Value &tile, const Operand &when, Location where);
void storeSlot(const Value &slot, const Value &tile, Location where);
Value readSlot(const Value &slot, Location where);
Value dotInFlight(Kind a, const Value &left, Kind b, const Value &right, Kind acc,
                  const Value &sums, Precision precision, Location where);
Value waitForDot(const Value &sums, Location where);
void waitForDots(const Extent &pending);
void partition(const cta::PartitionOptions &options, const Callback &body, Location where);
unsigned makeBarrier(const Extent &warps);
void meetAtBarrier(unsigned number, int warps, bool arrives, Location where);
Value makeMbarriers(const Extent &count, const Extent &arrivals);
void arriveAtMbarrier(const Value &barriers, const Operand &which);
void waitAtMbarrier(const Value &barriers, const Operand &which, const Operand &phase);

} // namespace sectile::detail

namespace sectile::cta {

template <class... T> class Channel;

// One tile of a channel's slot, from the acquire or the wait that gave it on.
template <class T> class Slot {
  using Operand = detail::Operand;

public:
  // Copies the block of a view at these tile indices, or from these elements on. The kernel goes on
  // at once: `Channel::wait` waits. Where `when` is false nothing is read, and the slot gets zeros.
  void copy(const TiledView<const T, 2> &block, Operand i, Operand j, Operand when = {}) const {
    detail::fillSlot(slot_, block.load(i, j).handle(), when, i.where);
  }
  void copy_at(const TiledView<const T, 2> &block, Operand row, Operand column,
               Operand when = {}) const {
    detail::fillSlot(slot_, block.load_at(row, column).handle(), when, row.where);
  }
  // Puts a tile that was computed there, from registers.
  void store(const Tile<T> &tile, detail::Location where = detail::Location::current()) const {
    detail::storeSlot(slot_, tile.handle(), where);
  }
  // What the slot holds. A dot reads it from where it is, other operations from registers.
  Tile<T> read(detail::Location where = detail::Location::current()) const {
    return Tile<T>(detail::readSlot(slot_, where));
  }

private:
  template <class...> friend class Channel;
  explicit Slot(const detail::Value &slot) : slot_(slot) {}
  detail::Value slot_;
};

// A ring of `depth` slots. Its producer acquires a slot, fills it and commits; its consumer
// waits for the oldest use, reads it and releases it. Either in loops over sc::range or outside of
// them, not in branches. One tile per slot gives a Slot, several a std::tuple of them.
template <class... T> class Channel {
  static_assert(sizeof...(T) > 0, "a channel's slots hold at least one tile");

public:
  explicit Channel(detail::Extent depth, TileOf<T>... tiles)
      : ring_(depth,
              std::array{detail::SlotShape{detail::kindOf<T>(), tiles.rows, tiles.columns}...}) {}

  auto acquire(detail::Location where = detail::Location::current()) {
    ring_.acquire(where);
    return slots([&](std::size_t tile) { return ring_.acquire(tile); });
  }
  void commit(detail::Location where = detail::Location::current()) { ring_.commit(where); }
  auto wait(detail::Location where = detail::Location::current()) {
    ring_.wait(where);
    return slots([&](std::size_t tile) { return ring_.wait(tile); });
  }
  void release(detail::Location where = detail::Location::current()) { ring_.release(where); }

private:
  template <class Get> auto slots(Get get) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (sizeof...(T) == 1)
        return (Slot<T>(get(I)), ...);
      else
        return std::tuple(Slot<T>(get(I))...);
    }(std::index_sequence_for<T...>());
  }

  detail::Ring ring_;
};
template <class... T> Channel(int, TileOf<T>...) -> Channel<T...>;

// Sums to which dots add that the kernel has not waited for.
template <class T> class InFlight {
public:
  explicit InFlight(const Tile<T> &sums) : sums_(sums.handle()) {}
  explicit InFlight(const detail::Value &sums) : sums_(sums) {}
  const detail::Value &handle() const { return sums_; }

private:
  detail::Value sums_;
};

// sums + a · b, begun but not waited for. b was read from a slot; a was too, or is any other tile.
// Slots stay as they are until a wait.
template <class A, class B, class S>
InFlight<S> dot_async(const Tile<A> &a, const Tile<B> &b, const InFlight<S> &sums,
                      Precision precision = Precision::tf32,
                      detail::Location where = detail::Location::current()) {
  static_assert(!std::same_as<S, half>, "sums in flight are float, double or int32");
  return InFlight<S>(detail::dotInFlight(detail::kindOf<A>(), a.handle(), detail::kindOf<B>(),
                                         b.handle(), detail::kindOf<S>(), sums.handle(), precision,
                                         where));
}
// The sums, once they are there. Dots that were started later stay in flight.
template <class T>
Tile<T> wait(const InFlight<T> &sums, detail::Location where = detail::Location::current()) {
  return Tile<T>(detail::waitForDot(sums.handle(), where));
}
// Until at most so many dots are in flight: those before the latest have read their operands.
inline void wait_for_dots(detail::Extent pending) { detail::waitForDots(pending); }

// A barrier at which so many warps meet, turn after turn: those of partitions that compute, and the
// kernel's own.
class Barrier {
public:
  explicit Barrier(detail::Extent warps)
      : number_(detail::makeBarrier(warps)), warps_(int(warps.number)) {}

  // Waits until all have come.
  void sync(detail::Location where = detail::Location::current()) const {
    detail::meetAtBarrier(number_, warps_, /*arrives=*/false, where);
  }
  // Counts as one that came, and goes on.
  void arrive(detail::Location where = detail::Location::current()) const {
    detail::meetAtBarrier(number_, warps_, /*arrives=*/true, where);
  }

private:
  unsigned number_;
  int warps_;
};

// `count` mbarriers. A phase of each ends after so many arrivals, and the next one begins. Warps of
// a partition that computes arrive, each once. A partition that only copies arrives once as a
// whole.
class Mbarriers {
public:
  explicit Mbarriers(detail::Extent count, detail::Extent arrivals)
      : barriers_(detail::makeMbarriers(count, arrivals)) {}

  // Counts as having arrived at mbarrier `which` modulo `count`, and goes on.
  void arrive(detail::Operand which) const { detail::arriveAtMbarrier(barriers_, which); }
  // Waits until phase number `phase` of mbarrier `which` modulo `count` has ended. The chip knows
  // the lowest bit of the number: the phase is the current one or the one before. The first is
  // phase 0.
  void wait(detail::Operand which, detail::Operand phase) const {
    detail::waitAtMbarrier(barriers_, which, phase);
  }

private:
  detail::Value barriers_;
};

// Runs `body` concurrently with the rest of the kernel, by warps of its own, of which any number
// may copy and a power of two compute. It fills channels, which later partitions and the rest read,
// or reads those of earlier partitions and computes. It stands at the kernel's top level.
template <class Body>
void partition(PartitionOptions options, Body &&body,
               detail::Location where = detail::Location::current()) {
  detail::partition(options, body, where);
}

} // namespace sectile::cta
