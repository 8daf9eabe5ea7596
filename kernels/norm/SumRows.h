// The second stage of a sum over many rows: partial sums, one row for each program of the first
// stage, become one row. Two stages give the same bits every time, which atomic additions do not.
#pragma once
#include "kernels/Use.h"

namespace sectile {

struct SumRowsConfig {
  int columns = 32, warps = 4;
  int rows = 32; // added at once
};
SECTILE_CONFIG(SumRowsConfig, columns, warps, rows)

template <class T> struct SumRowsArguments {
  View<const float, 2> partial;
  View<T, 1> sums;
};
template <class T>
SECTILE_STRUCT(SumRowsArguments<T>, partial, sums)

template <class T>
inline const Kernel sumRows{"sum_rows",
                            [](const SumRowsArguments<T> &a, const SumRowsConfig &config) {
                              const auto &[partial, to] = a;
                              auto column = program_id(0);
                              auto from = partial.tile(config.rows, config.columns);
                              auto total = zeros<float>(config.rows, config.columns);
                              for (auto block : range(0, cdiv(partial.extent(0), config.rows)))
                                total += from.load(block, column);
                              to.tile(config.columns).store(column, sum(total, 0));
                            }};

// Its own part of a kernel's configuration.
inline const ConfigSpec sumColumns{"columns", "columns of one program of the second stage"};

// `partial` is [programs, N]; the argument `sums` is [N].
template <class T>
void addRows(Use &use, const Tensor<float, 2> &partial, std::string_view argument) {
  const SumRowsConfig config{.columns = use.field("columns")};
  const auto sums = use.tensor<T, 1>(argument);
  use(sumRows<T>, ceilDiv(sums.extent(0), config.columns), config,
      {{"partial", partial}, {"sums", sums}});
}

} // namespace sectile
