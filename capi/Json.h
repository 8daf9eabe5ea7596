// JSON as the C interface writes it, without LLVM's library for it.
#pragma once
#include "runtime/QuotedJson.h"
#include <string>
#include <string_view>

namespace sectile::c {

using runtime::quotedJson;

// An object or a list, as it grows.
class Json {
public:
  Json(char open, char close) : text(1, open), close(close) {}

  Json &add(std::string_view name, const std::string &value) {
    separate();
    text += quotedJson(name) + ":" + value;
    return *this;
  }
  Json &add(const std::string &value) {
    separate();
    text += value;
    return *this;
  }
  std::string done() const { return text + close; }

private:
  void separate() {
    if (text.size() > 1)
      text += ",";
  }
  std::string text;
  char close;
};
inline Json object() { return {'{', '}'}; }
inline Json list() { return {'[', ']'}; }

inline std::string boolean(bool value) { return value ? "true" : "false"; }

} // namespace sectile::c
