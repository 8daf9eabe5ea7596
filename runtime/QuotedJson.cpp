// Writes text as JSON has it.
#include "runtime/QuotedJson.h"
#include <algorithm>
#include <cstdio>

namespace sectile::runtime {

/// How many bytes the character takes that begins here; 0 where it is none of UTF-8. Overlong and
/// surrogate codes, which no name has by accident, pass.
static size_t characterAt(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return bytes <= text.size() && std::ranges::all_of(text.substr(1, bytes ? bytes - 1 : 0), follows)
             ? bytes
             : 0;
}

std::string quotedJson(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const size_t bytes = characterAt(text);
    const char first = text[0];
    if (bytes == 0) {
      json += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      json += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(first));
      json += code;
    } else {
      json += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return json + "\"";
}

} // namespace sectile::runtime
