// Gradients over packed sequences with those of learned operands.
#pragma once
#include "kernels/attention/Options.h"

namespace sectile {

// The launches of launchVarlenGradients, and those that learned operands take: of the gradients of
// pairs, and of sums of what programs have of the others, in an order that the sequences fix.
void launchPackedGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                           const std::vector<flash::detail::LearnedGradient> &learned,
                           const flash::detail::Launcher &launch);

} // namespace sectile
