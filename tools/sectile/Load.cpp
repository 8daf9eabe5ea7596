// Loading shared libraries with kernels.
#include "tools/sectile/Load.h"
#include "kernels/bundles/BundleBuilder.h"
#include <dlfcn.h>
#include <filesystem>
#include <sectile/error.h>

namespace sectile::tool {

void loadKernels(const std::string &path) {
  // A name alone is looked up in the system's folders, but means the file beside one first.
  const bool isHere = path.find('/') == path.npos && std::filesystem::exists(path);
  const std::size_t declaredBefore = declaredBundles().size();
  void *library = ::dlopen((isHere ? "./" + path : path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw InputError("--load: " + std::string(::dlerror()));
  constexpr const char *entry = "sectile_register_kernels";
  auto *registerAll = reinterpret_cast<void (*)()>(::dlsym(library, entry));
  if (!registerAll && declaredBundles().size() > declaredBefore)
    return;
  if (!registerAll)
    throw InputError("--load: '" + path + "' has no function " + entry +
                     "(), which registers its kernels (see <sectile/register_kernel.h>), and no "
                     "SECTILE_BUNDLE (see <sectile/bundle.h>)");
  const std::size_t before = kernelRegistry().size();
  try {
    registerAll();
  } catch (const std::exception &error) {
    throw InputError("--load: '" + path + "': " + error.what());
  }
  if (kernelRegistry().size() == before)
    throw InputError("--load: '" + path + "' registers no kernel");
}

std::vector<std::string> takeLoads(std::vector<std::string_view> &words) {
  constexpr std::string_view flag = "--load";
  std::vector<std::string> files;
  std::vector<std::string_view> others;
  std::size_t i = 0;
  for (; i < words.size() && words[i] != "--"; ++i) {
    if (words[i].starts_with(flag) && words[i].substr(flag.size()).starts_with("=")) {
      files.emplace_back(words[i].substr(flag.size() + 1));
    } else if (words[i] != flag) {
      others.push_back(words[i]);
      continue;
    } else if (++i < words.size() && !words[i].starts_with("-")) {
      files.emplace_back(words[i]);
    } else {
      throw InputError("--load needs a value: FILE");
    }
    if (files.back().empty())
      throw InputError("--load needs a value: FILE");
  }
  others.insert(others.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  words = std::move(others);
  return files;
}

} // namespace sectile::tool
