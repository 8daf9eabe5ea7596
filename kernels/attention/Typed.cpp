// The options of <sectile/attention.h> in calls by name.
#include "kernels/calls/TypedOptions.h"
#include <sectile/attention.h>

using namespace sectile;

namespace sectile {
static detail::ChoiceWords wordsOf(AttentionLayout) { return {{"bhsd", "bshd"}}; }
} // namespace sectile

void detail::addOptions(TypedCall &call, const AttentionOptions &options) {
  const bool packed = call.inputs.at("q").extents.size() == 3;
  if (packed != options.cu_seqlens_q.has_value() || packed != options.cu_seqlens_k.has_value())
    throw LaunchError(packed
                          ? "attention: q, k and v of three axes are packed sequences, and need "
                            "cu_seqlens_q and cu_seqlens_k"
                          : "attention: cu_seqlens_q and cu_seqlens_k go with packed sequences: q, "
                            "k and v of three axes");
  if (packed && options.layout != AttentionLayout::bhsd)
    throw LaunchError("attention: packed sequences have one layout, [T, H, D]");
  addFields(call, options);
  const bool backward = call.kernel == "attention_backward";
  if (!backward || packed)
    call.options.erase("unordered");
  if (packed) {
    call.options.erase("layout");
    call.kernel = backward ? "attention_varlen_backward" : "attention_varlen";
  }
}
