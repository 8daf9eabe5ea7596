// Measurements as a JSON file that can be shipped with a program; docs/cache.md has the format.
#ifndef SECTILE_AUTOTUNE_EXCHANGE_H
#define SECTILE_AUTOTUNE_EXCHANGE_H

#include "autotune/Database.h"
#include "llvm/Support/JSON.h"

namespace sectile::autotune {

llvm::json::Value jsonOf(const Problem &problem);
/// The whole file.
std::string toJson(const std::vector<Problem> &problems);

/// Refuses what is not of the format, to the last word; the message says where.
llvm::Expected<std::vector<Problem>> fromJson(std::string_view text);

} // namespace sectile::autotune

#endif
