// Draws programs: loops, branches and what is in them.
#include "tests/fuzz/language/control/Expressions.h"

namespace sectile::fuzz::control {

namespace {

class Statements : Expressions {
public:
  explicit Statements(Draw &draw) : Expressions(draw) {}

  Program program() {
    Program result;
    for (unsigned type : argumentTypes)
      declared(type, false, false);
    statements = 25 + unsigned(draw.pick(25));
    for (unsigned type = 0; type < Types::count; ++type)
      for (bool isTile : {false, true})
        if (draw.coin())
          declareLoaded(result.body, type, isTile);
    body(result.body, 8 + draw.pick(8), 3);
    result.results = scope;
    result.programs = 1 + unsigned(draw.pick(3));
    result.warps = 1u << draw.pick(4);
    result.isWide = draw.pick(3) == 0;
    result.n = draw.number(-20, 20);
    result.a = std::int32_t(wholeNumber<std::int32_t>());
    result.b = float(draw.number(-40, 40)) / 4;
    for (unsigned i = 0; i < result.programs * width; ++i)
      result.memory.push_back(draw.coin() ? wholeNumber<std::int64_t>() : draw.number(-300, 300));
    return result;
  }

private:
  static constexpr unsigned depthOfAssigned = 3;

  /// A value that a variable of the type may have.
  Expression value(unsigned type, bool isTile, unsigned depth = depthOfAssigned) {
    if (type == typeOf<Index>)
      return smallUpTo(mostOfVariable - 1, isTile, depth);
    return expression(type, isTile, depth);
  }

  /// A variable that is what memory holds.
  void declareLoaded(std::vector<Statement> &into, unsigned type, bool isTile) {
    Statement statement;
    statement.kind = Statement::Kind::Declare;
    statement.type = type;
    Expression x = make(typeOf<std::int64_t>, Op::Load, {place(isTile, 1)});
    if (type == typeOf<Index>) { // of 64 bits it would stay as wide
      x = make(x.type, Op::Remainder, {x, literal(x.type, mostOfVariable - 1)});
      x = make(typeOf<std::int32_t>, Op::Cast, {x});
    }
    x = make(type, Op::Cast, {x});
    if (isRealType(type) && draw.coin())
      x = make(type, Op::Divide, {x, literal(type, 4)});
    statement.operands = {x};
    declared(type, isTile);
    into.push_back(std::move(statement));
  }

  void declare(std::vector<Statement> &into) {
    Statement statement;
    statement.kind = Statement::Kind::Declare;
    statement.type = someType();
    const bool isTile = someShape();
    statement.operands = {value(statement.type, isTile)};
    declared(statement.type, isTile);
    into.push_back(std::move(statement));
  }

  void body(std::vector<Statement> &into, std::size_t count, unsigned depth) override {
    for (; count > 0; --count)
      someStatement(into, depth);
  }

  std::vector<Statement> inner(unsigned depth) {
    const std::size_t size = scope.size();
    std::vector<Statement> result;
    body(result, 1 + draw.pick(3), depth);
    forget(size);
    return result;
  }

  void someStatement(std::vector<Statement> &into, unsigned depth) {
    if (statements)
      --statements;
    const bool isSimple = !depth || !statements;
    switch (draw.pick(isSimple ? 10 : 18)) {
    case 0:
      return declare(into);
    case 1:
    case 2:
      if (!isMapping)
        return store(into);
      [[fallthrough]];
    case 3:
      return exchange(into);
    case 4:
    case 5:
      return update(into);
    default:
      return assign(into);
    case 10:
    case 11:
      return branch(into, depth - 1);
    case 12:
      return choose(into, depth - 1);
    case 13:
    case 14:
    case 15:
      return loop(into, depth - 1);
    case 16:
      return unrolled(into, depth - 1);
    case 17:
      return whileLoop(into, depth - 1);
    }
  }

  std::optional<Variable> assignable() {
    return someVariable([](const Variable &variable) { return variable.isAssignable; });
  }

  void assign(std::vector<Statement> &into) {
    const auto variable = assignable();
    if (!variable)
      return declare(into);
    Statement statement;
    statement.type = variable->type;
    statement.variable = variable->index;
    Expression next = value(variable->type, variable->isTile);
    // Mostly with what it was.
    if (variable->type != typeOf<Index> && draw.pick(3))
      next = make(variable->type, binaryOp(variable->type, true), {valueOf(*variable), next});
    statement.operands = {std::move(next)};
    into.push_back(std::move(statement));
  }

  void update(std::vector<Statement> &into) {
    static constexpr Op wholes[] = {Op::Add, Op::Sub, Op::Multiply, Op::And, Op::Or, Op::Xor};
    static constexpr Op reals[] = {Op::Add, Op::Sub, Op::Divide};
    static constexpr Op bools[] = {Op::And, Op::Or, Op::Xor};
    const auto variable =
        someVariable([](const Variable &v) { return v.isAssignable && v.type != typeOf<Index>; });
    if (!variable)
      return assign(into);
    std::vector<unsigned> types;
    visit(variable->type, [&]<class T>(TypeBox<T>) {
      for (unsigned type = 0; type < Types::count; ++type)
        visit(type, [&]<class U>(TypeBox<U>) {
          if constexpr (std::same_as<Joint<T, U>, T>)
            types.push_back(type);
        });
    });
    Statement statement;
    statement.kind = Statement::Kind::Update;
    statement.type = variable->type;
    statement.variable = variable->index;
    statement.op = isRealType(variable->type)       ? draw.oneOf(reals)
                   : variable->type == typeOf<bool> ? draw.oneOf(bools)
                                                    : draw.oneOf(wholes);
    const unsigned by = draw.coin() ? variable->type : draw.oneOf(types);
    statement.operands = {expression(by, variable->isTile && draw.coin(), 2)};
    into.push_back(std::move(statement));
  }

  void exchange(std::vector<Statement> &into) {
    const auto one = assignable();
    if (!one)
      return declare(into);
    const auto other = someVariable([&](const Variable &v) {
      return v.isAssignable && v.type == one->type && v.isTile == one->isTile;
    });
    Statement statement;
    statement.kind = Statement::Kind::Swap;
    statement.type = one->type;
    statement.variable = one->index;
    statement.other = other->index;
    into.push_back(std::move(statement));
  }

  /// Each element to a place of its own.
  void store(std::vector<Statement> &into) {
    const unsigned type = typeOf<Index>;
    const bool isTile = someShape();
    Expression at = place(false, 2);
    if (isTile) {
      Expression places = constant(type, 0, true);
      places.op = Op::Positions;
      static constexpr std::int64_t odd[] = {1, 1, 3, 31};
      places = make(type, Op::Multiply, {places, literal(type, draw.oneOf(odd))});
      at = make(type, Op::And, {make(type, Op::Add, {places, at}), literal(type, width - 1)});
    }
    Statement statement;
    statement.kind = Statement::Kind::Store;
    statement.operands = {at, expression(typeOf<std::int64_t>, isTile, 2)};
    into.push_back(std::move(statement));
  }

  void branch(std::vector<Statement> &into, unsigned depth) {
    Statement statement;
    statement.kind = Statement::Kind::Branch;
    statement.operands = {expression(typeOf<bool>, false, 2)};
    statement.body = inner(depth);
    if (draw.coin())
      statement.otherwise = inner(depth);
    into.push_back(std::move(statement));
  }

  void choose(std::vector<Statement> &into, unsigned depth) {
    Statement statement;
    statement.kind = Statement::Kind::Choose;
    statement.type = someType();
    const bool isTile = someShape();
    statement.operands = {expression(typeOf<bool>, false, 2)};
    // Has no value yet in the branches.
    const std::size_t size = scope.size();
    ++counts[statement.type];
    for (std::vector<Statement> *branch : {&statement.body, &statement.otherwise}) {
      body(*branch, draw.pick(2), depth);
      statement.operands.push_back(value(statement.type, isTile));
      forget(size);
    }
    --counts[statement.type];
    declared(statement.type, isTile);
    into.push_back(std::move(statement));
  }

  /// Keeps of each number that a loop counts that it was there.
  void count(std::vector<Statement> &into, const Variable &counter) {
    const auto sum = someVariable([](const Variable &v) {
      return v.isAssignable && v.type != typeOf<Index> && v.type != typeOf<bool> &&
             !isRealType(v.type);
    });
    if (!sum)
      return;
    const Expression times3 = make(sum->type, Op::Multiply, {valueOf(*sum), literal(sum->type, 3)});
    const Expression number = make(sum->type, Op::Cast, {valueOf(counter)});
    Statement statement;
    statement.type = sum->type;
    statement.variable = sum->index;
    statement.operands = {make(sum->type, Op::Add, {times3, number})};
    into.push_back(std::move(statement));
  }

  void loop(std::vector<Statement> &into, unsigned depth) {
    static constexpr unsigned types[] = {typeOf<Index>, typeOf<Index>, typeOf<std::int32_t>,
                                         typeOf<std::int64_t>};
    static constexpr std::int64_t bases[] = {0, 1 << 30, -(std::int64_t{1} << 31) + 1100,
                                             (std::int64_t{1} << 31) - 1200};
    static constexpr std::int64_t farBases[] = {0, std::int64_t{1} << 31, std::int64_t{1} << 62,
                                                -(std::int64_t{1} << 40)};
    Statement statement;
    statement.kind = Statement::Kind::Loop;
    statement.type = draw.oneOf(types);
    const Expression begin = smallUpTo(mostOfVariable - 1, false, 2);
    const Expression length = smallUpTo(5, false, 2);
    const Expression step =
        make(typeOf<Index>, Op::Add,
             {literal(typeOf<Index>, 1), make(typeOf<Index>, Op::Abs, {smallUpTo(3, false, 1)})});
    const Expression end =
        draw.coin() ? make(typeOf<Index>, Op::Add, {begin, length})
                    : make(typeOf<Index>, Op::Min,
                           {smallUpTo(mostOfVariable - 1, false, 2),
                            make(typeOf<Index>, Op::Add, {begin, literal(typeOf<Index>, 5)})});
    const std::int64_t base =
        statement.type == typeOf<std::int64_t> ? draw.oneOf(farBases) : draw.oneOf(bases);
    for (const Expression &bound : {begin, end, step}) {
      if (statement.type == typeOf<Index>) {
        statement.operands.push_back(bound);
        continue;
      }
      Expression number = make(statement.type, Op::Cast, {bound});
      if (base && statement.operands.size() < 2)
        number = make(statement.type, Op::Add, {number, literal(statement.type, base)});
      statement.operands.push_back(number);
    }
    if (draw.pick(3) == 0)
      statement.hints.unroll = 1 + int(draw.pick(4));
    if (draw.pick(4) == 0)
      statement.hints.stages = 1 + int(draw.pick(3));
    std::optional<Variable> stopped;
    if (draw.pick(3) == 0) { // like a loop that breaks
      Statement flag;
      flag.kind = Statement::Kind::Declare;
      flag.type = typeOf<bool>;
      flag.operands = {constant(typeOf<bool>, 0)};
      into.push_back(flag);
      stopped = declared(typeOf<bool>, false);
    }
    const std::size_t before = scope.size();
    const Variable counter = declared(statement.type, false, draw.coin());
    if (stopped) {
      Statement unless, stop;
      unless.kind = Statement::Kind::Branch;
      unless.operands = {make(typeOf<bool>, Op::Not, {valueOf(*stopped)})};
      const std::size_t within = scope.size();
      body(unless.body, 1 + draw.pick(3), depth);
      stop.kind = Statement::Kind::Update;
      stop.type = typeOf<bool>;
      stop.variable = stopped->index;
      stop.op = Op::Or;
      stop.operands = {expression(typeOf<bool>, false, 2)};
      forget(within);
      unless.body.push_back(stop);
      statement.body = {unless};
    } else {
      statement.body = inner(depth);
      count(statement.body, counter);
    }
    forget(before);
    into.push_back(std::move(statement));
  }

  void unrolled(std::vector<Statement> &into, unsigned depth) {
    Statement statement;
    statement.kind = Statement::Kind::Unrolled;
    const std::int64_t step = draw.coin() ? draw.number(1, 3) : draw.number(-3, -1);
    statement.numbers[0] = draw.number(-4, 4);
    statement.numbers[1] = statement.numbers[0] + draw.number(-1, 3) * step;
    statement.numbers[2] = step;
    const std::size_t size = scope.size();
    declared(typeOf<Index>, false);
    statement.body = inner(depth);
    forget(size);
    into.push_back(std::move(statement));
  }

  void whileLoop(std::vector<Statement> &into, unsigned depth) {
    Statement statement;
    statement.kind = Statement::Kind::While;
    statement.operands = {constant(typeOf<std::int32_t>, draw.number(0, 5))};
    const std::size_t size = scope.size();
    declared(typeOf<std::int32_t>, false, false);
    body(statement.condition, draw.pick(2), 0);
    forget(size + 1);
    statement.operands.push_back(expression(typeOf<bool>, false, 3));
    statement.body = inner(depth);
    forget(size);
    into.push_back(std::move(statement));
  }
};

} // namespace

Program someProgram(Draw &draw) { return Statements(draw).program(); }

} // namespace sectile::fuzz::control
