// sort and argsort: rows that fit a block are sorted there; longer ones digit by digit. topk: the
// best of each block of a row, and then of those.
#include "kernels/blocks/KthByDigits.h"
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

// Long rows are sorted by their digits of so many values, the last digit first: equals keep the
// order of the digits behind.
constexpr int digits = 256, bitsOfDigit = 8;
// Places within a block, behind the digit in one number.
constexpr int bitsOfPlace = 12;

struct DigitConfig {
  int block = 2048, warps = 8;
  int shift = 0; // of the digit
  bool descending = false;
  bool first = true; // places are those in the row
  bool last = false; // of all passes: writes the outputs
  bool keys = true;
};

// Numbers in the order of sort: NaN is above all, -0 below +0.
template <class T> Tile<std::uint32_t> orderedBits(const Tile<T> &x, bool descending) {
  constexpr std::uint32_t sign = 1u << (8 * sizeof(T) - 1), all = sign | (sign - 1);
  Tile<std::uint32_t> bits;
  if constexpr (std::is_integral_v<T>) {
    bits = bitcast<std::uint32_t>(x) ^ sign;
  } else {
    using Raw = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
    const auto raw = cast<std::uint32_t>(bitcast<Raw>(x));
    bits = where(x == x, where((raw & sign) != 0u, raw ^ all, raw | sign), all);
  }
  return descending ? bits ^ all : bits;
}
template <class T> Tile<std::int32_t> digitsOf(const Tile<T> &x, const DigitConfig &config) {
  return cast<std::int32_t>((orderedBits(x, config.descending) >> config.shift) &
                            static_cast<std::uint32_t>(digits - 1));
}

template <class T> struct CountArguments {
  View<const T, 2> x;
  View<std::int32_t, 3> counts; // of each row, block and digit
};

template <class T>
Kernel sortCount{"sort_count", [](const CountArguments<T> &a, const DigitConfig &config) {
                   const auto &[x, counts] = a;
                   auto block = program_id(0), row = program_id(1);
                   auto inside = block * config.block + arange(0, config.block) < x.extent(1);
                   auto values = x.at(row).tile(config.block).load(block);
                   counts.at(row, block)
                       .tile(digits)
                       .store(0, histogram(digitsOf(values, config), digits, inside));
                 }};

struct OffsetsArguments {
  View<const std::int32_t, 3> counts;
  View<std::int32_t, 3> offsets;
  View<std::int32_t, 2> totals;
};

struct OffsetsConfig {
  int block = 32, warps = 4; // blocks at once
};

constexpr int digitsTogether = 32;

// How many elements with a digit come in the blocks before, and in all.
Kernel sortOffsets{"sort_offsets", [](const OffsetsArguments &a, const OffsetsConfig &config) {
                     const auto &[counts, offsets, totals] = a;
                     auto column = program_id(0), row = program_id(1);
                     const auto from = counts.at(row).tile(config.block, digitsTogether);
                     const auto to = offsets.at(row).tile(config.block, digitsTogether);
                     auto before = zeros<std::int32_t>(digitsTogether);
                     for (auto block : range(0, cdiv(counts.extent(1), config.block))) {
                       auto here = from.load(block, column);
                       to.store(block, column,
                                cast<std::int32_t>(cumsum(here, 0)) - here + expand(before, 0));
                       before = before + cast<std::int32_t>(sum(here, 0));
                     }
                     totals.at(row).tile(digitsTogether).store(column, before);
                   }};

template <class T> struct ScatterArguments {
  View<const T, 2> x;
  View<const std::int32_t, 2> places;
  View<const std::int32_t, 3> counts, offsets;
  View<const std::int32_t, 2> totals;
  View<T, 2> y;
  View<std::int32_t, 2> to;
  View<std::int64_t, 2> indices;
};

// Sorts a block by one digit, which puts elements that go to neighbouring places beside each other,
// and writes each to its place in the row.
template <class T>
Kernel sortScatter{"sort_scatter", [](const ScatterArguments<T> &a, const DigitConfig &config) {
                     const auto &[x, places, counts, offsets, totals, y, to, indices] = a;
                     const int n = config.block;
                     auto block = program_id(0), row = program_id(1);
                     auto within = cast<std::int32_t>(arange(0, n));
                     auto index = block * n + arange(0, n);
                     auto values = x.at(row).tile(n).load(block);
                     auto digit = where(index < x.extent(1), digitsOf(values, config), digits);
                     auto sorted = sort(digit << bitsOfPlace | within, 0);
                     auto found = sorted >> bitsOfPlace, at = sorted & ((1 << bitsOfPlace) - 1);
                     auto startsOf = [](const Tile<std::int32_t> &many) {
                       return cast<std::int32_t>(cumsum(many, 0)) - many;
                     };
                     auto base = startsOf(totals.at(row).tile(digits).load(0)) +
                                 offsets.at(row, block).tile(digits).load(0) -
                                 startsOf(counts.at(row, block).tile(digits).load(0));
                     auto target = gather(base, minimum(found, digits - 1), 0) + within;
                     auto isInside = found < digits;
                     auto put = [&](const auto &view, const auto &what) {
                       store(view.ptr() + target * view.stride(0), what, isInside);
                     };
                     if (!config.last || config.keys) {
                       auto keys = gather(values, at, 0);
                       if constexpr (!std::is_integral_v<T>)
                         keys = where(keys == keys, keys, std::numeric_limits<float>::quiet_NaN());
                       put(y.at(row), keys);
                     }
                     Tile<std::int32_t> place = cast<std::int32_t>(block * n + at);
                     if (!config.first)
                       place = gather(places.at(row).tile(n).load(block), at, 0);
                     if (config.last)
                       put(indices.at(row), cast<std::int64_t>(place));
                     else
                       put(to.at(row), place);
                   }};

template <class T> void sortRows(Use &use, bool keys) {
  const std::int64_t n = use.call.extent("N"), rows = elementCount(use.call.leading);
  const SortConfig chosen{use.field("block"), use.field("warps"),
                          use.call.options.flag("descending"), keys};
  const auto x = use.rows<T>("x");
  const auto places = use.rows<std::int64_t>("indices");
  const Tensor<T, 2> none{nullptr, {}, {}};
  const Tensor<T, 2> y = keys ? use.rows<T>("y") : none;
  const std::int64_t blocks = ceilDiv(n, chosen.block);
  if (blocks <= 1) {
    use(sortBlocks<T>, Grid(blocks, rows), x, y, places, chosen);
    return;
  }
  // Back and forth between two arrays; the last pass writes the outputs.
  constexpr int passes = 8 * sizeof(T) / bitsOfDigit;
  auto pair = [&]<class U>(U) {
    const auto first = use.workspace<U, 2>({rows, n});
    return std::array{first, passes > 2 ? use.workspace<U, 2>({rows, n}) : first};
  };
  const auto sorted = pair(T{});
  const auto froms = pair(std::int32_t{});
  const auto counts = use.workspace<std::int32_t, 3>({rows, blocks, digits}),
             offsets = use.workspace<std::int32_t, 3>({rows, blocks, digits});
  const auto totals = use.workspace<std::int32_t, 2>({rows, digits});
  const OffsetsConfig scan{.block = static_cast<int>(powerFor(blocks, 1, 128)),
                           .warps = blocks > 16 ? 4 : 1};
  for (int pass = 0; pass < passes; ++pass) {
    const DigitConfig config{.block = chosen.block,
                             .warps = chosen.warps,
                             .shift = pass * bitsOfDigit,
                             .descending = chosen.descending,
                             .first = pass == 0,
                             .last = pass + 1 == passes,
                             .keys = keys};
    const std::size_t to = static_cast<std::size_t>(pass % 2), from = 1 - to;
    const auto source = config.first ? x : sorted[from];
    use(sortCount<T>, Grid(blocks, rows), config, {{"x", source}, {"counts", counts}});
    use(sortOffsets, Grid(digits / digitsTogether, rows), scan,
        {{"counts", counts}, {"offsets", offsets}, {"totals", totals}});
    use(sortScatter<T>, Grid(blocks, rows), config,
        {{"x", source},
         {"places", config.first ? noTensor<std::int32_t, 2>() : froms[from]},
         {"counts", counts},
         {"offsets", offsets},
         {"totals", totals},
         {"y", config.last ? y : sorted[to]},
         {"to", config.last ? noTensor<std::int32_t, 2>() : froms[to]},
         {"indices", config.last ? places : noTensor<std::int64_t, 2>()}});
  }
}

struct TopkConfig {
  int block = 1024, warps = 4;
  int best = 16;        // k, up to the next power of two
  bool digits = false;  // the last of the best is found by its digits, and only the best are sorted
  bool several = false; // blocks for a program, by digits
  bool largest = true;
};

// Where the best of some blocks are: what is better than the last of them, and of its equals the
// first, each in order. take(block) gives numbers of so many bits, the best of which is largest.
template <class Take>
Tile<std::int32_t> placesOfBest(const Int &blocks, int bits, const TopkConfig &config,
                                const Take &take) {
  const auto first = take(Int(0)); // stays in registers
  const auto forBlocks = [&](const auto &function) {
    function(first, Int(0));
    if (config.several)
      for (auto block : range(1, blocks))
        function(take(block), block);
  };
  const Kth last = kthByDigits(config.best, bits, [&](const auto &shift, const auto &begin) {
    auto all = zeros<std::int32_t>(256);
    forBlocks([&](const auto &x, const Int &) { all += digitCounts(x, shift, begin); });
    return all;
  });
  auto places = zeros<std::int32_t>(config.best);
  Tile<std::int32_t> betterBefore = 0, equalBefore = 0; // in other blocks
  forBlocks([&](const auto &x, const Int &block) {
    const auto better = x > last.bits, equal = x == last.bits;
    // One scan counts both: fewer are better than fit 15 bits, and a block is no longer than that.
    const auto either = where(better, 1 << 16, where(equal, 1, 0));
    const auto upTo = cast<std::int32_t>(cumsum(either, 0)), before = upTo - either;
    const auto equals = equalBefore + (before & 0xffff);
    const auto slot = where(better, betterBefore + (before >> 16),
                            static_cast<std::int32_t>(config.best) - last.place + equals);
    // Each slot gets one number, and so their sum.
    places += histogram(slot, config.best,
                        cast<std::int32_t>(block * config.block + arange(0, config.block)),
                        better || (equal && equals < last.place));
    if (config.several) {
      const auto all = max(upTo, 0);
      betterBefore += all >> 16;
      equalBefore += all & 0xffff;
    }
  });
  return places;
}

// Elements of a row that are held at once to find the best by digits.
constexpr std::int64_t longestByDigits = 4096;

// Four histograms, or two of 16 bits, wait for each other more often than a sort of a block in runs
// has steps, if both are short.
bool areBestByDigits(std::int64_t block, std::int64_t best) {
  return best >= 8 && block >= 1024 && block * best >= 1 << 14 && block >= 2 * best;
}

// The best of a block of each row; Merge: of what was best in such blocks, and where that was.
template <class T, bool Merge>
Kernel topkKernel{
    Merge ? "topk_merge" : "topk",
    [](View<const T, 2> x, View<const std::int64_t, 2> places, View<T, 3> y,
       View<std::int64_t, 3> to, const TopkConfig &config) {
      const auto part = program_id(0), row = program_id(1);
      const auto all = x.at(row);
      const auto filler = fillerOf<T>(config.largest);
      const auto blocks = all.tile(config.block).padding(filler);
      const auto best = [&] {
        if (!config.digits)
          return topk(blocks.load(part), config.best, 0, config.largest);
        const auto found = placesOfBest(
            cdiv(x.extent(1), config.block), 8 * sizeof(T), config, [&](const Int &block) {
              return orderedBits(blocks.load(part + block), !config.largest);
            });
        const auto index = part * config.block + found;
        const auto values = load(all.ptr() + index * all.stride(0), index < all.extent(0), filler);
        auto [sorted, at] = topk(values, config.best, 0, config.largest);
        return std::tuple(sorted, gather(found, at, 0));
      }();
      const auto &[values, at] = best;
      y.at(row, part).tile(config.best).store(0, values);
      auto index = cast<std::int64_t>(part * config.block) + cast<std::int64_t>(at);
      if constexpr (Merge)
        index = load(places.at(row).ptr() + index * places.stride(1));
      to.at(row, part).tile(config.best).store(0, index);
    }};

// Rows of more than a block in parts, each by a program of its own, and then the best of the parts'
// best.
template <class T> void topkRows(Use &use) {
  const std::int64_t n = use.call.extent("N"), k = use.call.extent("K"),
                     rows = elementCount(use.call.leading);
  auto chosen = use.config_as(TopkConfig{.best = static_cast<int>(powerFor(k, 1, 1024)),
                                         .largest = use.call.options.flag("largest")});
  // A block that has fewer elements is refused where it is to be sorted.
  chosen.digits = chosen.digits && chosen.block >= chosen.best;
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
  const std::int64_t left = parts * chosen.best;
  const auto best = use.workspace<T, 2>({rows, left});
  const auto where = use.workspace<std::int64_t, 2>({rows, left});
  use(topkKernel<T, false>, Grid(parts, rows), use.rows<T>("x"), noTensor<std::int64_t, 2>(),
      asParts(best, parts), asParts(where, parts), chosen);
  TopkConfig last = chosen;
  last.block =
      static_cast<int>(powerFor(left, 64, std::max<std::int64_t>(chosen.block, longestByDigits)));
  last.warps = std::max(chosen.warps, last.block / 1024);
  last.several = left > last.block;
  last.digits = last.several || areBestByDigits(last.block, last.best);
  use(topkKernel<T, true>, Grid(1, rows), best, where, asParts(y, 1), asParts(indices, 1), last);
}

// Rows that are sorted in one block.
constexpr std::int64_t longest = 4096;

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
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return sortReference(call, inputs, arithmetic, call.options.flag("descending"),
                         call.extent("N"));
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t n = call.extent("N");
    return n <= longest ? Config{{"block", powerFor(n, 64, longest)}, {"warps", n <= 1024 ? 4 : 8}}
                        : Config{{"block", 2048}, {"warps", 8}};
  };
  spec.spaces = {
      {.axes = {{"block", {64, 128, 256, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"), n = call.extent("N");
         return config.at("warps") * warpSize(target) <= block &&
                (n <= longest ? block == powerFor(n, 64, longest) : block >= 1024);
       }}};
  spec.check = [name](const Invocation &call) {
    if (call.extent("N") > std::numeric_limits<std::int32_t>::max())
      throw InputError(std::string(name) + ": rows have at most 2147483647 elements, these have " +
                       std::to_string(call.extent("N")));
  };
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
  spec.config = {{"block", "elements of a row held at once, at least k", 1, 1 << 15},
                 {"warps", "warps of one program"},
                 {"digits",
                  "1: the k-th is found by its digits, and only the k best are sorted; 0: "
                  "a block is sorted in runs of k",
                  0, 1}};
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
    const std::int64_t n = call.extent("N"), best = powerFor(call.extent("K"), 1, 1024),
                       wide = powerFor(n, 64, longestByDigits);
    const bool digits = areBestByDigits(wide, best);
    const std::int64_t block = digits ? wide : std::max(best, powerFor(n, 64, 2048));
    return Config{{"block", block}, {"warps", 4}, {"digits", digits}};
  };
  spec.spaces = {
      {.part = "topk",
       .axes = {{"block", {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                {"warps", {1, 2, 4, 8}},
                {"digits", {0, 1}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return block >= call.extent("K") && block >= threads &&
                (config.at("digits") ? block >= 512 && block <= 64 * threads : block <= 4096);
       }}};
  spec.apply = [](Use &use) {
    for_dtype<float, half, bfloat16, std::int32_t>(use.call.dtype("x"),
                                                   [&]<class T>(T) { topkRows<T>(use); });
  };
  return spec;
}
