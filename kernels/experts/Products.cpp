// moe_up, moe_down and moe_combine: the two products of a mixture of experts, by expert, and the
// sum over a token's experts. With rows of group g those of expert g:
//   moe_up:      h[i] = act(x[rows[i]] w[g] + bias[g]), through a gate of pairs of columns;
//   moe_down:    p[i] = h[i] w[g] + bias[g], in h's dtype, and moe_combine of it;
//   moe_combine: y[t] = addend[t] + sum over j of weights[t, j] p[inverse[t, j]], in the order of
//   j.
// Rows are gathered as they are loaded. The gates are those of SwiGLU (Shazeer, arXiv 2002.05202)
// and, with alpha, limit and up_offset, of gpt-oss. A choice with a negative place counts as 0.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/experts/Codes.h"
#include "kernels/experts/Family.h"
#include "kernels/experts/Gates.h"
#include "kernels/experts/Places.h"
#include "kernels/experts/References.h"
#include "kernels/matmul/Grouped.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct CombineConfig {
  int rows = 4, block = 512, warps = 4;
  bool weights = true, addend = false;
};

template <class T> struct CombineArguments {
  View<const T, 2> parts;
  View<const std::int32_t, 2> inverse;
  View<const float, 2> weights;
  View<const T, 2> addend;
  View<T, 2> y;
};

template <class T>
Kernel moeCombine{"moe_combine", [](const CombineArguments<T> &a, const CombineConfig &config) {
                    const int m = config.rows, n = config.block;
                    const Int row = program_id(0), column = program_id(1);
                    const Int token = row * m + arange(0, m);
                    const auto isThere = token < a.y.extent(0);
                    auto sums = zeros<float>(m, n);
                    if (config.addend)
                      sums = cast<float>(a.addend.tile(m, n).load(row, column));
                    const auto parts = a.parts.tile(m, n);
                    for (auto j : range(0, a.inverse.extent(1), {.unroll = 4})) {
                      const auto ofChoice = [&](const auto &view, auto none) {
                        return load(view.ptr() + cast<std::int64_t>(token) * view.stride(0) +
                                        cast<std::int64_t>(j) * view.stride(1),
                                    isThere, none);
                      };
                      const auto place = ofChoice(a.inverse, -1);
                      auto part = cast<float>(parts.gather(place, column));
                      if (config.weights)
                        part = part * expand(where(place >= 0, ofChoice(a.weights, 0.0f), 0.0f), 1);
                      sums += part;
                    }
                    a.y.tile(m, n).store(row, column, sums);
                  }};

// Adds the configuration of the sums, whose fields begin with `prefix`, and a search space.
void addCombine(KernelSpec &spec, const std::string &prefix) {
  for (const ConfigSpec &field :
       std::initializer_list<ConfigSpec>{{"rows", "tokens of one program of the sums"},
                                         {"block", "columns of one program of the sums"},
                                         {"warps", "warps of one program of the sums"}})
    spec.config.push_back({prefix + field.name, field.doc});
  spec.defaults = [product = spec.defaults, prefix](const Invocation &call,
                                                    const std::string &target) {
    Config config = product ? product(call, target) : Config();
    const RowBlocks blocks =
        rowBlocksFor(call.extent("T"), call.extent("N"), 2048, call.dtype("y"), target);
    config[prefix + "rows"] = blocks.rows;
    config[prefix + "block"] = blocks.block;
    config[prefix + "warps"] = blocks.warps;
    return config;
  };
  spec.spaces.push_back({.part = "moe_combine",
                         .axes = {{prefix + "rows", {1, 2, 4, 8}},
                                  {prefix + "block", {128, 256, 512, 1024, 2048}},
                                  {prefix + "warps", {1, 2, 4, 8}}},
                         .where = tilesWithin({prefix + "rows", prefix + "block"}, 4, 32,
                                              {{prefix + "block", 128, "N"}}, prefix + "warps")});
}

CombineConfig combineConfig(const Use &use, const std::string &prefix) {
  const auto field = [&](const char *name) { return use.field((prefix + name).c_str()); };
  return {field("rows"), field("block"), field("warps"), use.has("weights"), use.has("addend")};
}

template <class T>
void launchCombine(Use &use, const Tensor<T, 2> &parts, const CombineConfig &config) {
  use(moeCombine<T>,
      Grid(ceilDiv(use.extent("T"), config.rows), ceilDiv(use.extent("N"), config.block)), config,
      {{"parts", parts},
       {"inverse", use.tensor<std::int32_t, 2>("inverse")},
       {"weights", use.tensor<float, 2>("weights")},
       {"addend", use.tensor<T, 2>("addend")},
       {"y", use.tensor<T, 2>("y")}});
}

} // namespace

KernelSpec sectile::moeUpSpec() {
  KernelSpec spec;
  spec.name = "moe_up";
  spec.summary = "rows gathered by expert times the expert's matrix, through a gate";
  const auto rows = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(call.extent("T"), 1));
    for (std::int32_t &row : array.as<std::int32_t>())
      row = static_cast<std::int32_t>(random() % count);
  };
  const auto result = [](const Invocation &call) { return resultOf(call, "x"); };
  spec.add_arguments(codedOperands("x", "T", "rows of tokens",
                                   "of each expert, with a gate N is twice h's columns; "));
  spec.add_arguments(
      {groupSizes("counts"),
       {"rows: [M] i32", "of x, expert by expert: `tokens` of moe_permute", {.sample = rows}},
       {"bias?: [G, N]", "of each expert; h's dtype", {.dtype_by = result}}});
  spec.add_arguments(codeScales("x", "T"));
  spec.add_arguments({{"-> h: [M, I]",
                       "accumulated in f32; like x, of f8e4m3 bf16; rows after the last expert's "
                       "are not written",
                       {.dtype_by = result}}});
  specifyExperts(spec, "x");
  spec.add_options(gateOptions());
  spec.typical = {{"T", 4096}, {"M", 32768}, {"K", 2048}, {"N", 1536}, {"G", 128}};
  spec.small = {{"T", 40}, {"M", 90}, {"K", 136}, {"N", 132}, {"G", 5}};
  spec.derive = [](Invocation &call) {
    call.extents["I"] = call.extent("N") / (hasGate(call) ? 2 : 1);
  };
  spec.check = [](const Invocation &call) {
    checkExperts(call, "x");
    checkGate(call);
    if (call.extent("T") == 0 && call.extent("M") != 0)
      refuse(call, "there are rows to gather, but x has none");
  };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkGroupSizes(call, inputs, "counts");
    checkPlaces(call, inputs, "rows", call.extent("T"));
  };
  spec.reference = moeUpReference;
  spec.apply = [](Use &use) {
    const GroupedEpilogue epilogue = gateOf(use.call);
    forCodes(use, "x", [&]<class T, class W>(T, W) {
      using Tensors = GroupedTensors<T, W>;
      using Result = typename Tensors::Result;
      launchGrouped<T, W>(use,
                          {use.tensor<T, 2>("x"), use.tensor<W, 3>("w"),
                           use.tensor<std::int32_t, 1>("counts"),
                           use.tensor<std::int32_t, 1>("rows"), use.tensor<Result, 2>("bias"),
                           use.tensor<Result, 2>("h"), use.tensor<float, 2>("x_scales"),
                           use.tensor<typename Tensors::Scale, 3>("w_scales")},
                          epilogue);
    });
  };
  return spec;
}

KernelSpec sectile::moeDownSpec() {
  KernelSpec spec;
  spec.name = "moe_down";
  spec.summary = "rows of each expert times its matrix, and the weighted sum of each token's";
  const auto result = [](const Invocation &call) { return resultOf(call, "h"); };
  spec.add_arguments(codedOperands("h", "M", "rows, expert by expert", "of each expert, "));
  spec.add_arguments({groupSizes("counts"),
                      {"inverse: [T, C] i32",
                       "the row of each token's choice; -1 where it is left out",
                       {.sample = samplePlaces}},
                      {"weights: [T, C] f32", "of the choices", {.sample = sampleUniform(0, 1)}},
                      {"bias?: [G, N]", "of each expert; y's dtype", {.dtype_by = result}},
                      {"addend?: [T, N]",
                       "of each token, such as what shared experts gave; y's dtype",
                       {.dtype_by = result}}});
  spec.add_arguments(codeScales("h", "M"));
  spec.add_arguments({{"-> y: [T, N] over addend",
                       "summed in f32, in the order of the choices; like h, of f8e4m3 bf16",
                       {.dtype_by = result}}});
  specifyExperts(spec, "h");
  spec.spaces.front().part = "grouped_matmul";
  addCombine(spec, "sum_");
  spec.typical = {{"T", 4096}, {"C", 8}, {"M", 32768}, {"K", 768}, {"N", 2048}, {"G", 128}};
  spec.small = {{"T", 40}, {"C", 3}, {"M", 120}, {"K", 136}, {"N", 132}, {"G", 5}};
  spec.check = [](const Invocation &call) { checkExperts(call, "h"); };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkGroupSizes(call, inputs, "counts");
    checkPlaces(call, inputs, "inverse", call.extent("M"));
  };
  spec.reference = moeDownReference;
  spec.apply = [](Use &use) {
    forCodes(use, "h", [&]<class T, class W>(T, W) {
      using Tensors = GroupedTensors<T, W>;
      using Result = typename Tensors::Result;
      const auto parts = use.workspace<Result, 2>({use.extent("M"), use.extent("N")});
      launchGrouped<T, W>(use,
                          {use.tensor<T, 2>("h"), use.tensor<W, 3>("w"),
                           use.tensor<std::int32_t, 1>("counts"), noTensor<std::int32_t, 1>(),
                           use.tensor<Result, 2>("bias"), parts, use.tensor<float, 2>("h_scales"),
                           use.tensor<typename Tensors::Scale, 3>("w_scales")},
                          {});
      launchCombine<Result>(use, parts, combineConfig(use, "sum_"));
    });
  };
  return spec;
}

KernelSpec sectile::moeCombineSpec() {
  KernelSpec spec;
  spec.name = "moe_combine";
  spec.summary = "the weighted sum of each token's rows, in the order of its choices";
  spec.add_arguments(
      {{"parts: [M, N] f16|bf16|f32", "rows, expert by expert"},
       {"inverse: [T, C] i32",
        "the row of each token's choice; -1 where it is left out",
        {.sample = samplePlaces}},
       {"weights?: [T, C] f32", "of the choices; 1 if not given", {.sample = sampleUniform(0, 1)}},
       {"addend?: [T, N] like parts", "of each token"},
       {"-> y: [T, N] like parts over addend", "summed in f32, in the order of the choices"}});
  addCombine(spec, "");
  spec.typical = {{"T", 16384}, {"C", 8}, {"M", 131072}, {"N", 2048}};
  spec.small = {{"T", 20}, {"C", 3}, {"M", 60}, {"N", 40}};
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkPlaces(call, inputs, "inverse", call.extent("M"));
  };
  spec.check = [](const Invocation &) {};
  spec.reference = moeCombineReference;
  spec.batch = {"T", "M"};
  spec.apply = [](Use &use) {
    const CombineConfig config = combineConfig(use, "");
    for_dtype<half, bfloat16, float>(use.call.dtype("parts"), [&]<class T>(T) {
      launchCombine<T>(use, use.tensor<T, 2>("parts"), config);
    });
  };
  return spec;
}
