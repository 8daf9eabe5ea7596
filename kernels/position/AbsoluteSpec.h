// What the kernels of absolute positions have in common: add_positions and sinusoidal, forward and
// backward.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/position/Angles.h"
#include "kernels/position/References.h"

namespace sectile {

struct AbsoluteConfig {
  int m = 4, block = 1024, warps = 4;
  int batches = 1;    // of which a program has these rows
  bool table = true;  // else sines and cosines
  bool given = false; // positions are
  bool norm = false;  // layer norm follows
  bool whole = true;  // a row fits a block
};
SECTILE_CONFIG(AbsoluteConfig, m, block, warps, batches, table, given, norm, whole)

// What is added to some rows of hidden states, which are rows of this batch, or of all of them
// where positions are not given.
template <class T> struct PositionEmbeddings {
  View<const T, 2> table;
  Tile<std::int64_t> positions; // of the rows
  Int firstPosition;            // where positions are not given
  Int width;                    // of a row
  Scalar<double> step;
  const AbsoluteConfig &config;

  PositionEmbeddings(const View<const T, 2> &table, const View<const std::int32_t, 2> &given,
                     const Int &group, const Int &batch, const Int &offset, const Int &width,
                     const Scalar<double> &step, const AbsoluteConfig &config)
      : table(table), firstPosition(group * config.m + offset), width(width), step(step),
        config(config) {
    if (config.given)
      positions = cast<std::int64_t>(given.at(batch).tile(config.m).load(group));
    else
      positions = cast<std::int64_t>(firstPosition + arange(0, config.m));
  }

  // [m, block] from this column on, a multiple of block.
  Tile<float> at(const Int &column) const {
    if (config.table) {
      const auto rows = table.tile(config.m, config.block);
      return cast<float>(config.given ? rows.gather_at(positions, column)
                                      : rows.load_at(firstPosition, column));
    }
    const auto pairs = column / 2 + arange(0, config.block / 2);
    const auto frequency = frequencies(pairs, width, step);
    const SinCos angles = sinCosOf(phase(expand(positions, 1), expand(frequency, 0)));
    return interleave(angles.sin, angles.cos);
  }
};

// What the forward and the backward kernels have in common, whose first argument is `rows`.
KernelSpec absoluteSpec(const std::string &rows, const std::string &doc, bool table);
inline bool hasTable(const Invocation &call) { return call.extents.contains("P"); }
template <class T> Tensor<T, 2> tableOf(const Use &use) {
  return hasTable(use.call) ? use.tensor<T, 2>("table") : noTensor<T, 2>();
}
AddPositionsOptions absoluteOptions(const Invocation &call);
AbsoluteConfig absoluteConfig(const Use &use);
double absoluteStep(const Invocation &call);

} // namespace sectile
