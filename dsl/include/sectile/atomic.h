// Atomic operations on global memory, through a pointer or a tile of them. Blocks of views have the
// same: v.tile(m, n).atomic_add(i, j, value).
#pragma once
#include <sectile/memory.h>

namespace sectile {

// What an operation orders beside itself: a release, all that the program has read and written
// before; an acquire, all that it does after. What comes before a release is seen after an acquire
// that has seen the release's outcome.
enum class MemoryOrder : std::uint8_t { relaxed, acquire, release, acq_rel };
// Among whom an operation is atomic and orders: this program, the device, or the host and other
// devices as well.
enum class MemoryScope : std::uint8_t { program, device, system };

struct Atomic {
  MemoryOrder order = MemoryOrder::acq_rel;
  MemoryScope scope = MemoryScope::device;
};

namespace detail {

enum class AtomicOp : std::uint8_t { add, max, min, bit_and, bit_or, bit_xor, exchange };

Value atomic(AtomicOp op, const Value &ptr, Kind kind, const Operand &value, const Operand &mask,
             Atomic how, Location where);
Value atomicCas(const Value &ptr, Kind kind, const Operand &expected, const Operand &value,
                const Operand &mask, Atomic how, Location where);

template <class T> constexpr void checkAtomic() {
  static_assert(!std::is_const_v<T>, "const elements of memory cannot be changed: make the "
                                     "kernel's parameter a Ptr<T> or a View<T, N>");
  using Number = std::remove_const_t<T>;
  static_assert(std::same_as<Number, half> || std::same_as<Number, bfloat16> ||
                    (std::integral<Number> && sizeof(T) == 2) ||
                    ((std::floating_point<Number> || std::integral<Number>) &&
                     (sizeof(T) == 4 || sizeof(T) == 8)),
                "atomic operations work on integers of 16, 32 and 64 bits, half, bfloat16, float "
                "and double; no chip has them of 8 bits, and a loop of atomic_cas on the 32 bits "
                "around is the kernel's to write");
}
template <class T> constexpr void checkAtomicBits() {
  checkAtomic<T>();
  static_assert(std::integral<T>, "atomic_and, atomic_or and atomic_xor work on integers");
}

} // namespace detail

// Each combines what a pointer points to with a value, which is converted to T as by cast, and
// gives what was there before. Where the mask is false nothing happens and the result is zero.
// The mask may be left out before `how`: atomic_add(p, 1, {.order = MemoryOrder::relaxed}).
#define SECTILE_ATOMIC(name, op, check)                                                            \
  template <class T>                                                                               \
  Tile<std::remove_const_t<T>> name(const Ptr<T> &ptr, detail::Operand value,                      \
                                    detail::Operand mask = {}, Atomic how = {},                    \
                                    detail::Location where = detail::Location::current()) {        \
    detail::check<T>();                                                                            \
    return Tile<std::remove_const_t<T>>(detail::atomic(                                            \
        detail::AtomicOp::op, ptr.handle(), detail::storedKind<T>(), value, mask, how, where));    \
  }                                                                                                \
  template <class T>                                                                               \
  Tile<std::remove_const_t<T>> name(const Ptr<T> &ptr, detail::Operand value, Atomic how,          \
                                    detail::Location where = detail::Location::current()) {        \
    return name(ptr, value, detail::Operand(where), how, where);                                   \
  }
SECTILE_ATOMIC(atomic_add, add, checkAtomic)
SECTILE_ATOMIC(atomic_max, max, checkAtomic) // of floats: a NaN beside a number is ignored
SECTILE_ATOMIC(atomic_min, min, checkAtomic)
SECTILE_ATOMIC(atomic_and, bit_and, checkAtomicBits)
SECTILE_ATOMIC(atomic_or, bit_or, checkAtomicBits)
SECTILE_ATOMIC(atomic_xor, bit_xor, checkAtomicBits)
SECTILE_ATOMIC(atomic_exchange, exchange, checkAtomic)
#undef SECTILE_ATOMIC

// Writes the value where memory holds the bits of `expected`, and gives what was there before.
template <class T>
Tile<std::remove_const_t<T>> atomic_cas(const Ptr<T> &ptr, detail::Operand expected,
                                        detail::Operand value, detail::Operand mask = {},
                                        Atomic how = {},
                                        detail::Location where = detail::Location::current()) {
  detail::checkAtomic<T>();
  return Tile<std::remove_const_t<T>>(
      detail::atomicCas(ptr.handle(), detail::storedKind<T>(), expected, value, mask, how, where));
}
template <class T>
Tile<std::remove_const_t<T>> atomic_cas(const Ptr<T> &ptr, detail::Operand expected,
                                        detail::Operand value, Atomic how,
                                        detail::Location where = detail::Location::current()) {
  return atomic_cas(ptr, expected, value, detail::Operand(where), how, where);
}

// All threads of the program meet: what any of them wrote to memory before, all of them see after.
void barrier(detail::Location where = detail::Location::current());

} // namespace sectile
