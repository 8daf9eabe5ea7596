// What the kernels of this family share: arguments and options of the epilogue, the general kernel,
// the references.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/matmul/Epilogue.h"

namespace sectile {

// What products of T are summed in.
template <class T> using SumOf = detail::GemmSum<T>;

EpilogueParts epilogueParts(const Invocation &call);

// The option of the last step.
OptionRow activationOption();
// What products of operands with scales of their own end in, act(sums + bias): those arguments, the
// second with this description, and options, of which `out` says the dtype.
std::vector<ArgumentRow> scaledResult(const char *doc);
std::vector<OptionRow> scaledResultOptions();
// The last two axes the other way round where the flag is set.
std::function<std::vector<std::string>(std::vector<std::string>, const OptionValues &)>
swappedBy(const char *flag);

// The whole of the two kernels' specifications but names and the launch of the plain product.
void specifyGemm(KernelSpec &spec, bool batched);
// a, b and the rest of the arguments through the general kernel.
void launchGemm(Use &use, bool batched);

// Whole clusters of tiles that cover c [M, N], and the programs that do so many.
template <class C> std::int64_t clusteredTiles(const Invocation &call, const C &config) {
  return ceilDiv(call.extent("M"), config.m * config.cluster) * config.cluster *
         ceilDiv(call.extent("N"), config.n);
}
std::int64_t programsFor(const Use &use, std::int64_t tiles, int cluster = 1);

using References = std::vector<HostArray>;
using Reference = References(const Invocation &call, std::span<const HostArray> inputs,
                             Arithmetic arithmetic);
Reference gemmReference, groupedMatmulReference, groupedMatmulDrhsReference, scaledMatmulReference,
    mxMatmulReference, quantizedMatmulReference;

inline bool isFp8(DType dtype) { return is_floating(dtype) && size_of(dtype) == 1; }

} // namespace sectile
