// Programs of control flow: statements and expressions, which are drawn, run and reduced.
#pragma once
#include "tests/fuzz/Draw.h"
#include "tests/fuzz/language/control/HostNumbers.h"
#include <string>
#include <tuple>

namespace sectile::fuzz::control {

//===-- Types ---------------------------------------------------------------------------------===//

template <class... T> struct TypeList {
  static constexpr unsigned count = sizeof...(T);
  template <template <class> class Of> using Tuple = std::tuple<Of<T>...>;
  template <class U> static constexpr unsigned of() {
    unsigned i = 0;
    (void)((std::same_as<T, U> || (++i, false)) || ...);
    return i;
  }
};
using Types = TypeList<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::uint32_t,
                       std::int64_t, std::uint64_t, Index, half, float, double>;
template <class T> inline constexpr unsigned typeOf = Types::of<T>();
inline constexpr const char *typeNames[] = {"bool", "i8",  "u8",  "i16", "i32", "u32",
                                            "i64",  "u64", "Int", "f16", "f32", "f64"};

template <class F> void visit(unsigned type, F f) {
  auto visitOne = [&]<class... T>(TypeList<T...>) {
    unsigned i = 0;
    (void)((i++ == type && (f(TypeBox<T>{}), true)) || ...);
  };
  visitOne(Types{});
}

inline bool isRealType(unsigned type) { return type >= typeOf<half>; }

//===-- Programs ------------------------------------------------------------------------------===//

enum class Op {
  Variable,
  Constant,
  Positions,
  Program,
  Load,
  Cast,
  Negate,
  Not,
  Abs,
  Floor,
  Ceil,
  Trunc,
  Round,
  Rint,
  Root,
  Add,
  Sub,
  Multiply,
  Divide,
  Remainder,
  And,
  Or,
  Xor,
  Left,
  Right,
  Min,
  Max,
  High,
  Fused,
  Where,
  Less,
  LessEqual,
  Equal,
  NotEqual,
  Both,
  Either,
  IsNan,
  Popcount,
  Clz,
  Sum,
  XorSum,
  Largest,
  Smallest,
  Any,
  All,
  Map,
};
inline constexpr const char *opNames[] = {
    "variable", "constant", "positions", "program", "load",  "cast",     "-",    "~",
    "abs",      "floor",    "ceil",      "trunc",   "round", "rint",     "root", "+",
    "-",        "*",        "/",         "%",       "&",     "|",        "^",    "<<",
    ">>",       "min",      "max",       "mulhi",   "fma",   "where",    "<",    "<=",
    "==",       "!=",       "&&",        "||",      "isnan", "popcount", "clz",  "sum",
    "xor_sum",  "max_of",   "min_of",    "any",     "all",   "map"};

struct Statement;

struct Expression {
  unsigned type = 0;
  Op op = Op::Constant;
  bool isTile = false;
  bool isLiteral = false;  ///< a constant: as a number of C++
  std::int64_t number = 0; ///< of a variable or an integer constant
  double real = 0;
  std::vector<Expression> operands; ///< of Map, the tile and the result
  std::vector<Statement> body;
};

struct Statement {
  enum class Kind {
    Declare, ///< a variable, until the body that it is in ends
    Assign,
    Update, ///< op=
    Swap,
    Store,
    Branch,
    Choose,   ///< declares a variable that both branches assign
    Loop,     ///< over range
    Unrolled, ///< over static_range
    While,
  } kind = Kind::Assign;
  unsigned type = 0, variable = 0, other = 0;
  Op op = Op::Add;
  std::vector<Expression> operands;
  std::int64_t numbers[3] = {}; ///< bounds of static_range
  LoopOptions hints = {};
  std::vector<Statement> condition, body, otherwise;
};

struct Variable {
  unsigned type, index;
  bool isTile, isAssignable;
};

struct Program {
  std::vector<Statement> body;
  std::vector<Variable> results;
  unsigned programs = 1, warps = 1;
  bool isWide = false; ///< Ints have 64 bits
  std::int64_t n = 0;
  std::int32_t a = 0;
  float b = 0;
  std::vector<std::int64_t> memory; ///< of `width` elements for each program
};

/// Variables that are there from the start, one of a type.
inline constexpr unsigned argumentTypes[] = {typeOf<Index>, typeOf<std::int32_t>, typeOf<float>};

inline Expression make(unsigned type, Op op, std::vector<Expression> operands) {
  Expression result;
  result.type = type;
  result.op = op;
  for (const Expression &operand : operands)
    result.isTile |= operand.isTile;
  result.operands = std::move(operands);
  return result;
}

inline Expression constant(unsigned type, std::int64_t number, bool isTile = false) {
  Expression result;
  result.type = type;
  result.number = number;
  result.real = double(number);
  result.isTile = isTile;
  return result;
}

inline Expression literal(unsigned type, std::int64_t number) {
  Expression result = constant(type, number);
  result.isLiteral = true;
  return result;
}

inline Expression reduction(unsigned type, Op op, Expression of) {
  Expression result = make(type, op, {std::move(of)});
  result.isTile = false;
  return result;
}

/// As a finding shows it.
std::string text(const std::vector<Statement> &body, const std::string &indent);

/// Draws a program. Whatever it does is defined, and its Ints stay small.
Program someProgram(Draw &draw);

} // namespace sectile::fuzz::control
