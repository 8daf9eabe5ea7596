// Changes IR's text a little, so that much of it still parses.
#pragma once
#include "tests/fuzz/ir/Tokens.h"
#include "llvm/ADT/StringMap.h"
#include <random>

namespace sectile::fuzz {

class Mutator {
public:
  /// What is put in comes from these texts where the place asks for a word.
  explicit Mutator(const std::vector<std::string> &corpus);

  /// A text with one change.
  std::string mutate(llvm::StringRef text, std::mt19937_64 &random) const;

private:
  class Change;
  /// The words that follow a token somewhere in the corpus, and all operations of a dialect.
  llvm::StringMap<std::vector<std::string>> following, operations;
  std::vector<std::string> types;
};

} // namespace sectile::fuzz
