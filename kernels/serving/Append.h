// What kv_append and rope_append have in common on the host: arguments, checks, and the formula.
#pragma once
#include "kernels/RowBlocks.h"
#include "kernels/Use.h"

namespace sectile {

// The caches, slots and scales, which follow k and v; and the caches as outputs.
void addCaches(KernelSpec &spec, const std::string &rows);
void addCacheOutputs(KernelSpec &spec);
// Extents of a block and of rows, scales.
void checkAppend(const Invocation &call);
// Slots that there are not, and slots of two tokens.
void checkSlots(const Invocation &call, std::span<const HostArray> inputs);

// The fields m, heads and warps of a program that appends m tokens' rows of some heads, `each`
// heads of a token in all.
void configureAppend(KernelSpec &spec, const std::function<std::int64_t(const Invocation &)> &each);

// The cache [blocks, H, page, D] with the rows [T, H, D] in their slots, divided by the scale [1|H]
// where there is one.
HostArray appendReference(const HostArray &rows, const HostArray &cache, const HostArray &slots,
                          const HostArray *scale, Arithmetic arithmetic);

// Calls function(T{}, C{}, I{}) with the types of k, of the caches and of the slots.
template <class Function> void forAppend(const Invocation &call, Function &&function) {
  for_dtype<half, bfloat16, float>(call.dtype("k"), [&]<class T>(T) {
    const auto withCache = [&]<class C>(C) {
      for_dtype<std::int32_t, std::int64_t>(call.dtype("slots"),
                                            [&]<class I>(I) { function(T{}, C{}, I{}); });
    };
    for_dtype<T, float8_e4m3, float8_e5m2, std::int8_t>(call.dtype("k_cache"), withCache);
  });
}

} // namespace sectile
