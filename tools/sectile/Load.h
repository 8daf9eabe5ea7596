// Kernels from shared libraries: `sectile --load`.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace sectile::tool {

// Loads a shared library, for as long as the process runs, and has it register its kernels. Throws
// InputError where that cannot be.
void loadKernels(const std::string &path);

// Takes each "--load FILE" out of the words, wherever it is before "--"; gives the files in order.
std::vector<std::string> takeLoads(std::vector<std::string_view> &words);

} // namespace sectile::tool
