// Attention of few queries: programs that read a head of the keys once for all query heads that
// share it, and a part of the keys each.
#pragma once
#include "kernels/Use.h"
#include <optional>

namespace sectile {

// The configuration for a call whose queries are few enough; none for others.
std::optional<ConfigValues> packedDefaults(const Invocation &call, const std::string &target);
// Throws InputError with dropout, whose numbers are drawn by blocks of one head.
void launchPacked(Use &use);

} // namespace sectile
