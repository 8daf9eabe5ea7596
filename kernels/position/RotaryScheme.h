// The scheme of rope_attention and exposb_attention: queries and keys are turned by their
// positions, and for exposb_attention also made larger by dim and position, their scores smaller by
// distance. Rows that many programs need are turned once, into scratch memory; others as they are
// loaded.
#pragma once
#include "kernels/position/Rotary.h"
#include "kernels/position/Scheme.h"

namespace sectile::scheme {

struct RotaryAttentionConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int dims = 64, rotary = 64;
  bool interleaved = false, left = false, right = false;
  bool queriesTurned = false, keysTurned = false; // before this launch
  double step = 0;                                // frequencyStep
  bool expo = false;
  // Of exposb_attention, as its page has them.
  double gainBase = 0, gainPeak = 0, gainCenter = 0, gainWidth = 1, boost = 0, boostDecay = 0,
         nearBase = 0, nearPeak = 0, nearDecay = 0;

  RotaryShape shape() const { return {dims, rotary, interleaved}; }
  Extents extents() const { return {m, n, RotaryShape::padded(dims)}; }
};
SECTILE_CONFIG(RotaryAttentionConfig, m, n, warps, stages, dims, rotary, interleaved, left, right,
               queriesTurned, keysTurned, step, expo, gainBase, gainPeak, gainCenter, gainWidth,
               boost, boostDecay, nearBase, nearPeak, nearDecay)

// The pairs side by side, whatever their places in memory, and the dims that do not turn.
template <class T> using TurnedRows = std::vector<Tile<T>>;

// Scratch memory holds them one behind the other, each padded to its tile's width with zeros.
inline int turnedWidth(const RotaryShape &shape) {
  return 2 * shape.pairWidth() + (shape.rotary < shape.dims ? shape.restWidth() : 0);
}
template <class T> std::vector<View<T, 2>> turnedParts(const View<T, 2> &rows, RotaryShape shape) {
  const int pairs = 2 * shape.pairWidth();
  std::vector<View<T, 2>> parts{rows.slice(1, 0, pairs)};
  if (shape.rotary < shape.dims)
    parts.push_back(rows.slice(1, pairs, shape.restWidth()));
  return parts;
}

// What the positions of a block of rows do to them.
class Turn {
public:
  // The first of all rows has position `first`.
  Turn(const RotaryAttentionConfig &config, const Int &block, int extent, const Int &first)
      : config(config), block(block), extent(extent), positions(rowNumbers(block, extent) + first),
        angles(rotationAngles(positions, config.shape(), Scalar<double>(config.step))) {}

  template <class T> TurnedRows<std::remove_const_t<T>> load(const View<T, 2> &rows) const {
    using Element = std::remove_const_t<T>;
    auto pieces = rotate(loadPieces(rows, block, extent, config.shape()), angles);
    applyGains(pieces);
    const auto one = cast<Element>(pieces[0]), other = cast<Element>(pieces[1]);
    TurnedRows<Element> result{interleave(one, other)};
    if (pieces.size() > 2)
      result.push_back(cast<Element>(pieces[2]));
    return result;
  }
  // Of gradients of what `load` gives; stores those of the rows.
  template <class T> void storeBack(const View<T, 2> &rows, const TurnedRows<float> &total) const {
    auto [one, other] = split(reshape(total[0], extent, config.shape().pairWidth(), 2));
    Pieces<float> pieces{one, other};
    if (total.size() > 1)
      pieces.push_back(total[1]);
    applyGains(pieces);
    storePieces(rows, block, extent, config.shape(), rotate(pieces, angles, true));
  }

private:
  void applyGains(Pieces<float> &pieces) const {
    for (std::size_t piece = 0; config.expo && piece < pieces.size(); ++piece)
      pieces[piece] = pieces[piece] * gain(piece, static_cast<int>(pieces[piece].extent(1)));
  }
  // What the numbers of a piece are multiplied by: gain of the dim, boost of the position.
  Tile<float> gain(std::size_t piece, int width) const {
    const int pairs = config.rotary / 2;
    auto column = arange(0, width);
    auto dim = piece == 2           ? column + config.rotary
               : config.interleaved ? column * 2 + static_cast<int>(piece)
                                    : column + static_cast<int>(piece) * pairs;
    auto distance = (cast<float>(dim) - static_cast<float>(config.gainCenter)) *
                    static_cast<float>(1 / config.gainWidth);
    auto gains = power(distance * distance * -0.5f) * static_cast<float>(config.gainPeak) +
                 static_cast<float>(config.gainBase);
    auto boosts = power(cast<float>(positions) * static_cast<float>(-config.boostDecay)) *
                      static_cast<float>(config.boost) +
                  1.0f;
    return expand(gains, 0) * expand(boosts, 1);
  }
  static Tile<float> power(const Tile<float> &exponent) {
    return exp2(exponent * blockwise::log2e);
  }

  const RotaryAttentionConfig &config;
  Int block;
  int extent;
  Tile<Index> positions;
  SinCos angles;
};

template <class T> struct RotaryScheme {
  using Operands = TurnedRows<T>;
  using Totals = TurnedRows<float>;

  const RotaryAttentionConfig &config;
  View<const T, 2> q, k; // of one head
  Int offset;            // position of query 0; key 0 has position 0
  Float scale;

  Operands queries(const Int &block, Part) const {
    return config.queriesTurned ? load(q, block, config.m)
                                : Turn(config, block, config.m, offset).load(q);
  }
  Operands keys(const Int &block, Part) const {
    return config.keysTurned ? load(k, block, config.n) : Turn(config, block, config.n, 0).load(k);
  }

  Tile<float> scores(const Operands &own, const Operands &other, const Tile<Index> &i,
                     const Tile<Index> &j, Part) const {
    auto sum = zeros<float>(own[0].extent(0), other[0].extent(0));
    for (std::size_t piece = 0; piece < own.size(); ++piece)
      sum = dot(own[piece], trans(other[piece]), sum, Precision::ieee);
    const Float factor = scale * blockwise::log2e;
    return config.expo ? sum * nearness(i, j, factor) : sum * factor;
  }

  Totals noQueries() const { return nothing(config.m); }
  Totals noKeys() const { return nothing(config.n); }
  void accumulate(Totals &total, const Tile<float> &slope, const Operands &other,
                  const Tile<Index> &i, const Tile<Index> &j, Part) const {
    const auto change = cast<T>(config.expo ? slope * nearness(i, j, 1.0f) : slope);
    for (std::size_t piece = 0; piece < total.size(); ++piece)
      total[piece] = dot(change, other[piece], total[piece], Precision::ieee);
  }
  void storeQueries(const View<T, 2> &dq, const Int &block, const Totals &total) const {
    Turn(config, block, config.m, offset).storeBack(dq, scaled(total));
  }
  void storeKeys(const View<T, 2> &dk, const Int &block, const Totals &total) const {
    Turn(config, block, config.n, 0).storeBack(dk, scaled(total));
  }

  std::vector<Run> keyRuns(const Int &, const Band::Range &range) const {
    return {{range.first, range.end}};
  }
  std::vector<Run> queryRuns(const Int &, const Band::Range &range) const {
    return {{range.first, range.end}};
  }

private:
  Operands load(const View<const T, 2> &rows, const Int &block, int extent) const {
    Operands result;
    const RotaryShape shape = config.shape();
    for (const View<const T, 2> &part : turnedParts(rows, shape))
      result.push_back(part.tile(extent, result.empty() ? 2 * shape.pairWidth() : shape.restWidth())
                           .load(block, 0));
    return result;
  }
  Totals nothing(int rows) const {
    const RotaryShape shape = config.shape();
    Totals total{zeros<float>(rows, 2 * shape.pairWidth())};
    if (shape.rotary < shape.dims)
      total.push_back(zeros<float>(rows, shape.restWidth()));
    return total;
  }

  // The scores' scale, once for all of a sum.
  Totals scaled(Totals total) const {
    for (Tile<float> &sums : total)
      sums = sums * scale;
    return total;
  }
  // What exposb_attention multiplies products by, times `of`.
  Tile<float> nearness(const Tile<Index> &i, const Tile<Index> &j, const Float &of) const {
    const auto distance = cast<float>(abs(i + offset - j));
    const auto near = exp2(distance * (static_cast<float>(-config.nearDecay) * blockwise::log2e));
    return near * (of * static_cast<float>(config.nearPeak)) +
           of * static_cast<float>(config.nearBase);
  }
};

} // namespace sectile::scheme
