// Finding the name that differs in the fewest letters.
#include "tools/sectile/Suggest.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>

std::string sectile::tool::suggestion(std::string_view word,
                                      const std::vector<std::string_view> &names) {
  const std::string_view *nearest = nullptr;
  unsigned distance = 0;
  for (const std::string_view &name : names) {
    const unsigned far = llvm::StringRef(word).edit_distance(llvm::StringRef(name));
    if (!nearest || far < distance)
      nearest = &name, distance = far;
  }
  // With more wrong letters than this, another name is as good a guess.
  if (!nearest || distance > std::max<std::size_t>(1, word.size() / 3))
    return "";
  return "is it '" + std::string(*nearest) + "'?";
}
