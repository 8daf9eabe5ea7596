// Assertions and prints of a running kernel.
#pragma once
#include <sectile/memory.h>
#include <string_view>

namespace sectile {

namespace detail {

// A message, and the line where it is written.
struct Message {
  Message(const char *text, Location where = Location::current()) : text(text), where(where) {}
  Message(std::string_view text, bool hex, Location where) : text(text), hex(hex), where(where) {}

  std::string_view text;
  bool hex = false;
  Location where;
};

struct Printed {
  const Value *value;
  bool isUnsigned;
};
template <class T> Printed printed(const Tile<T> &tile) {
  return {&tile.handle(), isUnsigned(kindOf<T>())};
}
template <class T> Printed printed(const Ptr<T> &pointer) { return {&pointer.handle(), false}; }
template <class T> Printed printed(const T &) {
  static_assert(always_false<T>, "sc::device_print prints tiles, traced numbers and pointers; what "
                                 "C++ knows while tracing is printed with std::cout");
  return {};
}

void deviceAssert(const Value &condition, const Message &message);
void deviceAssert(bool condition, const Message &message);
void devicePrint(const Message &message, std::span<const Printed> values);

} // namespace detail

// Where the condition does not hold (of a tile: any element of it), the program ends there, the
// others go on, and the host gets an AssertionError with the message when it next waits.
inline void device_assert(const Tile<bool> &condition, const detail::Message &message) {
  detail::deviceAssert(condition.handle(), message);
}
// Decided while tracing, as a CompileError.
template <class B>
  requires std::same_as<B, bool>
void device_assert(B condition, const detail::Message &message) {
  detail::deviceAssert(condition, message);
}
template <class T>
  requires(!std::same_as<T, bool>)
void device_assert(const Tile<T> &, const detail::Message &) {
  static_assert(detail::always_false<T>,
                "sc::device_assert takes a condition of bool: compare first, as in x != 0");
}

// Prints the text, then the values, for every program; tiles with all their elements, in order. The
// text comes when the host next waits.
template <class... T> void device_print(const detail::Message &text, const T &...values) {
  const detail::Printed list[] = {detail::printed(values)..., {}};
  detail::devicePrint(text, std::span(list, sizeof...(T)));
}

// device_print(hex("flags = "), flags): numbers as their bits in hexadecimal.
inline detail::Message hex(std::string_view text,
                           detail::Location where = detail::Location::current()) {
  return {text, true, where};
}

} // namespace sectile
