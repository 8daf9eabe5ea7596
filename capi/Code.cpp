// Code and kernels that a program adds while it runs: bundles, libraries of kernels.
#include "capi/Status.h"
#include "kernels/registry/Registry.h"
#include <dlfcn.h>
#include <sectile/bundle.h>

using namespace sectile;

sectile_status sectile_bundle_load(const char *path) {
  return c::guard([&] {
    c::require(path, "sectile_bundle_load: path");
    load_bundle(path);
  });
}

sectile_status sectile_bundle_load_memory(const void *bundle, size_t bytes, const char *name) {
  return c::guard([&] {
    c::require(bundle, "sectile_bundle_load_memory: bundle");
    load_bundle({static_cast<const std::byte *>(bundle), bytes},
                name ? name : "a bundle in memory");
  });
}

sectile_status sectile_load_library(const char *path) {
  return c::guard([&] {
    c::require(path, "sectile_load_library: path");
    void *const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw InputError(std::string("sectile_load_library: ") + ::dlerror());
    auto *const registerAll =
        reinterpret_cast<void (*)()>(::dlsym(library, "sectile_register_kernels"));
    if (!registerAll)
      throw InputError("sectile_load_library: '" + std::string(path) +
                       "' has no function sectile_register_kernels(), which registers its kernels "
                       "(see <sectile/register_kernel.h>)");
    const std::size_t before = countKernels();
    registerAll();
    if (countKernels() == before)
      throw InputError("sectile_load_library: '" + std::string(path) +
                       "' registers no kernel with this library: it is linked "
                       "with another libsectile, perhaps, or was loaded before");
  });
}
