// attention: o = softmax(scale q k^T) v, lse = log of the sums (Vaswani et al., arXiv 1706.03762),
// never holding a whole row of scores: by blocks of keys as FlashAttention-2 (Dao, arXiv
// 2307.08691), with the online softmax of Milakov and Gimelshein (arXiv 1805.02867). Options.cpp
// has the formula with all options and what is refused. A row that sees no key gives o = 0 and lse
// = -inf. A NaN or an infinity in v may reach rows that do not see its key, as the page says.
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionKernels.h"
#include "kernels/attention/References.h"
#include "kernels/attention/Tiles.h"
#include <algorithm>
#include <array>

using namespace sectile;

namespace {

template <class T, class Out>
Kernel attentionParts{"attention_packed",
                      [](flash::PartTensors<T, Out> tensors, flash::Numbers numbers,
                         blockwise::OptionArguments<T> given, const AttentionConfig &config) {
                        const blockwise::OptionScores options(config, given);
                        flash::traceParts(config, tensors, options.rules(numbers));
                      }};

Config defaultsFor(const Invocation &call, const std::string &target) {
  if (std::optional<Config> packed = packedDefaults(call, target))
    return *packed;
  const tiles::Row &row = tiles::rowFor(tiles::Pass::forward, call, target);
  Config config = tiles::fields(row);
  config.insert({{"persistent", row.tile.schedule == tiles::Schedule::persistent ||
                                    row.tile.schedule == tiles::Schedule::prompt},
                 {"programs", multiprocessors(target)},
                 {"packed", 0},
                 {"splits", 1}});
  return config;
}

// Scores and outputs of one thread.
bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config) {
  if (const std::optional<Config> packed = packedDefaults(call, target))
    return std::ranges::all_of(
        std::array{"m", "warps", "overlap", "persistent"},
        [&](const char *field) { return config.at(field) == packed->at(field); });
  if (config.contains("splits") && config.at("splits") > 1)
    return false;
  const std::int64_t threads = config.at("warps") * warpSize(target);
  const std::int64_t width = paddedWidth(call.extent("Dv"));
  const std::int64_t numbers = config.at("m") * (config.at("n") + width) / threads;
  if (config.at("overlap") && (config.at("warps") != 8 || config.at("stages") < 2 ||
                               !hasWarpgroupUnits(target, operandType(call))))
    return false;
  if (config.contains("persistent") && config.at("persistent") && !config.at("overlap"))
    return false;
  return config.at("m") >= 16 * (config.at("warps") / 4) && numbers <= 160;
}

} // namespace

KernelSpec sectile::blockAttentionSpec() {
  KernelSpec spec;
  spec.name = "attention";
  spec.summary = "o = softmax(scale q k^T) v, with the logarithms of the sums";
  spec.add_arguments(
      {{"q: [B, Hq, Sq, D] f16|bf16|f32", "queries; D and Dv from 16 to 256"},
       {"k: [B, Hkv, Sk, D] like q", "keys; Hq is a multiple of Hkv"},
       {"v: [B, Hkv, Sk, Dv] like q", "values"},
       {"bias?: [1|B, 1|Hq, Sq, Sk] like q", "added to the scaled and capped scores"},
       {"mask?: [1|B, 1|Hq, Sq, Sk] bool", "true where a query sees a key", {.sample = sampleMask}},
       sinksArgument,
       seedOffsetArgument(),
       {"-> o: [B, Hq, Sq, Dv] like q", "0 in rows that see no key"},
       {"-> lse: [B, Hq, Sq] f32", "natural logarithm of each row's sum of exponentials"}});
  addAttentionOptions(spec);
  addLayouts(spec);
  spec.config = {
      {"m", "queries of one program"},
      {"n", "keys of one step"},
      {"warps", "warps of one program"},
      {"stages", "steps in flight"},
      {"overlap",
       "1: products run beside softmax, copies in a warp of their own; 2: the copies alone", 0, 2}};
  spec.typical = {{"B", 4},     {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048},
                  {"Sk", 2048}, {"D", 64},  {"Dv", 64},  {"R", 1}};
  spec.small = {{"B", 2},   {"Hq", 2}, {"Hkv", 1}, {"Sq", 40},
                {"Sk", 50}, {"D", 32}, {"Dv", 32}, {"R", 3}};
  spec.check = checkAttention;
  spec.flops = [](const Invocation &call) {
    return 2 * visiblePairs(call) * double(call.extent("D") + call.extent("Dv"));
  };
  spec.reference = forwardReference(attentionSettings);
  spec.defaults = [](const Invocation &call, const std::string &target) {
    Config config = defaultsFor(call, target);
    for (const char *field : {"persistent", "programs", "packed", "splits"})
      config.erase(field);
    return config;
  };
  spec.spaces = {{.axes = {{"m", {16, 32, 64, 128}},
                           {"n", {16, 32, 64, 128}},
                           {"warps", {4, 8}},
                           {"stages", {1, 2, 3}},
                           {"overlap", {0, 1, 2}}},
                  .where = isWorthTrying}};
  return spec;
}

void sectile::addPrograms(KernelSpec &spec) {
  spec.config.insert(
      spec.config.end(),
      {{"persistent", "1: each program does one block of queries after another", 0, 1},
       {"programs", "programs where they are persistent"},
       {"packed", "1: a program has the queries of all heads that share keys", 0, 1},
       {"splits", "parts of the keys, each with programs of its own, where packed"}});
  spec.neutral = {"stages", "persistent", "programs"};
  SearchSpace &space = spec.spaces.front();
  space.axes.insert(space.axes.end(), {{"persistent", {0, 1}}, {"splits", {1, 2, 4, 8, 16, 32}}});
  spec.defaults = defaultsFor;
}

KernelSpec sectile::attentionSpec() {
  KernelSpec spec = blockAttentionSpec();
  addPrograms(spec);
  spec.spaces.front().part = "attention, attention_packed";
  spec.apply = [](Use &use) {
    launchAttention(use, AttentionNumbers(use.call), AttentionTensors(use));
  };
  return spec;
}

void sectile::launchAttention(Use &use, const AttentionNumbers &numbers,
                              const AttentionTensors &tensors) {
  using flash::detail::Launch;
  const OptionFlags flags = optionFlags(use, numbers);
  const auto launch = [&](Use &use, const Launch &launch) {
    for_dtype<half, bfloat16, float>(operandType(use.call), [&]<class T>(T) {
      const auto q = tensors.q.as<T, 4>(), k = tensors.k.as<T, 4>(), v = use.tensor<T, 4>("v");
      const auto sinks = launch.sinks.as<const float, 2>();
      const auto with = [&](const auto &kernel, const auto &arguments) {
        use(kernel, launch.grid, arguments, launch.numbers, optionArguments<T>(use, numbers),
            AttentionConfig{launch.config, flags});
      };
      const auto to = [&]<class Out>(Out) {
        if (launch.of == Launch::Of::all)
          with(attentionKernel<PlainOptions, T, Out>,
               Arguments<flash::ForwardTensors<T, Out>>{q, k, v, tensors.o.as<Out, 4>(),
                                                        tensors.lse.as<float, 3>(), sinks});
        else
          with(attentionParts<T, Out>,
               Arguments<flash::PartTensors<T, Out>>{q, k, v, launch.o.as<Out, 5>(),
                                                     launch.lse.as<float, 4>(), sinks});
      };
      const AnyTensor &o = launch.of == Launch::Of::all ? tensors.o : launch.o;
      if (o.dtype == dtype_of<T>)
        to(T());
      else
        to(float());
    });
  };
  launchForward(use, numbers, modifiesScores(use, numbers), tensors, launch);
}

void sectile::launchForward(Use &use, const AttentionNumbers &numbers, bool modified,
                            const AttentionTensors &tensors,
                            const flash::detail::Launcher &launch) {
  if (use.field("packed"))
    return launchPacked(use, numbers, modified, tensors, launch);
  const Invocation &call = use.call;
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     queries = call.extent("Sq");
  flash::LoopConfig chosen = forwardConfig(use, numbers, modified);
  const std::int64_t blocks = ceilDiv(queries, chosen.m);
  const std::optional<Grid> persistent =
      persistentGrid(use, numbers, chosen, blocks, heads * batches);
  chosen.heads = persistent ? 1 : headsAtOnce(call, "Hq", keyBytes(call));
  launch(use, {.of = flash::detail::Launch::Of::all,
               .grid = persistent ? *persistent : headGrid(call, chosen, blocks, heads),
               .config = chosen,
               .numbers = launchNumbers(use, numbers, groupOf(call)),
               .sinks = sinksOf(use)});
}

std::optional<Grid> sectile::persistentGrid(const Use &use, const AttentionNumbers &numbers,
                                            flash::LoopConfig &chosen, std::int64_t blocks,
                                            std::int64_t heads) {
  chosen.persistent = use.field("persistent") != 0;
  if (!chosen.persistent)
    return std::nullopt;
  // In causal order later blocks are longer.
  chosen.pairs = use.call.options.flag("causal") && !numbers.leftBounded && heads % 2 == 0;
  return Grid(
      std::min<std::int64_t>(use.field("programs"), blocks * heads / (chosen.pairs ? 2 : 1)));
}
