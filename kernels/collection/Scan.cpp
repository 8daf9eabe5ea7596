// scan: each element of a row combined with all before it, or behind it, as torch.cumsum, cumprod,
// cummax and cummin: y[i] = x[0] + ... + x[i] and so on. From a NaN on all are NaN.
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <cmath>

using namespace sectile;

namespace {

enum Op { sumOp, prodOp, maxOp, minOp };
const std::vector<std::string> names = {"cumsum", "cumprod", "cummax", "cummin"};

struct ScanConfig {
  int block = 1024, warps = 4;
  int op = sumOp;
  bool reverse = false;
};
SECTILE_CONFIG(ScanConfig, block, warps, op, reverse)

// Extremes are combined in T, sums and products in A.
template <class T, class A, class Out, bool extremes>
Kernel scanRows{
    "scan", [](View<const T, 2> x, View<Out, 2> y, const ScanConfig &config) {
      auto row = program_id(0);
      const bool largest = config.op == maxOp, product = config.op == prodOp;
      const auto worst = largest ? lowestOf<T>() : highestOf<T>();
      auto from = extremes ? x.at(row).tile(config.block).padding(worst)
                           : x.at(row).tile(config.block).padding(product ? 1 : 0);
      auto to = y.at(row).tile(config.block);
      Tile<A> carried = extremes ? full<A>(worst) : full<A>(product ? 1 : 0);
      auto join = [&](const Tile<A> &a, const Tile<A> &b) {
        if (extremes)
          return largest ? maximum(a, b, Nan::propagate) : minimum(a, b, Nan::propagate);
        return product ? a * b : a + b;
      };
      auto blocks = cdiv(x.extent(1), config.block);
      for (auto step : range(0, blocks)) {
        Int block = step;
        if (config.reverse)
          block = blocks - 1 - step;
        auto values = cast<A>(from.load(block));
        const bool reverse = config.reverse;
        if constexpr (extremes) {
          to.store(block, join(largest ? cummax(values, 0, reverse, Nan::propagate)
                                       : cummin(values, 0, reverse, Nan::propagate),
                               carried));
          carried = join(carried,
                         largest ? max(values, 0, Nan::propagate) : min(values, 0, Nan::propagate));
        } else {
          to.store(block, join(product ? cumprod(values, 0, reverse) : cumsum(values, 0, reverse),
                               carried));
          carried = join(carried, product ? prod(values, 0) : sum(values, 0));
        }
      }
    }};

int opOf(const Invocation &call) {
  return static_cast<int>(std::find(names.begin(), names.end(), call.options.choice("op")) -
                          names.begin());
}

} // namespace

KernelSpec sectile::scanSpec() {
  KernelSpec spec;
  spec.name = "scan";
  spec.summary = "y[i] = x[0] to x[i] of each row combined";
  spec.arguments = {rowsArgument("rows of any length"),
                    {.name = "y",
                     .output = true,
                     .axes = {"...", "N"},
                     .dtypeBy =
                         [](const Invocation &call) {
                           return opOf(call) <= prodOp && call.dtype("x") == DType::int32
                                      ? DType::int64
                                      : call.dtype("x");
                         },
                     .doc = "like x; sums and products of integers are i64"}};
  spec.options = {{.name = "op",
                   .kind = OptionSpec::choice,
                   .initial = "cumsum",
                   .choices = names,
                   .doc = "how elements are combined"},
                  {.name = "reverse",
                   .kind = OptionSpec::flag,
                   .initial = "false",
                   .doc = "y[i] combines x[i] to the last"}};
  spec.config = blockConfig;
  spec.typical = {{"...", 1024}, {"N", 4096}};
  spec.small = {{"...", 3}, {"N", 200}};
  spec.reference = scanReference;
  spec.defaults = blockDefaults;
  spec.spaces = blockSpaces("");
  spec.apply = [](Use &use) {
    const int op = opOf(use.call);
    const ScanConfig chosen{use.field("block"), use.field("warps"), op,
                            use.call.options.flag("reverse")};
    const std::int64_t rows = elementCount(use.call.leading);
    auto scanned = [&]<class T, class A, class Out, bool extremes>(std::tuple<T, A, Out>,
                                                                   std::bool_constant<extremes>) {
      use(scanRows<T, A, Out, extremes>, Grid(use.call.extent("N") ? rows : 0), use.rows<T>("x"),
          use.rows<Out>("y"), chosen);
    };
    forDType<float, half, bfloat16, std::int32_t>(use.call.dtype("x"), [&]<class T>(T zero) {
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
