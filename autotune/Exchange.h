// Measurements as JSON: files that can be shipped with a program, of which docs/cache.md has the
// format, and reports of a search.
#ifndef SECTILE_AUTOTUNE_EXCHANGE_H
#define SECTILE_AUTOTUNE_EXCHANGE_H

#include "autotune/Database.h"
#include "llvm/Support/JSON.h"
#include <sectile/tuning.h>

namespace sectile::autotune {

llvm::json::Value jsonOf(const Problem &problem);
/// The whole file.
std::string toJson(const std::vector<Problem> &problems);

/// What was measured here, without what programs came with; of one kernel or of all.
std::vector<Problem> ownProblems(std::string_view kernel = {});

/// Refuses what is not of the format, to the last word; the message says where.
llvm::Expected<std::vector<Problem>> fromJson(std::string_view text);

/// One of the objects that `sectile tune --json` prints. `isSimulated`: its times are no chip's.
llvm::json::Value jsonOf(const TuneReport &report, bool isSimulated);

} // namespace sectile::autotune

#endif
