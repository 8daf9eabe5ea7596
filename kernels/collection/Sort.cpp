// sort and argsort: rows that fit a block are sorted there; longer ones block by block, and then
// merged, two runs at a time. topk: the best of each block of a row, and then of those.
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct SortConfig {
  int block = 1024, warps = 4;
  bool descending = false;
  bool keys = true; // sorted elements are wanted, not only where they were
};
SECTILE_CONFIG(SortConfig, block, warps, descending, keys)

// What fills a block up: it comes last, as sorting is stable.
template <class T> constexpr auto fillerOf(bool descending) {
  if constexpr (std::is_integral_v<T>)
    return descending ? lowestOf<T>() : highestOf<T>();
  else
    return descending ? -std::numeric_limits<float>::infinity()
                      : std::numeric_limits<float>::quiet_NaN();
}

template <class T>
Kernel sortBlocks{
    "sort_blocks",
    [](View<const T, 2> x, View<T, 2> y, View<std::int64_t, 2> places, const SortConfig &config) {
      auto block = program_id(0), row = program_id(1);
      auto values =
          x.at(row).tile(config.block).padding(fillerOf<T>(config.descending)).load(block);
      auto [sorted, at] = topk(values, config.block, 0, config.descending);
      if (config.keys)
        y.at(row).tile(config.block).store(block, sorted);
      places.at(row)
          .tile(config.block)
          .store(block, cast<std::int64_t>(block * config.block) + cast<std::int64_t>(at));
    }};

// Whether a comes before b among the sorted.
template <class T> Tile<bool> precedes(const Tile<T> &a, const Tile<T> &b, bool descending) {
  const Tile<T> &low = descending ? b : a, &high = descending ? a : b;
  if constexpr (std::is_integral_v<T>) {
    return low < high;
  } else {
    // NaN is above all, -0 below +0.
    auto signOf = [](const Tile<T> &x) { return copysign(full_like(x, 1), x) < 0; };
    auto lowIsNan = low != low;
    return !lowIsNan &&
           (high != high || low < high || (low == high && signOf(low) && !signOf(high)));
  }
}

// Merges runs of `length`: each element goes to its place in its own run plus the number of
// elements of the other run that come before it.
template <class T>
Kernel merge{"sort_merge",
             [](View<const T, 2> x, View<const std::int64_t, 2> places, View<T, 2> y,
                View<std::int64_t, 2> to, Int length, Int halvings, const SortConfig &config) {
               auto row = program_id(1);
               auto n = x.extent(1);
               auto index = program_id(0) * config.block + arange(0, config.block);
               auto inside = index < n;
               auto from = x.at(row);
               auto key = load(from.ptr() + index * from.stride(0), inside);
               auto own = index / length;
               auto isFirst = own % 2 == 0;
               auto base = own / 2 * (length * 2);
               auto start = where(isFirst, base + length, base);
               auto end = minimum(where(isFirst, start + length, start + length), n);
               auto low = minimum(start, n), high = maximum(end, low);
               for (auto halving : range(0, halvings)) {
                 (void)halving;
                 auto open = low < high;
                 auto middle = (low + high) / 2;
                 auto other = load(from.ptr() + middle * from.stride(0), inside && open);
                 // Of equals those of the first run stay ahead.
                 auto isBehind = where(isFirst, precedes(other, key, config.descending),
                                       !precedes(key, other, config.descending));
                 low = where(open && isBehind, middle + 1, low);
                 high = where(open && !isBehind, middle, high);
               }
               auto target = base + index % length + (low - minimum(start, n));
               auto out = y.at(row);
               auto outPlaces = to.at(row);
               auto fromPlaces = places.at(row);
               if (config.keys)
                 store(out.ptr() + target * out.stride(0), key, inside);
               store(outPlaces.ptr() + target * outPlaces.stride(0),
                     load(fromPlaces.ptr() + index * fromPlaces.stride(0), inside), inside);
             }};

template <class T> void sortRows(Use &use, bool keys) {
  const std::int64_t n = use.call.extent("N"), rows = elementCount(use.call.leading);
  SortConfig chosen{use.field("block"), use.field("warps"), use.call.options.flag("descending"),
                    keys};
  const auto x = use.rows<T>("x");
  const auto places = use.rows<std::int64_t>("indices");
  const Tensor<T, 2> none{nullptr, {}, {}};
  const Tensor<T, 2> y = keys ? use.rows<T>("y") : none;
  const std::int64_t blocks = ceilDiv(n, chosen.block);
  if (blocks <= 1) {
    use(sortBlocks<T>, Grid(blocks, rows), x, y, places, chosen);
    return;
  }
  int passes = 0;
  for (std::int64_t length = chosen.block; length < n; length *= 2)
    ++passes;
  // Back and forth between two arrays, so that the last pass writes the outputs. Merging compares
  // elements, so all passes but the last keep them.
  const std::array<Tensor<T, 2>, 2> sorted{use.workspace<T, 2>({rows, n}),
                                           use.workspace<T, 2>({rows, n})};
  const std::array<Tensor<std::int64_t, 2>, 2> froms{use.workspace<std::int64_t, 2>({rows, n}),
                                                     use.workspace<std::int64_t, 2>({rows, n})};
  SortConfig all = chosen;
  all.keys = true;
  use(sortBlocks<T>, Grid(blocks, rows), x, sorted[0], froms[0], all);
  std::int64_t length = chosen.block;
  for (int pass = 0; pass < passes; ++pass, length *= 2) {
    const bool last = pass + 1 == passes;
    const std::size_t from = static_cast<std::size_t>(pass % 2), to = 1 - from;
    use(merge<T>, Grid(blocks, rows), sorted[from], froms[from], last ? y : sorted[to],
        last ? places : froms[to], length, std::bit_width(static_cast<std::uint64_t>(length)),
        last ? chosen : all);
  }
}

struct TopkConfig {
  int block = 1024, warps = 4;
  int best = 16;  // k, up to the next power of two
  int blocks = 1; // of one program
  bool largest = true;
};
SECTILE_CONFIG(TopkConfig, block, warps, best, blocks, largest)

// The best of some blocks of each row; Merge: of what was best in parts of it, and where that was.
template <class T, bool Merge>
Kernel topkKernel{Merge ? "topk_merge" : "topk",
                  [](View<const T, 2> x, View<const std::int64_t, 2> places, View<T, 3> y,
                     View<std::int64_t, 3> to, const TopkConfig &config) {
                    auto part = program_id(0), row = program_id(1);
                    auto from = x.at(row).tile(config.block).padding(fillerOf<T>(config.largest));
                    auto bestOf = [&](const Int &block) {
                      auto [values, at] = topk(from.load(block), config.best, 0, config.largest);
                      Tile<std::int64_t> where;
                      if constexpr (Merge)
                        where = gather(places.at(row).tile(config.block).load(block), at, 0);
                      else
                        where = cast<std::int64_t>(block * config.block) + cast<std::int64_t>(at);
                      return std::tuple(values, where);
                    };
                    auto first = part * config.blocks;
                    auto [best, where] = bestOf(first);
                    // The best so far are ahead of what is behind them in the row, so of equals the
                    // first stay.
                    if (config.blocks > 1) {
                      auto blocks = cdiv(x.extent(1), config.block),
                           end = minimum(first + config.blocks, blocks);
                      for (auto block : range(first + 1, end)) {
                        auto [values, behind] = bestOf(block);
                        auto [both, at] =
                            topk(cat(best, values, 0), config.best, 0, config.largest);
                        where = gather(cat(where, behind, 0), at, 0);
                        best = both;
                      }
                    }
                    y.at(row, part).tile(config.best).store(0, best);
                    to.at(row, part).tile(config.best).store(0, where);
                  }};

// Rows of more than a block in parts, each by a program of its own, and then the best of the parts'
// best.
template <class T> void topkRows(Use &use) {
  const std::int64_t n = use.call.extent("N"), k = use.call.extent("K"),
                     rows = elementCount(use.call.leading);
  TopkConfig chosen{.block = use.field("block"),
                    .warps = use.field("warps"),
                    .best = static_cast<int>(powerFor(k, 1, 1024)),
                    .largest = use.call.options.flag("largest")};
  const auto y = use.rows<T>("y");
  const auto indices = use.rows<std::int64_t>("indices");
  auto asParts = [&]<class U>(const Tensor<U, 2> &rowsOf, std::int64_t parts) {
    const std::int64_t each = rowsOf.extent(1) / parts;
    return Tensor<U, 3>(rowsOf.data(), {rows, parts, each},
                        {rowsOf.stride(0), each * rowsOf.stride(1), rowsOf.stride(1)},
                        rowsOf.memory());
  };
  const std::int64_t parts = ceilDiv(n, chosen.block);
  if (parts <= 1) {
    use(topkKernel<T, false>, Grid(parts, rows), use.rows<T>("x"), noTensor<std::int64_t, 2>(),
        asParts(y, 1), asParts(indices, 1), chosen);
    return;
  }
  const auto best = use.workspace<T, 2>({rows, parts * chosen.best});
  const auto where = use.workspace<std::int64_t, 2>({rows, parts * chosen.best});
  use(topkKernel<T, false>, Grid(parts, rows), use.rows<T>("x"), noTensor<std::int64_t, 2>(),
      asParts(best, parts), asParts(where, parts), chosen);
  TopkConfig last = chosen;
  last.blocks = static_cast<int>(ceilDiv(parts * chosen.best, chosen.block));
  use(topkKernel<T, true>, Grid(1, rows), best, where, asParts(y, 1), asParts(indices, 1), last);
}

KernelSpec sortedSpec(const char *name, const char *summary, bool keys) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments({rowsArgument("rows of any length")});
  if (keys)
    spec.add_arguments(
        {{"-> y: [..., N] like x", "the smallest first; NaN is above all numbers, -0 below +0"}});
  spec.add_arguments(
      {{"-> indices: [..., N] i64", "where the sorted elements were; equals keep their order"}});
  spec.add_options({{"descending: flag = false", "the largest first"}});
  spec.config = blockConfig;
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 3}, {"N", 100}};
  spec.reference = [keys](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    auto both =
        sortReference(call, inputs, arithmetic, call.options.flag("descending"), call.extent("N"));
    return keys ? both : std::vector{both[1]};
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    return Config{{"block", powerFor(call.extent("N"), 64, 1024)}, {"warps", 4}};
  };
  spec.spaces = {{.part = "sort_blocks",
                  .axes = {{"warps", {1, 2, 4, 8}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    return config.at("warps") * warpSize(target) <= config.at("block");
                  }}};
  spec.apply = [keys](Use &use) {
    for_dtype<float, half, bfloat16, std::int32_t>(use.call.dtype("x"),
                                                   [&]<class T>(T) { sortRows<T>(use, keys); });
  };
  return spec;
}

} // namespace

// y[i] = x[indices[i]] with y in order, as torch.sort with stable = true and torch.argsort, but
// that -0 is below +0. NaN is above all numbers.
KernelSpec sectile::sortSpec() {
  return sortedSpec("sort", "y = the elements of each row of x in order, and where they were",
                    true);
}

KernelSpec sectile::argsortSpec() {
  return sortedSpec("argsort", "where the elements of each row of x are in order", false);
}

// The k largest or smallest in the order of sort, so as torch.topk, but that -0 is below +0: NaN is
// above all numbers, and of equals the first ones count. A k below 1, beyond 1024 or beyond the row
// is refused.
KernelSpec sectile::topkSpec() {
  KernelSpec spec;
  spec.name = "topk";
  spec.summary = "y = the k largest of each row of x, and where they are";
  spec.add_arguments(
      {rowsArgument("rows of any length"),
       {"-> y: [..., K] like x", "the largest first; NaN is above all numbers, -0 below +0"},
       {"-> indices: [..., K] i64", "where they are; of equals the first"}});
  spec.add_options({{"k: integer = 8 e.g. 1, 17", "how many, 1 to 1024"},
                    {"largest: flag = true", "false: the smallest, the smallest first"}});
  spec.config = {{"block", "elements of a row held at once, at least k"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"...", 1024}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 100}};
  spec.derive = [](Invocation &call) { call.extents["K"] = call.options.integer("k"); };
  spec.check = [](const Invocation &call) {
    const std::int64_t k = call.options.integer("k");
    if (k < 1 || k > 1024 || k > call.extent("N"))
      throw InputError("topk: k is " + std::to_string(k) +
                       ", but must be from 1 to 1024 and at most " +
                       std::to_string(call.extent("N")) + ", the length of rows");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return sortReference(call, inputs, arithmetic, call.options.flag("largest"), call.extent("K"));
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t best = powerFor(call.extent("K"), 64, 1024);
    return Config{{"block", std::max(best, powerFor(call.extent("N"), 64, 2048))}, {"warps", 4}};
  };
  spec.spaces = {
      {.part = "topk",
       .axes = {{"block", {64, 128, 256, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return config.at("block") >= call.extent("K") &&
                config.at("block") >= config.at("warps") * warpSize(target);
       }}};
  spec.apply = [](Use &use) {
    for_dtype<float, half, bfloat16, std::int32_t>(use.call.dtype("x"),
                                                   [&]<class T>(T) { topkRows<T>(use); });
  };
  return spec;
}
