// The suite `kernels` of `sectile bench`.
#pragma once
#include "tools/sectile/BarChart.h"
#include "tools/sectile/CommandLine.h"
#include "llvm/Support/JSON.h"
#include <functional>
#include <ostream>

namespace sectile::tool {

// Prints a table to `out`; a row for each call, and pictures of them. `failed`: some call has no
// time. Meanwhile `keep` is given the rows so far, after the first one and at most once a second.
llvm::json::Array benchKernels(const CommandLine &line, std::vector<BarPanel> &panels,
                               std::ostream &out, bool &failed,
                               const std::function<void(const llvm::json::Array &)> &keep);

} // namespace sectile::tool
