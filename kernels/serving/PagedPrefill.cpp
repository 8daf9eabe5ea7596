// paged_prefill: the next chunk of each sequence's queries against all of its keys, which lie in
// pages, those of the chunk included. The formula is in Paged.cpp; query i of a chunk of n sees key
// j where j <= i + context_len - n. A NaN or an infinity in a value of the chunk may reach the
// chunk's earlier queries.
#include "kernels/attention/Options.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"

using namespace sectile;

KernelSpec sectile::pagedPrefillSpec() {
  KernelSpec spec = pagedSpec(Paged::prefill);
  spec.name = "paged_prefill";
  spec.summary = "attention of packed chunks of queries over keys and values in pages";
  spec.config =
      pagedFields("rows of one program: queries of all heads that share a head of the cache",
                  /*inParts=*/false);
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Programs of two warpgroups, if sequences have rows for them. At small widths a step of 64
    // keys has too little work for them to hide one another's.
    const std::int64_t rows =
        call.extent("T") * groupOf(call) / std::max<std::int64_t>(call.extent("S"), 1);
    if (const std::int64_t n = call.extent("D") > 64 ? 64 : 128;
        rows >= 128 && hasWarpgroupUnits(target, call.dtype("q")) && hasWholeSteps(call, n))
      return Config{{"m", 128}, {"n", n}, {"warps", 8}, {"stages", 2}, {"overlap", 1}};
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
