// Opens the CUDA driver and fills the table of its functions.
#include "runtime/cuda/CudaDriver.h"
#include <cstdlib>
#include <dlfcn.h>

namespace sectile::runtime {

static CudaDriver openDriver() {
  CudaDriver driver;
  const char *path = std::getenv("SECTILE_CUDA_LIBRARY");
  if (!path)
    path = "libcuda.so.1";
  if (!*path) {
    driver.missing = "CUDA is switched off: SECTILE_CUDA_LIBRARY is empty";
    return driver;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    driver.missing = std::string("no CUDA driver: ") + dlerror();
    return driver;
  }
  const char *lacking = nullptr;
  auto find = [&](auto &function, const char *symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function && !lacking)
      lacking = symbol;
  };
  auto findNewer = [&](auto &function, const char *symbol) {
    const char *const before = lacking;
    find(function, symbol);
    lacking = before;
  };
#define CUDA_FUNCTION(name, symbol, parameters) find(driver.name, #symbol);
#define CUDA_NEWER_FUNCTION(name, symbol, parameters) findNewer(driver.name, #symbol);
#include "runtime/cuda/CudaDriver.def"
#undef CUDA_NEWER_FUNCTION
#undef CUDA_FUNCTION
  if (lacking)
    driver.missing = std::string("the CUDA driver ") + path + " is too old: it lacks " + lacking +
                     " (CUDA 12.0 or newer is needed)";
  else if (int error = driver.init(0))
    driver.missing = "the CUDA driver does not start: " + driver.describe(error);
  return driver;
}

const CudaDriver &CudaDriver::get() {
  // Never destroyed: kernels that are global objects give their code back after it would be.
  static const auto *driver = new CudaDriver(openDriver());
  return *driver;
}

std::string CudaDriver::describe(int error) const {
  const char *name = nullptr, *text = nullptr;
  if (getErrorName(error, &name) != 0 || !name)
    return "error " + std::to_string(error);
  getErrorString(error, &text);
  return std::string(name) + (text ? std::string(": ") + text : "");
}

} // namespace sectile::runtime
