// Symbols made of kernels' names.
#include "runtime/Symbol.h"
#define XXH_INLINE_ALL
#include <algorithm>
#include <cstdio>
#include <xxhash.h>

static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || isDigit(c) || c == '_';
}

std::string sectile::symbolOf(std::string_view name) {
  // Names of files hold 255 bytes, and dumps add a target and a pass.
  constexpr size_t longest = 128, hashDigits = 16;
  const bool startsWithDigit = !name.empty() && isDigit(name.front());
  // ptxas takes neither underscores alone nor the name of its own constant.
  if (std::ranges::all_of(name, isWord) && name.find_first_not_of('_') != name.npos &&
      !startsWithDigit && name.size() <= longest && name != "WARP_SZ")
    return std::string(name);
  std::string symbol = startsWithDigit ? "_" : "";
  for (char c : name.substr(0, longest - hashDigits - 2))
    symbol += isWord(c) ? c : '_';
  char hash[hashDigits + 1];
  std::snprintf(hash, sizeof hash, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(name.data(), name.size())));
  return symbol + "_" + hash;
}
