// Checks and prints of what is known while a kernel is traced.
#pragma once
#include <sectile/memory.h>
#include <sstream>

namespace sectile {

namespace detail {
std::string describeValue(const Value &value, Kind kind, Location where);
std::string describePointer(const Value &value, Kind element, Location where);
void staticPrint(const std::string &text, Location where);
[[noreturn]] void staticFailure(std::string_view message, Location where);

// What static_print prints: a tile by its type, everything else by its value.
class Shown {
public:
  template <class T> Shown(const Tile<T> &tile) : value(&tile.handle()), kind(kindOf<T>()) {}
  template <class T>
  Shown(const Ptr<T> &ptr) : value(&ptr.handle()), kind(storedKind<T>()), isPointer(true) {}
  template <class T>
    requires requires(std::ostream &out, const T &x) { out << x; }
  Shown(const T &x) {
    std::ostringstream out;
    out << std::boolalpha << x;
    text = out.str();
  }
  std::string get(Location where) const {
    return !value      ? text
           : isPointer ? describePointer(*value, kind, where)
                       : describeValue(*value, kind, where);
  }

private:
  const Value *value = nullptr;
  Kind kind = Kind::boolean;
  bool isPointer = false;
  std::string text;
};
} // namespace detail

// Prints, each time the kernel is traced, the line and what follows it to standard output: numbers
// and texts of C++ as they are, traced values as their types ("f32 tile of [64, 32]").
inline void static_print(std::initializer_list<detail::Shown> parts,
                         detail::Location where = detail::Location::current()) {
  std::string text;
  for (const detail::Shown &part : parts)
    text += (text.empty() ? "" : " ") + part.get(where);
  detail::staticPrint(text, where);
}
inline void static_print(detail::Shown part, detail::Location where = detail::Location::current()) {
  detail::staticPrint(part.get(where), where);
}

// Ends the tracing with a CompileError unless the condition, a bool of C++, holds.
template <class B>
void static_check(const B &condition, std::string_view message,
                  detail::Location where = detail::Location::current()) {
  static_assert(std::same_as<B, bool>,
                "sc::static_check takes a bool that is known while tracing: "
                "sc::device_assert checks traced values when the kernel runs");
  if (!condition)
    detail::staticFailure(message, where);
}

} // namespace sectile
