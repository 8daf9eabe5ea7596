// MLIR's text as tokens that a mutation can take hold of.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace sectile::fuzz {

struct Token {
  enum Kind {
    Space,  ///< blanks and comments within a line
    Line,   ///< the end of a line
    Name,   ///< an operation, a keyword, a type
    Value,  ///< %x
    Symbol, ///< @x
    Alias,  ///< #x, !x
    Number, ///< outside of shapes
    Extent, ///< a number of a shape
    Times,  ///< the x behind an extent
    String,
    Mark, ///< anything else, one character
  };
  Kind kind;
  std::string text;
};

using Tokens = std::vector<Token>;

Tokens tokenize(llvm::StringRef text);
std::string join(const Tokens &tokens);

} // namespace sectile::fuzz
