// Attention of few queries: programs that read a head of the keys once for all query heads that
// share it, and a part of the keys each.
#pragma once
#include "kernels/attention/Options.h"
#include <optional>

namespace sectile {

// Into how many parts to split keys of `bytes` that `blocks` programs read in so many steps each,
// if each part makes as many programs more and is `partBytes` of partial results: the most that
// take no longer than the best number by `slack`, a part of its time.
std::int64_t keyParts(std::int64_t blocks, std::int64_t steps, double bytes, double partBytes,
                      double slack, const std::string &target);

// The configuration for a call whose queries are few enough; none for others.
std::optional<ConfigValues> packedDefaults(const Invocation &call, const std::string &target);
// Throws InputError with dropout, whose numbers are drawn by blocks of one head.
void launchPacked(Use &use, const AttentionNumbers &numbers, bool modified,
                  const AttentionTensors &tensors, const flash::detail::Launcher &launch);

} // namespace sectile
