// Text in JSON that the runtime writes, which goes without LLVM's library for it.
#ifndef SECTILE_RUNTIME_QUOTEDJSON_H
#define SECTILE_RUNTIME_QUOTEDJSON_H

#include <string>
#include <string_view>

namespace sectile::runtime {

/// A text in quotes, with the replacement character for each byte that is not UTF-8.
std::string quotedJson(std::string_view text);

} // namespace sectile::runtime

#endif
