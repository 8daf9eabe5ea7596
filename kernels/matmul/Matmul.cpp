// matmul: c = a b, either operand stored transposed.
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include "kernels/matmul/Family.h"
#include <algorithm>

using namespace sectile;

namespace {

struct MatmulConfig {
  int m = 128, n = 128, k = 32, group = 8, warps = 4, stages = 3;
  bool exact = false;
};
SECTILE_CONFIG(MatmulConfig, m, n, k, group, warps, stages, exact)

template <class T>
Kernel matmul{
    "matmul", [](View<const T, 2> a, View<const T, 2> b, View<T, 2> c, const MatmulConfig &config) {
      auto [i, j] = grouped_order(program_id(0), c.tiles(config.m, config.n), config.group);
      auto left = a.tile(config.m, config.k);
      auto right = b.tile(config.k, config.n);
      auto sums = zeros<float>(config.m, config.n);
      for (auto k : range(0, cdiv(a.extent(1), config.k)))
        sums = dot(left.load(i, k), right.load(k, j), sums,
                   config.exact ? Precision::ieee : Precision::tf32);
      c.tile(config.m, config.n).store(i, j, sums);
    }};

// The last two axes the other way round where the flag is set.
auto swappedBy(const char *flag) {
  return [flag](std::vector<std::string> axes, const OptionValues &options) {
    if (options.flag(flag))
      std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return axes;
  };
}

} // namespace

KernelSpec sectile::matmulSpec() {
  KernelSpec spec;
  spec.name = "matmul";
  spec.summary = "c = a b";
  spec.arguments = {
      {.name = "a",
       .axes = {"M", "K"},
       .stored = swappedBy("trans_a"),
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .doc = "[K, M] with trans_a"},
      {.name = "b",
       .axes = {"K", "N"},
       .stored = swappedBy("trans_b"),
       .like = "a",
       .doc = "[N, K] with trans_b"},
      {.name = "c", .output = true, .axes = {"M", "N"}, .like = "a", .doc = "accumulated in f32"},
  };
  spec.options = {
      {.name = "trans_a",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "a is stored transposed"},
      {.name = "trans_b",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "b is stored transposed"},
      {.name = "precision",
       .kind = OptionSpec::choice,
       .initial = "tf32",
       .choices = {"tf32", "exact"},
       .doc = "of f32 products: through tf32 on tensor cores, or exact"},
  };
  spec.config = {
      {"m", "rows of one program's tile"}, {"n", "columns of one program's tile"},
      {"k", "depth of one step"},          {"group", "tile rows that neighbouring programs share"},
      {"warps", "warps of one program"},   {"stages", "steps in flight"}};
  spec.typical = {{"M", 4096}, {"N", 4096}, {"K", 4096}};
  spec.small = {{"M", 70}, {"N", 50}, {"K", 40}};
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    MatmulOptions options{.tf32 = inputs[0].dtype == DType::float32 &&
                                  call.options.choice("precision") == "tf32"};
    return std::vector{matmulReference(inputs[0], inputs[1], options, arithmetic)};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const bool wide = call.tensors[0].dtype == DType::float32;
    const bool small = std::max(call.extent("M"), call.extent("N")) <= 256;
    const std::int64_t tile = small || !hasMatrixUnits(target) ? 64 : 128;
    return Config{{"m", tile},  {"n", tile},  {"k", wide ? 16 : 32},
                  {"group", 8}, {"warps", 4}, {"stages", 3}};
  };
  spec.spaces = {{.axes = {{"m", {32, 64, 128, 256}},
                           {"n", {32, 64, 128, 256}},
                           {"k", {16, 32, 64}},
                           {"warps", {4, 8}},
                           {"stages", {2, 3, 4, 5}}},
                  // What keeps each thread busy without more sums than it has registers for.
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    const std::int64_t sums =
                        config.at("m") * config.at("n") / (config.at("warps") * warpSize(target));
                    return sums >= 8 && sums <= (hasMatrixUnits(target) ? 128 : 64);
                  }}};
  spec.apply = [](Use &use) {
    const MatmulConfig chosen{use.field("m"),
                              use.field("n"),
                              use.field("k"),
                              use.field("group"),
                              use.field("warps"),
                              use.field("stages"),
                              use.call.options.choice("precision") == "exact"};
    const std::int64_t programs =
        ceilDiv(use.call.extent("M"), chosen.m) * ceilDiv(use.call.extent("N"), chosen.n);
    forDType<half, bfloat16, float>(use.call.dtype("a"), [&]<class T>(T) {
      use(matmul<T>, programs, use.tensor<T, 2>("a"), use.tensor<T, 2>("b"), use.tensor<T, 2>("c"),
          chosen);
    });
  };
  return spec;
}
