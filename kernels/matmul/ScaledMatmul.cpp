// scaled_matmul: products of 8-bit operands with a scale for each block of them, as models trained
// or stored in fp8 have (DeepSeek-V3, arXiv 2412.19437): c[i, j] = act(sum over blocks s of K of
// a_scales[i, s] * b_scales[s, block of j] * (a b within s) + bias[j]). A block_k that is no
// multiple of 32 is refused.
#include "kernels/calls/Use.h"
#include "kernels/matmul/BlockScales.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/Operands.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/matmul/SharedSums.h"
#include "kernels/matmul/TileOrder.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct ScaledConfig {
  int m = 64, n = 128, k = 64, order = 8, warps = 4, stages = 3, cluster = 1;
  int splits = 1, sliceM = 0, sliceN = 0; // sliceM: add up the parts of splits, in slices
  bool persistent = false;
  int block_k = 128, block_n = 128;
  Activation activation = Activation::none;
  bool bias = false;
};

template <class T, class Out> struct ScaledArguments {
  View<const T, 2> a, b;
  View<const float, 2> a_scales, b_scales;
  View<const Out, 1> bias;
  View<Out, 2> c;
  View<float, 3> parts;
};

template <class T, class Out>
Kernel scaledMatmul{
    "scaled_matmul", [](const ScaledArguments<T, Out> &arguments, const ScaledConfig &config) {
      const auto &[a, b, aScales, bScales, bias, c, parts] = arguments;
      const int m = config.m, n = config.n, steps = config.block_k / config.k;
      const PartLayout layout(m, n);
      if (config.sliceM) {
        addUpSlice(
            parts, c.tiles(m, n), config,
            [&](const Int &i, const Int &j, const Tile<float> &sums, const ScaledConfig &ofSlice) {
              storeActivated(c, bias, i, j, sums, ofSlice);
            });
        return;
      }
      program_clusters(config.cluster);
      const TileOrder order(cdiv(c.extent(0), m), cdiv(c.extent(1), n), config.order,
                            config.cluster);
      order.forTiles(config.persistent, [&](const Int &program) {
        const Int part = program % config.splits, blocks = aScales.extent(1);
        auto [i, j] = order.at(program / config.splits);
        auto left = a.tile(m, config.k);
        auto right = b.tile(config.k, n);
        const ColumnScales columns{bScales, config.block_n, n, config.block_n % n == 0};
        std::optional<Tile<bool>> rows;
        if (config.persistent)
          rows = i * m + arange(0, m) < c.extent(0);
        // With copies by other warps nothing holds the warpgroups together: one scales while
        // another multiplies.
        const auto total = sumsOfBlocks(
            {.parts = 1,
             .m = m,
             .n = n,
             .first = part * blocks / config.splits,
             .end = (part + 1) * blocks / config.splits,
             .options = copiedApart(config.persistent),
             .ahead = config.persistent ? 2 : 1},
            [&](const Int &block) { return aScales.tile(m, 1).load(i, block); },
            [&](const Int &block, int) { return columns.load(block, j * n, c.extent(1), rows); },
            [&](const Int &block) {
              auto sums = zeros<SumOf<T>>(m, n);
              for (auto step : range(block * steps, (block + 1) * steps))
                sums = dot(left.load(i, step), right.load(step, j), sums);
              return std::vector{cast<float>(sums)};
            });
        if (config.splits == 1)
          storeActivated(c, bias, i, j, total[0], config);
        else
          layout.store(parts.at(program), total[0]);
      });
    }};

ProductShape shapeOf(const Invocation &call) {
  return {.batches = 1,
          .rows = call.extent("M"),
          .columns = call.extent("N"),
          .inner = call.extent("K"),
          .bytes = 1,
          .promotes = true,
          .scales = true};
}

// One step a block: its sums are complete after it.
bool isInWarpgroups(const Invocation &call, const std::string &target) {
  return call.options.integer("block_k") % 128 == 0 &&
         hasWarpgroupUnits(target, call.dtype("a"), /*alongK=*/true);
}

Config defaultsForWarpgroups(const Invocation &call, const std::string &target) {
  constexpr std::int64_t leastSteps = 8, mostSplits = 16; // steps of 128, of each split
  // Tiles of wgmma have 64 rows, and are slower the fewer there are.
  const bool liesAlongK = call.options.flag("trans_b");
  if (call.extent("M") <= (liesAlongK ? 8 : 16)) {
    ProductConfig config{.m = 16, .n = liesAlongK ? 32 : 64, .k = 128, .warps = 4, .stages = 4};
    const std::int64_t tiles = std::max<std::int64_t>(ceilDiv(call.extent("N"), config.n), 1);
    config.splits = std::clamp<std::int64_t>(
        std::min(multiprocessors(target) / tiles, call.extent("K") / config.k / leastSteps), 1,
        mostSplits);
    Config few = productFields(call, config, target);
    few["copy_first"] = 0;
    return few;
  }
  const auto fastest = [&](const ProductShape &shape) {
    return fastestProduct(
        scaledTiles, shape,
        {.persistent = ProductForms::always, .mostSplits = mostSplits, .leastLines = leastSteps},
        target);
  };
  const ProductShape straight = shapeOf(call), lying = asItLies(call, straight);
  const ProductConfig config = fastest(lying), copied = fastest(straight);
  const bool copies = isWorthCopying(call, target, productMicroseconds(lying, config, target),
                                     productMicroseconds(straight, copied, target));
  Config fields = productFields(call, copies ? copied : config, target);
  fields["copy_first"] = copies;
  return fields;
}

void check(const Invocation &call) {
  auto fail = [](const std::string &what) { throw InputError("scaled_matmul: " + what); };
  const std::int64_t depth = call.options.integer("block_k"),
                     width = call.options.integer("block_n");
  if (depth < 32 || depth % 32 != 0)
    fail("option 'block_k' is a positive multiple of 32, not " + std::to_string(depth));
  if (width < 1)
    fail("option 'block_n' is at least 1, not " + std::to_string(width));
  auto expect = [&](const char *axis, const char *of, std::int64_t wanted) {
    if (call.extent(axis) != wanted)
      fail(std::string(axis) + " is " + std::to_string(call.extent(axis)) + ", but " + of +
           " has " + std::to_string(wanted) + " blocks");
  };
  expect("Sk", "K", ceilDiv(call.extent("K"), depth));
  expect("Sn", "N", ceilDiv(call.extent("N"), width));
}

} // namespace

KernelSpec sectile::scaledMatmulSpec() {
  KernelSpec spec;
  spec.name = "scaled_matmul";
  spec.summary = "c = act(a b + bias), fp8 or int8 with a scale for each block";
  const auto operands = sampleNormal(16);
  const auto scales = sampleUniform(0.005, 0.02);
  spec.add_arguments(
      {{"a: [M, K] f8e4m3|f8e5m2|i8", "", {.sample = operands}},
       {"b: [K, N] like a",
        "[N, K] unless trans_b is false",
        {.stored = swappedBy("trans_b"), .sample = operands}},
       {"a_scales: [1|M, Sk] f32",
        "of block_k neighbours in a row of a, or in all rows; Sk = K / block_k, rounded up",
        {.sample = scales}},
       {"b_scales: [Sk, Sn] f32",
        "of block_k by block_n elements of b; [Sn, Sk] unless trans_b is false",
        {.stored = swappedBy("trans_b"), .sample = scales}}});
  spec.add_arguments(scaledResult("accumulated in f32, within a block of i8 in i32"));
  spec.add_options(
      {{"trans_b: flag = true",
        "b and its scales are stored transposed; matrix units multiply 8 bits along K alone"},
       {"block_k: integer = 128 e.g. 32, 64", "elements along K with one scale; a multiple of 32"},
       {"block_n: integer = 128 e.g. 1, 50", "columns of b with one scale; 1: each its own"}});
  spec.add_options(scaledResultOptions());
  spec.config = productFieldSpecs("order", "depth of one step; divides block_k",
                                  {clusterField,
                                   {"splits", "programs that share the sums of one tile"},
                                   persistentField,
                                   {"programs", "programs where they are persistent"},
                                   copyFirstField});
  spec.neutral = {"order", "stages", "cluster", "persistent", "programs"};
  spec.typical = {{"M", 4096}, {"N", 4096}, {"K", 4096}};
  spec.small = {{"M", 33}, {"N", 150}, {"K", 200}};
  spec.follow = [](Invocation &call) {
    auto blocks = [&](const char *axis, const char *option) {
      return ceilDiv(call.extent(axis), std::max<std::int64_t>(call.options.integer(option), 1));
    };
    call.extents["Sk"] = blocks("K", "block_k");
    call.extents["Sn"] = blocks("N", "block_n");
  };
  spec.check = check;
  spec.reference = scaledMatmulReference;
  spec.predict = predictProduct([](const Invocation &call, const std::string &target,
                                   const Config &) { return isInWarpgroups(call, target); },
                                [](const Invocation &call, const Config &config) {
                                  return config.at("copy_first") ? shapeOf(call)
                                                                 : asItLies(call, shapeOf(call));
                                });
  spec.defaults = [](const Invocation &call, const std::string &target) {
    if (isInWarpgroups(call, target))
      return defaultsForWarpgroups(call, target);
    return productFields(call,
                         {.m = 64,
                          .n = call.extent("N") <= 64 ? 64 : 128,
                          .k = call.options.integer("block_k") % 64 == 0 ? 64 : 32,
                          .warps = 4,
                          .stages = 3},
                         target);
  };
  // Two sets of sums: those of a block and those of all.
  spec.spaces = {
      {.part = "scaled_matmul",
       .axes = {{"m", {32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"k", {32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t sums = sumsOfThread(config, target);
         return sums >= 4 && sums <= 64 && call.options.integer("block_k") % config.at("k") == 0;
       }}};
  spec.apply = [](Use &use) {
    auto config = use.config_as<ScaledConfig>();
    if (config.block_k % config.k)
      throw InputError("scaled_matmul: configuration field 'k' is " + std::to_string(config.k) +
                       ", which does not divide block_k, " + std::to_string(config.block_k));
    if (config.splits > 1) {
      config.persistent = false;
      config.cluster = 1;
    }
    const std::int64_t tiles = clusteredTiles(use.call, config),
                       programs = config.splits > 1 ? tiles * config.splits
                                                    : programsFor(use, tiles, config.cluster);
    const auto parts =
        partsOfSums<float>(use, partsOfSplits(tiles, config.splits), config.m, config.n);
    for_dtype<float8_e4m3, float8_e5m2, std::int8_t>(use.call.dtype("a"), [&]<class T>(T) {
      const auto a = leftOperand(use, use.tensor<T, 2>("a")),
                 b = rightOperand(use, use.tensor<T, 2>("b"));
      for_dtype<bfloat16, half, float>(use.call.dtype("c"), [&]<class Out>(Out) {
        forSplits(config, programs, tiles, [&](std::int64_t count, const ScaledConfig &each) {
          use(scaledMatmul<T, Out>, count, each, {{"a", a}, {"b", b}, {"parts", parts}});
        });
      });
    });
  };
  return spec;
}
