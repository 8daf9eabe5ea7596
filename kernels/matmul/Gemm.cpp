// The general matrix product: batches, an epilogue, and sums that several programs share, split
// along K or by Stream-K (Osama et al., arXiv 2301.03598).
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/SharedSums.h"
#include "kernels/matmul/TileOrder.h"
#include <algorithm>

using namespace sectile;

namespace {

struct GemmConfig {
  int m = 128, n = 128, k = 32, group = 8, warps = 4, stages = 3, cluster = 1, splits = 1;
  bool persistent = false, batched = false, stream = false, exact = false;
  int activation = 0;
  bool scaled = false, bias = false, residual = false, rowScale = false, columnScale = false;
};
SECTILE_CONFIG(GemmConfig, m, n, k, group, warps, stages, cluster, splits, persistent, batched,
               stream, exact, activation, scaled, bias, residual, rowScale, columnScale)

// A tile's sum over K may be cut into parts. With `splits` every tile is cut into as many; with
// `stream` all steps of all tiles, in one row, are dealt out evenly to the programs, whatever the
// tiles.
template <class T, class Out>
constexpr auto gemm = [](View<const T, 3> a, View<const T, 3> b, View<Out, 3> c,
                         View<const Out, 2> bias, View<const Out, 3> residual,
                         View<const float, 2> rowScale, View<const float, 2> columnScale,
                         Float alpha, Float beta, View<SumOf<T>, 3> parts,
                         Ptr<std::int32_t> arrived, const GemmConfig &config) {
  using Sum = SumOf<T>;
  program_clusters(config.cluster);
  const int m = config.m, n = config.n, depth = config.k;
  const TileOrder order(cdiv(c.extent(1), m), cdiv(c.extent(2), n), config.group, config.cluster);
  const Int area = order.count();
  // One at least: with K = 0 it adds nothing.
  const Int steps = maximum(cdiv(a.extent(2), depth), 1);

  struct Place {
    Int batch, i, j;
  };
  // One matrix begins where its argument does, which the copy engine has to know.
  auto placeOf = [&](const Int &tile) {
    auto [i, j] = order.at(config.batched ? tile % area : tile);
    return Place{config.batched ? tile / area : Int(0), i, j};
  };
  auto multiply = [&](const Place &at, const Int &from, const Int &to) {
    auto left = a.at(at.batch).tile(m, depth);
    auto right = b.at(at.batch).tile(depth, n);
    auto sums = zeros<Sum>(m, n);
    LoopOptions options;
    if (config.persistent)
      options.warp_specialize = true;
    for (auto step : range(from, to, options)) {
      if constexpr (std::is_same_v<Sum, float>)
        sums = dot(left.load(at.i, step), right.load(step, at.j), sums,
                   config.exact ? Precision::ieee : Precision::tf32);
      else
        sums = dot(left.load(at.i, step), right.load(step, at.j), sums);
    }
    return sums;
  };
  auto finish = [&](const Place &at, const Tile<Sum> &sums) {
    auto to = c.at(at.batch).tile(m, n);
    if constexpr (std::is_same_v<Out, std::int32_t>) {
      to.store(at.i, at.j, sums);
    } else {
      const EpilogueOperands<Out> operands{bias.at(at.batch),
                                           residual.at(at.batch),
                                           rowScale.at(at.batch),
                                           columnScale.at(at.batch),
                                           alpha,
                                           beta};
      const EpilogueParts chosen{static_cast<Activation>(config.activation),
                                 config.scaled,
                                 config.bias,
                                 config.residual,
                                 config.rowScale,
                                 config.columnScale};
      to.store(at.i, at.j, finishSums(cast<float>(sums), operands, chosen, at.i, at.j));
    }
  };
  auto share = [&](const Int &tile, const Place &at, const Tile<Sum> &sums, const Int &slot,
                   const Int &count, const auto &slotOf) {
    shareSums(parts, arrived, tile, sums, slot, count, slotOf,
              [&](const Tile<Sum> &total) { finish(at, total); });
  };

  const Int program = order.first();
  if (config.persistent) {
    for (auto tile : range(program, c.extent(0) * area, order.step())) {
      const Place at = placeOf(tile);
      finish(at, multiply(at, 0, steps));
    }
    return;
  }
  if (!config.stream) {
    const Int tile = program / config.splits, part = program % config.splits;
    const Place at = placeOf(tile);
    if (config.splits == 1) {
      finish(at, multiply(at, 0, steps));
      return;
    }
    auto sums = multiply(at, part * steps / config.splits, (part + 1) * steps / config.splits);
    share(tile, at, sums, program, Int(config.splits),
          [&](const Int &other) { return tile * config.splits + other; });
    return;
  }

  // The first `more` programs have one step more than the others.
  const Int programs = num_programs(0), total = c.extent(0) * area * steps;
  const Int each = total / programs, more = total % programs;
  auto ownerOf = [&](const Int &step) {
    const Int behind = step - more * (each + 1);
    return where(behind < 0, step / (each + 1), more + behind / maximum(each, 1));
  };
  Int now = program * each + minimum(program, more);
  const Int end = now + each + where(program < more, Int(1), Int(0));
  loop_while([&] { return now < end; },
             [&] {
               const Int tile = now / steps, from = now % steps;
               const Int to = minimum(steps, from + end - now);
               const Place at = placeOf(tile);
               auto sums = multiply(at, from, to);
               when(
                   to - from == steps, [&] { finish(at, sums); },
                   [&] {
                     // A program begins at most one tile that it does not end, and ends at most
                     // one that it did not begin.
                     const Int first = ownerOf(tile * steps);
                     const Int last = ownerOf(tile * steps + steps - 1);
                     share(tile, at, sums, 2 * program + where(from == 0, Int(1), Int(0)),
                           last - first + 1, [&](const Int &part) {
                             return 2 * (first + part) + where(part == 0, Int(1), Int(0));
                           });
                   });
               now += to - from;
             });
};

template <class T, class Out> Kernel matmul{"matmul", gemm<T, Out>};
template <class T, class Out> Kernel batchedMatmul{"batched_matmul", gemm<T, Out>};

// With an axis of matrices in front. One matrix for all is found at the same place each time.
template <class T, int N>
Tensor<T, N> stacked(const Use &use, std::string_view name, bool batched) {
  if (batched) {
    const auto tensor = use.tensor<T, N>(name);
    auto strides = tensor.strides();
    if (tensor.extent(0) == 1)
      strides[0] = 0;
    return {tensor.data(), tensor.extents(), strides, tensor.memory()};
  }
  const auto tensor = use.tensor<T, N - 1>(name);
  std::array<std::int64_t, N> extents{1}, strides{0};
  for (int i = 1; i < N; ++i) {
    extents[static_cast<std::size_t>(i)] = tensor.extent(i - 1);
    strides[static_cast<std::size_t>(i)] = tensor.stride(i - 1);
  }
  return {tensor.data(), extents, strides, tensor.memory()};
}

template <class Function> void forOutput(DType dtype, Function &&function) {
  forDType<half, bfloat16, float>(dtype, function);
}

} // namespace

void sectile::launchGemm(Use &use, bool batched) {
  const EpilogueParts parts = epilogueParts(use.call);
  GemmConfig chosen{.m = use.field("m"),
                    .n = use.field("n"),
                    .k = use.field("k"),
                    .group = use.field("group"),
                    .warps = use.field("warps"),
                    .stages = use.field("stages"),
                    .cluster = use.field("cluster"),
                    .splits = use.field("splits"),
                    .batched = batched,
                    .stream = use.call.options.choice("schedule") == "stream_k",
                    .exact = use.call.options.choice("precision") == "exact",
                    .activation = static_cast<int>(parts.activation),
                    .scaled = parts.scaled,
                    .bias = parts.bias,
                    .residual = parts.residual,
                    .rowScale = parts.rowScale,
                    .columnScale = parts.columnScale};
  // Of programs that begin at different depths, or in different matrices, none share their loads.
  if (batched || chosen.stream || chosen.splits > 1)
    chosen.cluster = 1;
  const std::int64_t tiles = (batched ? use.call.extent("B") : 1) *
                             ceilDiv(use.call.extent("M"), chosen.m * chosen.cluster) *
                             chosen.cluster * ceilDiv(use.call.extent("N"), chosen.n);
  const std::int64_t steps = std::max<std::int64_t>(1, ceilDiv(use.call.extent("K"), chosen.k));
  chosen.persistent = use.field("persistent") != 0 && !chosen.stream && chosen.splits == 1;
  std::int64_t programs = chosen.persistent
                              ? persistentPrograms(tiles, use.field("programs"), chosen.cluster)
                              : tiles,
               slots = 0;
  if (chosen.stream) {
    chosen.splits = 1;
    programs = std::min<std::int64_t>(use.field("programs"), tiles * steps);
    slots = 2 * programs;
  } else if (chosen.splits > 1) {
    programs = slots = tiles * chosen.splits;
  }
  auto launch = [&]<class T, class Out>(T, Out) {
    const auto partial = use.workspace<SumOf<T>, 3>({slots, chosen.m, chosen.n});
    const auto arrived = use.zeroed<std::int32_t, 1>({slots ? tiles : 0});
    use(batched ? batchedMatmul<T, Out> : matmul<T, Out>, programs,
        stacked<T, 3>(use, "a", batched), stacked<T, 3>(use, "b", batched),
        stacked<Out, 3>(use, "c", batched), stacked<Out, 2>(use, "bias", batched),
        stacked<Out, 3>(use, "residual", batched), stacked<float, 2>(use, "row_scale", batched),
        stacked<float, 2>(use, "column_scale", batched),
        static_cast<float>(use.call.options.number("alpha")),
        static_cast<float>(use.call.options.number("beta")), partial, arrived, chosen);
  };
  const DType out = use.call.dtype("c");
  forDType<half, bfloat16, float>(use.call.dtype("a"), [&]<class T>(T operand) {
    forOutput(out, [&](auto result) { launch(operand, result); });
  });
  forDType<float8_e4m3, float8_e5m2>(use.call.dtype("a"), [&]<class T>(T operand) {
    forOutput(out, [&](auto result) { launch(operand, result); });
    forDType<T>(out, [&](auto result) { launch(operand, result); });
  });
  forDType<std::int8_t>(use.call.dtype("a"), [&](auto operand) {
    forOutput(out, [&](auto result) { launch(operand, result); });
    forDType<std::int32_t>(out, [&](auto result) { launch(operand, result); });
  });
}
