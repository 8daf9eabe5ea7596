// Ptr<T>: an address in global memory, or a tile of them; loads and stores through it.
#pragma once
#include <sectile/tile.h>

namespace sectile {

// How an access uses the caches.
enum class Cache : std::uint8_t {
  normal,
  all_levels,
  global, // not the multiprocessor's own
  streaming,
  uncached, // read and written anew each time
  write_back,
  write_through,
};
enum class Eviction : std::uint8_t { normal, first, last };

struct Access {
  Cache cache = Cache::normal;
  Eviction eviction = Eviction::normal;
};

template <class T> class Ptr;

namespace detail {
// An element type as memory holds it: Ptr<const T> and Ptr<T> point to the same.
template <class T> constexpr Kind storedKind() { return kindOf<std::remove_const_t<T>>(); }

Value advance(const Value &ptr, const Operand &offset, bool backwards);
Value load(const Value &ptr, Kind kind, const Operand &mask, const Operand &other, Access access,
           Location where);
void store(const Value &ptr, Kind kind, const Operand &value, const Operand &mask, Access access,
           Location where);

template <class T> class PtrArg {
public:
  PtrArg(const Ptr<T> &ptr, Location where = Location::current()) : ptr(ptr), where(where) {}
  const Ptr<T> &ptr;
  Location where;
};
} // namespace detail

// Offsets count elements. Ptr<const T> is read only.
template <class T> class Ptr {
  static_assert(Element<T>, "the elements of memory are bool, integers of 8 to 64 bits, half, "
                            "bfloat16, float, double or 8-bit floats");
  using Operand = detail::Operand;
  using Arg = detail::PtrArg<T>;

public:
  using value_type = std::remove_const_t<T>;

  Ptr() = default;
  template <class U>
    requires std::same_as<const U, T>
  Ptr(const Ptr<U> &other) : value_(other.handle()) {}

  friend Ptr operator+(Arg ptr, Operand offset) {
    return Ptr(detail::advance(ptr.ptr.handle(), offset, false));
  }
  friend Ptr operator+(Operand offset, Arg ptr) {
    return Ptr(detail::advance(ptr.ptr.handle(), offset, false));
  }
  friend Ptr operator-(Arg ptr, Operand offset) {
    return Ptr(detail::advance(ptr.ptr.handle(), offset, true));
  }
  friend Ptr &operator+=(Ptr &ptr, Operand offset) {
    return ptr = Ptr(detail::advance(ptr.handle(), offset, false));
  }
  friend Ptr &operator-=(Ptr &ptr, Operand offset) {
    return ptr = Ptr(detail::advance(ptr.handle(), offset, true));
  }

  std::span<const std::int64_t> shape(detail::Location where = detail::Location::current()) const {
    return detail::shapeOf(value_, where);
  }

  // Not of the language: each says what is.
  template <class I>
  __attribute__((unavailable("write sc::load(p + i) to read, sc::store(p + i, value) to write"))) //
  Tile<value_type> operator[](const I &) const {
    return {};
  }
  __attribute__((unavailable("write sc::load(p) to read, sc::store(p, value) to write"))) //
  Tile<value_type> operator*() const {
    return {};
  }

  explicit Ptr(const detail::Value &value) : value_(value) {}
  const detail::Value &handle() const { return value_; }

private:
  detail::Value value_;
};

// Where the mask is false nothing is read, and the element is `other`, or zero.
template <class T>
Tile<std::remove_const_t<T>> load(const Ptr<T> &ptr, detail::Operand mask = {},
                                  detail::Operand other = {}, Access access = {},
                                  detail::Location where = detail::Location::current()) {
  return Tile<std::remove_const_t<T>>(
      detail::load(ptr.handle(), detail::storedKind<T>(), mask, other, access, where));
}
// The same without `other`, or without a mask: load(p, {.cache = Cache::streaming}).
template <class T>
Tile<std::remove_const_t<T>> load(const Ptr<T> &ptr, detail::Operand mask, Access access,
                                  detail::Location where = detail::Location::current()) {
  return load(ptr, mask, detail::Operand(where), access, where);
}
template <class T>
Tile<std::remove_const_t<T>> load(const Ptr<T> &ptr, Access access,
                                  detail::Location where = detail::Location::current()) {
  return load(ptr, detail::Operand(where), detail::Operand(where), access, where);
}

// Not of the language: each says what is.
template <class T, class... A>
__attribute__((unavailable("sc::load takes a pointer, as in sc::load(p + i, mask, other)"))) Tile<T>
load(const Tile<T> &x, const A &...) {
  return x;
}
template <class T, class... A>
__attribute__((unavailable("a kernel's pointers are sc::Ptr<T>, not T *")))
Tile<std::remove_cv_t<T>>
load(T *, const A &...) {
  return {};
}
template <class T, class... A>
__attribute__((unavailable("a kernel's pointers are sc::Ptr<T>, not T *"))) void
store(T *, const A &...) {}
template <class A, class T, class... B>
  requires(detail::Number<A> || std::same_as<A, Tile<typename A::value_type>>)
__attribute__((unavailable("the pointer comes first: sc::store(p + i, value, mask)"))) void
store(const A &, const Ptr<T> &, const B &...) {}

// The value is converted to T, as by cast. Where the mask is false nothing is written.
template <class T>
void store(const Ptr<T> &ptr, detail::Operand value, detail::Operand mask = {}, Access access = {},
           detail::Location where = detail::Location::current()) {
  static_assert(!std::is_const_v<T>,
                "a Ptr<const T> cannot be stored to: make the kernel's parameter a Ptr<T>");
  detail::store(ptr.handle(), detail::kindOf<std::remove_const_t<T>>(), value, mask, access, where);
}
template <class T>
void store(const Ptr<T> &ptr, detail::Operand value, Access access,
           detail::Location where = detail::Location::current()) {
  store(ptr, value, detail::Operand(where), access, where);
}

} // namespace sectile
