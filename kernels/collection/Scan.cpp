// scan: each element of a row combined with all before it, or behind it, as torch.cumsum, cumprod,
// cummax and cummin: y[i] = x[0] + ... + x[i] and so on. From a NaN on all are NaN.
#include "kernels/RowBlocks.h"
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>

using namespace sectile;

namespace {

enum Op { sumOp, prodOp, maxOp, minOp };

struct ScanConfig {
  int block = 1024, rows = 1, warps = 4;
  int op = sumOp;
  bool reverse = false;
};
SECTILE_CONFIG(ScanConfig, block, rows, warps, op, reverse)

template <class T, class Out> struct ScanArguments {
  View<const T, 2> x;
  View<Out, 2> y;
};
template <class T, class Out>
SECTILE_STRUCT((ScanArguments<T, Out>), x, y)

// Extremes are combined in T, sums and products in A.
template <class T, class A, class Out, bool extremes>
Kernel scanRows{
    "scan", [](const ScanArguments<T, Out> &a, const ScanConfig &config) {
      const auto &[x, y] = a;
      const int m = config.rows, n = config.block;
      auto row = program_id(0);
      const bool largest = config.op == maxOp, product = config.op == prodOp;
      const auto worst = largest ? lowestOf<T>() : highestOf<T>();
      auto from = extremes ? x.tile(m, n).padding(worst) : x.tile(m, n).padding(product ? 1 : 0);
      auto to = y.tile(m, n);
      Tile<A> carried = extremes ? full<A>(worst, m) : full<A>(product ? 1 : 0, m);
      auto join = [&](const Tile<A> &a, const Tile<A> &b) {
        if (extremes)
          return largest ? maximum(a, b, Nan::propagate) : minimum(a, b, Nan::propagate);
        return product ? a * b : a + b;
      };
      auto blocks = cdiv(x.extent(1), n);
      for (auto step : range(0, blocks)) {
        Int block = step;
        if (config.reverse)
          block = blocks - 1 - step;
        auto values = cast<A>(from.load(row, block));
        const bool reverse = config.reverse;
        if constexpr (extremes) {
          to.store(row, block,
                   join(largest ? cummax(values, 1, reverse, Nan::propagate)
                                : cummin(values, 1, reverse, Nan::propagate),
                        expand(carried, 1)));
          carried = join(carried,
                         largest ? max(values, 1, Nan::propagate) : min(values, 1, Nan::propagate));
        } else {
          to.store(row, block,
                   join(product ? cumprod(values, 1, reverse) : cumsum(values, 1, reverse),
                        expand(carried, 1)));
          carried = join(carried, product ? prod(values, 1) : sum(values, 1));
        }
      }
    }};

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
  // Longer rows go in blocks: a scan of more takes longer than what they carry.
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const RowBlocks shape =
        rowBlocksFor(elementCount(call.leading), call.extent("N"), 2048, call.dtype("x"), target);
    return Config{{"block", shape.block}, {"rows", shape.rows}, {"warps", shape.warps}};
  };
  spec.typical = {{"...", 1024}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 200}};
  spec.reference = scanReference;
  spec.apply = [](Use &use) {
    const int op = opOf(use.call);
    const auto config =
        use.config_as(ScanConfig{.op = op, .reverse = use.call.options.flag("reverse")});
    const std::int64_t programs = use.extent("N") ? ceilDiv(use.extent("..."), config.rows) : 0;
    auto scanned = [&]<class T, class A, class Out, bool extremes>(std::tuple<T, A, Out>,
                                                                   std::bool_constant<extremes>) {
      use(scanRows<T, A, Out, extremes>, programs, config);
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
