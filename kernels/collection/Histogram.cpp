// histogram: counts[i] = how often i occurs, as torch.bincount with minlength = bins, but that
// other numbers are not counted; bins outside 1 to 4096 are refused. Each program counts its part,
// and adds to the result what it has counted; sums of integers do not depend on the order.
#include "kernels/collection/Family.h"
#include "kernels/collection/Rows.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

struct HistogramConfig {
  int block = 1024, warps = 4;
  int bins = 64;      // up to the next power of two
  bool alone = false; // one program counts all
};

struct ClearArguments {
  View<std::int32_t, 1> counts;
};

Kernel clear{"histogram_clear", [](const ClearArguments &a) {
               const auto &[counts] = a;
               counts.tile(256).store(program_id(0), zeros<std::int32_t>(256));
             }};

struct HistogramArguments {
  View<const std::int32_t, 1> x;
  View<std::int32_t, 1> counts;
  Int blocks;
};

Kernel count{"histogram", [](const HistogramArguments &a, const HistogramConfig &config) {
               const auto &[x, counts, blocks] = a;
               auto from = x.tile(config.block).padding(-1);
               auto total = zeros<std::int32_t>(config.bins);
               auto first = program_id(0) * blocks;
               for (auto block : range(first, first + blocks))
                 total += histogram(from.load(block), config.bins);
               if (config.alone) {
                 counts.tile(config.bins).store(0, total);
                 return;
               }
               wait_dependencies(); // the counts are zeros now
               counts.tile(config.bins).atomic_add(0, total, {.order = MemoryOrder::relaxed});
             }};

} // namespace

KernelSpec sectile::histogramSpec() {
  KernelSpec spec;
  spec.name = "histogram";
  spec.summary = "counts[i] = how often i occurs in x";
  const auto sample = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const std::int64_t bins = call.options.integer("bins");
    for (std::int32_t &value : array.as<std::int32_t>())
      value = static_cast<std::int32_t>(
          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bins + 4)) - 2);
  };
  spec.add_arguments(
      {{"x: [N] i32", "what is below 0, or bins or more, is not counted", {.sample = sample}},
       {"-> counts: [C] i32", "of 0 to bins - 1"}});
  spec.add_options({{"bins: integer = 256 from 1 to 4096 e.g. 1, 10, 1000", "1 to 4096"}});
  spec.config = blockConfig;
  spec.typical = {{"N", 1 << 20}};
  spec.small = {{"N", 1000}};
  spec.derive = [](Invocation &call) { call.extents["C"] = call.options.integer("bins"); };
  spec.reference = histogramReference;
  spec.defaults = [](const Invocation &call, const std::string &) {
    return Config{{"block", powerFor(call.extent("N"), 64, 1024)}, {"warps", 4}};
  };
  spec.spaces = blockSpaces("histogram");
  spec.apply = [](Use &use) {
    const std::int64_t bins = use.extent("C");
    auto config =
        use.config_as(HistogramConfig{.bins = static_cast<int>(powerFor(bins, 32, 4096))});
    const std::int64_t blocks = ceilDiv(use.extent("N"), config.block);
    // A launch that clears the counts takes longer than a few blocks. Whatever their size is, so
    // that all that the tuner compares do the same.
    config.alone = use.extent("N") <= 4096;
    if (config.alone) {
      use(count, 1, config, {{"blocks", blocks}});
      return;
    }
    const std::int64_t each = ceilDiv(blocks, 512);
    use(clear, ceilDiv(bins, 256));
    use(count, ceilDiv(blocks, each), config, {{"blocks", each}});
  };
  return spec;
}
