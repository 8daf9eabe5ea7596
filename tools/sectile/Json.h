// How every command prints JSON.
#pragma once
#include "llvm/Support/JSON.h"
#include <string>

namespace sectile::tool {

// Fractions have seven significant digits, because a measurement is no more exact; whole numbers
// stay exact. A number that is not finite becomes null.
std::string jsonText(const llvm::json::Value &value);
// The same on standard output.
void printJson(const llvm::json::Value &value);

} // namespace sectile::tool
