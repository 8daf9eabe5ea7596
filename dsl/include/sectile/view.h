// View<T, N>: a tensor in global memory with extents and strides, read and written by blocks.
#pragma once
#include <array>
#include <sectile/atomic.h>
#include <sectile/memory.h>
#include <utility>

namespace sectile {

template <class T, int N> class View;

namespace detail {
template <class T> struct Parameter;

struct ViewHandle {
  const Value &ptr;
  std::span<const Value> extents, strides;
  Kind kind;
};

Value loadBlock(const ViewHandle &view, std::span<const std::int64_t> shape,
                std::span<const Operand> offsets, bool tiles, const Literal *padding,
                Access access);
void storeBlock(const ViewHandle &view, std::span<const std::int64_t> shape,
                std::span<const Operand> offsets, bool tiles, const Operand &value, Access access);
Value gatherRows(const ViewHandle &view, std::span<const std::int64_t> shape,
                 std::span<const Operand> places, bool tiles, const Literal *padding,
                 Access access);
void scatterRows(const ViewHandle &view, std::span<const std::int64_t> shape,
                 std::span<const Operand> places, bool tiles, const Operand &value, Access access);
Value atomicBlock(AtomicOp op, const ViewHandle &view, std::span<const std::int64_t> shape,
                  std::span<const Operand> offsets, bool tiles, const Operand &value, Atomic how);
// ptr + Σ indices[i] * strides[i], in 64 bits.
Value address(const Value &ptr, std::span<const Value> strides, std::span<const Operand> indices);
Value tilesAlong(const Value &extent, const Extent &size);
Value index(const Operand &operand); // as an Int
void checkAxis(const Extent &axis, int rank);

template <std::size_t, class T> using Always = T;

// The part of a TiledView that takes one index per axis.
template <class T, class Axes> class TileAccess;
template <class T, std::size_t... D> class TileAccess<T, std::index_sequence<D...>> {
  static constexpr int rank = sizeof...(D);
  using Value_ = std::remove_const_t<T>;

public:
  // The block at these tile indices: it starts at element index * extent of the tile.
  Tile<Value_> load(Always<D, Operand>... index) const {
    return read(std::array<Operand, rank>{index...}, true);
  }
  void store(Always<D, Operand>... index, Operand value) const {
    write(std::array<Operand, rank>{index...}, true, value);
  }
  // The block that starts at these elements.
  Tile<Value_> load_at(Always<D, Operand>... offset) const {
    return read(std::array<Operand, rank>{offset...}, false);
  }
  void store_at(Always<D, Operand>... offset, Operand value) const {
    write(std::array<Operand, rank>{offset...}, false, value);
  }

  // The same with a tile of row numbers in place of the first index: row i of the tile is row
  // rows[i] of the view. Rows that the view does not have load as padding, and are not stored.
  Tile<Value_> gather(Always<D, Operand>... rowsAndIndex) const {
    return gathered(std::array<Operand, rank>{rowsAndIndex...}, true);
  }
  Tile<Value_> gather_at(Always<D, Operand>... rowsAndOffset) const {
    return gathered(std::array<Operand, rank>{rowsAndOffset...}, false);
  }
  // Of rows that appear twice one is stored, it is not said which.
  void scatter(Always<D, Operand>... rowsAndIndex, Operand value) const {
    scattered(std::array<Operand, rank>{rowsAndIndex...}, true, value);
  }
  void scatter_at(Always<D, Operand>... rowsAndOffset, Operand value) const {
    scattered(std::array<Operand, rank>{rowsAndOffset...}, false, value);
  }

  // Atomic operations on the block, as those on pointers. Elements beyond the view's edges are left
  // out, and zero in the result.
#define SECTILE_ATOMIC(name, op, check)                                                            \
  Tile<Value_> name(Always<D, Operand>... index, Operand value, Atomic how = {}) const {           \
    check<T>();                                                                                    \
    return update(AtomicOp::op, std::array<Operand, rank>{index...}, true, value, how);            \
  }                                                                                                \
  Tile<Value_> name##_at(Always<D, Operand>... offset, Operand value, Atomic how = {}) const {     \
    check<T>();                                                                                    \
    return update(AtomicOp::op, std::array<Operand, rank>{offset...}, false, value, how);          \
  }
  SECTILE_ATOMIC(atomic_add, add, checkAtomic)
  SECTILE_ATOMIC(atomic_max, max, checkAtomic)
  SECTILE_ATOMIC(atomic_min, min, checkAtomic)
  SECTILE_ATOMIC(atomic_and, bit_and, checkAtomicBits)
  SECTILE_ATOMIC(atomic_or, bit_or, checkAtomicBits)
  SECTILE_ATOMIC(atomic_xor, bit_xor, checkAtomicBits)
  SECTILE_ATOMIC(atomic_exchange, exchange, checkAtomic)
#undef SECTILE_ATOMIC

protected:
  TileAccess(const View<T, rank> &view, const std::array<std::int64_t, rank> &shape)
      : view_(view), shape_(shape) {}

  Tile<Value_> read(const std::array<Operand, rank> &offsets, bool tiles) const {
    return Tile<Value_>(
        loadBlock(view_.handle(), shape_, offsets, tiles, padded_ ? &padding_ : nullptr, access_));
  }
  Tile<Value_> gathered(const std::array<Operand, rank> &places, bool tiles) const {
    return Tile<Value_>(
        gatherRows(view_.handle(), shape_, places, tiles, padded_ ? &padding_ : nullptr, access_));
  }
  void scattered(const std::array<Operand, rank> &places, bool tiles, const Operand &value) const {
    static_assert(
        !std::is_const_v<T>,
        "a View<const T, N> cannot be stored to: make the kernel's parameter a View<T, N>");
    scatterRows(view_.handle(), shape_, places, tiles, value, access_);
  }
  void write(const std::array<Operand, rank> &offsets, bool tiles, const Operand &value) const {
    static_assert(
        !std::is_const_v<T>,
        "a View<const T, N> cannot be stored to: make the kernel's parameter a View<T, N>");
    storeBlock(view_.handle(), shape_, offsets, tiles, value, access_);
  }

  Tile<Value_> update(AtomicOp op, const std::array<Operand, rank> &offsets, bool tiles,
                      const Operand &value, Atomic how) const {
    return Tile<Value_>(atomicBlock(op, view_.handle(), shape_, offsets, tiles, value, how));
  }

  View<T, rank> view_;
  std::array<std::int64_t, rank> shape_;
  Literal padding_ = 0;
  bool padded_ = false;
  Access access_;
};

// Where tile() is an error, so that calls on what it gives are not errors, too.
template <class T> struct NoTile {
  NoTile padding(const Literal &) const { return {}; }
  NoTile access(const Access &) const { return {}; }
#define SECTILE_CALL(name, result)                                                                 \
  template <class... A> result name(const A &...) const { return result(); }
  SECTILE_CALL(load, Tile<T>)
  SECTILE_CALL(load_at, Tile<T>)
  SECTILE_CALL(gather, Tile<T>)
  SECTILE_CALL(gather_at, Tile<T>)
  SECTILE_CALL(store, void)
  SECTILE_CALL(store_at, void)
  SECTILE_CALL(scatter, void)
  SECTILE_CALL(scatter_at, void)
  SECTILE_CALL(atomic_add, Tile<T>)
  SECTILE_CALL(atomic_max, Tile<T>)
  SECTILE_CALL(atomic_min, Tile<T>)
#undef SECTILE_CALL
};
} // namespace detail

// A view cut into tiles of one shape. Elements beyond the view's edges load as the padding, zero
// unless told otherwise; stores to them are dropped.
template <class T, int N>
class TiledView : public detail::TileAccess<T, std::make_index_sequence<N>> {
  using Base = detail::TileAccess<T, std::make_index_sequence<N>>;

public:
  TiledView padding(detail::Literal value) const {
    TiledView block = *this;
    block.padding_ = value;
    block.padded_ = true;
    return block;
  }
  TiledView access(Access access) const {
    TiledView block = *this;
    block.access_ = access;
    return block;
  }

private:
  friend class View<T, N>;
  using Base::Base;
};

// Strides count elements. Offsets inside a view are computed in 64 bits.
template <class T, int N> class View {
  static_assert(Element<T>, "the elements of memory are bool, integers of 8 to 64 bits, half, "
                            "bfloat16, float, double or 8-bit floats");
  static_assert(N >= 1 && N <= 8, "a view has 1 to 8 axes; of one number there is Ptr<T>");
  using Operand = detail::Operand;
  using Location = detail::Location;

public:
  using value_type = std::remove_const_t<T>;

  View() = default;
  template <class U>
    requires std::same_as<const U, T>
  View(const View<U, N> &other)
      : ptr_(other.ptr_), extents_(other.extents_), strides_(other.strides_) {}
  // Of memory that a pointer reaches.
  View(const Ptr<T> &ptr, const std::array<Int, N> &extents,
       const std::array<Tile<std::int64_t>, N> &strides)
      : ptr_(ptr.handle()) {
    for (int axis = 0; axis < N; ++axis) {
      extents_[axis] = extents[axis].handle();
      strides_[axis] = strides[axis].handle();
    }
  }

  static constexpr int rank() { return N; }
  Ptr<T> ptr() const { return Ptr<T>(ptr_); }
  Int extent(detail::Extent axis) const {
    detail::checkAxis(axis, N);
    return Int(extents_[axis.number]);
  }
  Tile<std::int64_t> stride(detail::Extent axis) const {
    detail::checkAxis(axis, N);
    return Tile<std::int64_t>(
        detail::cast(detail::Kind::index, detail::Kind::int64, strides_[axis.number], axis.where));
  }

  // A block of this shape anywhere in the view.
  template <class... E>
    requires(sizeof...(E) == N && (std::integral<E> && ...))
  TiledView<T, N> tile(E... shape) const {
    return TiledView<T, N>(*this, std::array<std::int64_t, N>{static_cast<std::int64_t>(shape)...});
  }
  template <class... E>
    requires(sizeof...(E) != N)
  __attribute__((unavailable("a tile of a View<T, N> has N extents: x.tile(m, n) for two axes. "
                             "at(i) and fix(axis, i) leave axes out"))) //
  detail::NoTile<value_type> tile(E...) const {
    return {};
  }
  template <class... E>
    requires(sizeof...(E) == N && !(std::integral<E> && ...))
  __attribute__((unavailable("the extents of a tile are C++ integers, which the host knows while "
                             "it traces"))) //
  detail::NoTile<value_type> tile(E...) const {
    return {};
  }
  // Not of the language: each says what is.
  template <class I>
  __attribute__((unavailable(
      "a view is read and written in tiles: v.tile(m, n).load(i, j) and .store(i, j, x), or "
      ".load_at(row, column) and .store_at(row, column, x) at any place"))) //
  Tile<value_type> operator[](const I &) const {
    return {};
  }
  template <class... I>
  __attribute__((unavailable(
      "a view is read and written in tiles: v.tile(m, n).load(i, j) and .store(i, j, x), or "
      ".load_at(row, column) and .store_at(row, column, x) at any place"))) //
  Tile<value_type> operator()(const I &...) const {
    return {};
  }
  // How many tiles of this shape cover each axis.
  template <class... E>
    requires(sizeof...(E) == N && (std::convertible_to<E, detail::Extent> && ...))
  std::array<Int, N> tiles(E... shape) const {
    std::array<Int, N> result;
    int axis = 0;
    ((result[axis] = Int(detail::tilesAlong(extents_[axis], shape)), ++axis), ...);
    return result;
  }

  // The view with its leading axes fixed at these indices.
  View<T, N - 1> at(Operand i) const
    requires(N > 1)
  {
    return fixed(std::array{i});
  }
  View<T, N - 2> at(Operand i, Operand j) const
    requires(N > 2)
  {
    return fixed(std::array{i, j});
  }
  View<T, N - 3> at(Operand i, Operand j, Operand k) const
    requires(N > 3)
  {
    return fixed(std::array{i, j, k});
  }
  // The view with one axis fixed at an index.
  View<T, N - 1> fix(detail::Extent axis, Operand index) const
    requires(N > 1)
  {
    detail::checkAxis(axis, N);
    View<T, N - 1> result;
    result.ptr_ = detail::address(ptr_, std::span(&strides_[axis.number], 1), std::array{index});
    for (int from = 0, to = 0; from < N; ++from)
      if (from != axis.number) {
        result.extents_[to] = extents_[from];
        result.strides_[to++] = strides_[from];
      }
    return result;
  }
  // The part of the view from an index on along an axis, `extent` long.
  View slice(detail::Extent axis, Operand start, Operand extent) const {
    detail::checkAxis(axis, N);
    View result = *this;
    result.ptr_ = detail::address(ptr_, std::span(&strides_[axis.number], 1), std::array{start});
    result.extents_[axis.number] = detail::index(extent);
    return result;
  }
  // The view with its last two axes swapped.
  View transposed() const
    requires(N > 1)
  {
    View result = *this;
    std::swap(result.extents_[N - 2], result.extents_[N - 1]);
    std::swap(result.strides_[N - 2], result.strides_[N - 1]);
    return result;
  }
  // Axis i of the result is axis order[i] of this view.
  View permuted(const std::array<int, N> &order, Location where = Location::current()) const {
    View result = *this;
    for (int i = 0; i < N; ++i) {
      detail::checkAxis(detail::Extent(order[i], where), N);
      result.extents_[i] = extents_[order[i]];
      result.strides_[i] = strides_[order[i]];
    }
    return result;
  }

  detail::ViewHandle handle() const { return {ptr_, extents_, strides_, detail::storedKind<T>()}; }

private:
  template <class, int> friend class View;
  template <class> friend struct detail::Parameter;

  template <std::size_t F> View<T, N - F> fixed(const std::array<Operand, F> &indices) const {
    View<T, N - static_cast<int>(F)> result;
    result.ptr_ = detail::address(ptr_, std::span(strides_).first(F), indices);
    for (std::size_t axis = F; axis < N; ++axis) {
      result.extents_[axis - F] = extents_[axis];
      result.strides_[axis - F] = strides_[axis];
    }
    return result;
  }

  detail::Value ptr_;
  std::array<detail::Value, N> extents_, strides_;
};

} // namespace sectile
