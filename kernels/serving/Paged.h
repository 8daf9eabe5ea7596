// What the kernels of attention over pages have in common on the host: arguments, options, checks
// and the launch.
#pragma once
#include "kernels/attention/Options.h"
#include "kernels/serving/References.h"

namespace sectile {

// Which kernel: decode has one query of each sequence, the others have chunks.
enum class Paged { decode, prefill, cached };
// All but configurations and launches.
KernelSpec pagedSpec(Paged kind);

// Keys of one step that suit this width and dtype.
std::int64_t pagedKeys(const Invocation &call, const std::string &target);
// Matrix instructions want 16 rows to a warp: with fewer, warps share rows and must exchange them.
std::int64_t pagedWarps(const std::string &target, DType dtype, std::int64_t m);
// Whether pages have whole steps of n keys, as they are multiplied.
bool hasWholeSteps(const Invocation &call, std::int64_t n);
// Whether scores and outputs of one thread stay in registers.
bool pagedFits(const Invocation &call, const std::string &target, const Config &config);

// Call `launch` for the launch of the loop over pages, and merge what parts of the keys give: for a
// call of one of these kernels. modified: scores are more than scaled products.
void launchPaged(Use &use, const AttentionNumbers &numbers, bool modified,
                 const flash::detail::Launcher &launch);
// All launches of these kernels.
void launchPagedAttention(Use &use);

} // namespace sectile
