// References of the attention kernels beside the plain forward pass.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// Which rows of an array sequences have: row i of head h of sequence s.
struct SequenceRows {
  std::vector<std::int64_t> first = {}; // of each sequence's head 0
  std::int64_t perHead = 0, step = 1;

  std::int64_t of(std::int64_t s, std::int64_t h, std::int64_t i) const {
    return first[static_cast<std::size_t>(s)] + h * perHead + i * step;
  }
};
// How sequences lie in arrays. Dropout draws by their numbers.
struct ReferenceLayout {
  std::int64_t heads = 0, kvHeads = 0, valueWidth = 0;
  Shape logs = {};                                   // of lse
  std::vector<std::int64_t> queries = {}, keys = {}; // of each sequence
  SequenceRows query = {}, logarithm = {}, key = {}; // of q, o and dO; of lse; of k and v
  std::vector<std::int64_t> firstQuery = {};         // of each sequence, where bias has no batches
  // Where there is more to it: row j of the keys or values of a head, and whether query i sees key
  // j of a sequence.
  std::function<std::vector<double>(const HostArray &array, std::int64_t s, std::int64_t h,
                                    std::int64_t j)>
      readKey = {};
  std::function<bool(std::int64_t s, std::int64_t i, std::int64_t j)> sees = {};

  std::int64_t count() const { return static_cast<std::int64_t>(queries.size()); }
  std::vector<double> keyRow(const HostArray &array, std::int64_t s, std::int64_t h,
                             std::int64_t j) const;
};
// As attentionReference has them.
ReferenceLayout denseLayout(const HostArray &q, const HostArray &k, const HostArray &v);
// Sequences packed into q [Tq, Hq, D], k [Tk, Hkv, D] and v [Tk, Hkv, Dv], the starts of which, and
// the end of the last, are int32 [B + 1]; o [Tq, Hq, Dv], lse [Hq, Tq], bias and mask [1|Hq, Tq,
// Mk].
ReferenceLayout packedLayout(const HostArray &q, const HostArray &k, const HostArray &v,
                             const HostArray &queryStarts, const HostArray &keyStarts);
// A row along the last axis.
std::vector<double> rowOf(const HostArray &array, std::int64_t row);

AttentionResult attentionReference(const ReferenceLayout &layout, const HostArray &q,
                                   const HostArray &k, const HostArray &v,
                                   const AttentionSettings &settings, Arithmetic arithmetic);

struct AttentionReferenceGradients {
  HostArray dq, dk, dv;
  HostArray dbias = {}, dsinks = {};         // where there is a bias, and sinks
  HostArray dFarQueries = {}, dFarKeys = {}; // where far pairs have operands of their own
};
// Of sum(dO * o), given the forward pass's o and lse. Rows with lse = -inf have no part in any.
AttentionReferenceGradients attentionBackwardReference(const ReferenceLayout &layout,
                                                       const HostArray &q, const HostArray &k,
                                                       const HostArray &v, const HostArray &o,
                                                       const HostArray &lse, const HostArray &dO,
                                                       const AttentionSettings &settings,
                                                       Arithmetic arithmetic);

// KernelSpec::reference of kernels with the arguments of attention or attention_varlen, or of their
// gradients.
using AttentionSettingsOf =
    std::function<AttentionSettings(const Invocation &, std::span<const HostArray> inputs)>;
decltype(KernelSpec::reference) forwardReference(AttentionSettingsOf settings);
decltype(KernelSpec::reference) backwardReference(AttentionSettingsOf settings);

} // namespace sectile
