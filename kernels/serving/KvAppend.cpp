// kv_append: rows of new tokens into a cache in pages,
//   k_cache[slot / page, h, slot % page] = k[t, h] / k_scale[h], and v alike,
// rounded to nearest even, where 8-bit types saturate. With k_scales they are divided, too, by
//   k_scales[slot / page, h, slot % page] = max |k[t, h] / k_scale[h]| / largest code,
// which is 1 of zeros and in caches that hold no codes. Append.cpp says what is refused.
#include "kernels/attention/Options.h"
#include "kernels/serving/Append.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Slots.h"

using namespace sectile;
using serving::appendRows, serving::RowScales, serving::SlotRows, serving::tokenSlots;

namespace {

struct KvAppendConfig {
  int m = 4, heads = 4, warps = 4;
  int page = 16, width = 128, valueWidth = 128;
  bool k_scale = false, v_scale = false;   // given
  bool k_scales = false, v_scales = false; // given, to be made
  bool wide = false;                       // slots have 64 bits
};

template <class T, class C> struct KvAppendArguments {
  View<const T, 3> k, v;
  View<const std::int32_t, 2> slots;
  View<const float, 1> k_scale, v_scale;
  View<C, 4> k_out, v_out;
  View<float, 3> k_scales_out, v_scales_out;
};

template <class T, class C>
Kernel kvAppend{
    "kv_append", [](const KvAppendArguments<T, C> &a, const KvAppendConfig &config) {
      const int m = config.m, heads = config.heads;
      const Int block = program_id(0), head = program_id(1);
      const auto slots = tokenSlots(a.slots, config.wide, block, m, config.page, a.k_out.extent(0));
      const auto append = [&](const View<const T, 3> &rows, const View<C, 4> &cache, int width,
                              const RowScales<C> &scales) {
        const SlotRows<C> to(cache, slots, head * heads, heads);
        appendRows(to, slots, rows.tile(m, heads, width).load(block, head, 0), width, scales, head);
      };
      when(
          program_id(2) == 0,
          [&] {
            append(a.k, a.k_out, config.width,
                   {a.k_scale, a.k_scales_out, config.k_scale, config.k_scales});
          },
          [&] {
            append(a.v, a.v_out, config.valueWidth,
                   {a.v_scale, a.v_scales_out, config.v_scale, config.v_scales});
          });
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
    const auto k = appendReference(call, "k", in[0], in, arithmetic),
               v = appendReference(call, "v", in[1], in, arithmetic);
    return std::vector{k.cache, v.cache, k.scales, v.scales};
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
