// Does what a program of control flow says: traced, as a kernel, or at once, on numbers of the
// host.
#pragma once
#include "tests/fuzz/language/control/Program.h"
#include <deque>

namespace sectile::fuzz::control {

//===-- Worlds --------------------------------------------------------------------------------===//

/// A kernel that is traced.
struct Traced {
  template <class T> using Number = Tile<T>;
  Ptr<std::int64_t> memory; ///< the program's own

  template <class T> static Tile<T> constant(Stored<T> number, bool isTile) {
    return isTile ? full<T>(number, width) : full<T>(number);
  }
  template <class T> static Stored<T> literal(Stored<T> number) { return number; }
  static auto lesser(const auto &a, const auto &b) { return sectile::minimum(a, b); }
  static auto greater(const auto &a, const auto &b) { return sectile::maximum(a, b); }
  static auto choice(const auto &holds, const auto &a, const auto &b) {
    return sectile::where(holds, a, b);
  }
  static Int positions() { return arange(0, width); }
  static Int program() { return program_id(0); }
  Tile<std::int64_t> loaded(const Int &at) const { return load(memory + at); }
  void stored(const Int &at, const Tile<std::int64_t> &x) const { store(memory + at, x); }

  template <class Then, class Otherwise>
  static void branch(const Bool &holds, Then then, Otherwise otherwise) {
    when(holds, then, otherwise);
  }
  template <class Condition, class Body> static void repeat(Condition condition, Body body) {
    loop_while(condition, body);
  }
  template <class N>
  static auto counted(const N &begin, const N &end, const N &step, const LoopOptions &hints) {
    return range(begin, end, step, hints);
  }
  template <class T, class F> static Tile<T> mapped(F f, const Tile<T> &x) { return map(f, x); }
};

/// Numbers of the host, at once.
struct OnHost {
  template <class T> using Number = Host<T>;
  std::int64_t *memory;
  unsigned programNumber;

  template <class T> static Host<T> constant(Stored<T> number, bool isTile) {
    Host<T> result(number);
    result.elements.fill(number);
    result.isTile = isTile;
    return result;
  }
  template <class T> static Host<T> literal(Stored<T> number) { return number; }
  static auto lesser(const auto &a, const auto &b) { return control::minimum(a, b); }
  static auto greater(const auto &a, const auto &b) { return control::maximum(a, b); }
  static auto choice(const auto &holds, const auto &a, const auto &b) {
    return control::where(holds, a, b);
  }
  static Host<Index> positions() {
    Host<Index> result;
    result.isTile = true;
    for (int i = 0; i < width; ++i)
      result.elements[std::size_t(i)] = i;
    return result;
  }
  Host<Index> program() const { return {std::int64_t(programNumber)}; }
  Host<std::int64_t> loaded(const Host<Index> &at) const {
    return each<std::int64_t>([&](std::int64_t i) { return memory[i]; }, at);
  }
  void stored(const Host<Index> &at, const Host<std::int64_t> &x) const {
    for (int i = 0; i < (at.isTile ? width : 1); ++i)
      memory[at[i]] = x[i];
  }

  template <class Then, class Otherwise>
  static void branch(const Host<bool> &holds, Then then, Otherwise otherwise) {
    if (holds[0])
      then();
    else if (hostSlip != HostSlip::OtherBranchSkipped)
      otherwise();
  }
  template <class Condition, class Body> static void repeat(Condition condition, Body body) {
    while (condition()[0])
      body();
  }
  template <class N>
  static std::vector<Host<Index>> counted(const N &begin, const N &end, const N &step,
                                          const LoopOptions &) {
    std::vector<Host<Index>> result;
    constexpr std::int64_t most = 64;
    if (step[0] <= 0 ||
        (begin[0] < end[0] && std::uint64_t(end[0]) - std::uint64_t(begin[0]) > most))
      throw std::logic_error("the draw has a loop that takes long");
    for (std::int64_t i = begin[0]; i < end[0]; i += step[0])
      result.emplace_back(i);
    if (hostSlip == HostSlip::OneTripMore && !result.empty())
      result.emplace_back(result.back()[0] + step[0]);
    if (hostSlip == HostSlip::LastTripLost && result.size() > 1)
      result.pop_back();
    return result;
  }
  template <class T, class F> static Host<T> mapped(F f, const Host<T> &x) {
    Host<T> result = x;
    for (int i = 0; i < (x.isTile ? width : 1); ++i)
      result.elements[std::size_t(i)] = f(Host<T>(x[i]))[0];
    return result;
  }
};

//===-- Running -------------------------------------------------------------------------------===//

/// Does what a program says, in one of the worlds.
template <class World> class Machine {
public:
  template <class T> using Number = typename World::template Number<T>;

  explicit Machine(World world) : world(std::move(world)) {}

  template <class T> void declare(const Number<T> &x) { those<T>().push_back(x); }
  template <class T> Number<T> &variable(std::size_t i) { return those<T>().at(i); }

  /// Variables that the body declares end with it.
  void run(const std::vector<Statement> &body) {
    const auto before = sizes();
    runOpen(body);
    shrink(before);
  }

  void runOpen(const std::vector<Statement> &body) {
    for (const Statement &statement : body)
      visit(statement.type, [&]<class T>(TypeBox<T>) { runOne<T>(statement); });
  }

private:
  // Their elements stay where they are when others come and go.
  template <class T> using Variables = std::deque<Number<T>>;
  template <class T> Variables<T> &those() { return std::get<typeOf<T>>(variables); }

  std::array<std::size_t, Types::count> sizes() {
    return std::apply([](auto &...of) { return std::array{of.size()...}; }, variables);
  }
  void shrink(const std::array<std::size_t, Types::count> &to) {
    for (unsigned type = 0; type < Types::count; ++type)
      visit(type, [&]<class T>(TypeBox<T>) {
        while (those<T>().size() > to[type])
          those<T>().pop_back();
      });
  }

  //===-- Expressions -------------------------------------------------------------------------===//

  template <class T> static Stored<T> numberOf(const Expression &x) {
    if constexpr (isReal<T>)
      return T(x.real);
    else
      return Stored<T>(x.number);
  }

  template <class T, class A, class B> static Number<T> arithmetic(Op op, const A &a, const B &b) {
    switch (op) {
    case Op::Add:
      return a + b;
    case Op::Sub:
      return a - b;
    case Op::Min:
      return World::lesser(a, b);
    case Op::Max:
      return World::greater(a, b);
    default:
      break;
    }
    if constexpr (isReal<T>) {
      switch (op) {
      case Op::Multiply: // a product that is not added to anything is rounded
        return rint(Number<T>(a * b));
      case Op::Divide:
        return a / b;
      default:
        return a % b;
      }
    } else {
      switch (op) {
      case Op::Multiply:
        return a * b;
      case Op::And:
        return a & b;
      case Op::Or:
        return a | b;
      default:
        return a ^ b;
      }
    }
  }

  /// b is not zero, or less than the bits of T.
  template <class T, class A, class B> static Number<T> guarded(Op op, const A &a, const B &b) {
    switch (op) {
    case Op::Divide:
      return a / b;
    case Op::Remainder:
      return a % b;
    case Op::Left:
      return a << b;
    default:
      return a >> b;
    }
  }

  template <class T, class U> Number<U> guard(Op op, const Number<U> &b) {
    if (op == Op::Divide || op == Op::Remainder)
      return b | World::template literal<U>(1);
    return b & World::template literal<U>(Stored<U>(bitsOf<T> - 1));
  }

  template <class T> Number<T> binary(const Expression &x) {
    const Expression &left = x.operands[0], &right = x.operands[1];
    const bool isGuarded = isWhole<T> && (x.op == Op::Divide || x.op == Op::Remainder ||
                                          x.op == Op::Left || x.op == Op::Right);
    Number<T> result;
    if constexpr (isBool<T>) {
      const Number<T> a = eval<T>(left), b = eval<T>(right);
      result = x.op == Op::And ? a & b : x.op == Op::Or ? a | b : a ^ b;
    } else if (left.isLiteral || right.isLiteral) {
      const auto number = World::template literal<T>(numberOf<T>(left.isLiteral ? left : right));
      Number<T> a = eval<T>(left.isLiteral ? right : left);
      if constexpr (isWhole<T>)
        if (isGuarded) {
          if (right.isLiteral)
            return guarded<T>(x.op, a, number);
          a = guard<T, T>(x.op, a);
          return guarded<T>(x.op, number, a);
        }
      result = right.isLiteral ? arithmetic<T>(x.op, a, number) : arithmetic<T>(x.op, number, a);
    } else {
      visit(left.type, [&]<class U>(TypeBox<U>) {
        visit(right.type, [&]<class V>(TypeBox<V>) {
          if constexpr (std::same_as<Joint<U, V>, T>) {
            const Number<U> a = eval<U>(left);
            const Number<V> b = eval<V>(right);
            if constexpr (isWhole<T> && isWhole<V>)
              if (isGuarded) {
                const Number<V> by = guard<T, V>(x.op, b);
                result = guarded<T>(x.op, a, by);
                return;
              }
            result = arithmetic<T>(x.op, a, b);
          }
        });
      });
    }
    return result;
  }

  Number<bool> comparison(const Expression &x) {
    Number<bool> result;
    visit(x.operands[0].type, [&]<class U>(TypeBox<U>) {
      visit(x.operands[1].type, [&]<class V>(TypeBox<V>) {
        const Number<U> a = eval<U>(x.operands[0]);
        const Number<V> b = eval<V>(x.operands[1]);
        result = x.op == Op::Less        ? a < b
                 : x.op == Op::LessEqual ? a <= b
                 : x.op == Op::Equal     ? a == b
                                         : a != b;
      });
    });
    return result;
  }

  template <class T> Number<T> chosen(const Expression &x) {
    const Number<bool> holds = eval<bool>(x.operands[0]);
    Number<T> result;
    visit(x.operands[1].type, [&]<class U>(TypeBox<U>) {
      visit(x.operands[2].type, [&]<class V>(TypeBox<V>) {
        if constexpr (std::same_as<Joint<U, V>, T>) {
          const Number<U> a = eval<U>(x.operands[1]);
          const Number<V> b = eval<V>(x.operands[2]);
          result = World::choice(holds, a, b);
        }
      });
    });
    return result;
  }

  template <class T> Number<T> mapped(const Expression &x) {
    const Number<T> of = eval<T>(x.operands[0]);
    return world.template mapped<T>(
        [&](const Number<T> &element) {
          const auto before = sizes();
          declare<T>(element);
          runOpen(x.body);
          const Number<T> result = eval<T>(x.operands[1]);
          shrink(before);
          return result;
        },
        of);
  }

  template <class T> Number<T> eval(const Expression &x) {
    const Expression *first = x.operands.data();
    switch (x.op) {
    case Op::Variable:
      return variable<T>(std::size_t(x.number));
    case Op::Constant:
      return World::template constant<T>(numberOf<T>(x), x.isTile);
    case Op::Cast: {
      Number<T> result;
      visit(first->type, [&]<class U>(TypeBox<U>) {
        const Number<U> a = eval<U>(*first);
        result = cast<T>(a);
      });
      return result;
    }
    case Op::Where:
      return chosen<T>(x);
    case Op::Largest:
      if constexpr (!isBool<T>)
        return max(eval<T>(*first), 0);
      break;
    case Op::Smallest:
      if constexpr (!isBool<T>)
        return min(eval<T>(*first), 0);
      break;
    case Op::Map:
      return mapped<T>(x);
    default:
      break;
    }
    if constexpr (!isBool<T>) {
      if (x.op == Op::Negate)
        return -eval<T>(*first);
      if (x.op == Op::Abs)
        return abs(eval<T>(*first));
    }
    if constexpr (isBool<T>)
      return evalBool(x);
    else if constexpr (isReal<T>)
      return evalReal<T>(x);
    else
      return evalWhole<T>(x);
  }

  Number<bool> evalBool(const Expression &x) {
    const Expression *first = x.operands.data();
    switch (x.op) {
    case Op::Less:
    case Op::LessEqual:
    case Op::Equal:
    case Op::NotEqual:
      return comparison(x);
    case Op::Not:
      return !eval<bool>(*first);
    case Op::Both:
    case Op::Either: {
      const Number<bool> a = eval<bool>(first[0]), b = eval<bool>(first[1]);
      return x.op == Op::Both ? a && b : a || b;
    }
    case Op::IsNan: {
      Number<bool> result;
      visit(first->type, [&]<class U>(TypeBox<U>) {
        if constexpr (isReal<U>)
          result = isnan(eval<U>(*first));
      });
      return result;
    }
    case Op::Any:
      return any(eval<bool>(*first), 0);
    case Op::All:
      return all(eval<bool>(*first), 0);
    default:
      return binary<bool>(x);
    }
  }

  template <class T> Number<T> evalReal(const Expression &x) {
    const Expression *first = x.operands.data();
    switch (x.op) {
    case Op::Floor:
      return floor(eval<T>(*first));
    case Op::Ceil:
      return ceil(eval<T>(*first));
    case Op::Trunc:
      return trunc(eval<T>(*first));
    case Op::Round:
      return round(eval<T>(*first));
    case Op::Rint:
      return rint(eval<T>(*first));
    case Op::Root:
      return sqrt(eval<T>(*first));
    case Op::Fused:
      if constexpr (!std::same_as<T, half>) {
        const Number<T> a = eval<T>(first[0]), b = eval<T>(first[1]), c = eval<T>(first[2]);
        return fma(a, b, c);
      }
      [[fallthrough]];
    default:
      return binary<T>(x);
    }
  }

  template <class T> Number<T> evalWhole(const Expression &x) {
    const Expression *first = x.operands.data();
    Number<T> result;
    switch (x.op) {
    case Op::Positions:
      if constexpr (isIndex<T>)
        return world.positions();
      break;
    case Op::Program:
      if constexpr (isIndex<T>)
        return world.program();
      break;
    case Op::Load:
      if constexpr (std::same_as<T, std::int64_t>)
        return world.loaded(eval<Index>(*first));
      break;
    case Op::Not:
      return ~eval<T>(*first);
    case Op::High:
      if constexpr (!isIndex<T>) {
        const Number<T> a = eval<T>(first[0]), b = eval<T>(first[1]);
        return mulhi(a, b);
      }
      break;
    case Op::Fused: {
      const Number<T> a = eval<T>(first[0]), b = eval<T>(first[1]), c = eval<T>(first[2]);
      return fma(a, b, c);
    }
    case Op::Popcount:
    case Op::Clz:
      if constexpr (std::same_as<T, std::int32_t>)
        visit(first->type, [&]<class U>(TypeBox<U>) {
          if constexpr (isWhole<U> && !isIndex<U>) {
            const Number<U> a = eval<U>(*first);
            result = x.op == Op::Clz ? clz(a) : popcount(a);
          }
        });
      return result;
    case Op::Sum:
      visit(first->type, [&]<class U>(TypeBox<U>) {
        if constexpr (!isReal<U>)
          if constexpr (std::same_as<SumOf<U>, T>)
            result = sum(eval<U>(*first), 0);
      });
      return result;
    case Op::XorSum:
      return xor_sum(eval<T>(*first), 0);
    default:
      return binary<T>(x);
    }
    throw std::logic_error("no meaning of this operation");
  }

  //===-- Statements --------------------------------------------------------------------------===//

  template <class T> void update(const Statement &statement) {
    const Expression &by = statement.operands[0];
    visit(by.type, [&]<class U>(TypeBox<U>) {
      if constexpr (std::same_as<Joint<T, U>, T>) {
        const Number<U> b = eval<U>(by);
        Number<T> &x = variable<T>(statement.variable);
        if constexpr (isBool<T>) {
          statement.op == Op::And ? x &= b : statement.op == Op::Or ? x |= b : x ^= b;
        } else if constexpr (isReal<T>) {
          statement.op == Op::Add ? x += b : statement.op == Op::Sub ? x -= b : x /= b;
        } else {
          statement.op == Op::Add        ? x += b
          : statement.op == Op::Sub      ? x -= b
          : statement.op == Op::Multiply ? x *= b
          : statement.op == Op::And      ? x &= b
          : statement.op == Op::Or       ? x |= b
                                         : x ^= b;
        }
      }
    });
  }

  template <class T> void loop(const Statement &statement) {
    if constexpr (isIndex<T> || std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>) {
      const Number<T> begin = eval<T>(statement.operands[0]), end = eval<T>(statement.operands[1]),
                      step = eval<T>(statement.operands[2]);
      for (auto i : world.counted(begin, end, step, statement.hints)) {
        const auto before = sizes();
        declare<T>(cast<T>(i));
        runOpen(statement.body);
        shrink(before);
      }
    }
  }

  template <class T> void runOne(const Statement &statement) {
    switch (statement.kind) {
    case Statement::Kind::Declare:
      return declare<T>(eval<T>(statement.operands[0]));
    case Statement::Kind::Assign:
      variable<T>(statement.variable) = eval<T>(statement.operands[0]);
      return;
    case Statement::Kind::Update:
      return update<T>(statement);
    case Statement::Kind::Swap:
      return std::swap(variable<T>(statement.variable), variable<T>(statement.other));
    case Statement::Kind::Store: {
      const Number<Index> at = eval<Index>(statement.operands[0]);
      const Number<std::int64_t> x = eval<std::int64_t>(statement.operands[1]);
      return world.stored(at, x);
    }
    case Statement::Kind::Branch: {
      const Number<bool> holds = eval<bool>(statement.operands[0]);
      return world.branch(holds, [&] { run(statement.body); }, [&] { run(statement.otherwise); });
    }
    case Statement::Kind::Choose: {
      const Number<bool> holds = eval<bool>(statement.operands[0]);
      const std::size_t i = those<T>().size();
      those<T>().emplace_back();
      auto branch = [&](const std::vector<Statement> &body, const Expression &result) {
        const auto before = sizes();
        runOpen(body);
        variable<T>(i) = eval<T>(result);
        shrink(before);
      };
      return world.branch(
          holds, [&] { branch(statement.body, statement.operands[1]); },
          [&] { branch(statement.otherwise, statement.operands[2]); });
    }
    case Statement::Kind::Loop:
      return loop<T>(statement);
    case Statement::Kind::Unrolled:
      for (auto i :
           static_range(statement.numbers[0], statement.numbers[1], statement.numbers[2])) {
        const auto before = sizes();
        declare<Index>(World::template constant<Index>(i, false));
        runOpen(statement.body);
        shrink(before);
      }
      return;
    case Statement::Kind::While: {
      // Some number of rounds is the most.
      const auto before = sizes();
      declare<std::int32_t>(eval<std::int32_t>(statement.operands[0]));
      const std::size_t fuel = those<std::int32_t>().size() - 1;
      world.repeat(
          [&] {
            run(statement.condition);
            const Number<bool> holds = eval<bool>(statement.operands[1]);
            const Number<bool> goesOn =
                World::template literal<std::int32_t>(0) < variable<std::int32_t>(fuel);
            return Number<bool>(holds && goesOn);
          },
          [&] {
            variable<std::int32_t>(fuel) =
                variable<std::int32_t>(fuel) - World::template literal<std::int32_t>(1);
            run(statement.body);
          });
      return shrink(before);
    }
    }
  }

  World world;
  Types::Tuple<Variables> variables;
};

} // namespace sectile::fuzz::control
