// softmax and log_softmax along the last axis. With m the largest of a row:
//   y = e^(x - m) / sum of e^(x - m), and y = x - m - log(sum of e^(x - m)),
// as torch.softmax and torch.log_softmax: a row with a NaN or +inf, or of -inf alone, is all NaN.
// Rows beyond a block go by the online softmax of Milakov and Gimelshein (arXiv 1805.02867).
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/NormReferences.h"
#include <limits>

using namespace sectile;

namespace {

struct SoftmaxConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;      // a row fits a block
  bool logarithm = false; // of the softmax is wanted
};

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float log2e = 1.44269504f;

template <class T> struct SoftmaxArguments {
  View<const T, 2> x;
  View<T, 2> y;
};

// Weights are powers of two of differences in units of log 2, which chips compute at once, and one
// division gives a row's factor.
template <class T>
Kernel softmaxKernel{"softmax", [](const SoftmaxArguments<T> &a, const SoftmaxConfig &config) {
                       const auto &[x, y] = a;
                       const int m = config.rows, n = config.block;
                       auto row = program_id(0);
                       auto from = x.tile(m, n).padding(-infinity);
                       auto to = y.tile(m, n);
                       // With the row's sum of weights.
                       auto finish = [&](const Tile<float> &total) {
                         return expand(config.logarithm ? log(total) : 1.0f / total, 1);
                       };
                       if (config.whole) {
                         auto values = cast<float>(from.load(row, 0));
                         values -= expand(max(values, 1), 1);
                         auto weights = exp2(values * log2e);
                         auto last = finish(sum(weights, 1));
                         to.store(row, 0, config.logarithm ? values - last : weights * last);
                         return;
                       }
                       // Online: the largest value so far and the sum relative to it, then a second
                       // pass that writes.
                       auto blocks = cdiv(x.extent(1), n);
                       auto largest = full<float>(-infinity, m), total = zeros<float>(m);
                       for (auto block : range(0, blocks)) {
                         auto values = cast<float>(from.load(row, block));
                         auto before = largest;
                         largest = maximum(largest, max(values, 1));
                         // As long as all is -inf the differences would be NaN, though a larger
                         // value may come.
                         auto base = where(largest == -infinity, 0.0f, largest);
                         total = total * exp2((before - base) * log2e) +
                                 sum(exp2((values - expand(base, 1)) * log2e), 1);
                       }
                       auto top = expand(largest, 1), last = finish(total);
                       for (auto block : range(0, blocks)) {
                         auto values = cast<float>(from.load(row, block)) - top;
                         to.store(row, block,
                                  config.logarithm ? values - last : exp2(values * log2e) * last);
                       }
                     }};

KernelSpec specOf(const char *name, const char *summary, const char *result, bool logarithm) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.add_arguments(
      {{"x: [..., N] f32|f16|bf16", "any number of rows, of any length; a row of -inf gives NaN"},
       {"-> y: [..., N] like x over x", result}});
  configureRows(spec, "N", longestWhole);
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = [logarithm](const Invocation &, std::span<const HostArray> inputs,
                               Arithmetic arithmetic) {
    return std::vector{logarithm ? logSoftmaxReference(inputs[0], arithmetic)
                                 : softmaxReference(inputs[0], arithmetic)};
  };
  spec.apply = [logarithm](Use &use) {
    const std::int64_t n = use.extent("N");
    const auto config =
        use.config_as(SoftmaxConfig{.whole = n <= use.field("block"), .logarithm = logarithm});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(softmaxKernel<T>, n ? ceilDiv(use.extent("..."), config.rows) : 0, config);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::softmaxSpec() {
  return specOf("softmax", "y = softmax(x) along the last axis", "each row sums to 1", false);
}

KernelSpec sectile::logSoftmaxSpec() {
  return specOf("log_softmax", "y = log(softmax(x)) along the last axis",
                "natural logarithms of what softmax gives", true);
}
