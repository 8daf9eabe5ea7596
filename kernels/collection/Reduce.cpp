// reduce: a row to one number, y = x[0] + ... + x[N - 1] and so on, as torch.sum, mean, prod, amax,
// amin, argmax and argmin along the last axis. A NaN makes y NaN, or its place. Refused: extremes
// of no elements, the mean of integers. Few long rows are cut into parts that programs share; a
// second launch puts the parts together, always in the same order.
#include "kernels/InputError.h"
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>

using namespace sectile;

namespace {

enum Op { sumOp, meanOp, prodOp, maxOp, minOp, argmaxOp, argminOp };
const std::vector<std::string> names = {"sum", "mean", "prod", "max", "min", "argmax", "argmin"};

struct ReduceConfig {
  int block = 1024, warps = 4;
  int op = sumOp;
  bool last = true; // what is written are the results, not those of parts
};
SECTILE_CONFIG(ReduceConfig, block, warps, op, last)

// Part program_id(0) of row program_id(1), of `length` elements but the last.
template <class T, class A, class Out>
Kernel fold{
    "reduce",
    [](View<const T, 2> x, View<Out, 2> y, Int length, Float count, const ReduceConfig &config) {
      auto part = program_id(1), row = program_id(0);
      auto start = part * length;
      auto own = x.at(row).slice(0, start, minimum(length, x.extent(1) - start));
      const bool largest = config.op == maxOp, product = config.op == prodOp;
      auto put = [&](const auto &value) { y.at(row).tile(1).store(part, full<A>(value, 1)); };
      auto blocks = range(0, cdiv(own.extent(0), config.block));
      if (config.op == maxOp || config.op == minOp) {
        if constexpr (std::same_as<T, A>) {
          auto from = own.tile(config.block).padding(largest ? lowestOf<T>() : highestOf<T>());
          auto best = full<T>(largest ? lowestOf<T>() : highestOf<T>(), config.block);
          for (auto block : blocks) {
            auto values = from.load(block);
            best = largest ? maximum(best, values, Nan::propagate)
                           : minimum(best, values, Nan::propagate);
          }
          put(largest ? max(best, 0, Nan::propagate) : min(best, 0, Nan::propagate));
        }
        return;
      }
      auto from = own.tile(config.block).padding(product ? 1 : 0);
      auto total = full<A>(product ? 1 : 0, config.block);
      for (auto block : blocks) {
        auto values = cast<A>(from.load(block));
        total = product ? total * values : total + values;
      }
      if (product) {
        put(prod(total, 0));
        return;
      }
      Tile<A> result = sum(total, 0);
      if constexpr (std::same_as<A, float>)
        if (config.op == meanOp && config.last)
          result = result / count;
      put(result);
    }};

// The place of the largest or smallest element: NaN before all, of equals the first. `places` says
// where the elements were, if they are those of parts.
template <class T>
Kernel find{
    "reduce_places", [](View<const T, 2> x, View<const std::int64_t, 2> places, View<T, 2> best,
                        View<std::int64_t, 2> y, Int length, const ReduceConfig &config) {
      auto part = program_id(1), row = program_id(0);
      auto start = part * length;
      auto n = minimum(length, x.extent(1) - start);
      const bool largest = config.op == argmaxOp;
      const auto worst = largest ? lowestOf<T>() : highestOf<T>();
      constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();
      auto from = x.at(row).slice(0, start, n).tile(config.block).padding(worst);
      auto fromPlaces = places.at(row).slice(0, start, n).tile(config.block);
      auto values = full<T>(worst, config.block);
      auto at = full<std::int64_t>(nowhere, config.block);
      auto better = [largest](const auto &a, const auto &i, const auto &b, const auto &j) {
        auto aIsNan = a != a, bIsNan = b != b;
        auto equal = a == b || (aIsNan && bIsNan);
        auto ahead = largest ? a > b : a < b;
        return (ahead && !bIsNan) || (aIsNan && !bIsNan) || (equal && i < j);
      };
      for (auto block : range(0, cdiv(n, config.block))) {
        auto within = block * config.block + arange(0, config.block);
        auto next = from.load(block);
        auto place = config.last ? fromPlaces.load(block) : cast<std::int64_t>(start + within);
        place = where(within < n, place, nowhere);
        auto wins = better(next, place, values, at);
        values = where(wins, next, values);
        at = where(wins, place, at);
      }
      auto [value, place] = reduce(std::tuple(values, at), 0, [&](auto a, auto i, auto b, auto j) {
        auto wins = better(a, i, b, j);
        return std::tuple(where(wins, a, b), where(wins, i, j));
      });
      if (!config.last)
        best.at(row).tile(1).store(part, full<T>(value, 1));
      y.at(row).tile(1).store(part, full<std::int64_t>(place, 1));
    }};

int opOf(const Invocation &call) {
  return static_cast<int>(std::find(names.begin(), names.end(), call.options.choice("op")) -
                          names.begin());
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
  spec.arguments = {rowsArgument("rows of any length; a single axis is all elements"),
                    {.name = "y",
                     .output = true,
                     .axes = {"..."},
                     .dtypeBy =
                         [](const Invocation &call) {
                           const int op = opOf(call);
                           const bool wide = op == argmaxOp || op == argminOp ||
                                             (op <= prodOp && call.dtype("x") == DType::int32);
                           return wide ? DType::int64 : call.dtype("x");
                         },
                     .doc = "like x; places, and sums and products of integers, are i64"}};
  spec.options = {{.name = "op",
                   .kind = OptionSpec::choice,
                   .initial = "sum",
                   .choices = names,
                   .doc = "what is worked out"}};
  spec.config = blockConfig;
  spec.typical = {{"...", 1024}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 200}};
  spec.check = [](const Invocation &call) {
    const int op = opOf(call);
    if (op == meanOp && call.dtype("x") == DType::int32)
      throw InputError("reduce: the mean is of floats only");
    if (op >= maxOp && call.extent("N") == 0 && elementCount(call.leading) != 0)
      throw InputError("reduce: a row without elements has no " +
                       names[static_cast<std::size_t>(op)]);
  };
  spec.reference = reduceReference;
  spec.defaults = blockDefaults;
  spec.spaces = blockSpaces("");
  spec.apply = [](Use &use) {
    const int op = opOf(use.call);
    const std::int64_t n = use.call.extent("N"), rows = elementCount(use.call.leading),
                       block = use.field("block");
    // As many programs as a large chip runs at once, each with several blocks.
    const std::int64_t wanted = std::clamp<std::int64_t>(
        std::min(512 / std::max<std::int64_t>(rows, 1), ceilDiv(n, 4 * block)), 1, 512);
    const std::int64_t length =
        std::max<std::int64_t>(ceilDiv(ceilDiv(n, wanted), block), 1) * block;
    const std::int64_t parts = std::max<std::int64_t>(ceilDiv(n, length), 1);
    ReduceConfig chosen{use.field("block"), use.field("warps"), op, true};
    const auto count = static_cast<float>(n);
    auto folded = [&]<class T, class A, class Out>(T, A, Out) {
      const auto x = use.rows<T>("x");
      const auto y = column(use.elements<Out>("y"));
      if (parts == 1) {
        use(fold<T, A, Out>, Grid(rows), x, y, length, count, chosen);
        return;
      }
      const auto between = use.workspace<A, 2>({rows, parts});
      ReduceConfig first = chosen;
      first.last = false;
      use(fold<T, A, A>, Grid(rows, parts), x, between, length, count, first);
      use(fold<A, A, Out>, Grid(rows), between, y, parts, count, chosen);
    };
    forDType<float, half, bfloat16, std::int32_t>(use.call.dtype("x"), [&]<class T>(T zero) {
      using Wide = std::conditional_t<std::integral<T>, std::int64_t, float>;
      using Out = std::conditional_t<std::integral<T>, std::int64_t, T>;
      if (op == argmaxOp || op == argminOp) {
        const auto best = use.workspace<T, 2>({rows, parts});
        const auto places = use.workspace<std::int64_t, 2>({rows, parts});
        ReduceConfig first = chosen;
        first.last = false;
        const auto y = column(use.elements<std::int64_t>("y"));
        use(find<T>, Grid(rows, parts), use.rows<T>("x"), places, best, parts == 1 ? y : places,
            length, first);
        if (parts > 1)
          use(find<T>, Grid(rows), best, places, best, y, parts, chosen);
      } else if (op == maxOp || op == minOp) {
        folded(zero, zero, zero);
      } else {
        folded(zero, Wide{}, Out{});
      }
    });
  };
  return spec;
}
