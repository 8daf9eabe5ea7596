// What every traced object is made of: the handle of a value in the trace, kinds of elements, and
// operands (a handle or a literal) that remember the line of the kernel they were written in.
#pragma once
#include <sectile/compiler.h>

#include <cstdint>
#include <sectile/types.h>
#include <source_location>
#include <type_traits>

namespace sectile {

template <class T> class Tile;

// The element type of Int: a signed integer whose width, 32 or 64 bits, is chosen when the kernel
// is traced, from the arguments of the launch.
struct Index;

namespace detail {

// DType's values, and one more for Index.
enum class Kind : std::uint8_t {
  boolean = static_cast<int>(DType::boolean),
  int8 = static_cast<int>(DType::int8),
  int16 = static_cast<int>(DType::int16),
  int32 = static_cast<int>(DType::int32),
  int64 = static_cast<int>(DType::int64),
  uint8 = static_cast<int>(DType::uint8),
  uint16 = static_cast<int>(DType::uint16),
  uint32 = static_cast<int>(DType::uint32),
  uint64 = static_cast<int>(DType::uint64),
  float8_e4m3 = static_cast<int>(DType::float8_e4m3),
  float8_e5m2 = static_cast<int>(DType::float8_e5m2),
  float8_e4m3fnuz = static_cast<int>(DType::float8_e4m3fnuz),
  float8_e5m2fnuz = static_cast<int>(DType::float8_e5m2fnuz),
  float8_e4m3b11fnuz = static_cast<int>(DType::float8_e4m3b11fnuz),
  float16 = static_cast<int>(DType::float16),
  bfloat16 = static_cast<int>(DType::bfloat16),
  float32 = static_cast<int>(DType::float32),
  float64 = static_cast<int>(DType::float64),
  index,
};

template <class T>
concept TileElement = std::same_as<T, Index> || (Element<T> && !std::is_const_v<T>);

template <class T> constexpr Kind kindOf() {
  if constexpr (std::same_as<T, Index>)
    return Kind::index;
  else
    return static_cast<Kind>(dtype_of<T>);
}
constexpr bool isFloat(Kind kind) { return kind >= Kind::float8_e4m3 && kind != Kind::index; }
constexpr bool isBool(Kind kind) { return kind == Kind::boolean; }
constexpr bool isInteger(Kind kind) { return !isFloat(kind) && !isBool(kind); }
constexpr bool isUnsigned(Kind kind) { return kind >= Kind::uint8 && kind <= Kind::uint64; }
// Bits of an element; of Index the fewest it can have.
constexpr unsigned bitsOf(Kind kind) {
  return kind == Kind::index ? 32 : static_cast<unsigned>(8 * size_of(static_cast<DType>(kind)));
}

// Whether every number of the kind is an Index, whatever its width.
constexpr bool fitsIndex(Kind kind) {
  return isInteger(kind) && (isUnsigned(kind) ? bitsOf(kind) < 32 : bitsOf(kind) <= 32);
}

// The kind of a ∘ b where a and b are tiles: docs/language.md has the table.
constexpr Kind promote(Kind a, Kind b) {
  if (a == b)
    return a;
  if (isFloat(a) != isFloat(b))
    return isFloat(a) ? a : b;
  if (isFloat(a)) {
    if (bitsOf(a) == bitsOf(b)) // f16 with bf16, two of fp8: neither holds the other
      return Kind::float32;
    return bitsOf(a) > bitsOf(b) ? a : b;
  }
  if (isBool(a) || isBool(b))
    return isBool(a) ? b : a;
  if (a == Kind::index || b == Kind::index) {
    const Kind other = a == Kind::index ? b : a;
    return bitsOf(other) == 64 ? other : Kind::index;
  }
  if (bitsOf(a) == bitsOf(b))
    return isUnsigned(a) ? a : b;
  return bitsOf(a) > bitsOf(b) ? a : b;
}

template <class T> struct TypeBox {
  using type = T;
};
template <class A, class B> constexpr auto promotedBox() {
  constexpr Kind kind = promote(kindOf<A>(), kindOf<B>());
  if constexpr (kind == kindOf<A>())
    return TypeBox<A>{};
  else if constexpr (kind == kindOf<B>())
    return TypeBox<B>{};
  else
    return TypeBox<float>{};
}
template <class A, class B> using Promoted = typename decltype(promotedBox<A, B>())::type;

template <class...> inline constexpr bool always_false = false;

class Trace;

// The handle of a value in the trace. Handles are copied and assigned like numbers. Each registers
// itself with its trace, which is how a loop or a branch finds out what its body assigns.
class Value {
public:
  Value() noexcept;
  Value(const Value &other) noexcept;
  Value &operator=(const Value &other) noexcept;
  ~Value();

private:
  friend class Trace;
  enum class State : std::uint8_t { empty, live, escaped, ended };

  void *ir_ = nullptr; // the MLIR value; the location of the loop or branch it has escaped from
  Trace *trace_ = nullptr;
  Value *previous_ = nullptr, *next_ = nullptr;
  std::uint32_t depth_ = 0; // how many loops and branches were open when it came to be
  State state_ = State::empty;
};

template <class A>
concept Number = std::is_arithmetic_v<A> || (Element<A> && !std::is_const_v<A>);

// A C++ number in a kernel: it takes the type of the tile it meets.
struct Literal {
  enum class Type : std::uint8_t { boolean, integer, natural, floating } type;
  union {
    std::int64_t integer; // boolean too
    std::uint64_t natural;
    double floating;
  };

  template <Number A> constexpr Literal(A value) {
    if constexpr (std::same_as<A, bool>) {
      type = Type::boolean;
      integer = value;
    } else if constexpr (std::unsigned_integral<A>) {
      type = Type::natural;
      natural = value;
    } else if constexpr (std::integral<A>) {
      type = Type::integer;
      integer = value;
    } else {
      type = Type::floating;
      floating = static_cast<double>(value);
    }
  }
};

using Location = std::source_location;

// A tile or a literal, and the line where it is used. Made by implicit conversion, as the type of a
// parameter; it refers to its tile and does not outlive the call.
class Operand {
public:
  template <class T>
  Operand(const Tile<T> &tile, Location where = Location::current())
      : where(where), value(&tile.handle()), kind(kindOf<T>()) {}
  template <Number A>
  Operand(A number, Location where = Location::current()) : where(where), literal(number) {}
  Operand(Location where = Location::current()) : where(where), none(true) {}

  Location where;
  const Value *value = nullptr; // null for literals
  Literal literal = 0;
  Kind kind = Kind::boolean;
  bool none = false; // an optional operand that was left out
};

// A number that must be known when the kernel is traced: an extent, an axis.
class Extent {
public:
  template <std::integral I>
  Extent(I number, Location where = Location::current())
      : where(where), number(static_cast<std::int64_t>(number)) {}
  Extent(Location where = Location::current()) : where(where), number(-1), none(true) {}
  template <class T> Extent(const Tile<T> &) : number(0) {
    static_assert(always_false<T>, "an extent, an axis or a bound of sc::arange is a number of the "
                                   "host: it shapes the kernel while it is traced; use a field of "
                                   "the configuration, and a mask for what is beyond n");
  }

  Location where;
  std::int64_t number;
  bool none = false;
};

} // namespace detail
} // namespace sectile
