// paged_decode: one new query of each sequence against all of its keys, which lie in pages. The
// formula is in Paged.cpp. Keys are split among programs as in Flash-Decoding, and merged by lse.
#include "kernels/attention/PackedHeads.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"
#include <algorithm>

using namespace sectile;

namespace {

// Programs of one part of the keys.
std::int64_t rowBlocks(const Invocation &call, std::int64_t m) {
  return call.extent("S") * ceilDiv(groupOf(call), m);
}

} // namespace

KernelSpec sectile::pagedDecodeSpec() {
  KernelSpec spec = pagedSpec(Paged::decode);
  spec.name = "paged_decode";
  spec.summary = "attention of one query per sequence over keys and values in pages";
  spec.config = pagedFields("heads of one program, of those that share a head of the cache",
                            /*inParts=*/true);
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t keys = call.extent("max") * call.extent("page"), d = call.extent("D"),
                       heads = call.extent("S") * call.extent("Hkv");
    // By the length that there is room for. Sequences differ, so many parts share them out better.
    const auto parts = [&](std::int64_t blocks, std::int64_t n) {
      return keyParts(blocks, ceilDiv(keys, n), 4.0 * double(keys * d * heads),
                      8.0 * double(groupOf(call) * heads * d), 0.02, target);
    };
    if (const std::int64_t n = d > 128 ? 32 : 64; groupOf(call) <= 128 &&
                                                  hasWarpgroupUnits(target, call.dtype("q")) &&
                                                  hasWholeSteps(call, n)) {
      const std::int64_t m = groupOf(call) > 64 ? 128 : 64;
      return Config{{"m", m},          {"n", n},      {"splits", parts(heads, n)},
                    {"warps", m / 16}, {"stages", 2}, {"overlap", 1}};
    }
    const std::int64_t m = std::clamp<std::int64_t>(ceilDiv(groupOf(call), 16) * 16, 16, 32);
    const std::int64_t warps = pagedWarps(target, call.dtype("q"), m);
    // A warp has the addresses of a step's keys in registers: more than these do not fit.
    const std::int64_t n = std::clamp<std::int64_t>(d > 128  ? 16 * warps
                                                    : d > 64 ? 32 * warps
                                                             : 64,
                                                    16, pagedKeys(call, target));
    // At least eight warps for each multiprocessor, no program of fewer than four steps.
    const std::int64_t blocks = rowBlocks(call, m) * call.extent("Hkv");
    const std::int64_t enough = std::clamp<std::int64_t>(
        8 / warps * multiprocessors(target) / std::max<std::int64_t>(blocks, 1), 1,
        std::clamp<std::int64_t>(ceilDiv(keys, n) / 4, 1, 64));
    return Config{{"m", m},         {"n", n},      {"splits", std::max(enough, parts(blocks, n))},
                  {"warps", warps}, {"stages", 2}, {"overlap", 0}};
  };
  spec.spaces = {
      {.part = "paged_attention",
       .axes = {{"m", {16, 32}},
                {"n", {16, 32, 64, 128}},
                {"warps", {1, 2, 4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return (config.at("m") == 16 || config.at("m") < 2 * groupOf(call)) &&
                pagedFits(call, target, config);
       }}};
  spec.apply = launchPagedAttention;
  return spec;
}
