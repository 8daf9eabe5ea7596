// The scheme of rope_attention and exposb_attention: queries and keys are turned by their positions
// as they are loaded, and for exposb_attention also made larger by dim and position, their scores
// smaller by distance.
#pragma once
#include "kernels/position/Rotary.h"
#include "kernels/position/Scheme.h"

namespace sectile::scheme {

struct RotaryAttentionConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int dims = 64, rotary = 64;
  bool interleaved = false, left = false, right = false;
  double step = 0; // frequencyStep
  bool expo = false;
  // Of exposb_attention, as its page has them.
  double gainBase = 0, gainPeak = 0, gainCenter = 0, gainWidth = 1, boost = 0, boostDecay = 0,
         nearBase = 0, nearPeak = 0, nearDecay = 0;

  RotaryShape shape() const { return {dims, rotary, interleaved}; }
  Extents extents() const { return {m, n, RotaryShape::padded(dims)}; }
};
SECTILE_CONFIG(RotaryAttentionConfig, m, n, warps, stages, dims, rotary, interleaved, left, right,
               step, expo, gainBase, gainPeak, gainCenter, gainWidth, boost, boostDecay, nearBase,
               nearPeak, nearDecay)

template <class T> struct RotaryScheme {
  // The pairs side by side, whatever their places in memory, and the dims that do not turn.
  using Operands = std::vector<Tile<T>>;
  using Totals = std::vector<Tile<float>>;

  const RotaryAttentionConfig &config;
  View<const T, 2> q, k; // of one head
  Int offset;            // position of query 0; key 0 has position 0
  Float scale;

  Operands queries(const Int &block, Part) const { return turned(q, block, config.m, offset); }
  Operands keys(const Int &block, Part) const { return turned(k, block, config.n, 0); }

  Tile<float> scores(const Operands &own, const Operands &other, const Tile<Index> &i,
                     const Tile<Index> &j, Part) const {
    auto sum = zeros<float>(own[0].extent(0), other[0].extent(0));
    for (std::size_t piece = 0; piece < own.size(); ++piece)
      sum = dot(own[piece], trans(other[piece]), sum, Precision::ieee);
    return sum * factor(i, j);
  }

  Totals noQueries() const { return nothing(config.m); }
  Totals noKeys() const { return nothing(config.n); }
  void accumulate(Totals &total, const Tile<float> &slope, const Operands &other,
                  const Tile<Index> &i, const Tile<Index> &j, Part) const {
    const auto change = cast<T>(slope * factor(i, j));
    for (std::size_t piece = 0; piece < total.size(); ++piece)
      total[piece] = dot(change, other[piece], total[piece], Precision::ieee);
  }
  void storeQueries(const View<T, 2> &dq, const Int &block, const Totals &total) const {
    turnBack(dq, block, config.m, offset, total);
  }
  void storeKeys(const View<T, 2> &dk, const Int &block, const Totals &total) const {
    turnBack(dk, block, config.n, 0, total);
  }

  std::vector<Run> keyRuns(const Int &, const Band::Range &range) const {
    return {{range.first, range.end}};
  }
  std::vector<Run> queryRuns(const Int &, const Band::Range &range) const {
    return {{range.first, range.end}};
  }

private:
  Totals nothing(int rows) const {
    const RotaryShape shape = config.shape();
    Totals total{zeros<float>(rows, 2 * shape.pairWidth())};
    if (shape.rotary < shape.dims)
      total.push_back(zeros<float>(rows, shape.restWidth()));
    return total;
  }
  static Tile<float> power(const Tile<float> &exponent) {
    return exp2(exponent * blockwise::log2e);
  }

  // What products are multiplied by.
  Tile<float> factor(const Tile<Index> &i, const Tile<Index> &j) const {
    if (!config.expo)
      return scale;
    const auto distance = cast<float>(abs(i + offset - j));
    const auto near = power(distance * static_cast<float>(-config.nearDecay));
    return (near * static_cast<float>(config.nearPeak) + static_cast<float>(config.nearBase)) *
           scale;
  }
  // What the numbers of a piece are multiplied by: gain of the dim, boost of the position.
  Tile<float> gain(std::size_t piece, const Tile<Index> &positions, int width) const {
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
  void applyGains(Pieces<float> &pieces, const Tile<Index> &positions) const {
    for (std::size_t piece = 0; config.expo && piece < pieces.size(); ++piece)
      pieces[piece] =
          pieces[piece] * gain(piece, positions, static_cast<int>(pieces[piece].extent(1)));
  }

  SinCos angles(const Tile<Index> &positions) const {
    return rotationAngles(positions, config.shape(), Scalar<double>(config.step));
  }
  Operands turned(const View<const T, 2> &rows, const Int &block, int extent,
                  const Int &first) const {
    const auto positions = rowNumbers(block, extent) + first;
    auto pieces = rotate(loadPieces(rows, block, extent, config.shape()), angles(positions));
    applyGains(pieces, positions);
    Operands result{interleave(cast<T>(pieces[0]), cast<T>(pieces[1]))};
    if (pieces.size() > 2)
      result.push_back(cast<T>(pieces[2]));
    return result;
  }
  void turnBack(const View<T, 2> &rows, const Int &block, int extent, const Int &first,
                const Totals &total) const {
    const auto positions = rowNumbers(block, extent) + first;
    auto [one, other] = split(reshape(total[0], extent, config.shape().pairWidth(), 2));
    Pieces<float> pieces{one, other};
    if (total.size() > 1)
      pieces.push_back(total[1]);
    applyGains(pieces, positions);
    storePieces(rows, block, extent, config.shape(), rotate(pieces, angles(positions), true));
  }
};

} // namespace sectile::scheme
