// attention_cached: chunks of queries, from one drafted token to a prompt, against all keys of
// their sequences, which lie in pages. The formula is in Paged.cpp; token i of n of a sequence is
// at position p = context_len - n + i and sees key j where p - window_left <= j <= p, of its chunk
// of positions, and, of the last n keys, where its tree says so (SpecInfer: Miao et al., arXiv
// 2305.09781). Rows of a program are the queries of all heads that share a head of the cache, so
// that one schedule serves from decoding to prefill; keys are split among programs evenly, or by a
// plan. Refused besides: tokens that sequences cannot share evenly, without cu_seqlens_q; a plan
// with cu_seqlens_q, but without max_queries; from the host also sequences with more tokens than
// tree or max_queries has room for.
#include "kernels/attention/Options.h"
#include "kernels/attention/PackedHeads.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"
#include <algorithm>

using namespace sectile;

KernelSpec sectile::attentionCachedSpec() {
  KernelSpec spec = pagedSpec(Paged::cached);
  spec.name = "attention_cached";
  spec.summary = "attention of chunks or trees of queries over keys and values in pages";
  spec.config =
      pagedFields("rows of one program: queries of all heads that share a head of the cache",
                  /*inParts=*/true);
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t keys = call.extent("max") * call.extent("page"), d = call.extent("D"),
                       sequences = std::max<std::int64_t>(call.extent("S"), 1),
                       kvHeads = call.extent("Hkv"), group = groupOf(call),
                       // Of one sequence, if all have as many.
        rows = ceilDiv(call.extent("T"), sequences) * group;
    const auto splits = [&](std::int64_t m, std::int64_t n) {
      return keyParts(ceilDiv(rows, m) * sequences * kvHeads, ceilDiv(keys, n),
                      4.0 * double(keys * d * sequences * kvHeads),
                      8.0 * double(rows * d * sequences * kvHeads), 0.02, target);
    };
    const auto config = [&](std::int64_t m, std::int64_t n, std::int64_t warps, bool overlap) {
      return Config{{"m", m},         {"n", n},      {"splits", splits(m, n)},
                    {"warps", warps}, {"stages", 2}, {"overlap", overlap}};
    };
    if (hasWarpgroupUnits(target, call.dtype("q"))) {
      if (const std::int64_t n = d > 128 ? 32 : 64; rows <= 64 && hasWholeSteps(call, n))
        return config(64, n, 4, true);
      if (const std::int64_t n = d > 64 ? 64 : 128; rows > 64 && hasWholeSteps(call, n))
        return config(128, n, 8, true);
    }
    const bool small =
        call.dtype("q") == DType::float32 || !hasMatrixUnits(target, call.dtype("q"));
    const std::int64_t m = std::clamp<std::int64_t>(powerAtLeast(rows), 16, small ? 32 : 64),
                       warps = pagedWarps(target, call.dtype("q"), m);
    // As in paged_decode, a warp has the addresses of a step's keys in registers.
    const std::int64_t n = std::clamp<std::int64_t>(d > 128  ? 16 * warps
                                                    : d > 64 ? 32 * warps
                                                             : 64,
                                                    16, pagedKeys(call, target));
    return config(m, n, warps, false);
  };
  spec.spaces = {
      {.part = "paged_attention",
       .axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {1, 2, 4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return config.at("m") >= 16 * (config.at("warps") / 4) && pagedFits(call, target, config);
       }}};
  spec.apply = launchPagedAttention;
  return spec;
}
