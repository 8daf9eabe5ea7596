// paged_decode, paged_prefill and attention_cached. The formula is in Paged.cpp; rows of a program
// are the queries of all heads that share a head of the cache.
//
// paged_decode: one new query of each sequence against all of its keys, which lie in pages. Keys
// are split among programs as in Flash-Decoding, and merged by lse.
//
// paged_prefill: the next chunk of each sequence's queries against all of its keys, those of the
// chunk included; query i of a chunk of n sees key j where j <= i + context_len - n. A NaN or an
// infinity in a value of the chunk may reach the chunk's earlier queries.
//
// attention_cached: chunks of queries, from one drafted token to a prompt, against all keys of
// their sequences. Token i of n of a sequence is at position p = context_len - n + i and sees key j
// where p - window_left <= j <= p, of its chunk of positions, behind the sequence's padding, and,
// of the last n keys, where its tree says so (SpecInfer: Miao et al., arXiv 2305.09781). One
// schedule serves from decoding to prefill; keys are split among programs evenly, or by a plan.
// Refused besides: tokens that sequences cannot share evenly, without cu_seqlens_q; a plan with
// cu_seqlens_q, but without max_queries; from the host also sequences with more tokens than tree or
// max_queries has room for.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"
#include <algorithm>

using namespace sectile;

namespace {

bool isSmall(const Invocation &call, const std::string &target) {
  return call.dtype("q") == DType::float32 || !hasMatrixUnits(target, call.dtype("q"));
}

// Keys of one step that suit this width and dtype.
std::int64_t keysOf(const Invocation &call, const std::string &target) {
  const bool wide = call.dtype("q") == DType::float32, broad = call.extent("D") > 128;
  return broad && wide ? 16 : broad || isSmall(call, target) ? 32 : 64;
}
// Where m rows have these warps, and keys are split: a warp has the addresses of a step's keys in
// registers, and more than these do not fit.
std::int64_t keysOf(const Invocation &call, const std::string &target, std::int64_t warps) {
  const std::int64_t d = call.extent("D");
  return std::clamp<std::int64_t>(d > 128  ? 16 * warps
                                  : d > 64 ? 32 * warps
                                           : 64,
                                  16, keysOf(call, target));
}
// Matrix instructions want 16 rows to a warp: with fewer, warps share rows and must exchange them.
std::int64_t warpsOf(const Invocation &call, const std::string &target, std::int64_t m) {
  return isSmall(call, target) ? 4 : m / 16;
}

// Whether the engine copies whole steps of n keys, and two warpgroups multiply beside it.
bool overlaps(const Invocation &call, const std::string &target, std::int64_t n) {
  return hasWarpgroupUnits(target, call.dtype("q")) && hasWholeSteps(call, n);
}

Config configOf(std::int64_t m, std::int64_t n, std::int64_t warps, bool overlap) {
  return {{"m", m}, {"n", n}, {"warps", warps}, {"stages", 2}, {"overlap", overlap}};
}

// By the length that there is room for. Sequences differ, so many parts share them out better.
// `rows` of each of so many heads of sequences.
std::int64_t partsOf(const Invocation &call, const std::string &target, std::int64_t blocks,
                     std::int64_t n, std::int64_t heads, std::int64_t rows) {
  const std::int64_t keys = call.extent("max") * call.extent("page"), d = call.extent("D");
  return keyParts(blocks, ceilDiv(keys, n), 4.0 * double(keys * d * heads),
                  8.0 * double(rows * heads * d), 0.02, target);
}

// The same where threads copy: at least eight warps for each multiprocessor, no program of fewer
// than four steps.
std::int64_t partsByThreads(const Invocation &call, const std::string &target, std::int64_t blocks,
                            std::int64_t n, std::int64_t warps, std::int64_t heads,
                            std::int64_t rows) {
  const std::int64_t keys = call.extent("max") * call.extent("page"),
                     enough = std::clamp<std::int64_t>(
                         8 / warps * multiprocessors(target) / std::max<std::int64_t>(blocks, 1), 1,
                         std::clamp<std::int64_t>(ceilDiv(keys, n) / 4, 1, 64));
  return std::max(enough, partsOf(call, target, blocks, n, heads, rows));
}

Config decodeDefaults(const Invocation &call, const std::string &target) {
  const std::int64_t group = groupOf(call), heads = call.extent("S") * call.extent("Hkv");
  if (const std::int64_t n = call.extent("D") > 128 ? 32 : 64;
      group <= 128 && overlaps(call, target, n)) {
    const std::int64_t m = group > 64 ? 128 : 64;
    Config config = configOf(m, n, m / 16, true);
    config["splits"] = partsOf(call, target, heads, n, heads, group);
    return config;
  }
  const std::int64_t m = std::clamp<std::int64_t>(ceilDiv(group, 16) * 16, 16, 32),
                     warps = warpsOf(call, target, m), n = keysOf(call, target, warps);
  Config config = configOf(m, n, warps, false);
  config["splits"] =
      partsByThreads(call, target, ceilDiv(group, m) * heads, n, warps, heads, group);
  return config;
}

Config prefillDefaults(const Invocation &call, const std::string &target) {
  // Programs of two warpgroups, if sequences have rows for them. At small widths a step of 64 keys
  // has too little work for them to hide one another's.
  const std::int64_t rows =
      call.extent("T") * groupOf(call) / std::max<std::int64_t>(call.extent("S"), 1);
  if (const std::int64_t n = call.extent("D") > 64 ? 64 : 128;
      rows >= 128 && overlaps(call, target, n))
    return configOf(128, n, 8, true);
  const std::int64_t m = isSmall(call, target) ? 32 : 64;
  return configOf(m, keysOf(call, target), warpsOf(call, target, m), false);
}

Config cachedDefaults(const Invocation &call, const std::string &target) {
  const std::int64_t d = call.extent("D"), sequences = std::max<std::int64_t>(call.extent("S"), 1),
                     heads = sequences * call.extent("Hkv"),
                     // Of one sequence, if all have as many.
      rows = ceilDiv(call.extent("T"), sequences) * groupOf(call);
  const auto config = [&](std::int64_t m, std::int64_t n, std::int64_t warps, bool overlap) {
    Config config = configOf(m, n, warps, overlap);
    config["splits"] = partsOf(call, target, ceilDiv(rows, m) * heads, n, heads, rows);
    return config;
  };
  // Queries for the values lie beside the others, and take the room of further rows.
  const bool wide = call.has("qv") && d * static_cast<std::int64_t>(size_of(call.dtype("q"))) > 256;
  if (const std::int64_t n = d > 128 ? 32 : 64; (rows <= 64 || wide) && overlaps(call, target, n))
    return config(64, n, 4, true);
  if (const std::int64_t n = d > 64 ? 64 : 128; rows > 64 && overlaps(call, target, n))
    return config(128, n, 8, true);
  const std::int64_t m = std::clamp<std::int64_t>(powerAtLeast(rows), 16,
                                                  (isSmall(call, target) ? 32 : 64) /
                                                      (wide ? 2 : 1)),
                     warps = warpsOf(call, target, m), n = keysOf(call, target, warps);
  Config byThreads = configOf(m, n, warps, false);
  byThreads["splits"] =
      partsByThreads(call, target, ceilDiv(rows, m) * heads, n, warps, heads, rows);
  return byThreads;
}

// Whether scores and outputs of one thread stay in registers.
bool fits(const Invocation &call, const std::string &target, const Config &config) {
  const std::int64_t threads = config.at("warps") * warpSize(target), m = config.at("m"),
                     n = config.at("n"), width = paddedWidth(call.extent("D"));
  return (m * (n + width) + n * width) / threads <= 192;
}

KernelSpec kernelSpec(Paged kind, const char *name, const char *summary, const char *rows) {
  KernelSpec spec = pagedSpec(kind);
  spec.name = name;
  spec.summary = summary;
  spec.config = pagedFields(rows, /*inParts=*/kind != Paged::prefill);
  spec.spaces = {
      {.part = kind == Paged::prefill ? "" : "paged_attention",
       .axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {1, 2, 4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return config.at("m") >= 16 * (config.at("warps") / 4) && fits(call, target, config);
       }}};
  spec.apply = launchPagedAttention;
  return spec;
}

constexpr const char *ofAllHeads =
    "rows of one program: queries of all heads that share a head of the cache";

} // namespace

KernelSpec sectile::pagedDecodeSpec() {
  KernelSpec spec = kernelSpec(Paged::decode, "paged_decode",
                               "attention of one query per sequence over keys and values in pages",
                               "heads of one program, of those that share a head of the cache");
  spec.defaults = decodeDefaults;
  SearchSpace &space = spec.spaces.front();
  space.axes.front().second = {16, 32};
  space.where = [](const Invocation &call, const std::string &target, const Config &config) {
    return (config.at("m") == 16 || config.at("m") < 2 * groupOf(call)) &&
           fits(call, target, config);
  };
  return spec;
}

KernelSpec sectile::pagedPrefillSpec() {
  KernelSpec spec =
      kernelSpec(Paged::prefill, "paged_prefill",
                 "attention of packed chunks of queries over keys and values in pages", ofAllHeads);
  spec.defaults = prefillDefaults;
  return spec;
}

KernelSpec sectile::attentionCachedSpec() {
  KernelSpec spec = kernelSpec(
      Paged::cached, "attention_cached",
      "attention of chunks or trees of queries over keys and values in pages", ofAllHeads);
  spec.defaults = cachedDefaults;
  return spec;
}
