// kv_append: rows of new tokens into a cache in pages,
//   k_cache[slot / page, h, slot % page] = k[t, h] / k_scale[h], and v alike,
// rounded to nearest even, where 8-bit types saturate. Append.cpp says what is refused.
#include "kernels/attention/Options.h"
#include "kernels/serving/Append.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Slots.h"

using namespace sectile;
using serving::appendRows, serving::SlotRows, serving::tokenSlots;

namespace {

struct KvAppendConfig {
  int m = 4, heads = 4, warps = 4;
  int page = 16, width = 128, valueWidth = 128;
  bool k_scale = false, v_scale = false; // given
  bool wide = false;                     // slots have 64 bits
};

template <class T, class C> struct KvAppendArguments {
  View<const T, 3> k, v;
  View<const std::int32_t, 2> slots;
  View<const float, 1> k_scale, v_scale;
  View<C, 4> k_out, v_out;
};

template <class T, class C>
Kernel kvAppend{
    "kv_append", [](const KvAppendArguments<T, C> &a, const KvAppendConfig &config) {
      const int m = config.m, heads = config.heads;
      const Int block = program_id(0), head = program_id(1);
      const auto slots = tokenSlots(a.slots, config.wide, block, m, config.page, a.k_out.extent(0));
      const auto append = [&](const View<const T, 3> &rows, const View<C, 4> &cache,
                              const View<const float, 1> &scales, bool scaled, int width) {
        const SlotRows<C> to(cache, slots, head * heads, heads);
        appendRows(to, rows.tile(m, heads, width).load(block, head, 0), width, scales, scaled,
                   head);
      };
      when(
          program_id(2) == 0,
          [&] { append(a.k, a.k_out, a.k_scale, config.k_scale, config.width); },
          [&] { append(a.v, a.v_out, a.v_scale, config.v_scale, config.valueWidth); });
    }};

} // namespace

KernelSpec sectile::kvAppendSpec() {
  KernelSpec spec;
  spec.name = "kv_append";
  spec.summary = "keys and values of new tokens into a cache in pages";
  spec.add_arguments({{"k: [T, Hkv, D] f16|bf16|f32", "keys of the new tokens; D from 1 to 1024"},
                      {"v: [T, Hkv, Dv] like k", "their values"}});
  addCaches(spec, "k");
  addCacheOutputs(spec);
  spec.typical = {{"T", 4096}, {"Hkv", 8}, {"D", 128}, {"Dv", 128}, {"blocks", 1024}, {"page", 16}};
  spec.small = {{"T", 13}, {"Hkv", 3}, {"D", 20}, {"Dv", 20}, {"blocks", 6}, {"page", 5}};
  spec.check = checkAppend;
  spec.contents = checkSlots;
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    const auto appended = [&](std::size_t rows, std::size_t cache, const char *scale) {
      return appendReference(in[rows], in[cache], in[4],
                             call.has(scale) ? &in[call.index(scale)] : nullptr, arithmetic);
    };
    return std::vector{appended(0, 2, "k_scale"), appended(1, 3, "v_scale")};
  };
  configureAppend(spec, [](const Invocation &call) { return 2 * call.extent("Hkv"); });
  spec.neutral = {"m", "heads", "warps"}; // there are no sums
  spec.apply = [](Use &use) {
    auto chosen = use.config_as<KvAppendConfig>();
    chosen.page = static_cast<int>(use.extent("page"));
    chosen.width = paddedWidth(use.extent("D"));
    chosen.valueWidth = paddedWidth(use.extent("Dv"));
    const Grid grid(ceilDiv(use.extent("T"), chosen.m), ceilDiv(use.extent("Hkv"), chosen.heads),
                    2);
    chosen.wide = hasWideSlots(use);
    const auto slots = wordsOf(use, "slots");
    forAppend(use.call, [&]<class T, class C>(T, C) {
      use(kvAppend<T, C>, grid, chosen, {{"slots", slots}});
    });
  };
  return spec;
}
