// Terms of attention that are drawn: what becomes of a score, and which keys a query sees. A term
// is a list of nodes of which the last is the root, so that the same one can be traced, computed on
// the host, printed, and spoilt in one node.
#pragma once
#include "tests/fuzz/Draw.h"
#include "tests/fuzz/attention/Sizes.h"
#include <cmath>
#include <optional>
#include <sectile/flash/learned.h>
#include <sectile/host_array.h>
#include <string>
#include <vector>

namespace sectile::fuzz {

/// Which pairs a node is about: (a query + b key + c head + d batch) % modulus != 0.
struct Stripes {
  int32_t query = 1, key = 0, head = 0, batch = 0, modulus = 2;
  bool has(const Pair &at) const {
    return (query * at.query + key * at.key + head * at.head + batch * at.batch) % modulus != 0;
  }
};

std::string describe(const Stripes &stripes);

enum class ScoreOp {
  Score,
  Number,
  Distance, ///< times a number
  Slope,    ///< of the head, times the distance
  OfQuery,
  OfKey,
  OfPair,
  Learned,
  Tanh,
  Sigmoid,
  SoftCap,
  Exp,
  Log, ///< of 1 and the absolute value
  Abs,
  Negative,
  Plus,
  Minus,
  Times,
  Over, ///< over 1 and the absolute value
  Minimum,
  Maximum,
  Choose, ///< the first where stripes are
  Hide,   ///< where stripes are not: by a number that is -inf, or as low as that
};

struct ScoreNode {
  ScoreOp op;
  int a = -1, b = -1; ///< nodes
  float number = 0;
  int learned = 0; ///< which of the learned operands
  Stripes stripes = {};
  double most = 0, steepest = 0; ///< bounds of its value and slopes
};
using ScoreTerm = std::vector<ScoreNode>;

/// Numbers of [1 or B, 1 or H, rows, columns], an axis of extent 1 for all.
struct Table {
  Shape shape;
  std::vector<float> values;

  size_t place(int64_t batch, int64_t head, int64_t row, int64_t column) const {
    const int64_t at[] = {batch, head, row, column};
    int64_t result = 0;
    for (size_t i = 0; i < 4; ++i)
      result = result * shape[i] + (shape[i] == 1 ? 0 : at[i]);
    return static_cast<size_t>(result);
  }
};
struct LearnedTable {
  flash::Along along;
  Table table; ///< of one row but of pairs
  size_t place(const Pair &at) const;
};
/// What scores are made of beside products.
struct ScoreTables {
  Table slopes, ofQueries, ofKeys, ofPairs; ///< [1, H, 1, 1], of any, [B, 1, 1, Sk], of any
  std::vector<LearnedTable> learned;
};

/// Without learned operands where there are none, without other tables where there are some.
ScoreTerm drawScore(Draw &draw, const ScoreTables &tables);
ScoreTables drawTables(Draw &draw, const Sizes &sizes, const std::vector<flash::Along> &learned);
std::string describe(const ScoreTerm &term);
/// With one node changed.
ScoreTerm spoilt(ScoreTerm term, Draw &draw);

/// A number with its derivatives by the scaled product and by two learned operands.
template <class Number> struct Dual {
  Number value = 0;
  Number slopes[3] = {};
};
/// rounding: a seed; each node's value and slopes are then one in the last place up or down, as
/// other orders of the same operations would have them. What cancels out in one order, such as the
/// slopes of s - s, leaves something in others, by the magnitude of its summands.
template <class Number>
Dual<Number> evaluate(const ScoreTerm &term, const ScoreTables &tables, Number product,
                      const Pair &at, std::optional<uint64_t> rounding = {});

enum class SightOp {
  Everything,
  Causal,
  Window,
  Documents,
  Prefix,
  Chunked,
  KeyLengths,
  KeyMask,
  Mask,
  Tree,
  TokenTree,
  Blocks,
  Listed, ///< what a is, by the blocks that the device finds of it
  Where,
  Both,
  Either,
};
struct SightNode {
  SightOp op;
  int a = -1, b = -1;
  /// The row of SightTerm::numbers where its own begin.
  int64_t row = 0;
  /// Where its own begin among SightTerm::masks, ancestors or bits, and a mask's extents: [1 or B,
  /// 1 or H, Sq, Sk], or [1 or B, 1, 1, Sk] of keys; of a tree's bits [1, 1, tokens, words].
  int64_t place = 0;
  Shape maskShape = {};
  std::optional<int64_t> left = {}, right = {};
  int64_t size = 0;
  Stripes stripes = {};
};
struct SightTerm {
  std::vector<SightNode> nodes;
  /// [rows, B, Sk]: operands of nodes.
  Shape shape;
  std::vector<int32_t> numbers;
  /// Of masks, and of trees [B, Sq] each, one behind the other.
  std::vector<uint8_t> masks;
  std::vector<uint64_t> ancestors;
  std::vector<int32_t> bits;
  std::vector<int64_t> starts; ///< of each batch, its first token; all 0 where all have the same
  int64_t queries = 0;         ///< of the longest sequence
  /// [1 or B, 1 or H, ...] of blocks; empty where no node is of blocks.
  Shape blockShape;
  std::vector<uint8_t> blocks;
  int64_t blockQ = 1, blockK = 1;
  int listed = -1; ///< below a node of that kind, of which there is one at most
  int64_t listedQ = 128, listedK = 128, listedBatches = 1, listedHeads = 1;

  bool hasLists() const { return !blocks.empty() || listed >= 0; }

  int32_t number(int64_t row, int64_t batch, int64_t column) const {
    return numbers[static_cast<size_t>((row * shape[1] + batch) * shape[2] + column)];
  }
  bool sees(const Pair &at) const { return sees(nodes.size() - 1, at); }
  bool sees(size_t node, const Pair &at) const;
};
/// packed: sequences have tokens of their own. withLists: of blocks of a mask, of those of a term,
/// or of both.
SightTerm drawSight(Draw &draw, const Sizes &sizes, bool packed, bool withLists);
std::string describe(const SightTerm &term);
SightTerm spoilt(SightTerm term, Draw &draw);

} // namespace sectile::fuzz
