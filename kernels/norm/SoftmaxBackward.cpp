// softmax_backward and log_softmax_backward, from what the forward kernels gave:
//   dx = y (dy - sum of y dy), and dx = dy - e^y (sum of dy),
// derived from the forward formulas. That y is what the forward kernel gave is not checked.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/NormReferences.h"
#include <sectile/approximate.h>

using namespace sectile;

namespace {

struct SoftmaxBackwardConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;      // a row fits a block
  bool logarithm = false; // of the softmax was given
};

template <class T> struct SoftmaxBackwardArguments {
  View<const T, 2> y, dy;
  View<T, 2> dx;
};

template <class T>
Kernel softmaxBackward{"softmax_backward", [](const SoftmaxBackwardArguments<T> &a,
                                              const SoftmaxBackwardConfig &config) {
                         const auto &[y, dy, dx] = a;
                         const int m = config.rows, n = config.block;
                         auto row = program_id(0);
                         auto terms = [&](const Tile<float> &value, const Tile<float> &gradient) {
                           return config.logarithm ? gradient : value * gradient;
                         };
                         auto write = [&](const Int &block, const Tile<float> &value,
                                          const Tile<float> &gradient, const Tile<float> &total) {
                           dx.tile(m, n).store(row, block,
                                               config.logarithm ? gradient - fast_exp(value) * total
                                                                : value * (gradient - total));
                         };
                         auto load = [&](const View<const T, 2> &from, const Int &block) {
                           return cast<float>(from.tile(m, n).load(row, block));
                         };
                         if (config.whole) {
                           auto value = load(y, 0), gradient = load(dy, 0);
                           write(0, value, gradient, expand(sum(terms(value, gradient), 1), 1));
                           return;
                         }
                         auto blocks = cdiv(y.extent(1), n);
                         auto sums = zeros<float>(m, n);
                         for (auto block : range(0, blocks)) {
                           auto gradient = load(dy, block);
                           sums += config.logarithm ? gradient : gradient * load(y, block);
                         }
                         auto total = expand(sum(sums, 1), 1);
                         for (auto block : range(0, blocks)) {
                           auto value = load(y, block), gradient = load(dy, block);
                           write(block, value, gradient, total);
                         }
                       }};

KernelSpec specOf(const char *name, const char *summary, const char *given, bool logarithm) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  const auto sample = [logarithm](const Invocation &call, HostArray &array,
                                  std::mt19937_64 &random) {
    std::normal_distribution<double> normal;
    std::vector<double> values(static_cast<std::size_t>(array.count()));
    for (double &value : values)
      value = normal(random);
    const HostArray x(DType::float32, call.tensor("y").shape, values);
    array.assign((logarithm ? logSoftmaxReference(x, Arithmetic::exact)
                            : softmaxReference(x, Arithmetic::exact))
                     .to_double());
  };
  spec.add_arguments({{"y: [..., N] f32|f16|bf16", given, {.sample = sample}},
                      {"dy: [..., N] like y", "gradient of y"},
                      {"-> dx: [..., N] like y over y, dy", "gradient of x"}});
  spec.factor = 3;
  configureRows(spec, "N", longestWhole, elementsTogether, 2);
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = logarithm ? logSoftmaxBackwardReference : softmaxBackwardReference;
  spec.apply = [logarithm](Use &use) {
    const std::int64_t n = use.extent("N");
    const auto config = use.config_as(
        SoftmaxBackwardConfig{.whole = n <= use.field("block"), .logarithm = logarithm});
    for_dtype<float, half, bfloat16>(use.call.dtype("y"), [&]<class T>(T) {
      use(softmaxBackward<T>, n ? ceilDiv(use.extent("..."), config.rows) : 0, config);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::softmaxBackwardSpec() {
  return specOf("softmax_backward", "gradient of x of y = softmax(x): dx = y (dy - sum(y dy))",
                "from softmax", false);
}

KernelSpec sectile::logSoftmaxBackwardSpec() {
  return specOf("log_softmax_backward",
                "gradient of x of y = log_softmax(x): dx = dy - exp(y) sum(dy)", "from log_softmax",
                true);
}
