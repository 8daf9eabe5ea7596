// What sectile-opt can be asked to do with a file, done in this process.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <random>
#include <string>

namespace sectile::fuzz {

struct Action {
  std::string passes;    ///< a pipeline's text, or empty
  std::string emit = ""; ///< then "llvm", "optimized", "assembly", or nothing

  /// The command line that does the same to a file.
  std::string command(llvm::StringRef file) const;
};

Action someAction(std::mt19937_64 &random);

/// Whether a text is IR that verifies.
bool isIr(llvm::StringRef text);

/// Does it. Errors are fine; gives what is not: IR that does not parse again as it was printed, or
/// that a pass broke.
std::optional<std::string> perform(const Action &action, llvm::StringRef text);

} // namespace sectile::fuzz
