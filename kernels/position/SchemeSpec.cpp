// Arguments, options, rules and configurations of this family's attentions.
#include "kernels/position/SchemeSpec.h"
#include "ir/Target.h"
#include "kernels/attention/Options.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;

ArgumentSpec scheme::queryLike(const std::string &name, const std::string &doc, bool output) {
  ArgumentSpec spec{.name = name,
                    .output = output,
                    .axes = {"B", "Hq", "Sq", "D"},
                    .stored = storedByLayout,
                    .doc = doc};
  return spec;
}

ArgumentSpec scheme::keyLike(const std::string &name, const std::string &doc, bool output) {
  ArgumentSpec spec = queryLike(name, doc, output);
  spec.axes = {"B", "Hkv", "Sk", "D"};
  return spec;
}

ArgumentSpec scheme::logarithms(bool output) {
  return {.name = "lse",
          .output = output,
          .axes = {"B", "Hq", "Sq"},
          .dtypes = {DType::float32},
          .doc = "natural logarithm of each row's sum of exponentials"};
}

std::vector<ArgumentSpec> scheme::inputs(const std::vector<std::string> &queries,
                                         const std::vector<std::string> &keys) {
  std::vector<ArgumentSpec> specs;
  for (const std::string &name : queries)
    specs.push_back(queryLike(name, "queries; D from 16 to 256", false));
  for (const std::string &name : keys)
    specs.push_back(keyLike(name, "keys; Hq is a multiple of Hkv", false));
  specs.push_back(keyLike("v", "values", false));
  specs.front().dtypes = {DType::float16, DType::bfloat16, DType::float32};
  for (std::size_t i = 1; i < specs.size(); ++i)
    specs[i].like = queries.front();
  return specs;
}

std::vector<OptionSpec> scheme::options(bool windows) {
  std::vector<OptionSpec> wanted;
  for (OptionSpec &option : attentionOptions(true)) {
    const bool window = option.name.starts_with("window");
    if (option.name == "causal" || option.name == "scale" || option.name == "layout" ||
        (windows && window))
      wanted.push_back(std::move(option));
  }
  return wanted;
}

void scheme::check(const Invocation &call) {
  const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"), d = call.extent("D");
  auto refuse = [&](const std::string &what) { throw InputError(call.kernel->name + ": " + what); };
  if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
    refuse("Hq, the heads of the queries (" + std::to_string(heads) +
           "), must be a multiple of Hkv, those of the keys (" + std::to_string(kvHeads) + ")");
  if (d < 16 || d > 256)
    refuse("D is " + std::to_string(d) + ", but must be from 16 to 256");
  for (const char *option : {"window_left", "window_right"})
    if (call.options.values.contains(option) && call.options.integer(option) < -1)
      refuse("option '" + std::string(option) + "' is a distance, or -1 for any");
}

double scheme::scale(const Invocation &call) {
  return call.options.given("scale") ? call.options.number("scale")
                                     : 1 / std::sqrt(static_cast<double>(call.extent("D")));
}

void scheme::configure(KernelSpec &spec, bool backward, int products) {
  spec.config = {{"m", backward ? "queries of a block" : "queries of one program"},
                 {"n", backward ? "keys of a block" : "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"}};
  spec.typical = {{"B", 4}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048}, {"Sk", 2048}, {"D", 64}};
  spec.small = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 40}, {"Sk", 50}, {"D", 32}};
  spec.defaults = [=](const Invocation &call, const std::string &target) {
    // Numbers that a row of operands has, in words.
    const std::int64_t words = call.extent("D") * (products + backward) *
                               (call.tensors[0].dtype == DType::float32 ? 2 : 1);
    const bool matrices = hasMatrixUnits(target, call.tensors[0].dtype);
    const std::int64_t most = target.starts_with("sm_") ? 512 : 256; // shared memory
    const bool crowded = backward && products > 1 &&                 // registers
                         !hasWarpgroupUnits(target, call.tensors[0].dtype);
    const std::int64_t wide = backward ? 256 : 128;
    std::int64_t size = words > most ? 16 : words > wide || !matrices || crowded ? 32 : 64;
    const auto shared = [&] { return llvm::cantFail(Target::get(target)).maxSharedBytes; };
    // Warps of 32 threads have no registers for the keys and values of a block. They lie beside the
    // queries, their gradients and the scores.
    while (backward && matrices && warpSize(target) == 32 &&
           words * size * 4 + size * size * 2 > shared())
      size /= 2;
    // Of shared memory two blocks of queries and their gradients take most, keys and values the
    // rest.
    const bool fits = backward ? matrices && words * size * 7 <= shared() : words <= 256;
    return Config{{"m", size}, {"n", size}, {"warps", 4}, {"stages", fits ? 2 : 1}};
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t threads = config.at("warps") * warpSize(target),
                            width = paddedWidth(call.extent("D")), m = config.at("m"),
                            n = config.at("n");
         // Scores and sums of one thread; backward also what they change, and dv.
         const std::int64_t numbers =
             backward ? (products + 2) * m * n + std::max(m, n) * width * (products + 1)
                      : m * n + std::max(m, n) * width * products;
         return m >= 16 * (config.at("warps") / 4) && numbers <= (backward ? 224 : 160) * threads;
       }}};
}

void scheme::inWarpgroups(KernelSpec &spec, const std::map<std::int64_t, Config> &tiles) {
  spec.defaults = [=, otherwise = spec.defaults](const Invocation &call,
                                                 const std::string &target) {
    const std::int64_t d = call.extent("D");
    if (d <= 64 || !hasWarpgroupUnits(target, call.tensors[0].dtype))
      return otherwise(call, target);
    if (call.extent("Sq") < 1024)
      return Config{{"m", 64}, {"n", 32}, {"warps", 4}, {"stages", 2}};
    return tiles.lower_bound(d)->second;
  };
}
