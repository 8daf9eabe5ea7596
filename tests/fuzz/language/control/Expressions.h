// Draws expressions of all types, of the variables that there are.
#pragma once
#include "tests/fuzz/language/control/Program.h"
#include <optional>

namespace sectile::fuzz::control {

/// A place, a count or a step: an Int, and the most that its magnitude is.
struct Small {
  Expression expression;
  std::int64_t most;
};

class Expressions {
protected:
  explicit Expressions(Draw &draw) : draw(draw) {}
  ~Expressions() = default;

  virtual void body(std::vector<Statement> &into, std::size_t count, unsigned depth) = 0;

  Draw &draw;
  std::vector<Variable> scope;
  unsigned counts[Types::count] = {};
  unsigned statements = 0; ///< that may still be drawn
  bool isMapping = false;  ///< single elements are worked on: no tiles, and no memory

  static constexpr std::int64_t mostOfVariable = 1000;

  //===-- Variables ---------------------------------------------------------------------------===//

  Variable declared(unsigned type, bool isTile, bool isAssignable = true) {
    return scope.emplace_back(Variable{type, counts[type]++, isTile, isAssignable});
  }
  void forget(std::size_t size) {
    for (; scope.size() > size; scope.pop_back())
      --counts[scope.back().type];
  }
  template <class F> std::optional<Variable> someVariable(F fits) {
    std::vector<Variable> found;
    for (const Variable &variable : scope)
      if (fits(variable))
        found.push_back(variable);
    return found.empty() ? std::nullopt : std::optional(draw.oneOf(found));
  }
  static Expression valueOf(const Variable &variable) {
    Expression result = constant(variable.type, variable.index, variable.isTile);
    result.op = Op::Variable;
    return result;
  }
  unsigned someType() { return unsigned(draw.pick(Types::count)); }
  bool someShape() { return !isMapping && draw.pick(3) == 0; }

  //===-- Numbers -----------------------------------------------------------------------------===//

  template <class T> std::int64_t wholeNumber() {
    using Limits = std::numeric_limits<T>;
    const std::int64_t few = draw.number(0, 3);
    switch (draw.pick(6)) {
    case 0:
      return std::int64_t(Limits::max() - T(few));
    case 1:
      return std::int64_t(T(Limits::min() + T(few)));
    case 2:
      return std::int64_t(T(-few));
    case 3:
      return std::int64_t(T(std::uint64_t{1} << draw.pick(std::size_t(bitsOf<T>))) - T(few));
    case 4:
      return few;
    default:
      return std::int64_t(T(draw.pick(std::size_t(1) << 62)));
    }
  }

  Expression someConstant(unsigned type, bool isTile) {
    Expression result = constant(type, 0, isTile);
    visit(type, [&]<class T>(TypeBox<T>) {
      if constexpr (isReal<T>) {
        static constexpr double numbers[] = {0,      -0.0,  1,        -1,    0.5,        -2.5,
                                             3,      100,   -129,     255.5, 0.00390625, 1e4,
                                             -32768, 65504, INFINITY, NAN};
        static constexpr double large[] = {2147483648.0, -9223372036854775808.0,
                                           4294967040.0, 18446744073709551616.0,
                                           16777217.0,   1.0 / 1073741824};
        result.real = double(std::same_as<T, half> || draw.coin() ? T(draw.oneOf(numbers))
                                                                  : T(draw.oneOf(large)));
      } else if constexpr (isBool<T>) {
        result.number = draw.coin();
      } else if constexpr (isIndex<T>) {
        result.number = draw.number(-8, 16);
      } else {
        result.number = wholeNumber<T>();
      }
    });
    return result;
  }

  //===-- Expressions of Int ------------------------------------------------------------------===//

  Small smallLeaf(bool isTile) {
    const bool ofTile = isTile;
    switch (draw.pick(isMapping ? 6 : 8)) {
    case 1: {
      const Expression of = leaf(typeOf<std::int8_t>, ofTile);
      return {make(typeOf<Index>, Op::Cast, {of}), 128};
    }
    case 2: {
      const Expression bits =
          make(typeOf<std::int32_t>, Op::And,
               {leaf(typeOf<std::int32_t>, ofTile), literal(typeOf<std::int32_t>, 15)});
      return {make(typeOf<Index>, Op::Cast, {bits}), 15};
    }
    case 6:
      if (isTile) {
        Expression places = constant(typeOf<Index>, 0, true);
        places.op = Op::Positions;
        return {places, width};
      }
      break;
    case 7:
      if (!isTile)
        return {make(typeOf<Index>, Op::Program, {}), 3};
      break;
    default:
      break;
    }
    if (auto variable = someVariable(
            [&](const Variable &v) { return v.type == typeOf<Index> && v.isTile == isTile; }))
      return {valueOf(*variable), mostOfVariable};
    return {constant(typeOf<Index>, draw.number(-8, 16), isTile), 16};
  }

  Small small(bool isTile, unsigned depth) {
    if (!depth || draw.pick(4) == 0)
      return smallLeaf(isTile);
    const unsigned type = typeOf<Index>;
    Small a = small(isTile, depth - 1), b = small(isTile && draw.coin(), depth - 1);
    if (draw.coin())
      std::swap(a, b);
    const auto both = [&](Op op, std::int64_t most) {
      return Small{make(type, op, {a.expression, b.expression}), most};
    };
    Small result = [&]() -> Small {
      switch (draw.pick(13)) {
      case 0:
      case 1:
        return both(Op::Add, a.most + b.most);
      case 2:
        return both(Op::Sub, a.most + b.most);
      case 3:
        if (a.most * b.most < 1 << 24)
          return both(Op::Multiply, a.most * b.most);
        return both(Op::Min, std::max(a.most, b.most));
      case 4:
        return both(Op::Divide, a.most);
      case 5:
        return both(Op::Remainder, a.most);
      case 6:
        return both(draw.coin() ? Op::Min : Op::Max, std::max(a.most, b.most));
      case 7: {
        const Expression holds = expression(typeOf<bool>, isTile && draw.coin(), depth - 1);
        return {make(type, Op::Where, {holds, a.expression, b.expression}),
                std::max(a.most, b.most)};
      }
      case 8: { // narrower ones are as wide beside an Int
        static constexpr unsigned narrow[] = {typeOf<std::int8_t>, typeOf<std::uint8_t>,
                                              typeOf<std::int16_t>};
        const unsigned other = draw.oneOf(narrow);
        b.expression = expression(other, b.expression.isTile, depth - 1);
        return both(draw.coin() ? Op::Add : Op::Sub, a.most + (1 << 15));
      }
      default:
        break;
      }
      // Of one that has the shape.
      const Small &x = a.expression.isTile == isTile ? a : b;
      switch (draw.pick(5)) {
      case 0:
        return {make(type, Op::Negate, {x.expression}), x.most};
      case 1:
        return {make(type, Op::Abs, {x.expression}), x.most};
      case 2:
        return {make(type, Op::And, {x.expression, literal(type, 31)}), 31};
      case 3:
        return {make(type, Op::Left, {x.expression, literal(type, draw.number(0, 3))}), 8 * x.most};
      default:
        return {make(type, draw.coin() ? Op::Add : Op::Multiply,
                     {literal(type, draw.number(-3, 5)), x.expression}),
                5 * x.most + 5};
      }
    }();
    if (result.expression.isTile != isTile)
      result.expression = make(type, Op::Add, {result.expression, smallLeaf(true).expression}),
      result.most += mostOfVariable;
    if (result.most > 1 << 24)
      return {make(type, Op::Remainder, {result.expression, literal(type, 1009)}), 1009};
    return result;
  }

  /// One whose magnitude is at most `most`, which is odd.
  Expression smallUpTo(std::int64_t most, bool isTile, unsigned depth) {
    const Small x = small(isTile, depth);
    if (x.most <= most)
      return x.expression;
    return make(typeOf<Index>, Op::Remainder, {x.expression, literal(typeOf<Index>, most)});
  }

  //===-- Expressions -------------------------------------------------------------------------===//

  Expression leaf(unsigned type, bool isTile) {
    if (draw.pick(8))
      if (auto variable =
              someVariable([&](const Variable &v) { return v.type == type && v.isTile == isTile; }))
        return valueOf(*variable);
    if (type != typeOf<Index> && draw.pick(8))
      if (auto variable = someVariable([&](const Variable &v) { return v.isTile == isTile; }))
        return variable->type == type ? valueOf(*variable)
                                      : make(type, Op::Cast, {valueOf(*variable)});
    return someConstant(type, isTile);
  }

  Expression place(bool isTile, unsigned depth) {
    return make(typeOf<Index>, Op::And,
                {small(isTile, depth).expression, literal(typeOf<Index>, width - 1)});
  }

  /// Two operands, one of which has the shape.
  std::pair<Expression, Expression> operands(unsigned a, unsigned b, bool isTile, unsigned depth) {
    const bool first = isTile && draw.coin(), second = isTile && (!first || draw.coin());
    Expression x = expression(a, first, depth), y = expression(b, second, depth);
    return {std::move(x), std::move(y)};
  }

  /// Operands of different types whose joint type is this one.
  std::optional<std::pair<unsigned, unsigned>> mixed(unsigned type) {
    std::vector<std::pair<unsigned, unsigned>> found;
    for (unsigned a = 0; a < Types::count; ++a)
      for (unsigned b = 0; b < Types::count; ++b)
        visit(a, [&]<class A>(TypeBox<A>) {
          visit(b, [&]<class B>(TypeBox<B>) {
            if (a != b && typeOf<Joint<A, B>> == type)
              found.push_back({a, b});
          });
        });
    return found.empty() ? std::nullopt : std::optional(draw.oneOf(found));
  }

  Op binaryOp(unsigned type, bool mayShift) {
    static constexpr Op wholes[] = {Op::Add,       Op::Sub,   Op::Multiply, Op::Min, Op::Max,
                                    Op::Remainder, Op::And,   Op::Or,       Op::Xor, Op::Divide,
                                    Op::Left,      Op::Right, Op::Right};
    static constexpr Op reals[] = {Op::Add,    Op::Sub,       Op::Add, Op::Multiply,
                                   Op::Divide, Op::Remainder, Op::Min, Op::Max};
    static constexpr Op bools[] = {Op::And, Op::Or, Op::Xor};
    if (isRealType(type))
      return draw.oneOf(reals);
    if (type == typeOf<bool>)
      return draw.oneOf(bools);
    return wholes[draw.pick(std::size(wholes) - (mayShift ? 0 : 3))];
  }

  Expression expression(unsigned type, bool isTile, unsigned depth) {
    if (type == typeOf<Index>)
      return small(isTile, depth).expression;
    if (!depth || draw.pick(6) == 0)
      return leaf(type, isTile);
    --depth;
    Expression result = [&] {
      switch (draw.pick(isTile && !isMapping ? 11 : 10)) {
      case 0:
      case 1:
        if (type == typeOf<bool>)
          return comparison(isTile, depth);
        return cast(type, isTile, depth);
      case 2: {
        const Expression holds = expression(typeOf<bool>, isTile && draw.coin(), depth);
        auto types = std::pair(type, type);
        if (draw.coin())
          types = mixed(type).value_or(types);
        auto [a, b] = operands(types.first, types.second, isTile, depth);
        return make(type, Op::Where, {holds, a, b});
      }
      case 3:
        if (auto types = mixed(type)) {
          auto [a, b] = operands(types->first, types->second, isTile, depth);
          return make(type, binaryOp(type, false), {a, b});
        }
        return comparison(isTile, depth);
      case 4:
        if (type != typeOf<bool>) {
          Expression number = someConstant(type, false);
          number.isLiteral = true;
          const Op op = binaryOp(type, true);
          Expression x = expression(type, isTile, depth);
          if (draw.coin())
            return make(type, op, {number, x});
          if (op == Op::Divide || op == Op::Remainder)
            number.number |= 1;
          else if (op == Op::Left || op == Op::Right)
            number.number &= 7;
          return make(type, op, {x, number});
        }
        return comparison(isTile, depth);
      case 5:
        return special(type, isTile, depth);
      case 6:
        if (!isTile && !isMapping)
          return reduced(type, depth);
        return special(type, isTile, depth);
      case 10:
        return mapped(type, depth);
      default:
        if (type == typeOf<bool> && draw.pick(3))
          return comparison(isTile, depth);
        auto [a, b] = operands(type, type, isTile, depth);
        return make(type, binaryOp(type, true), {a, b});
      }
    }();
    return result;
  }

  Expression cast(unsigned type, bool isTile, unsigned depth) {
    return make(type, Op::Cast, {expression(someType(), isTile, depth)});
  }

  Expression comparison(bool isTile, unsigned depth) {
    static constexpr Op ops[] = {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual};
    unsigned a = someType(), b = draw.coin() ? someType() : a;
    // An Int beside 32 bits without a sign has the launch's width.
    if (std::minmax(a, b) == std::minmax(typeOf<Index>, typeOf<std::uint32_t>))
      b = a;
    if (draw.pick(3) == 0) { // small numbers, which may be equal
      auto [x, y] = operands(typeOf<Index>, typeOf<Index>, isTile, 1);
      const unsigned type = typeOf<Index>;
      return make(
          typeOf<bool>, draw.oneOf(ops),
          {make(type, Op::And, {x, literal(type, 7)}), make(type, Op::And, {y, literal(type, 7)})});
    }
    auto [x, y] = operands(a, b, isTile, depth);
    return make(typeOf<bool>, draw.oneOf(ops), {x, y});
  }

  Expression special(unsigned type, bool isTile, unsigned depth) {
    if (type == typeOf<bool>)
      switch (draw.pick(3)) {
      case 0:
        return make(type, Op::Not, {expression(type, isTile, depth)});
      case 1: {
        auto [a, b] = operands(type, type, isTile, depth);
        return make(type, draw.coin() ? Op::Both : Op::Either, {a, b});
      }
      default: {
        static constexpr unsigned reals[] = {typeOf<float>, typeOf<double>};
        return make(type, Op::IsNan, {expression(draw.oneOf(reals), isTile, depth)});
      }
      }
    if (isRealType(type)) {
      static constexpr Op ops[] = {Op::Negate, Op::Abs,   Op::Floor, Op::Ceil,
                                   Op::Trunc,  Op::Round, Op::Rint,  Op::Root};
      if (type != typeOf<half> && draw.pick(4) == 0) {
        auto [a, b] = operands(type, type, isTile, depth);
        return make(type, Op::Fused, {a, b, expression(type, false, depth)});
      }
      return make(type, draw.oneOf(ops), {expression(type, isTile, depth)});
    }
    if (type == typeOf<std::int64_t> && !isMapping && draw.coin())
      return make(type, Op::Load, {place(isTile, depth)});
    if (type == typeOf<std::int32_t> && draw.coin()) {
      static constexpr unsigned wholes[] = {typeOf<std::int8_t>, typeOf<std::uint8_t>,
                                            typeOf<std::int16_t>, typeOf<std::uint32_t>,
                                            typeOf<std::uint64_t>};
      return make(type, draw.coin() ? Op::Popcount : Op::Clz,
                  {expression(draw.oneOf(wholes), isTile, depth)});
    }
    switch (draw.pick(5)) {
    case 0: {
      auto [a, b] = operands(type, type, isTile, depth);
      return make(type, Op::High, {a, b});
    }
    case 1: {
      auto [a, b] = operands(type, type, isTile, depth);
      return make(type, Op::Fused, {a, b, expression(type, false, depth)});
    }
    default: {
      static constexpr Op ops[] = {Op::Negate, Op::Abs, Op::Not};
      return make(type, draw.oneOf(ops), {expression(type, isTile, depth)});
    }
    }
  }

  Expression reduced(unsigned type, unsigned depth) {
    if (type == typeOf<bool>)
      return reduction(type, draw.coin() ? Op::Any : Op::All, expression(type, true, depth));
    if (!isRealType(type))
      switch (draw.pick(3)) {
      case 0: {
        std::vector<unsigned> summed;
        for (unsigned of = 0; of < Types::count; ++of)
          visit(of, [&]<class U>(TypeBox<U>) {
            if constexpr (!isReal<U> && !isIndex<U>)
              if (typeOf<SumOf<U>> == type)
                summed.push_back(of);
          });
        if (!summed.empty())
          return reduction(type, Op::Sum, expression(draw.oneOf(summed), true, depth));
        break;
      }
      case 1:
        return reduction(type, Op::XorSum, expression(type, true, depth));
      default:
        break;
      }
    return reduction(type, draw.coin() ? Op::Largest : Op::Smallest, expression(type, true, depth));
  }

  Expression mapped(unsigned type, unsigned depth) {
    Expression result = make(type, Op::Map, {expression(type, true, depth)});
    const std::vector<Variable> outside = scope;
    std::erase_if(scope, [](const Variable &variable) { return variable.isTile; });
    for (Variable &variable : scope)
      variable.isAssignable = false;
    const std::size_t size = scope.size();
    isMapping = true;
    declared(type, false);
    body(result.body, 1 + draw.pick(3), 1);
    result.operands.push_back(expression(type, false, depth));
    isMapping = false;
    forget(size);
    scope = outside;
    return result;
  }
};

} // namespace sectile::fuzz::control
