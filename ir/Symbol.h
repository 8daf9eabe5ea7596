// Symbols made of kernels' names: what assemblers, linkers and file systems take.
#ifndef SECTILE_IR_SYMBOL_H
#define SECTILE_IR_SYMBOL_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace sectile {

/// The symbol of a kernel of this name. A name that is an identifier is its own symbol. Any other
/// keeps what it can and ends in a hash, so that kernels of different names stay apart.
std::string symbolOf(llvm::StringRef name);

} // namespace sectile

#endif
