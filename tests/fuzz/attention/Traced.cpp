// A term of scores, traced.
#include "tests/fuzz/attention/Traced.h"

namespace sectile::fuzz {

flash::Score trace(const ScoreTerm &term, const flash::Score &score, const flash::At &at,
                   const TracedTables &tables) {
  using flash::Score;
  std::vector<Score> all;
  for (const ScoreNode &node : term) {
    const Score none = 0.0f, a = node.a < 0 ? none : all[static_cast<size_t>(node.a)],
                b = node.b < 0 ? none : all[static_cast<size_t>(node.b)];
    const auto one = [&]() -> Score {
      switch (node.op) {
      case ScoreOp::Score:
        return score;
      case ScoreOp::Number:
        return node.number;
      case ScoreOp::Distance:
        return at.distance() * node.number;
      case ScoreOp::Slope:
      case ScoreOp::OfQuery:
      case ScoreOp::OfKey:
      case ScoreOp::OfPair:
        return tables.of(node.op);
      case ScoreOp::Learned:
        return tables.learned(node.learned);
      case ScoreOp::Tanh:
        return tanh(a);
      case ScoreOp::Sigmoid:
        return sigmoid(a);
      case ScoreOp::SoftCap:
        return soft_cap(a, node.number);
      case ScoreOp::Exp:
        return exp(a);
      case ScoreOp::Log:
        return log(1.0f + abs(a));
      case ScoreOp::Abs:
        return abs(a);
      case ScoreOp::Negative:
        return -a;
      case ScoreOp::Plus:
        return a + b;
      case ScoreOp::Minus:
        return a - b;
      case ScoreOp::Times:
        return a * b;
      case ScoreOp::Over:
        return a / (1.0f + abs(b));
      case ScoreOp::Minimum:
        return minimum(a, b);
      case ScoreOp::Maximum:
        return maximum(a, b);
      case ScoreOp::Choose:
        return where(trace(node.stripes, at), a, b);
      case ScoreOp::Hide:
        return where(trace(node.stripes, at), a, node.number);
      }
      return none;
    };
    all.push_back(one());
  }
  return all.back();
}

} // namespace sectile::fuzz
