// Arguments and checks of kernels that append to a cache. Refused: caches of another dtype than k's
// that are not of 8 bits, empty pages, D or Dv outside 1 to 1024; from the host also
// slots that there are not, and two tokens with one slot. The device leaves tokens out whose slots
// there are not.
#include "kernels/serving/Append.h"
#include "kernels/references/HostArray.h"
#include "kernels/references/Sample.h"
#include "kernels/serving/Paged.h"
#include <algorithm>
#include <numeric>
#include <unordered_set>

using namespace sectile;

namespace {

// Tokens fill pages one after the other, in any order of blocks; some tokens are left out.
void sampleSlots(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const std::int64_t page = call.extent("page");
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(call.extent("blocks")));
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  std::vector<double> slots(static_cast<std::size_t>(array.count()), -1);
  for (std::size_t t = 0; t < slots.size(); ++t)
    if (const std::size_t at = t / static_cast<std::size_t>(std::max<std::int64_t>(page, 1));
        at < blocks.size() && random() % 16 != 0)
      slots[t] = static_cast<double>(blocks[at] * page + static_cast<std::int64_t>(t) % page);
  array.assign(slots);
}

std::vector<std::string> inOrder(std::vector<std::string> axes, const OptionValues &options) {
  if (options.choice("layout") == "nhd")
    std::swap(axes[1], axes[2]);
  return axes;
}

} // namespace

void sectile::addCaches(KernelSpec &spec, const std::string &rows) {
  const ArgumentRow::Functions functions{.stored = inOrder, .sample = sampleNormal(1)};
  spec.add_arguments(
      {{"k_cache: [blocks, Hkv, page, D] f16|bf16|f32|f8e4m3|f8e5m2|i8",
        "keys in pages: of the dtype of " + rows + ", or codes of 8 bits", functions},
       {"v_cache: [blocks, Hkv, page, Dv] like k_cache", "values alike", functions},
       {"slots: [T] i32|i64",
        "slot s of a token is row s % page of block s / page; a token with -1 is left out",
        {.sample = sampleSlots}}});
  for (const std::string cache : {"k", "v"})
    spec.add_arguments(
        {{cache + "_scale?: [1|Hkv] f32",
          "what numbers of " + cache + "_cache are multiplied by; 1 if not given",
          {.sample = sampleUniform(0.01, 0.03)}},
         {cache + "_scales?: [blocks, Hkv, page] f32",
          "besides, scales that fit what each token and head is then: these are made",
          {.stored = inOrder, .sample = sampleUniform(0.01, 0.03)}}});
}

void sectile::addCacheOutputs(KernelSpec &spec) {
  const ArgumentRow::Functions functions{.stored = inOrder};
  spec.add_arguments({{"-> k_out: [blocks, Hkv, page, D] like k_cache updates k_cache",
                       "k_cache with the tokens' keys", functions},
                      {"-> v_out: [blocks, Hkv, page, Dv] like v_cache updates v_cache",
                       "v_cache with their values", functions}});
  for (const std::string scales : {"k_scales", "v_scales"})
    spec.add_arguments({{"-> " + scales + "_out: [blocks, Hkv, page] like " + scales + " updates " +
                             scales + " with " + scales,
                         scales + " with those of the tokens: the largest magnitude over the "
                                  "largest code, 1 of zeros",
                         functions}});
  spec.add_options({{"layout: hnd|nhd = hnd",
                     "nhd: the caches are stored as [blocks, page, Hkv, D], as in vLLM"}});
}

void sectile::checkAppend(const Invocation &call) {
  for (const char *axis : {"D", "Dv"})
    if (const std::int64_t dims = call.extent(axis); dims < 1 || dims > 1024)
      refuse(call, axis, " is ", dims, ", but must be from 1 to 1024");
  if (const std::int64_t page = call.extent("page"); page < 1 || page > serving::mostOfPage)
    refuse(call, "a page is ", page, " rows, but must be from 1 to ", serving::mostOfPage);
  const DType rows = call.dtype("k"), cache = call.dtype("k_cache");
  if (size_of(cache) != 1 && cache != rows)
    refuse(call, "k_cache is ", name_of(cache), ", but k is ", name_of(rows),
           "; a cache of 16 or 32 bits has the dtype of k");
}

void sectile::checkSlots(const Invocation &call, std::span<const HostArray> inputs) {
  const std::int64_t all = call.extent("blocks") * call.extent("page");
  std::unordered_set<std::int64_t> seen;
  const std::vector<double> slots = inputs[call.index("slots")].to_double();
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const auto slot = static_cast<std::int64_t>(slots[t]);
    if (slot < 0)
      continue;
    const std::string name = "slots[" + std::to_string(t) + "] is " + std::to_string(slot);
    if (slot >= all)
      refuse(call, name, ", but the caches have ", all, " slots");
    if (!seen.insert(slot).second)
      refuse(call, name, ", which another token has, too: a slot holds one token");
  }
}

void sectile::configureAppend(KernelSpec &spec,
                              const std::function<std::int64_t(const Invocation &)> &each) {
  const auto width = [](const Invocation &call) {
    return powerAtLeast(std::max<std::int64_t>({call.extent("D"), call.extent("Dv"), 16}));
  };
  spec.config = {{"m", "tokens of one program"},
                 {"heads", "heads of one program"},
                 {"warps", "warps of one program"}};
  spec.defaults = [=](const Invocation &call, const std::string &target) {
    // 32 elements for each thread, down to 8 where that leaves multiprocessors without work.
    const std::int64_t rows = std::max<std::int64_t>(call.extent("T") * each(call), 1),
                       least = std::max<std::int64_t>(8 * warpSize(target) / width(call), 1),
                       most = std::max<std::int64_t>(4096 / width(call), 1),
                       spread = powerAtMost(
                           std::max<std::int64_t>(rows / (4 * multiprocessors(target)), 1)),
                       together = std::clamp(spread, least, most),
                       heads = std::min(together,
                                        powerAtMost(std::max<std::int64_t>(call.extent("Hkv"), 1))),
                       numbers = together * width(call);
    return Config{
        {"m", together / heads},
        {"heads", heads},
        {"warps", powerAtLeast(std::clamp<std::int64_t>(numbers / (32 * warpSize(target)), 1, 8))}};
  };
  spec.spaces = {
      {.part = spec.name,
       .axes = {{"m", {1, 2, 4, 8, 16, 32}}, {"heads", {1, 2, 4, 8, 16}}, {"warps", {1, 2, 4, 8}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers = config.at("m") * config.at("heads") * width(call) /
                                      (config.at("warps") * warpSize(target));
         return numbers >= 4 && numbers <= 32 &&
                (config.at("heads") == 1 || config.at("heads") < 2 * call.extent("Hkv"));
       }}};
}
