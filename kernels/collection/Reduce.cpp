// reduce: a row to one number, y = x[0] + ... + x[N - 1] and so on, as torch.sum, mean, prod, amax,
// amin, argmax and argmin along the last axis. A NaN makes y NaN, or its place. Refused: extremes
// of no elements, the mean of integers. Few long rows are cut into parts that programs share; a
// second launch puts the parts together, always in the same order.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/tuning.h>

using namespace sectile;

namespace {

enum Op { sumOp, meanOp, prodOp, maxOp, minOp, argmaxOp, argminOp };

struct ReduceConfig {
  int block = 1024, rows = 1, warps = 4;
  int op = sumOp;
  bool last = true;  // what is written are the results, not those of parts
  bool whole = true; // a part fits a block
  bool wide = false; // places within a part have 64 bits
};

// Nobody reads an element again: what other kernels left in the caches stays there.
constexpr Access once{.eviction = Eviction::first};

// Part program_id(1) of the rows program_id(0), of `length` elements except for the last part.
template <class T, class A, class Out>
Kernel fold{"reduce", [](View<const T, 2> x, View<Out, 2> y, Int length, Float count,
                         const ReduceConfig &config) {
              const int m = config.rows, n = config.block;
              auto part = program_id(1), row = program_id(0);
              auto start = part * length;
              auto own = x.slice(1, start, minimum(length, x.extent(1) - start));
              const auto blocks = own.tile(m, n).access(once);
              const bool largest = config.op == maxOp, product = config.op == prodOp;
              // A part that fits is loaded without a loop, all of it at once.
              auto combined = [&](const auto &load, const auto &combine) {
                auto total = load(0);
                if (!config.whole)
                  for (auto block : range(1, cdiv(own.extent(1), n), {.unroll = 4}))
                    total = combine(total, load(block));
                return total;
              };
              auto put = [&](const Tile<A> &value) { y.fix(1, part).tile(m).store(row, value); };
              if (config.op == maxOp || config.op == minOp) {
                if constexpr (std::same_as<T, A>) {
                  auto from = blocks.padding(largest ? lowestOf<T>() : highestOf<T>());
                  auto best = combined([&](const Int &block) { return from.load(row, block); },
                                       [&](const Tile<T> &a, const Tile<T> &b) {
                                         return largest ? maximum(a, b, Nan::propagate)
                                                        : minimum(a, b, Nan::propagate);
                                       });
                  put(largest ? max(best, 1, Nan::propagate) : min(best, 1, Nan::propagate));
                }
                return;
              }
              auto from = blocks.padding(product ? 1 : 0);
              auto total = combined(
                  [&](const Int &block) { return cast<A>(from.load(row, block)); },
                  [&](const Tile<A> &a, const Tile<A> &b) { return product ? a * b : a + b; });
              if (product) {
                put(prod(total, 1));
                return;
              }
              Tile<A> result = sum(total, 1);
              if constexpr (std::same_as<A, float>)
                if (config.op == meanOp && config.last)
                  result = result / count;
              put(result);
            }};

// The place of the largest or smallest element: NaN before all, of equals the first. `places` says
// where the elements were, if they are those of parts; else places within the part fit P.
template <class P, class T>
void findPlaces(const View<const T, 2> &x, const View<const std::int64_t, 2> &places,
                const View<T, 2> &best, const View<std::int64_t, 2> &y, const Int &length,
                const ReduceConfig &config) {
  const int m = config.rows, n = config.block;
  auto part = program_id(1), row = program_id(0);
  auto start = part * length;
  auto own = minimum(length, x.extent(1) - start);
  const bool largest = config.op == argmaxOp;
  const auto worst = largest ? lowestOf<T>() : highestOf<T>();
  constexpr P nowhere = std::numeric_limits<P>::max();
  auto from = x.slice(1, start, own).tile(m, n).padding(worst);
  auto fromPlaces = places.slice(1, start, own).tile(m, n);
  auto better = [largest](const auto &a, const auto &i, const auto &b, const auto &j) {
    auto aIsNan = a != a, bIsNan = b != b;
    auto equal = a == b || (aIsNan && bIsNan);
    auto ahead = largest ? a > b : a < b;
    return (ahead && !bIsNan) || (aIsNan && !bIsNan) || (equal && i < j);
  };
  auto placesOf = [&](const Int &block) {
    auto within = expand(block * n + arange(0, n), 0);
    Tile<P> place = cast<P>(within);
    if constexpr (std::same_as<P, std::int64_t>)
      if (config.last)
        place = fromPlaces.load(row, block);
    return where(within < own, place, nowhere);
  };
  auto values = from.load(row, 0);
  auto at = zeros<P>(m, n) + placesOf(0);
  if (!config.whole)
    for (auto block : range(1, cdiv(own, n))) {
      auto next = from.load(row, block);
      auto place = placesOf(block);
      auto wins = better(next, place, values, at);
      values = where(wins, next, values);
      at = where(wins, place, at);
    }
  auto [value, place] = detail::combineSeveral(
      detail::Combining::reduce, std::tuple(values, at), detail::Extent(1),
      [&](auto a, auto i, auto b, auto j) {
        auto wins = better(a, i, b, j);
        return std::tuple(where(wins, a, b), where(wins, i, j));
      },
      true);
  if (!config.last)
    best.fix(1, part).tile(m).store(row, value);
  auto there = cast<std::int64_t>(place);
  if (!config.last)
    there = there + cast<std::int64_t>(start);
  y.fix(1, part).tile(m).store(row, there);
}
template <class T>
Kernel find{"reduce_places",
            [](View<const T, 2> x, View<const std::int64_t, 2> places, View<T, 2> best,
               View<std::int64_t, 2> y, Int length, const ReduceConfig &config) {
              config.wide ? findPlaces<std::int64_t>(x, places, best, y, length, config)
                          : findPlaces<std::int32_t>(x, places, best, y, length, config);
            }};

int opOf(const Invocation &call) { return choiceOf(call, "op"); }

// As many as a large chip runs at once, and what each of them holds of a row that several share.
constexpr std::int64_t programs = 1024, longestPart = 2048, typicalRows = 1024;

// What a row of `n` is cut into. Tuned configurations must not change it: they would be compared
// with what other parts come to. A second launch costs more than reading a row of 32768 at once.
struct Parts {
  std::int64_t length, count;
};
Parts partsOf(std::int64_t rows, std::int64_t n) {
  constexpr std::int64_t longestAlone = 16 * longestPart;
  const std::int64_t beside = numerics() == Numerics::fixed ? typicalRows : rows;
  const std::int64_t wanted =
      n <= longestAlone
          ? 1
          : std::clamp<std::int64_t>(
                std::min(programs / std::max<std::int64_t>(beside, 1), ceilDiv(n, 4 * longestPart)),
                1, programs);
  const std::int64_t length =
      std::max<std::int64_t>(ceilDiv(ceilDiv(n, wanted), longestPart), 1) * longestPart;
  return {length, std::max<std::int64_t>(ceilDiv(n, length), 1)};
}

// [R] as [R, 1].
template <class T> Tensor<T, 2> column(const Tensor<T, 1> &x) {
  return {x.data(), {x.extent(0), 1}, {x.stride(0), 1}, x.memory()};
}

} // namespace

KernelSpec sectile::reduceSpec() {
  KernelSpec spec;
  spec.name = "reduce";
  spec.summary = "y = sum, mean, product, extreme or its place of each row of x";
  const auto dtypeOf = [](const Invocation &call) {
    const int op = opOf(call);
    const bool wide =
        op == argmaxOp || op == argminOp || (op <= prodOp && call.dtype("x") == DType::int32);
    return wide ? DType::int64 : call.dtype("x");
  };
  spec.add_arguments({rowsArgument("rows of any length; a single axis is all elements"),
                      {"-> y: [...]",
                       "like x; places, and sums and products of integers, are i64",
                       {.dtype_by = dtypeOf}}});
  spec.add_options({{"op: sum|mean|prod|max|min|argmax|argmin = sum", "what is worked out"}});
  configureRows(spec, "N");
  // Few long rows are cut into parts, for which smaller programs are better.
  const auto many = spec.defaults;
  spec.defaults = [many](const Invocation &call, const std::string &target) {
    const std::int64_t rows = elementCount(call.leading), n = call.extent("N");
    const Parts parts = partsOf(rows, n);
    const std::int64_t length = std::min(n, parts.length);
    // Programs that have a multiprocessor to themselves wait for memory once, with all of a row in
    // flight.
    if (rows * parts.count < 2 * multiprocessors(target) && length > longestPart) {
      const std::int64_t block = std::min(powerAtLeast(length), 8 * longestPart);
      return Config{{"block", block},
                    {"rows", 1},
                    {"warps", std::min<std::int64_t>(block / 8 / warpSize(target), 16)}};
    }
    // Places take registers, too.
    constexpr std::int64_t longestOfPlaces = 4096;
    if (parts.count > 1 || (opOf(call) >= argmaxOp && n > longestOfPlaces)) {
      const RowBlocks row = rowBlocksFor(
          rows, length, parts.count > 1 ? longestPart : longestOfPlaces, call.dtype("x"), target);
      return Config{{"block", row.block}, {"rows", row.rows}, {"warps", row.warps}};
    }
    Config config = many(call, target);
    // More warps have more loads in flight, which is all that a sum waits for.
    std::int64_t &warps = config["warps"];
    if (warps == 4 && config["block"] * config["rows"] > 32 * warps * warpSize(target))
      warps = 8;
    return config;
  };
  spec.typical = {{"...", typicalRows}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 200}};
  spec.check = [](const Invocation &call) {
    const int op = opOf(call);
    if (op == meanOp && call.dtype("x") == DType::int32)
      throw InputError("reduce: the mean is of floats only");
    if (op >= maxOp && call.extent("N") == 0 && elementCount(call.leading) != 0)
      throw InputError("reduce: a row without elements has no " + call.options.choice("op"));
  };
  spec.reference = reduceReference;
  spec.apply = [](Use &use) {
    const int op = opOf(use.call);
    const std::int64_t n = use.call.extent("N"), rows = elementCount(use.call.leading),
                       block = use.field("block"), together = use.field("rows");
    const std::int64_t grid = ceilDiv(rows, together);
    const auto [length, parts] = partsOf(rows, n);
    // Of the rows themselves, or of what their parts came to.
    const ReduceConfig chosen{.block = use.field("block"),
                              .rows = use.field("rows"),
                              .warps = use.field("warps"),
                              .op = op,
                              .last = true,
                              .whole = (parts == 1 ? n : parts) <= block};
    ReduceConfig first = chosen;
    first.last = false;
    first.whole = length <= block;
    const auto count = static_cast<float>(n);
    auto folded = [&]<class T, class A, class Out>(T, A, Out) {
      const auto x = use.rows<T>("x");
      const auto y = column(use.elements<Out>("y"));
      if (parts == 1) {
        use(fold<T, A, Out>, Grid(grid), x, y, length, count, chosen);
        return;
      }
      const auto between = use.workspace<A, 2>({rows, parts});
      use(fold<T, A, A>, Grid(grid, parts), x, between, length, count, first);
      use(fold<A, A, Out>, Grid(grid), between, y, parts, count, chosen);
    };
    for_dtype<float, half, bfloat16, std::int32_t>(use.call.dtype("x"), [&]<class T>(T zero) {
      using Wide = std::conditional_t<std::integral<T>, std::int64_t, float>;
      using Out = std::conditional_t<std::integral<T>, std::int64_t, T>;
      if (op == argmaxOp || op == argminOp) {
        const auto best = use.workspace<T, 2>({rows, parts});
        const auto places = use.workspace<std::int64_t, 2>({rows, parts});
        const auto y = column(use.elements<std::int64_t>("y"));
        const auto x = use.rows<T>("x");
        const auto to = parts == 1 ? y : places;
        ReduceConfig whole = chosen;
        whole.wide = true;
        first.wide = length > std::numeric_limits<std::int32_t>::max();
        use(find<T>, Grid(grid, parts), x, places, best, to, length, first);
        if (parts > 1)
          use(find<T>, Grid(grid), best, places, best, y, parts, whole);
      } else if (op == maxOp || op == minOp) {
        folded(zero, zero, zero);
      } else {
        folded(zero, Wide{}, Out{});
      }
    });
  };
  return spec;
}
