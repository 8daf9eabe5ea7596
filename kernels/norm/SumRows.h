// The second stage of a sum over many rows: partial sums, one row for each program of the first
// stage, become one row. Two stages give the same bits every time, which atomic additions do not.
#pragma once
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Slice.h"
#include "kernels/calls/Use.h"
#include <algorithm>

namespace sectile {

struct SumRowsConfig {
  int columns = 32, warps = 4;
  int rows = 32;     // added at once
  bool both = false; // there are two sums, the second one's partial sums behind the first's
};

template <class T> struct SumRowsArguments {
  View<const float, 3> partial;
  View<T, 1> sums, others;
};

template <class T>
inline const Kernel sumRows{
    "sum_rows", [](const SumRowsArguments<T> &a, const SumRowsConfig &config) {
      const auto &[partial, sums, others] = a;
      auto column = program_id(0), which = program_id(1);
      auto from = partial.at(which).tile(config.rows, config.columns);
      auto total = zeros<float>(config.rows, config.columns);
      for (auto block : range(0, cdiv(partial.extent(1), config.rows)))
        total += from.load(block, column);
      const auto result = sum(total, 0);
      auto put = [&](const View<T, 1> &to) { to.tile(config.columns).store(column, result); };
      if (!config.both) {
        put(sums);
        return;
      }
      when(which == 0, [&] { put(sums); });
      when(which == 1, [&] { put(others); });
    }};

// Its own part of a kernel's configuration.
inline const ConfigSpec sumColumns{"columns", "columns of one program of the second stage"};

// The partial sums of up to two outputs, each [N]: a matrix [programs, N] for each, one launch for
// both.
template <class T> class PartialSums {
public:
  PartialSums(Use &use, std::int64_t programs, std::int64_t length, const char *first,
              const char *second)
      : use(use), length(length) {
    for (const char *name : {first, second})
      if (name)
        names.push_back(name);
    if (!names.empty())
      all = use.workspace<float, 3>({static_cast<std::int64_t>(names.size()), programs, length});
  }

  // That of an output; of none where it has none.
  Tensor<float, 2> of(std::string_view name) const {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      return noTensor<float, 2>();
    return oneOf(all, found - names.begin());
  }

  void add() const {
    if (names.empty())
      return;
    // Enough at once that programs, of which there are few, do not wait for one load after another.
    const std::int64_t rows = std::clamp<std::int64_t>(powerAtLeast(all.extent(1)), 32, 256);
    const SumRowsConfig config{.columns = use.field("columns"),
                               .warps = rows > 64 ? 8 : 4,
                               .rows = static_cast<int>(rows),
                               .both = names.size() == 2};
    use(sumRows<T>, Grid(ceilDiv(length, config.columns), names.size()), config,
        {{"partial", all},
         {"sums", use.tensor<T, 1>(names.front())},
         {"others", use.tensor<T, 1>(names.back())}});
  }

private:
  Use &use;
  std::int64_t length;
  std::vector<std::string_view> names;
  Tensor<float, 3> all = noTensor<float, 3>();
};

} // namespace sectile
