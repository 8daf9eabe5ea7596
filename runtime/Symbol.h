// Symbols made of kernels' names: what assemblers, linkers and file systems take.
#ifndef SECTILE_RUNTIME_SYMBOL_H
#define SECTILE_RUNTIME_SYMBOL_H

#include <string>
#include <string_view>

namespace sectile {

/// The symbol of a kernel of this name. A name that is an identifier is its own symbol. Any other
/// keeps what it can and ends in a hash, so that kernels of different names stay apart.
std::string symbolOf(std::string_view name);

} // namespace sectile

#endif
