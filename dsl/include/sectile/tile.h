// Tile<T>: a value of the kernel, one number or a tile of them, and its operators.
#pragma once
#include <sectile/value.h>
#include <span>

namespace sectile {

namespace detail {

enum class BinaryOp : std::uint8_t { add, sub, mul, div, rem, bit_and, bit_or, bit_xor, shl, shr };
enum class CompareOp : std::uint8_t { eq, ne, lt, le, gt, ge };
enum class UnaryOp : std::uint8_t { neg, bit_not };

// Each checks its operands, throws CompileError with the line where they were used, and adds the
// operation to the trace. Operands are converted to `kind` and broadcast.
Value binary(BinaryOp op, Kind kind, const Operand &a, const Operand &b);
Value compare(CompareOp op, const Operand &a, const Operand &b);
Value logical(BinaryOp op, const Operand &a, const Operand &b);
Value logicalNot(const Value &a);
Value unary(UnaryOp op, Kind kind, const Operand &a);
Value constant(Kind kind, Literal literal, Location where);
Value cast(Kind from, Kind to, const Value &value, Location where);
std::span<const std::int64_t> shapeOf(const Value &value, Location where);
std::int64_t extentOf(const Value &value, Extent axis);
// a op= b, whose type must stay that of a.
Value update(BinaryOp op, Kind kind, const Operand &a, const Operand &b);

// What the operators' operands convert to: the tile, and the line.
template <class T> class Arg {
public:
  Arg(const Tile<T> &tile, Location where = Location::current()) : tile(tile), where(where) {}
  operator Operand() const { return Operand(tile, where); }
  const Tile<T> &tile;
  Location where;
};

// Found by argument-dependent lookup for tiles only (B is bool, still incomplete here). They take
// operands of any kind, since their result is a tile of bool whatever these are.
template <class B> struct TileOperators {
  friend Tile<B> operator==(Operand a, Operand b) { return Tile<B>(compare(CompareOp::eq, a, b)); }
  friend Tile<B> operator!=(Operand a, Operand b) { return Tile<B>(compare(CompareOp::ne, a, b)); }
  friend Tile<B> operator<(Operand a, Operand b) { return Tile<B>(compare(CompareOp::lt, a, b)); }
  friend Tile<B> operator<=(Operand a, Operand b) { return Tile<B>(compare(CompareOp::le, a, b)); }
  friend Tile<B> operator>(Operand a, Operand b) { return Tile<B>(compare(CompareOp::gt, a, b)); }
  friend Tile<B> operator>=(Operand a, Operand b) { return Tile<B>(compare(CompareOp::ge, a, b)); }
};

} // namespace detail

// A traced value: rank 0 is a single number. Its element type is known to C++, its shape when the
// kernel is traced, its numbers when the kernel runs.
template <class T> class Tile : public detail::TileOperators<bool> {
  static_assert(detail::TileElement<T>,
                "the elements of a tile are bool, integers of 8 to 64 bits, half, "
                "bfloat16, float, double or 8-bit floats, without const");

  using Arg = detail::Arg<T>;
  using Operand = detail::Operand;
  template <class U> using With = Tile<detail::Promoted<T, U>>;
  static constexpr detail::Kind kind = detail::kindOf<T>();

public:
  using value_type = T;

  Tile() = default; // no value yet: assign one before it is used
  // A single number.
  template <detail::Number A>
  Tile(A number, detail::Location where = detail::Location::current())
      : value_(detail::constant(kind, number, where)) {}

  // Only an Int takes other integers by itself, those of at most 32 bits, and an int64_t an Int.
  template <class U>
    requires(!std::same_as<U, T>)
  Tile(const Tile<U> &other, detail::Location where = detail::Location::current())
      : value_(detail::cast(detail::kindOf<U>(), kind, other.handle(), where)) {
    static_assert((std::same_as<T, Index> && detail::fitsIndex(detail::kindOf<U>())) ||
                      (std::same_as<T, std::int64_t> && std::same_as<U, Index>),
                  "a tile of one type does not become a tile of another by itself: write "
                  "sc::cast<T>(x)");
  }

  // Valid while the kernel is traced.
  std::span<const std::int64_t> shape(detail::Location where = detail::Location::current()) const {
    return detail::shapeOf(value_, where);
  }
  int rank(detail::Location where = detail::Location::current()) const {
    return static_cast<int>(detail::shapeOf(value_, where).size());
  }
  std::int64_t extent(detail::Extent axis) const { return detail::extentOf(value_, axis); }

#define SECTILE_OPERATOR(symbol, name)                                                             \
  template <class U> friend With<U> operator symbol(Arg a, const Tile<U> &b) {                     \
    return With<U>(                                                                                \
        detail::binary(detail::BinaryOp::name, With<U>::element_kind, a, Operand(b, a.where)));    \
  }                                                                                                \
  friend Tile operator symbol(Arg a, detail::Literal b) {                                          \
    return Tile(detail::binary(detail::BinaryOp::name, kind, a, Tile::literal(b, a.where)));       \
  }                                                                                                \
  friend Tile operator symbol(detail::Literal a, Arg b) {                                          \
    return Tile(detail::binary(detail::BinaryOp::name, kind, Tile::literal(a, b.where), b));       \
  }                                                                                                \
  friend Tile &operator symbol## = (Tile & a, Operand b) {                                         \
    return a = Tile(detail::update(detail::BinaryOp::name, kind, Operand(a, b.where), b));         \
  }
  SECTILE_OPERATOR(+, add)
  SECTILE_OPERATOR(-, sub)
  SECTILE_OPERATOR(*, mul)
  SECTILE_OPERATOR(/, div)
  SECTILE_OPERATOR(%, rem)
  SECTILE_OPERATOR(&, bit_and)
  SECTILE_OPERATOR(|, bit_or)
  SECTILE_OPERATOR(^, bit_xor)
  SECTILE_OPERATOR(<<, shl)
  SECTILE_OPERATOR(>>, shr)
#undef SECTILE_OPERATOR

  friend Tile operator-(Arg a) { return Tile(detail::unary(detail::UnaryOp::neg, kind, a)); }
  friend Tile operator~(Arg a) { return Tile(detail::unary(detail::UnaryOp::bit_not, kind, a)); }

  // Both sides are always computed: there is no short cut.
  friend Tile operator&&(Arg a, const Tile &b) {
    return Tile(detail::logical(detail::BinaryOp::bit_and, a, Operand(b, a.where)));
  }
  friend Tile operator||(Arg a, const Tile &b) {
    return Tile(detail::logical(detail::BinaryOp::bit_or, a, Operand(b, a.where)));
  }
  // Its line is that of its operand: a parameter that could tell would lose against bool's own `!`.
  friend Tile operator!(const Tile &a) {
    static_assert(std::same_as<T, bool>, "! works on tiles of bool: write x == 0");
    return Tile(detail::logicalNot(a.value_));
  }

  // What `if`, `while`, `?:` and `for` ask for: there is no answer yet when the kernel is traced.
  template <class B>
    requires std::same_as<B, bool>
  explicit operator B() const {
    static_assert(detail::always_false<B>,
                  "a traced value has no truth value while the kernel is traced: write "
                  "sc::when(condition, [&]{...}) for a branch, sc::where(condition, a, b) to "
                  "choose between values, sc::loop_while for a loop");
    return false;
  }

  // Not of the language: each says what is.
  template <detail::Number A, detail::Number... Extents>
    requires(sizeof...(Extents) > 0)
  __attribute__((unavailable("a tile's shape comes with its values: write sc::zeros<T>(m, n) or "
                             "sc::full<T>(value, m, n)"))) //
  Tile(A, Extents...) {}
  template <class I>
  __attribute__((unavailable(
      "elements of a tile have no places while the kernel is traced: write sc::slice(x, axis, "
      "begin, extent) for a part, sc::gather(x, indices, axis) for elements by index"))) //
  Tile operator[](const I &) const {
    return *this;
  }
  __attribute__((unavailable("write i += 1"))) Tile &operator++() { return *this; }
  __attribute__((unavailable("write i += 1"))) Tile operator++(int) { return *this; }
  __attribute__((unavailable("write i -= 1"))) Tile &operator--() { return *this; }
  __attribute__((unavailable("write i -= 1"))) Tile operator--(int) { return *this; }

  static constexpr detail::Kind element_kind = kind;
  explicit Tile(const detail::Value &value) : value_(value) {}
  const detail::Value &handle() const { return value_; }

private:
  static Operand literal(detail::Literal number, detail::Location where) {
    Operand operand(0, where);
    operand.literal = number;
    return operand;
  }

  detail::Value value_;
};

// A scalar, or a tile, of indices: program ids, aranges, extents. 32 or 64 bits wide, as the launch
// needs it.
using Int = Tile<Index>;
template <class T> using Scalar = Tile<T>;
using Float = Tile<float>;
using Bool = Tile<bool>;

// Not of the language: a C++ variable is gone when the kernel runs.
#define SECTILE_NOT_ON_NUMBERS(symbol)                                                             \
  template <detail::Number A, class T>                                                             \
  __attribute__((unavailable(                                                                      \
      "a C++ variable cannot hold what the kernel computes: declare a traced one, such as "        \
      "sc::Float sum = 0 or auto sums = sc::zeros<float>(n)"))) A &                                \
  operator symbol(A &number, const Tile<T> &) {                                                    \
    return number;                                                                                 \
  }
SECTILE_NOT_ON_NUMBERS(+=)
SECTILE_NOT_ON_NUMBERS(-=)
SECTILE_NOT_ON_NUMBERS(*=)
SECTILE_NOT_ON_NUMBERS(/=)
SECTILE_NOT_ON_NUMBERS(%=)
SECTILE_NOT_ON_NUMBERS(&=)
SECTILE_NOT_ON_NUMBERS(|=)
SECTILE_NOT_ON_NUMBERS(^=)
#undef SECTILE_NOT_ON_NUMBERS

} // namespace sectile
