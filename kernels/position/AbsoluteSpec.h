// What the kernels of absolute positions have in common: add_positions and sinusoidal, forward and
// backward.
#pragma once
#include "kernels/Use.h"
#include "kernels/position/Angles.h"
#include "kernels/position/References.h"

namespace sectile {

struct AbsoluteConfig {
  int m = 4, block = 1024, warps = 4;
  bool table = true;  // else sines and cosines
  bool given = false; // positions are
  bool norm = false;  // layer norm follows
  bool whole = true;  // a row fits a block
};
SECTILE_CONFIG(AbsoluteConfig, m, block, warps, table, given, norm, whole)

// Rows of hidden states with their embeddings, of one batch.
template <class T> struct EmbeddedRows {
  View<const T, 2> x, table;
  Tile<std::int64_t> positions; // of the rows
  Int first;                    // row
  Int firstPosition;            // where positions are not given
  Float scale;
  Scalar<double> step;
  const AbsoluteConfig &config;

  EmbeddedRows(const View<const T, 3> &x, const View<const T, 2> &table,
               const View<const std::int32_t, 2> &given, const Int &offset, const Float &scale,
               const Scalar<double> &step, const AbsoluteConfig &config)
      : x(x.at(program_id(1))), table(table), first(program_id(0) * config.m),
        firstPosition(first + offset), scale(scale), step(step), config(config) {
    if (config.given)
      positions = cast<std::int64_t>(given.at(program_id(1)).tile(config.m).load(program_id(0)));
    else
      positions = cast<std::int64_t>(firstPosition + arange(0, config.m));
  }

  // scale x + embedding, [m, block] from this column on.
  Tile<float> sum(const Int &column) const {
    const auto values = cast<float>(x.tile(config.m, config.block).load_at(first, column));
    return values * scale + embedding(column);
  }

private:
  Tile<float> embedding(const Int &column) const {
    if (config.table) {
      const auto rows = table.tile(config.m, config.block);
      return cast<float>(config.given ? rows.gather_at(positions, column)
                                      : rows.load_at(firstPosition, column));
    }
    const auto columns = column + arange(0, config.block);
    const auto frequency = frequencies(columns / 2, x.extent(1), step);
    const auto turns = phase(expand(positions, 1), expand(frequency, 0));
    return sinCosOf(turns + cast<std::uint32_t>(expand(columns, 0) % 2) * quarterTurn).sin;
  }
};

// What a kernel has no argument for.
template <class T, int N> Tensor<T, N> nothing() { return {nullptr, {}, {}, detail::Memory()}; }

// Arguments, options and rules of the forward and the backward kernels, to be completed.
KernelSpec absoluteSpec(const std::string &name, bool table);
ArgumentSpec positionsArgument();
AddPositionsOptions absoluteOptions(const Invocation &call, bool table);
AbsoluteConfig absoluteConfig(const Use &use, bool table);
double absoluteStep(const Invocation &call, bool table);

} // namespace sectile
