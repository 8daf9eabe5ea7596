// scaled_matmul: products of 8-bit operands with a scale for each block of them, as models trained
// or stored in fp8 have (DeepSeek-V3, arXiv 2412.19437): c[i, j] = act(sum over blocks s of K of
// a_scales[i, s] * b_scales[s, block of j] * (a b within s) + bias[j]). A block_k that is no
// multiple of 32 is refused.
#include "kernels/Sample.h"
#include "kernels/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/matmul/TileOrder.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct ScaledConfig {
  int m = 64, n = 128, k = 64, order = 8, warps = 4, stages = 3, cluster = 1;
  bool persistent = false;
  int depth = 128, width = 128; // of a block of b
  int activation = 0;
  bool bias = false;
};
SECTILE_CONFIG(ScaledConfig, m, n, k, order, warps, stages, cluster, persistent, depth, width,
               activation, bias)

// Within a block of K the sums are those of the codes; each block's are scaled once.
template <class T, class Out>
Kernel scaledMatmul{
    "scaled_matmul", [](View<const T, 2> a, View<const T, 2> b, View<const float, 2> aScales,
                        View<const float, 2> bScales, View<const Out, 1> bias, View<Out, 2> c,
                        const ScaledConfig &config) {
      using Sum = SumOf<T>;
      const int m = config.m, n = config.n, steps = config.depth / config.k;
      program_clusters(config.cluster);
      const TileOrder order(cdiv(c.extent(0), m), cdiv(c.extent(1), n), config.order,
                            config.cluster);
      auto multiply = [&](const Int &tile) {
        auto [i, j] = order.at(tile);
        auto left = a.tile(m, config.k);
        auto right = b.tile(config.k, n);
        // A tile whose columns lie in one block has one scale for all of them. There are none
        // beyond the last block of K.
        const bool same = config.width % n == 0;
        const Int blocks = aScales.extent(1);
        auto rowScales = [&](const Int &block) { return aScales.tile(m, 1).load(i, block); };
        auto scaleAt = [&](const Int &block, const auto &column, const auto &isThere) {
          return load(bScales.ptr() +
                          (cast<std::int64_t>(block) * bScales.stride(0) +
                           cast<std::int64_t>(column / config.width) * bScales.stride(1)),
                      isThere && block < blocks);
        };
        // One scale for all columns is loaded for each row where it is needed much later: as a
        // scalar it would be moved to a uniform register, which waits for it.
        auto columnScales = [&](const Int &block) {
          if (same && config.persistent)
            return expand(
                scaleAt(block, j * n + zeros<Index>(m), i * m + arange(0, m) < c.extent(0)), 1);
          if (same)
            return scaleAt(block, j * n, j * n < c.extent(1));
          const auto column = j * n + arange(0, n);
          return expand(scaleAt(block, column, column < c.extent(1)), 0);
        };
        auto total = zeros<float>(m, n);
        // With copies by other warps nothing holds the warpgroups together: one scales while
        // another multiplies.
        LoopOptions options;
        if (config.persistent)
          options.warp_specialize = true;
        // The scales are loaded blocks ahead: behind the copies that are under way, they take
        // longer than a block does.
        const int ahead = config.persistent ? 2 : 1;
        std::vector<Tile<float>> rows, columns;
        for (int block = 0; block < ahead; ++block) {
          rows.push_back(rowScales(block));
          columns.push_back(columnScales(block));
        }
        for (auto block : range(0, blocks, options)) {
          auto scales = rows[0] * columns[0];
          for (int next = 1; next < ahead; ++next) {
            rows[next - 1] = rows[next];
            columns[next - 1] = columns[next];
          }
          rows.back() = rowScales(block + ahead);
          columns.back() = columnScales(block + ahead);
          auto sums = zeros<Sum>(m, n);
          for (auto step : range(block * steps, (block + 1) * steps))
            sums = dot(left.load(i, step), right.load(step, j), sums);
          total += cast<float>(sums) * scales;
        }
        if (config.bias)
          total = total + expand(cast<float>(bias.tile(n).load(j)), 0);
        c.tile(m, n).store(i, j, activate(static_cast<Activation>(config.activation), total));
      };
      if (config.persistent)
        for (auto tile : range(order.first(), order.count(), order.step()))
          multiply(tile);
      else
        multiply(order.first());
    }};

// Two sets of sums leave no room for larger ones.
constexpr ProductTile scaledTiles[] = {
    {128, 128, 8, 4}, {64, 128, 4, 4}, {64, 64, 4, 4}, {64, 32, 4, 6}};

ProductShape shapeOf(const Invocation &call) {
  return {.batches = 1,
          .rows = call.extent("M"),
          .columns = call.extent("N"),
          .inner = call.extent("K"),
          .bytes = 1,
          .promotes = true};
}

// One step a block: its sums are complete after it.
bool isInWarpgroups(const Invocation &call, const std::string &target) {
  return call.options.integer("block_k") % 128 == 0 &&
         hasWarpgroupUnits(target, call.dtype("a"), /*alongK=*/call.options.flag("trans_b"));
}

void sampleOperand(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> integer(-127, 127);
  fillDrawn(array,
            [&] { return array.dtype == DType::int8 ? integer(random) : 16 * normal(random); });
}

void sampleScales(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::uniform_real_distribution<double> scale(0.005, 0.02);
  fillDrawn(array, [&] { return scale(random); });
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
  spec.arguments = {
      {.name = "a",
       .axes = {"M", "K"},
       .dtypes = {DType::float8_e4m3, DType::float8_e5m2, DType::int8},
       .sample = sampleOperand},
      {.name = "b",
       .axes = {"K", "N"},
       .stored = swappedBy("trans_b"),
       .like = "a",
       .sample = sampleOperand,
       .doc = "[N, K] unless trans_b is false"},
      {.name = "a_scales",
       .axes = {"1|M", "Sk"},
       .dtypes = {DType::float32},
       .sample = sampleScales,
       .doc = "of block_k neighbours in a row of a, or in all rows; Sk = K / block_k, rounded up"},
      {.name = "b_scales",
       .axes = {"Sk", "Sn"},
       .stored = swappedBy("trans_b"),
       .dtypes = {DType::float32},
       .sample = sampleScales,
       .doc = "of block_k by block_n elements of b; [Sn, Sk] unless trans_b is false"},
  };
  for (ArgumentSpec &argument : scaledResult("accumulated in f32, within a block of i8 in i32"))
    spec.arguments.push_back(std::move(argument));
  spec.options = {{.name = "trans_b",
                   .kind = OptionSpec::flag,
                   .initial = "true",
                   .doc = "b and its scales are stored transposed; matrix units multiply 8 bits "
                          "along K alone"},
                  {.name = "block_k",
                   .kind = OptionSpec::integer,
                   .initial = "128",
                   .samples = {"32", "64"},
                   .doc = "elements along K with one scale; a multiple of 32"},
                  {.name = "block_n",
                   .kind = OptionSpec::integer,
                   .initial = "128",
                   .samples = {"1", "50"},
                   .doc = "columns of b with one scale; 1: each its own"}};
  for (OptionSpec &option : scaledResultOptions())
    spec.options.push_back(std::move(option));
  spec.config = {{"m", "rows of one program's tile"},
                 {"n", "columns of one program's tile"},
                 {"k", "depth of one step; divides block_k"},
                 {"order", "tile rows that neighbouring programs share"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {"cluster", "programs that share what they load of b: 1 or 2", 1, 2},
                 {"persistent", "1: each program does one tile after another", 0, 1},
                 {"programs", "programs where they are persistent"}};
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
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{scaledMatmulReference(call, inputs, arithmetic)};
  };
  spec.predict = [](const Invocation &call, const std::string &target, const Config &config) {
    return isInWarpgroups(call, target)
               ? productMicroseconds(shapeOf(call), productConfig(config), target)
               : 0;
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t depth = call.options.integer("block_k"), units = multiprocessors(target);
    if (isInWarpgroups(call, target)) {
      const ProductConfig best =
          fastestProduct(scaledTiles, shapeOf(call), {.persistent = ProductForms::always}, target);
      return Config{{"m", best.m},  {"n", best.n},         {"k", best.k},
                    {"order", 8},   {"warps", best.warps}, {"stages", best.stages},
                    {"cluster", 1}, {"persistent", 1},     {"programs", units}};
    }
    return Config{{"m", 64},
                  {"n", call.extent("N") <= 64 ? 64 : 128},
                  {"k", depth % 64 == 0 ? 64 : 32},
                  {"order", 8},
                  {"warps", 4},
                  {"stages", 3},
                  {"cluster", 1},
                  {"persistent", 0},
                  {"programs", units}};
  };
  // Two sets of sums: those of a block and those of all.
  spec.spaces = {
      {.axes = {{"m", {32, 64, 128}},
                {"n", {32, 64, 128}},
                {"k", {32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t sums =
             config.at("m") * config.at("n") / (config.at("warps") * warpSize(target));
         return sums >= 8 && sums <= 64 && call.options.integer("block_k") % config.at("k") == 0;
       }}};
  spec.apply = [](Use &use) {
    const OptionValues &options = use.call.options;
    const ScaledConfig chosen{.m = use.field("m"),
                              .n = use.field("n"),
                              .k = use.field("k"),
                              .order = use.field("order"),
                              .warps = use.field("warps"),
                              .stages = use.field("stages"),
                              .cluster = use.field("cluster"),
                              .persistent = use.field("persistent") != 0,
                              .depth = static_cast<int>(options.integer("block_k")),
                              .width = static_cast<int>(options.integer("block_n")),
                              .activation =
                                  static_cast<int>(activationOf(options.choice("activation"))),
                              .bias = use.has("bias")};
    if (chosen.depth % chosen.k)
      throw InputError("scaled_matmul: configuration field 'k' is " + std::to_string(chosen.k) +
                       ", which does not divide block_k, " + std::to_string(chosen.depth));
    const std::int64_t tiles = ceilDiv(use.call.extent("M"), chosen.m * chosen.cluster) *
                               chosen.cluster * ceilDiv(use.call.extent("N"), chosen.n);
    const std::int64_t programs =
        chosen.persistent ? persistentPrograms(tiles, use.field("programs"), chosen.cluster)
                          : tiles;
    auto aScales = use.tensor<float, 2>("a_scales");
    if (const std::int64_t m = use.call.extent("M"); aScales.extent(0) != m) // shared by all rows
      aScales = {aScales.data(), {m, aScales.extent(1)}, {0, aScales.stride(1)}, aScales.memory()};
    for_dtype<float8_e4m3, float8_e5m2, std::int8_t>(use.call.dtype("a"), [&]<class T>(T) {
      for_dtype<bfloat16, half, float>(use.call.dtype("c"), [&]<class Out>(Out) {
        use(scaledMatmul<T, Out>, programs, use.tensor<T, 2>("a"), use.tensor<T, 2>("b"), aScales,
            use.tensor<float, 2>("b_scales"), use.tensor<Out, 1>("bias"), use.tensor<Out, 2>("c"),
            chosen);
      });
    });
  };
  return spec;
}
