// What kv_append and rope_append have in common on the host: arguments, checks, and the formula.
#pragma once
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"

namespace sectile {

// The caches, slots and scales, which follow k and v; and the caches as outputs.
void addCaches(KernelSpec &spec, const std::string &rows);
void addCacheOutputs(KernelSpec &spec);
// Extents of a block and of rows, and scales.
void checkAppend(const Invocation &call);
// Slots that there are not, and slots of two tokens.
void checkSlots(const Invocation &call, std::span<const HostArray> inputs);

// The fields m, heads and warps of a program that appends m tokens' rows of some heads, `each`
// heads of a token in all.
void configureAppend(KernelSpec &spec, const std::function<std::int64_t(const Invocation &)> &each);

// The cache [blocks, H, page, D] of `cache`, "k" or "v", with the rows [T, H, D] in their slots,
// divided by the scales [1|H] where there are any, or by those that fit, and these
// [blocks, H, page].
struct Appended {
  HostArray cache, scales;
};
Appended appendReference(const Invocation &call, const std::string &cache, const HostArray &rows,
                         std::span<const HostArray> inputs, Arithmetic arithmetic);

// Calls function(T{}, C{}) with the types of k and of the caches.
template <class Function> void forAppend(const Invocation &call, Function &&function) {
  for_dtype<half, bfloat16, float>(call.dtype("k"), [&]<class T>(T) {
    for_dtype<T, float8_e4m3, float8_e5m2, std::int8_t>(call.dtype("k_cache"),
                                                        [&]<class C>(C) { function(T{}, C{}); });
  });
}

// Whether slots and positions have 64 bits, and such an argument as words (Slots.h).
inline bool hasWideSlots(const Use &use) { return use.call.dtype("slots") == DType::int64; }
inline Tensor<std::int32_t, 2> wordsOf(Use &use, const char *argument) {
  const std::int64_t words = hasWideSlots(use) ? 2 : 1,
                     stride = stridesOf(use.call.tensors[use.call.index(argument)]).front();
  return use.shaped<std::int32_t, 2>(argument, {use.extent("T"), words}, {stride * words, 1});
}

} // namespace sectile
