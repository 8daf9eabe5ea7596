// scan: each element of a row combined with all before it, or behind it, as torch.cumsum, cumprod,
// cummax and cummin: y[i] = x[0] + ... + x[i] and so on. From a NaN on all are NaN.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>
#include <sectile/tuning.h>

using namespace sectile;

namespace {

enum Op { sumOp, prodOp, maxOp, minOp };

struct ScanConfig {
  int block = 1024, rows = 1, warps = 4;
  int op = sumOp;
  bool reverse = false;
  int parts = 1; // of a row, up to a power of two
};

template <class T, class A, class Out> struct ScanArguments {
  View<const T, 2> x;
  View<const A, 2> totals; // of each row's parts, where there are several
  View<Out, 2> y;
  Int length; // of a part
};

// What a scan combines, and with what it begins. Extremes are combined in T, sums and products in
// A.
template <class T, class A, bool extremes> struct Combining {
  const ScanConfig &config;
  const bool largest = config.op == maxOp, product = config.op == prodOp;

  auto neutral() const {
    if constexpr (extremes)
      return largest ? lowestOf<T>() : highestOf<T>();
    else
      return product ? 1 : 0;
  }
  Tile<A> join(const Tile<A> &a, const Tile<A> &b) const {
    if constexpr (extremes)
      return largest ? maximum(a, b, Nan::propagate) : minimum(a, b, Nan::propagate);
    else
      return product ? a * b : a + b;
  }
  Tile<A> total(const Tile<A> &values) const {
    if constexpr (extremes)
      return largest ? max(values, 1, Nan::propagate) : min(values, 1, Nan::propagate);
    else
      return product ? prod(values, 1) : sum(values, 1);
  }
  Tile<A> scan(const Tile<A> &values) const {
    if constexpr (extremes)
      return largest ? cummax(values, 1, config.reverse, Nan::propagate)
                     : cummin(values, 1, config.reverse, Nan::propagate);
    else
      return product ? cumprod(values, 1, config.reverse) : cumsum(values, 1, config.reverse);
  }
};

// What the parts of a row come to.
template <class T, class A, bool extremes>
Kernel scanTotals{"scan_totals",
                  [](View<const T, 2> x, View<A, 2> totals, Int length, const ScanConfig &config) {
                    const Combining<T, A, extremes> by{config};
                    const int m = config.rows, n = config.block;
                    auto row = program_id(0), part = program_id(1);
                    auto start = part * length;
                    auto own = x.slice(1, start, minimum(length, x.extent(1) - start));
                    auto from = own.tile(m, n).padding(by.neutral());
                    auto all = cast<A>(from.load(row, 0));
                    for (auto block : range(1, cdiv(own.extent(1), n), {.unroll = 4}))
                      all = by.join(all, cast<A>(from.load(row, block)));
                    totals.fix(1, part).tile(m).store(row, by.total(all));
                  }};

template <class T, class A, class Out, bool extremes>
Kernel scanRows{"scan", [](const ScanArguments<T, A, Out> &a, const ScanConfig &config) {
                  const auto &[x, totals, y, length] = a;
                  const Combining<T, A, extremes> by{config};
                  const int m = config.rows, n = config.block;
                  auto row = program_id(0), part = program_id(1);
                  auto start = part * length;
                  auto count = minimum(length, x.extent(1) - start);
                  auto from = x.slice(1, start, count).tile(m, n).padding(by.neutral());
                  auto to = y.slice(1, start, count).tile(m, n);
                  auto carried = full<A>(by.neutral(), m);
                  if (config.parts > 1) {
                    auto at = arange(0, config.parts);
                    auto isBefore = config.reverse ? at > part && at < totals.extent(1) : at < part;
                    carried = by.total(where(expand(isBefore, 0),
                                             totals.tile(m, config.parts).load(row, 0),
                                             full<A>(by.neutral(), m, config.parts)));
                  }
                  auto blocks = cdiv(count, n);
                  for (auto step : range(0, blocks)) {
                    Int block = step;
                    if (config.reverse)
                      block = blocks - 1 - step;
                    auto values = cast<A>(from.load(row, block));
                    to.store(row, block, by.join(by.scan(values), expand(carried, 1)));
                    carried = by.join(carried, by.total(values));
                  }
                }};

// As many as a chip runs at once, and parts of a row that one program adds up.
constexpr std::int64_t programs = 512, mostParts = 128, typicalRows = 1024;

int opOf(const Invocation &call) { return choiceOf(call, "op"); }

} // namespace

KernelSpec sectile::scanSpec() {
  KernelSpec spec;
  spec.name = "scan";
  spec.summary = "y[i] = x[0] to x[i] of each row combined";
  const auto dtypeOf = [](const Invocation &call) {
    return opOf(call) <= prodOp && call.dtype("x") == DType::int32 ? DType::int64 : call.dtype("x");
  };
  spec.add_arguments(
      {rowsArgument("rows of any length"),
       {"-> y: [..., N]", "like x; sums and products of integers are i64", {.dtype_by = dtypeOf}}});
  spec.add_options({{"op: cumsum|cumprod|cummax|cummin = cumsum", "how elements are combined"},
                    {"reverse: flag = false", "y[i] combines x[i] to the last"}});
  configureRows(spec, "N");
  // Longer rows go in blocks: a scan of more takes longer than what they carry. Where rows are cut
  // into parts too, smaller blocks make parts more alike.
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t count = elementCount(call.leading), length = call.extent("N");
    const auto [block, rows, warps] =
        rowBlocksFor(count, length, length <= 32768 ? 8192 : 2048, call.dtype("x"), target);
    const std::int64_t most = count < 4 * multiprocessors(target) ? 8 : 4;
    return Config{{"block", block}, {"rows", rows}, {"warps", std::min(warps, most)}};
  };
  spec.typical = {{"...", 1024}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 200}};
  spec.reference = scanReference;
  spec.apply = [](Use &use) {
    const int op = opOf(use.call);
    auto config = use.config_as(ScanConfig{.op = op, .reverse = use.call.options.flag("reverse")});
    const std::int64_t n = use.extent("N"), rows = use.extent("..."),
                       grid = n ? ceilDiv(rows, config.rows) : 0;
    // Few long rows are cut into parts, of several blocks each.
    const std::int64_t beside =
        numerics() == Numerics::fixed ? ceilDiv(typicalRows, config.rows) : grid;
    const std::int64_t wanted = std::clamp<std::int64_t>(
        std::min(programs / std::max<std::int64_t>(beside, 1), ceilDiv(n, 4 * config.block)), 1,
        mostParts);
    const std::int64_t length =
        std::max<std::int64_t>(ceilDiv(ceilDiv(n, wanted), config.block), 1) * config.block;
    const std::int64_t parts = std::max<std::int64_t>(ceilDiv(n, length), 1);
    config.parts = static_cast<int>(powerFor(parts, 1, mostParts));
    auto scanned = [&]<class T, class A, class Out, bool extremes>(std::tuple<T, A, Out>,
                                                                   std::bool_constant<extremes>) {
      auto totals = noTensor<A, 2>();
      if (parts > 1) {
        totals = use.workspace<A, 2>({rows, parts});
        use(scanTotals<T, A, extremes>, Grid(grid, parts), use.rows<T>("x"), totals, length,
            config);
      }
      use(scanRows<T, A, Out, extremes>, Grid(grid, parts), config,
          {{"totals", totals}, {"length", length}});
    };
    for_dtype<float, half, bfloat16, std::int32_t>(use.call.dtype("x"), [&]<class T>(T zero) {
      using Wide = std::conditional_t<std::integral<T>, std::int64_t, float>;
      using Out = std::conditional_t<std::integral<T>, std::int64_t, T>;
      if (op == maxOp || op == minOp)
        scanned(std::tuple(zero, zero, zero), std::true_type());
      else
        scanned(std::tuple(zero, Wide{}, Out{}), std::false_type());
    });
  };
  return spec;
}
