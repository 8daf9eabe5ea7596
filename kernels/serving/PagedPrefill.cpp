// paged_prefill: the next chunk of each sequence's queries against all of its keys, which lie in
// pages, those of the chunk included. The formula is in Paged.cpp; query i of a chunk of n sees key
// j where j <= i + context_len - n. A NaN or an infinity in a value of the chunk may reach the
// chunk's earlier queries.
#include "kernels/Contents.h"
#include "kernels/attention/Options.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"
#include <algorithm>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;

namespace {

// Chunks of about one length.
void sampleEnds(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const std::int64_t tokens = call.extent("T"), sequences = call.extent("ends") - 1;
  auto ends = array.as<std::int32_t>();
  for (std::int64_t s = 0; s <= sequences; ++s) {
    const std::int64_t even = sequences ? tokens * s / sequences : 0;
    const std::int64_t off =
        s == 0 || s == sequences
            ? 0
            : static_cast<std::int64_t>(random() %
                                        static_cast<std::uint64_t>(tokens / (2 * sequences) + 1));
    ends[static_cast<std::size_t>(s)] = static_cast<std::int32_t>(even + off);
  }
}

} // namespace

KernelSpec sectile::pagedPrefillSpec() {
  KernelSpec spec;
  spec.name = "paged_prefill";
  spec.summary = "attention of packed chunks of queries over keys and values in pages";
  spec.arguments = {{.name = "q",
                     .axes = {"T", "Hq", "D"},
                     .dtypes = {DType::float16, DType::bfloat16, DType::float32},
                     .doc = "the chunks' tokens, sequence after sequence; D from 16 to 256"}};
  for (ArgumentSpec &input : pagedInputs())
    spec.arguments.push_back(std::move(input));
  spec.arguments.insert(
      spec.arguments.end(),
      {{.name = "cu_seqlens_q",
        .axes = {"ends"},
        .dtypes = {DType::int32},
        .sample = sampleEnds,
        .doc = "[S + 1]: sequence s has tokens cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1 of q; "
               "begins with 0, never falls, ends with T"},
       {.name = "o",
        .output = true,
        .axes = {"T", "Hq", "D"},
        .like = "q",
        .doc = "0 where a query sees no key"},
       {.name = "lse",
        .output = true,
        .axes = {"T", "Hq"},
        .dtypes = {DType::float32},
        .doc = "natural logarithm of the sum of exponentials, that of the sinks included"}});
  spec.options = pagedOptions();
  spec.options.insert(spec.options.begin(),
                      {.name = "causal",
                       .kind = OptionSpec::flag,
                       .initial = "true",
                       .doc = "query i of n sees key j where j <= i + context_len - n"});
  spec.config = {{"m", "rows of one program: queries of all heads that share a head of the cache"},
                 {"n", "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {.name = "overlap",
                  .doc = "1: products run beside softmax, copies of pages in a warp of their own",
                  .least = 0,
                  .most = 1}};
  spec.typical = {{"T", 4096},      {"Hq", 32},   {"Hkv", 8},   {"D", 128}, {"S", 8},
                  {"blocks", 4096}, {"page", 16}, {"max", 256}, {"R", 1}};
  spec.small = {{"T", 40},      {"Hq", 4},    {"Hkv", 2}, {"D", 32}, {"S", 3},
                {"blocks", 20}, {"page", 16}, {"max", 6}, {"R", 1}};
  spec.follow = [](Invocation &call) {
    followPaged(call);
    call.extents["ends"] = call.extent("S") + 1;
  };
  spec.check = [](const Invocation &call) {
    checkPaged(call);
    if (call.extent("ends") != call.extent("S") + 1)
      throw InputError(call.kernel->name + ": cu_seqlens_q has " +
                       std::to_string(call.extent("ends")) +
                       " numbers, but must have one more than the " +
                       std::to_string(call.extent("S")) + " sequences of context_lens");
    if (call.extent("S") == 0 && call.extent("T") != 0)
      throw InputError(call.kernel->name + ": q has tokens, but there is no sequence");
  };
  const auto settingsOf = [](const Invocation &call, std::span<const HostArray> inputs) {
    PagedSettings settings = pagedSettings(call, inputs);
    settings.cu = &inputs[call.index("cu_seqlens_q")];
    return settings;
  };
  spec.contents = [settingsOf](const Invocation &call, std::span<const HostArray> inputs) {
    checkBoundaries(call, inputs, "cu_seqlens_q", call.extent("T"));
    checkPagedContents(call, inputs[3], inputs[4], settingsOf(call, inputs));
  };
  spec.reference = [settingsOf](const Invocation &call, std::span<const HostArray> inputs,
                                Arithmetic arithmetic) {
    auto result = pagedReference(inputs[0], inputs[1], inputs[2], inputs[3], inputs[4],
                                 settingsOf(call, inputs), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const bool small =
        call.dtype("q") == DType::float32 || !hasMatrixUnits(target, call.dtype("q"));
    const std::int64_t m = small ? 32 : 64;
    return Config{{"m", m},
                  {"n", pagedKeys(call, target)},
                  {"warps", pagedWarps(target, call.dtype("q"), m)},
                  {"stages", 2},
                  {"overlap", 0}};
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {1, 2, 4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return config.at("m") >= 16 * (config.at("warps") / 4) && pagedFits(call, target, config);
       }}};
  spec.apply = launchPagedAttention;
  return spec;
}
