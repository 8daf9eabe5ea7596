// Symbols made of kernels' names.
#include "ir/Symbol.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace llvm;

std::string sectile::symbolOf(StringRef name) {
  // Names of files hold 255 bytes, and dumps add a target and a pass.
  constexpr size_t longest = 128, hashDigits = 16;
  auto isWord = [](char c) { return isAlnum(c) || c == '_'; };
  const bool startsWithDigit = !name.empty() && isDigit(name.front());
  // ptxas takes neither underscores alone nor the name of its own constant.
  if (all_of(name, isWord) && name.find_first_not_of('_') != name.npos && !startsWithDigit &&
      name.size() <= longest && name != "WARP_SZ")
    return name.str();
  std::string symbol = startsWithDigit ? "_" : "";
  for (char c : name.take_front(longest - hashDigits - 2))
    symbol += isWord(c) ? c : '_';
  return symbol + "_" +
         utohexstr(xxh3_64bits(arrayRefFromStringRef(name)), /*LowerCase=*/true, hashDigits);
}
