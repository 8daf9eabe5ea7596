// attention: o = softmax(scale q k^T) v, lse = log of the sums (Vaswani et al., arXiv 1706.03762),
// never holding a whole row of scores: by blocks of keys as FlashAttention-2 (Dao, arXiv
// 2307.08691), with the online softmax of Milakov and Gimelshein (arXiv 1805.02867). Options.cpp
// has the formula with all options and what is refused. A row that sees no key gives o = 0 and lse
// = -inf. A NaN or an infinity in v may reach rows that do not see its key, as the page says.
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/attention/PackedHeads.h"
#include <algorithm>
#include <array>

using namespace sectile;

namespace {

template <class T>
Kernel attentionKernel{
    "attention",
    [](flash::ForwardTensors<T> tensors, flash::Numbers numbers, View<const T, 4> bias,
       View<const bool, 4> mask, blockwise::OptionNumbers limits, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, limits, bias, mask);
      flash::traceForward<T>(config, tensors, numbers, options.modifier(), options);
    }};
template <class T, class Out>
Kernel attentionParts{"attention_packed",
                      [](flash::PartTensors<T, Out> tensors, flash::Numbers numbers,
                         View<const T, 4> bias, View<const bool, 4> mask,
                         blockwise::OptionNumbers limits, const AttentionConfig &config) {
                        const blockwise::OptionScores options(config, limits, bias, mask);
                        flash::traceParts<T>(config, tensors, numbers, options.modifier(), options);
                      }};

} // namespace

KernelSpec sectile::attentionSpec() {
  KernelSpec spec;
  spec.name = "attention";
  spec.summary = "o = softmax(scale q k^T) v, with the logarithms of the sums";
  spec.arguments = {
      {.name = "q",
       .axes = {"B", "Hq", "Sq", "D"},
       .stored = storedByLayout,
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .doc = "queries; D and Dv from 16 to 256"},
      {.name = "k",
       .axes = {"B", "Hkv", "Sk", "D"},
       .stored = storedByLayout,
       .like = "q",
       .doc = "keys; Hq is a multiple of Hkv"},
      {.name = "v",
       .axes = {"B", "Hkv", "Sk", "Dv"},
       .stored = storedByLayout,
       .like = "q",
       .doc = "values"},
  };
  const std::vector<ArgumentSpec> extras = attentionExtras(),
                                  outputs{
                                      {.name = "o",
                                       .output = true,
                                       .axes = {"B", "Hq", "Sq", "Dv"},
                                       .stored = storedByLayout,
                                       .like = "q",
                                       .doc = "0 in rows that see no key"},
                                      {.name = "lse",
                                       .output = true,
                                       .axes = {"B", "Hq", "Sq"},
                                       .dtypes = {DType::float32},
                                       .doc =
                                           "natural logarithm of each row's sum of exponentials"},
                                  };
  spec.arguments.insert(spec.arguments.end(), extras.begin(), extras.end());
  spec.arguments.insert(spec.arguments.end(), outputs.begin(), outputs.end());
  spec.options = attentionOptions(true);
  spec.config = {{"m", "queries of one program"},
                 {"n", "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {.name = "overlap",
                  .doc = "1: products run beside softmax, copies in a warp of their own",
                  .least = 0,
                  .most = 1},
                 {"persistent", "1: each program does one block of queries after another", 0, 1},
                 {"programs", "programs where they are persistent"},
                 {"packed", "1: a program has the queries of all heads that share keys", 0, 1},
                 {"splits", "parts of the keys, each with programs of its own, where packed"}};
  spec.neutral = {"stages", "persistent", "programs"};
  spec.typical = {{"B", 4},     {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048},
                  {"Sk", 2048}, {"D", 64},  {"Dv", 64},  {"R", 1}};
  spec.small = {{"B", 2},   {"Hq", 2}, {"Hkv", 1}, {"Sq", 40},
                {"Sk", 50}, {"D", 32}, {"Dv", 32}, {"R", 3}};
  spec.check = checkAttention;
  spec.flops = [](const Invocation &call) {
    return 2 * visiblePairs(call) * double(call.extent("D") + call.extent("Dv"));
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = attentionReference(inputs[0], inputs[1], inputs[2],
                                     attentionSettings(call, inputs), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    if (std::optional<Config> packed = packedDefaults(call, target))
      return *packed;
    const std::int64_t d = std::max(call.extent("D"), call.extent("Dv"));
    const bool wide = call.dtype("q") == DType::float32,
               units = hasMatrixUnits(target, call.dtype("q"));
    if (hasWarpgroupUnits(target, call.dtype("q"))) {
      // Two warpgroups share the keys, where that leaves programs enough and no more rows are
      // computed in vain; in causal order the first 64 rows of a single block would see keys in
      // vain. Of narrow rows two blocks share a multiprocessor, and one multiplies while the other
      // does not; of wider ones, and where scores take long or rows see many keys, each warpgroup's
      // products run beside its own softmax and the other's. Where rows see few keys, programs
      // fetch for the next block while they store one: of narrow rows, too, one program of a
      // multiprocessor is faster then. But rows that are little wider wait long for their first
      // keys, which come in lines of 32 bytes where the width is an odd multiple of 16: there it is
      // two blocks again.
      const std::int64_t queries = extentOr0(call, "Sq"),
                         heads = extentOr0(call, "B") * extentOr0(call, "Hq"),
                         blocks = ceilDiv(queries, 128) * heads, units = multiprocessors(target);
      const bool fits = queries >= 256 || (2 * ceilDiv(queries, 128) == ceilDiv(queries, 64) &&
                                           (queries > 128 || !call.options.flag("causal"))),
                 pair = queries >= 1024 || (d > 64 && fits && blocks >= units),
                 tiles = takes(call, "bias") || takes(call, "mask"),
                 capped = takes(call, "softcap"), narrow = d <= 64,
                 equal = !call.options.flag("causal") || heads % 2 == 0; // all pairs of blocks
      const double seen = pair ? visiblePairs(call) / double(heads * queries) : 0; // by a row
      const bool shortLines = paddedWidth(d) % 32 != 0,
                 waits = !narrow && d <= 96 && !tiles && !capped && !takes(call, "dropout") &&
                         seen <= (shortLines ? 1024 : 256),
                 many = seen >= 2048,
                 persistent = pair && !waits && !tiles && equal && blocks > units &&
                              !(narrow && capped) && seen <= (d > 128 ? 512 : 2048),
                 overlap = pair && !waits &&
                           (!narrow || (many && !capped) || tiles || persistent ||
                            takes(call, "dropout"));
      // A bias and a mask beside wide rows take the room of half the keys.
      const std::int64_t keys = d > 128          ? (pair ? 64 : 32)
                                : !pair || waits ? 64
                                : d > 64   ? (takes(call, "bias") && takes(call, "mask") ? 64 : 128)
                                : !overlap ? 96
                                : many && !tiles && !capped ? 160
                                                            : 128;
      return Config{{"m", pair ? 128 : 64}, {"n", keys},          {"warps", pair ? 8 : 4},
                    {"stages", 2},          {"overlap", overlap}, {"persistent", persistent},
                    {"programs", units},    {"packed", 0},        {"splits", 1}};
    }
    // With WMMA the registers do not hold 64 keys, nor 64 rows of more than 64 elements.
    const bool wmma = units && target.starts_with("gfx1");
    const bool large = d > 128 || wide || (d > 64 && (wmma || !units));
    // A warp of 32 rows reads keys and values half as often from shared memory as one of 16, but
    // registers must hold their outputs, and there have to be blocks enough.
    const bool tall = units && d <= 64 && !wide && extentOr0(call, "Sq") >= 1024;
    return Config{{"m", large  ? 32
                        : tall ? 128
                               : 64},
                  {"n", d > 128 && wide ? 16
                        : large || wmma ? 32
                                        : 64},
                  {"warps", wmma && d > 128 ? 8 : 4},
                  // A step of narrow rows is few bytes: one more is under way.
                  {"stages", tall && d <= 16 ? 3 : 2},
                  {"overlap", 0},
                  {"persistent", 0},
                  {"programs", multiprocessors(target)},
                  {"packed", 0},
                  {"splits", 1}};
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {1, 2, 3}},
                {"overlap", {0, 1}},
                {"persistent", {0, 1}},
                {"splits", {1, 2, 4, 8, 16, 32}}},
       // Scores and outputs of one thread.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
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
                                      !hasWarpgroupUnits(target, call.dtype("q"))))
           return false;
         if (config.contains("persistent") && config.at("persistent") > config.at("overlap"))
           return false;
         return config.at("m") >= 16 * (config.at("warps") / 4) && numbers <= 160;
       }}};
  spec.apply = [](Use &use) {
    using flash::detail::Launch;
    const Invocation &call = use.call;
    const AttentionNumbers numbers(call);
    const OptionFlags flags = optionFlags(use, numbers);
    launchForward(use, numbers, modifiesScores(use, numbers), [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
        const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v");
        const auto with = [&](const auto &kernel, const auto &tensors) {
          use(kernel, launch.grid, tensors, launch.numbers, perPair<T>(use, "bias"),
              perPair<bool>(use, "mask"), optionNumbers(numbers),
              AttentionConfig{launch.config, flags});
        };
        if (launch.of == Launch::Of::all)
          return with(attentionKernel<T>,
                      Arguments<flash::ForwardTensors<T>>{q, k, v, use.tensor<T, 4>("o"),
                                                          use.tensor<float, 3>("lse"),
                                                          launch.sinks.as<const float, 2>()});
        const auto parts = [&]<class Out>(Out) {
          with(attentionParts<T, Out>,
               Arguments<flash::PartTensors<T, Out>>{q, k, v, launch.o.as<Out, 5>(),
                                                     launch.lse.as<float, 4>(),
                                                     launch.sinks.as<const float, 2>()});
        };
        if (launch.o.dtype == dtype_of<T>)
          parts(T());
        else
          parts(float());
      });
    });
  };
  return spec;
}

void sectile::launchForward(Use &use, const AttentionNumbers &numbers, bool modified,
                            const flash::detail::Launcher &launch) {
  if (use.field("packed"))
    return launchPacked(use, numbers, modified, launch);
  const Invocation &call = use.call;
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     queries = call.extent("Sq");
  flash::LoopConfig chosen = forwardConfig(use, numbers, modified);
  const std::int64_t blocks = ceilDiv(queries, chosen.m) * heads * batches;
  chosen.persistent = use.field("persistent") != 0;
  // In causal order later blocks are longer.
  chosen.pairs = chosen.persistent && call.options.flag("causal") && !numbers.leftBounded &&
                 heads * batches % 2 == 0;
  chosen.heads = chosen.persistent ? 1 : headsAtOnce(call, "Hq", keyBytes(call));
  const Grid grid =
      chosen.persistent
          ? Grid(std::min<std::int64_t>(use.field("programs"), blocks / (chosen.pairs ? 2 : 1)))
          : headGrid(call, chosen, ceilDiv(queries, chosen.m), heads);
  launch(use, {.of = flash::detail::Launch::Of::all,
               .grid = grid,
               .config = chosen,
               .numbers = launchNumbers(numbers, groupOf(call)),
               .sinks = sinksOf(use)});
}
