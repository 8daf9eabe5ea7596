// Guesses at what a mistyped word was to be.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sectile::tool {

// "is it 'compile'?" where a name is near enough, else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string_view> &names);

} // namespace sectile::tool
