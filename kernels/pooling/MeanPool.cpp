// mean_pool: the mean over time of the positions that a mask keeps, and its gradient:
//   y = sum of x[t] over the n positions t that are kept, / n; dx[t] = dy / n there, else 0.
// The plain definition, but that y is 0 where n is, and that what is hidden may be NaN.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/pooling/Family.h"
#include <algorithm>

using namespace sectile;

namespace {

struct MeanPoolConfig {
  int t = 32, d = 64, warps = 4;
  bool masked = false;
};

template <class T> struct MeanPoolArguments {
  View<const T, 3> x;
  View<const bool, 2> mask;
  View<T, 2> y;
};

template <class T>
Kernel meanPool{
    "mean_pool", [](const MeanPoolArguments<T> &a, const MeanPoolConfig &config) {
      const auto &[x, mask, y] = a;
      auto blocks = cdiv(x.extent(2), config.d);
      auto batch = program_id(0) / blocks, column = program_id(0) % blocks;
      auto length = x.extent(1);
      auto from = x.at(batch).tile(config.t, config.d);
      auto row = mask.at(batch);
      auto total = zeros<float>(config.t, config.d);
      auto counts = zeros<int>(config.t);
      // With a mask rows wait for what it says: for several tiles' at once.
      for (auto block : range(0, cdiv(length, config.t), {.unroll = config.masked ? 4 : 0})) {
        if (!config.masked) {
          total += cast<float>(from.load(block, column));
          continue;
        }
        auto kept = row.tile(config.t).load(block);
        counts += cast<int>(kept);
        // Rows that the view does not have are not read.
        auto position = where(kept, block * config.t + arange(0, config.t), -1);
        total += cast<float>(from.gather_at(position, column * config.d));
      }
      Tile<int> count = cast<int>(length);
      if (config.masked)
        count = sum(counts, 0);
      y.at(batch).tile(config.d).store(column, sum(total, 0) / cast<float>(maximum(count, 1)));
    }};

// A program writes steps * t positions, and counts all of its batch's.
constexpr int steps = 16;

template <class T> struct MeanPoolBackwardArguments {
  View<const bool, 2> mask;
  View<const T, 2> dy;
  View<T, 3> dx;
};

template <class T>
Kernel meanPoolBackward{
    "mean_pool_backward", [](const MeanPoolBackwardArguments<T> &a, const MeanPoolConfig &config) {
      const auto &[mask, dy, dx] = a;
      constexpr int many = 1024;
      auto column = program_id(0), batch = program_id(2);
      auto length = dx.extent(1);
      auto row = mask.at(batch);
      Tile<int> count = cast<int>(length);
      if (config.masked) {
        auto counts = zeros<int>(many);
        for (auto block : range(0, cdiv(length, many)))
          counts += cast<int>(row.tile(many).load(block));
        count = sum(counts, 0);
      }
      auto share = cast<T>(cast<float>(dy.at(batch).tile(config.d).load(column)) /
                           cast<float>(maximum(count, 1)));
      auto first = program_id(1) * steps, blocks = cdiv(length, config.t);
      for (auto block : range(first, minimum(first + steps, blocks))) {
        auto values = expand(share, 0);
        if (config.masked)
          values = where(expand(row.tile(config.t).load(block), 1), values, 0.0f);
        else
          values = broadcast_to(values, config.t, config.d);
        dx.at(batch).tile(config.t, config.d).store(block, column, values);
      }
    }};

// So many elements at once, of 128 positions at most, in rows of `most` at most.
Config configFor(const Invocation &call, std::int64_t elements, std::int64_t most,
                 std::int64_t warps) {
  const std::int64_t d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16, most);
  return {{"t", std::min<std::int64_t>(elements / d, 128)}, {"d", d}, {"warps", warps}};
}

std::vector<SearchSpace> spaces() {
  return {{.axes = {{"t", {8, 16, 32, 64, 128}},
                    {"d", {16, 32, 64, 128, 256}},
                    {"warps", {1, 2, 4, 8}}},
           .where = tilesWithin({"t", "d"}, 4, 64, {{"d", 16, "D"}})}};
}

void sampleMask(const Invocation &, HostArray &mask, std::mt19937_64 &random) {
  for (bool &kept : mask.as<bool>())
    kept = random() % 4 != 0;
}

const ArgumentRow mask{"mask?: [B, T] bool",
                       "which positions count; all of them where it is left out",
                       {.sample = sampleMask}};

const std::vector<ConfigSpec> fields = {{"t", "positions held at once"},
                                        {"d", "columns of one program"},
                                        {"warps", "warps of one program"}};

} // namespace

KernelSpec sectile::meanPoolSpec() {
  KernelSpec spec;
  spec.name = "mean_pool";
  spec.summary = "y = the mean over T of the positions of x that the mask keeps";
  spec.add_arguments(
      {{"x: [B, T, D] f32|f16|bf16", "what the mask hides is not looked at, and may be NaN"},
       mask,
       {"-> y: [B, D] like x", "summed in f32; 0 where no position counts"}});
  spec.config = fields;
  spec.typical = {{"B", 32}, {"T", 2048}, {"D", 1024}};
  spec.small = {{"B", 2}, {"T", 37}, {"D", 40}};
  spec.reference = meanPoolReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Columns as wide as leave each multiprocessor a program.
    const std::int64_t each =
        call.extent("B") * call.extent("D") / std::max<std::int64_t>(multiprocessors(target), 1);
    return configFor(call, 8192, each >= 256 ? 256 : 64, 8);
  };
  spec.spaces = spaces();
  spec.apply = [](Use &use) {
    const auto config = use.config_as(MeanPoolConfig{.masked = use.has("mask")});
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(meanPool<T>, use.extent("B") * ceilDiv(use.extent("D"), config.d), config);
    });
  };
  return spec;
}

KernelSpec sectile::meanPoolBackwardSpec() {
  KernelSpec spec;
  spec.name = "mean_pool_backward";
  spec.summary = "dx = dy / count at the positions that the mask keeps, 0 elsewhere";
  spec.add_arguments({{"x: [B, T, D] f32|f16|bf16", "the forward kernel's; only its shape matters"},
                      mask,
                      {"dy: [B, D] like x", "gradient of y"},
                      {"-> dx: [B, T, D] like x", "gradient of x"}});
  spec.config = fields;
  spec.typical = {{"B", 32}, {"T", 2048}, {"D", 1024}};
  spec.small = {{"B", 2}, {"T", 37}, {"D", 40}};
  spec.reference = meanPoolBackwardReference;
  spec.factor = 3;
  spec.defaults = [](const Invocation &call, const std::string &) {
    return configFor(call, 2048, 256, 4);
  };
  spec.spaces = spaces();
  spec.apply = [](Use &use) {
    const auto config = use.config_as(MeanPoolConfig{.masked = use.has("mask")});
    const Grid grid(ceilDiv(use.extent("D"), config.d), ceilDiv(use.extent("T"), steps * config.t),
                    use.extent("B"));
    for_dtype<float, half, bfloat16>(use.call.dtype("x"),
                                     [&]<class T>(T) { use(meanPoolBackward<T>, grid, config); });
  };
  return spec;
}
