// softmax along the last axis.
#include "kernels/Use.h"
#include "kernels/norm/Family.h"
#include <algorithm>
#include <bit>
#include <limits>

using namespace sectile;

namespace {

struct SoftmaxConfig {
  int block = 1024, warps = 4;
  bool whole = true; // a row fits a block
};
SECTILE_CONFIG(SoftmaxConfig, block, warps, whole)

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T>
Kernel softmaxKernel{"softmax", [](View<const T, 2> x, View<T, 2> y, const SoftmaxConfig &config) {
                       auto row = program_id(0);
                       auto from = x.at(row).tile(config.block).padding(-infinity);
                       auto to = y.at(row).tile(config.block);
                       if (config.whole) {
                         auto values = cast<float>(from.load(0));
                         auto weights = exp(values - max(values, 0));
                         to.store(0, weights / sum(weights, 0));
                         return;
                       }
                       // Online: the largest value so far and the sum relative to it, then a second
                       // pass that writes.
                       auto blocks = cdiv(x.extent(1), config.block);
                       Float largest = -infinity, total = 0.0f;
                       for (auto block : range(0, blocks)) {
                         auto values = cast<float>(from.load(block));
                         Float before = largest;
                         largest = maximum(largest, max(values, 0));
                         // As long as all is -inf the differences would be NaN, though a larger
                         // value may come.
                         auto base = where(largest == -infinity, 0.0f, largest);
                         total = total * exp(before - base) + sum(exp(values - base), 0);
                       }
                       for (auto block : range(0, blocks))
                         to.store(block, exp(cast<float>(from.load(block)) - largest) / total);
                     }};

} // namespace

KernelSpec sectile::softmaxSpec() {
  KernelSpec spec;
  spec.name = "softmax";
  spec.summary = "y = softmax(x) along the last axis";
  spec.arguments = {
      {.name = "x",
       .axes = {"...", "N"},
       .dtypes = {DType::float32, DType::float16, DType::bfloat16},
       .doc = "any number of rows, of any length; a row of -inf gives NaN"},
      {.name = "y", .output = true, .axes = {"...", "N"}, .like = "x", .doc = "each row sums to 1"},
  };
  spec.config = {{"block", "elements of a row held at once"}, {"warps", "warps of one program"}};
  spec.typical = {{"...", 1024}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.reference = [](const Invocation &, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{softmaxReference(inputs[0], arithmetic)};
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t block = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(call.extent("N")))), 64,
        8192);
    return Config{{"block", block}, {"warps", block <= 1024 ? 2 : block <= 2048 ? 4 : 8}};
  };
  spec.spaces = {
      {.axes = {{"block", {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                {"warps", {1, 2, 4, 8, 16}}},
       // Whole rows in up to 64 registers of a thread; no block that is mostly beyond the row's
       // end.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return block >= threads && block <= 64 * threads &&
                (block == 64 || block < 2 * call.extent("N"));
       }}};
  spec.apply = [](Use &use) {
    const std::int64_t n = use.call.extent("N");
    const SoftmaxConfig chosen{use.field("block"), use.field("warps"), n <= use.field("block")};
    forDType<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      const auto x = use.rows<T>("x");
      use(softmaxKernel<T>, n ? x.extent(0) : 0, x, use.rows<T>("y"), chosen);
    });
  };
  return spec;
}
