// References of the attention kernels beside the plain forward pass.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// attentionReference, where dropout takes the first batch's number for `batch`.
AttentionResult attentionReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                   const AttentionSettings &settings, std::int64_t batch,
                                   Arithmetic arithmetic);

struct AttentionReferenceGradients {
  HostArray dq, dk, dv;
  HostArray dbias = {}, dsinks = {};         // where there is a bias, and sinks
  HostArray dFarQueries = {}, dFarKeys = {}; // where far pairs have operands of their own
};
// Of sum(dO * o), given the forward pass's o and lse. Rows with lse = -inf have no part in any.
AttentionReferenceGradients attentionBackwardReference(const HostArray &q, const HostArray &k,
                                                       const HostArray &v, const HostArray &o,
                                                       const HostArray &lse, const HostArray &dO,
                                                       const AttentionSettings &settings,
                                                       std::int64_t batch, Arithmetic arithmetic);

// KernelSpec::reference of kernels with the arguments of attention, or of attention_backward.
using AttentionSettingsOf =
    std::function<AttentionSettings(const Invocation &, std::span<const HostArray> inputs)>;
decltype(KernelSpec::reference) forwardReference(AttentionSettingsOf settings);
decltype(KernelSpec::reference) backwardReference(AttentionSettingsOf settings);

// The same of sequences packed into q [Tq, Hq, D], k [Tk, Hkv, D] and v [Tk, Hkv, Dv], the starts
// of which, and the end of the last, are int32 [B + 1]; o [Tq, Hq, Dv], lse [Hq, Tq], bias and mask
// [1|Hq, Tq, Mk].
AttentionResult attentionVarlenReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                         const HostArray &queryStarts, const HostArray &keyStarts,
                                         const AttentionSettings &settings, Arithmetic arithmetic);
AttentionReferenceGradients
attentionVarlenBackwardReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                 const HostArray &queryStarts, const HostArray &keyStarts,
                                 const HostArray &o, const HostArray &lse, const HostArray &dO,
                                 const AttentionSettings &settings, Arithmetic arithmetic);

} // namespace sectile
