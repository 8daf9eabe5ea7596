// Terms of scores.
#include "tests/fuzz/attention/Terms.h"
#include <cstdio>
#include <limits>

namespace sectile::fuzz {

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float lowest = std::numeric_limits<float>::lowest();

Stripes drawStripes(Draw &draw) {
  return {int32_t(draw.number(0, 3)), int32_t(draw.number(0, 3)), int32_t(draw.number(0, 1)),
          int32_t(draw.number(0, 1)), int32_t(draw.number(2, 5))};
}

float drawNumber(Draw &draw) { return float(draw.number(-16, 16)) / 8; }

// What scores of a normal distribution stay below.
constexpr double largestProduct = 8;

class Grower {
public:
  Grower(Draw &draw, const ScoreTables &tables) : draw(draw), tables(tables) {}

  int grow(int depth) { return tame(depth == 0 || draw.pick(6) == 0 ? leaf() : inner(depth)); }
  int add(ScoreNode node) {
    term.push_back(node);
    return int(term.size()) - 1;
  }
  /// Steep scores, and large ones, would have errors that hide mistakes.
  int tame(int node) {
    constexpr double most = 12, steepest = 6;
    const ScoreNode &of = term[size_t(node)];
    if (of.most > most && draw.coin()) {
      const float cap = float(draw.number(2, 24)) / 4;
      node = add({.op = ScoreOp::SoftCap,
                  .a = node,
                  .number = cap,
                  .most = double(cap),
                  .steepest = of.steepest});
    }
    const double by =
        std::max(term[size_t(node)].most / most, term[size_t(node)].steepest / steepest);
    if (by <= 1)
      return node;
    const float number = std::ldexp(1.0f, -int(std::ceil(std::log2(by))));
    const int factor = add({.op = ScoreOp::Number, .number = number, .most = double(number)});
    return add({.op = ScoreOp::Times,
                .a = node,
                .b = factor,
                .most = term[size_t(node)].most * double(number),
                .steepest = term[size_t(node)].steepest * double(number)});
  }

  ScoreTerm term;

private:
  int leaf() {
    const double reach = double(std::max(tables.ofQueries.shape[2], tables.ofKeys.shape[3]));
    switch (draw.pick(9)) {
    case 0: {
      const float number = drawNumber(draw);
      return add({.op = ScoreOp::Number, .number = number, .most = std::fabs(double(number))});
    }
    case 1: {
      const float number = float(draw.number(-8, 8)) / 256;
      return add(
          {.op = ScoreOp::Distance, .number = number, .most = reach * std::fabs(double(number))});
    }
    case 2:
      return add({.op = ScoreOp::Slope, .most = reach / 32});
    case 3:
    case 4:
    case 5:
      if (!tables.learned.empty())
        return add({.op = ScoreOp::Learned,
                    .learned = int(draw.pick(tables.learned.size())),
                    .most = 1,
                    .steepest = 1});
      return add(
          {.op = draw.oneOf(std::to_array({ScoreOp::OfQuery, ScoreOp::OfKey, ScoreOp::OfPair})),
           .most = 1});
    default:
      return add({.op = ScoreOp::Score, .most = largestProduct, .steepest = 1});
    }
  }

  int inner(int depth) {
    static constexpr ScoreOp ops[] = {
        ScoreOp::Tanh, ScoreOp::Sigmoid, ScoreOp::SoftCap,  ScoreOp::Exp,
        ScoreOp::Log,  ScoreOp::Abs,     ScoreOp::Negative, ScoreOp::Plus,
        ScoreOp::Plus, ScoreOp::Minus,   ScoreOp::Times,    ScoreOp::Times,
        ScoreOp::Over, ScoreOp::Minimum, ScoreOp::Maximum,  ScoreOp::Choose};
    const ScoreOp op = draw.oneOf(ops);
    const int a = grow(depth - 1), b = op >= ScoreOp::Plus ? grow(depth - 1) : -1;
    ScoreNode node{.op = op, .a = a, .b = b};
    const ScoreNode x = term[size_t(a)], y = b < 0 ? ScoreNode{} : term[size_t(b)];
    node.most = std::max(x.most, y.most);
    node.steepest = std::max(x.steepest, y.steepest);
    switch (op) {
    case ScoreOp::Tanh:
    case ScoreOp::Sigmoid:
      node.most = 1;
      break;
    case ScoreOp::SoftCap:
      node.number = float(draw.number(2, 24)) / 4;
      node.most = std::min(x.most, double(node.number));
      break;
    case ScoreOp::Exp:
      if (x.most > 3) { // for which the tamed bounds say little
        node.op = ScoreOp::Tanh;
        node.most = 1;
        break;
      }
      node.most = std::exp(x.most);
      node.steepest = x.steepest * node.most;
      break;
    case ScoreOp::Log:
      node.most = std::log1p(x.most);
      break;
    case ScoreOp::Plus:
    case ScoreOp::Minus:
      node.most = x.most + y.most;
      node.steepest = x.steepest + y.steepest;
      break;
    case ScoreOp::Times:
    case ScoreOp::Over:
      if (op == ScoreOp::Times)
        node.most = x.most * y.most;
      node.steepest = x.steepest * (op == ScoreOp::Times ? y.most : 1) + x.most * y.steepest;
      break;
    case ScoreOp::Choose:
      node.stripes = drawStripes(draw);
      break;
    default:
      break;
    }
    return add(node);
  }

  Draw &draw;
  const ScoreTables &tables;
};

Table drawTable(Draw &draw, Shape shape, float most) {
  int64_t count = 1;
  for (const int64_t extent : shape)
    count *= extent;
  Table table{std::move(shape), {}};
  for (int64_t i = 0; i < count; ++i)
    table.values.push_back(float(draw.number(-256, 256)) / 256 * most);
  return table;
}

std::string text(float number) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", double(number));
  return digits;
}

} // namespace

std::string describe(const Stripes &of) {
  return "(" + std::to_string(of.query) + " query + " + std::to_string(of.key) + " key + " +
         std::to_string(of.head) + " head + " + std::to_string(of.batch) + " batch) % " +
         std::to_string(of.modulus) + " != 0";
}

size_t LearnedTable::place(const Pair &at) const {
  const int64_t reach = (table.shape[3] - 1) / 2;
  switch (along) {
  case flash::Along::heads:
    return table.place(at.batch, at.head, 0, 0);
  case flash::Along::queries:
    return table.place(at.batch, at.head, 0, at.query);
  case flash::Along::keys:
    return table.place(at.batch, at.head, 0, at.key);
  case flash::Along::distances:
    return table.place(at.batch, at.head, 0, std::clamp(-at.distance, -reach, reach) + reach);
  case flash::Along::pairs:
    return table.place(at.batch, at.head, at.query, at.key);
  }
  return 0;
}

ScoreTables drawTables(Draw &draw, const Sizes &sizes, const std::vector<flash::Along> &learned) {
  const int64_t B = sizes.batches(), H = sizes.heads, Sq = sizes.mostQueries(),
                Sk = sizes.mostKeys();
  const auto some = [&](int64_t extent) { return draw.coin() ? extent : 1; };
  ScoreTables tables{.slopes = drawTable(draw, {1, H, 1, 1}, 1.0f / 32),
                     .ofQueries = drawTable(draw, {some(B), some(H), Sq, 1}, 1),
                     .ofKeys = drawTable(draw, {B, 1, 1, Sk}, 1),
                     .ofPairs = drawTable(draw, {some(B), some(H), Sq, Sk}, 1),
                     .learned = {}};
  // Behind the end of a shorter sequence tables may hold anything.
  for (int64_t b = 0; b < B; ++b) {
    const auto &[queries, keys] = sizes.sequences[size_t(b)];
    for (int64_t j = keys; j < Sk; ++j)
      tables.ofKeys.values[tables.ofKeys.place(b, 0, 0, j)] = NAN;
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < Sq; ++i) {
        if (tables.ofQueries.shape[0] > 1 && i >= queries)
          tables.ofQueries.values[tables.ofQueries.place(b, h, i, 0)] = NAN;
        for (int64_t j = 0; tables.ofPairs.shape[0] > 1 && j < Sk; ++j)
          if (i >= queries || j >= keys)
            tables.ofPairs.values[tables.ofPairs.place(b, h, i, j)] = NAN;
      }
  }
  for (const flash::Along along : learned) {
    const bool pairs = along == flash::Along::pairs;
    const int64_t width = along == flash::Along::heads           ? 1
                          : along == flash::Along::queries       ? Sq
                          : along == flash::Along::keys || pairs ? Sk
                                                                 : 2 * draw.number(1, 120) + 1;
    Table table = drawTable(draw, {some(B), some(H), pairs ? Sq : 1, width}, 1);
    const bool ofQueries = pairs || along == flash::Along::queries,
               ofKeys = pairs || along == flash::Along::keys;
    for (int64_t b = 0; b < table.shape[0] && table.shape[0] > 1; ++b)
      for (int64_t h = 0; h < table.shape[1]; ++h)
        for (int64_t i = 0; i < table.shape[2]; ++i)
          for (int64_t j = 0; j < width; ++j)
            if ((ofQueries && (pairs ? i : j) >= sizes.sequences[size_t(b)].queries) ||
                (ofKeys && j >= sizes.sequences[size_t(b)].keys))
              table.values[table.place(b, h, i, j)] = NAN;
    tables.learned.push_back({along, std::move(table)});
  }
  return tables;
}

ScoreTerm drawScore(Draw &draw, const ScoreTables &tables) {
  Grower grower(draw, tables);
  int root = grower.grow(int(draw.number(1, 4)));
  ScoreTerm &term = grower.term;
  // Most have the score, and each learned operand.
  const auto require = [&](ScoreNode leaf, auto is) {
    if (std::any_of(term.begin(), term.end(), is))
      return;
    const int own = grower.add(leaf);
    root = grower.tame(grower.add({.op = ScoreOp::Plus,
                                   .a = root,
                                   .b = own,
                                   .most = term[size_t(root)].most + leaf.most,
                                   .steepest = term[size_t(root)].steepest + leaf.steepest}));
  };
  if (draw.pick(8))
    require({.op = ScoreOp::Score, .most = largestProduct, .steepest = 1},
            [](const ScoreNode &node) { return node.op == ScoreOp::Score; });
  for (size_t i = 0; i < tables.learned.size() && draw.pick(8); ++i)
    require({.op = ScoreOp::Learned, .learned = int(i), .most = 1, .steepest = 1},
            [&](const ScoreNode &node) {
              return node.op == ScoreOp::Learned && node.learned == int(i);
            });
  // Far from 0, where scores are coarser than what exponents need.
  if (draw.pick(5) == 0) {
    const float far = std::ldexp(draw.coin() ? 1.0f : -1.0f, int(draw.number(4, 12)));
    const int number = grower.add({.op = ScoreOp::Number, .number = far});
    root = grower.add({.op = ScoreOp::Plus, .a = root, .b = number});
  }
  if (draw.pick(5) == 0)
    grower.add({.op = ScoreOp::Hide,
                .a = root,
                .number = draw.oneOf(std::to_array({-infinity, -infinity, -2e7f, -1e30f, lowest})),
                .stripes = drawStripes(draw)});
  return term;
}

static std::string describe(const ScoreTerm &term, int at) {
  const ScoreNode &node = term[size_t(at)];
  const auto of = [&](const char *function) {
    return std::string(function) + "(" + describe(term, node.a) +
           (node.b < 0 ? "" : ", " + describe(term, node.b));
  };
  const auto between = [&](const char *op) {
    return "(" + describe(term, node.a) + op + describe(term, node.b) + ")";
  };
  switch (node.op) {
  case ScoreOp::Score:
    return "s";
  case ScoreOp::Number:
    return text(node.number);
  case ScoreOp::Distance:
    return "distance * " + text(node.number);
  case ScoreOp::Slope:
    return "slope * distance";
  case ScoreOp::OfQuery:
    return "of_query";
  case ScoreOp::OfKey:
    return "of_key";
  case ScoreOp::OfPair:
    return "of_pair";
  case ScoreOp::Learned:
    return "learned" + std::to_string(node.learned);
  case ScoreOp::Tanh:
    return of("tanh") + ")";
  case ScoreOp::Sigmoid:
    return of("sigmoid") + ")";
  case ScoreOp::SoftCap:
    return of("soft_cap") + ", " + text(node.number) + ")";
  case ScoreOp::Exp:
    return of("exp") + ")";
  case ScoreOp::Log:
    return "log(1 + " + of("abs") + "))";
  case ScoreOp::Abs:
    return of("abs") + ")";
  case ScoreOp::Negative:
    return "-" + describe(term, node.a);
  case ScoreOp::Plus:
    return between(" + ");
  case ScoreOp::Minus:
    return between(" - ");
  case ScoreOp::Times:
    return between(" * ");
  case ScoreOp::Over:
    return "(" + describe(term, node.a) + " / (1 + abs(" + describe(term, node.b) + ")))";
  case ScoreOp::Minimum:
    return of("minimum") + ")";
  case ScoreOp::Maximum:
    return of("maximum") + ")";
  case ScoreOp::Choose:
    return "where(" + describe(node.stripes) + ", " + describe(term, node.a) + ", " +
           describe(term, node.b) + ")";
  case ScoreOp::Hide:
    return "where(" + describe(node.stripes) + ", " + describe(term, node.a) + ", " +
           text(node.number) + ")";
  }
  return "";
}
std::string describe(const ScoreTerm &term) { return describe(term, int(term.size()) - 1); }

ScoreTerm spoilt(ScoreTerm term, Draw &draw) {
  ScoreNode &node = term[draw.pick(term.size())];
  switch (node.op) {
  case ScoreOp::Minimum:
    node.op = ScoreOp::Maximum;
    break;
  case ScoreOp::Maximum:
    node.op = ScoreOp::Minimum;
    break;
  case ScoreOp::Plus:
    node.op = ScoreOp::Minus;
    break;
  case ScoreOp::Minus:
  case ScoreOp::Times:
  case ScoreOp::Over:
    node.op = ScoreOp::Plus;
    break;
  case ScoreOp::Choose:
  case ScoreOp::Hide:
    ++node.stripes.modulus;
    break;
  case ScoreOp::Tanh:
    node.op = ScoreOp::Sigmoid;
    break;
  case ScoreOp::Sigmoid:
  case ScoreOp::Exp:
  case ScoreOp::Log:
  case ScoreOp::Negative:
    node.op = ScoreOp::Tanh;
    break;
  case ScoreOp::SoftCap:
  case ScoreOp::Number:
  case ScoreOp::Distance:
    node.number += 0.5f;
    break;
  default:
    node = {.op = ScoreOp::Number, .number = 0.75f};
  }
  return term;
}

namespace {
/// One in the last place up or down, by what `seed` says of this number.
template <class Number> void nudge(Number &number, uint64_t seed) {
  seed = (seed ^ seed >> 31) * 0x9e3779b97f4a7c15u;
  const auto unit = std::numeric_limits<Number>::epsilon();
  number *= (seed >> 63) != 0 ? 1 + unit : 1 - unit;
}
} // namespace

template <class Number>
Dual<Number> evaluate(const ScoreTerm &term, const ScoreTables &tables, Number product,
                      const Pair &at, std::optional<uint64_t> rounding) {
  const auto ofTable = [&](const Table &table) {
    return Dual<Number>{Number(table.values[table.place(at.batch, at.head, at.query, at.key)])};
  };
  std::vector<Dual<Number>> all;
  for (const ScoreNode &node : term) {
    const Dual<Number> none, &a = node.a < 0 ? none : all[size_t(node.a)],
                             &b = node.b < 0 ? none : all[size_t(node.b)];
    const Number x = a.value, y = b.value, number = Number(node.number);
    const auto of = [&](Number value, Number byA, Number byB = 0) {
      Dual<Number> result{value};
      for (size_t i = 0; i < std::size(result.slopes); ++i)
        result.slopes[i] = (byA == 0 ? 0 : byA * a.slopes[i]) + (byB == 0 ? 0 : byB * b.slopes[i]);
      return result;
    };
    const auto sign = [](Number of) { return Number(of > 0 ? 1 : of < 0 ? -1 : 0); };
    const auto evaluated = [&]() -> Dual<Number> {
      switch (node.op) {
      case ScoreOp::Score:
        return {product, {1, 0, 0}};
      case ScoreOp::Number:
        return {number};
      case ScoreOp::Distance:
        return {Number(at.distance) * number};
      case ScoreOp::Slope:
        return {Number(at.distance) * ofTable(tables.slopes).value};
      case ScoreOp::OfQuery:
        return ofTable(tables.ofQueries);
      case ScoreOp::OfKey:
        return ofTable(tables.ofKeys);
      case ScoreOp::OfPair:
        return ofTable(tables.ofPairs);
      case ScoreOp::Learned: {
        const LearnedTable &learned = tables.learned[size_t(node.learned)];
        Dual<Number> result{Number(learned.table.values[learned.place(at)])};
        result.slopes[1 + node.learned] = 1;
        return result;
      }
      case ScoreOp::Tanh: {
        const Number t = std::tanh(x);
        return of(t, 1 - t * t);
      }
      case ScoreOp::Sigmoid: {
        const Number g = 1 / (1 + std::exp(-x));
        return of(g, g * (1 - g));
      }
      case ScoreOp::SoftCap: {
        const Number t = std::tanh(x / number);
        return of(number * t, 1 - t * t);
      }
      case ScoreOp::Exp:
        return of(std::exp(x), std::exp(x));
      case ScoreOp::Log:
        return of(std::log(1 + std::fabs(x)), sign(x) / (1 + std::fabs(x)));
      case ScoreOp::Abs:
        return of(std::fabs(x), sign(x));
      case ScoreOp::Negative:
        return of(-x, -1);
      case ScoreOp::Plus:
        return of(x + y, 1, 1);
      case ScoreOp::Minus:
        return of(x - y, 1, -1);
      case ScoreOp::Times:
        return of(x * y, y, x);
      case ScoreOp::Over: {
        const Number inverse = 1 / (1 + std::fabs(y));
        return of(x * inverse, inverse, -x * inverse * inverse * sign(y));
      }
      case ScoreOp::Minimum:
        return x <= y ? a : b;
      case ScoreOp::Maximum:
        return x >= y ? a : b;
      case ScoreOp::Choose:
        return node.stripes.has(at) ? a : b;
      case ScoreOp::Hide:
        return node.stripes.has(at) ? a : Dual<Number>{-Number(infinity)};
      }
      return {};
    };
    // Its operands lie in what grows here.
    Dual<Number> result = evaluated();
    if (rounding) {
      uint64_t seed = *rounding;
      for (const int64_t part : {at.batch, at.head, at.query, at.key, int64_t(all.size())})
        seed = (seed + uint64_t(part) + 1) * 0xd1342543de82ef95u;
      nudge(result.value, seed);
      for (Number &slope : result.slopes)
        nudge(slope, ++seed);
    }
    all.push_back(result);
  }
  return all.back();
}
template Dual<float> evaluate(const ScoreTerm &, const ScoreTables &, float, const Pair &,
                              std::optional<uint64_t>);
template Dual<double> evaluate(const ScoreTerm &, const ScoreTables &, double, const Pair &,
                               std::optional<uint64_t>);

} // namespace sectile::fuzz
