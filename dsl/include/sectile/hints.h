// Promises to the compiler. A promise that does not hold makes the kernel's result undefined; the
// checked mode and the interpreter verify them.
#pragma once
#include <initializer_list>
#include <sectile/memory.h>

namespace sectile {

namespace detail {
enum class Promise : std::uint8_t { multiple, contiguous, constant };
Value promise(Promise what, const Value &x, std::initializer_list<Extent> numbers, Location where);
void assume(const Value &condition, Location where);
void assume(bool condition, Location where);
void trustHostVariables(Location where);

template <class T> constexpr bool canPromise = false;
template <class T> constexpr bool canPromise<Tile<T>> = isInteger(kindOf<T>());
template <class T> constexpr bool canPromise<Ptr<T>> = true;

template <class X> X promised(Promise what, const X &x, std::initializer_list<Extent> numbers) {
  static_assert(canPromise<X>, "promises are about integers and pointers, and tiles of them");
  return X(promise(what, x.handle(), numbers, numbers.begin()->where));
}
} // namespace detail

// The condition holds, as in assume(n % 16 == 0).
inline void assume(const Tile<bool> &condition,
                   detail::Location where = detail::Location::current()) {
  detail::assume(condition.handle(), where);
}
// Decided while tracing.
template <class B>
  requires std::same_as<B, bool>
void assume(B condition, detail::Location where = detail::Location::current()) {
  detail::assume(condition, where);
}

// Says that variables of the host may decide which operations the bodies of this kernel's loops and
// branches have, as where a fuzzer draws them: each body is taken as it is traced first. Without it
// a body that builds other operations when it is traced again is a CompileError, because C++ runs
// it once, however often the loop runs. Stands before the first loop.
inline void trust_host_variables(detail::Location where = detail::Location::current()) {
  detail::trustHostVariables(where);
}

// The same value with a promise about it, one number per axis (one for a number):
// x[0], x[n], x[2n], … are multiples of n; of pointers, multiples of n elements.
template <class X>
X multiple_of(const X &x, detail::Extent n0, detail::Extent n1 = {}, detail::Extent n2 = {},
              detail::Extent n3 = {}, detail::Extent n4 = {}) {
  return detail::promised(detail::Promise::multiple, x, {n0, n1, n2, n3, n4});
}
// x[0] … x[n-1] count up by one, and so do the next n, and so on.
template <class X>
X contiguous(const X &x, detail::Extent n0, detail::Extent n1 = {}, detail::Extent n2 = {},
             detail::Extent n3 = {}, detail::Extent n4 = {}) {
  return detail::promised(detail::Promise::contiguous, x, {n0, n1, n2, n3, n4});
}
// x[0] … x[n-1] are equal, and so are the next n, and so on.
template <class X>
X constant(const X &x, detail::Extent n0, detail::Extent n1 = {}, detail::Extent n2 = {},
           detail::Extent n3 = {}, detail::Extent n4 = {}) {
  return detail::promised(detail::Promise::constant, x, {n0, n1, n2, n3, n4});
}

} // namespace sectile
