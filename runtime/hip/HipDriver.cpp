// Opens HIP and fills the table of its functions.
#include "runtime/hip/HipDriver.h"
#include <cstdlib>
#include <dlfcn.h>

namespace sectile::runtime {

static HipDriver openDriver() {
  HipDriver driver;
  const char *path = std::getenv("SECTILE_HIP_LIBRARY");
  if (!path)
    path = "libamdhip64.so";
  if (!*path) {
    driver.missing = "HIP is switched off: SECTILE_HIP_LIBRARY is empty";
    return driver;
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    driver.missing = std::string("no HIP: ") + dlerror();
    return driver;
  }
  const char *lacking = nullptr;
  auto find = [&](auto &function, const char *symbol) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    return function != nullptr;
  };
  auto need = [&](auto &function, const char *symbol) {
    if (!find(function, symbol) && !lacking)
      lacking = symbol;
  };
#define HIP_FUNCTION(name, symbol, parameters) need(driver.name, #symbol);
#define HIP_NEWER_FUNCTION(name, symbol, parameters) find(driver.name, #symbol);
#include "runtime/hip/HipDriver.def"
#undef HIP_NEWER_FUNCTION
#undef HIP_FUNCTION
  need(driver.getErrorName, "hipGetErrorName");
  need(driver.getErrorString, "hipGetErrorString");
  // Each name has the layout of its ROCm for ever: gcnArchName of hipDeviceProp_tR0600, and of the
  // structure before ROCm 6.
  driver.architectureAt = 1160;
  if (!find(driver.getDeviceProperties, "hipGetDevicePropertiesR0600")) {
    driver.architectureAt = 396;
    need(driver.getDeviceProperties, "hipGetDeviceProperties");
  }
  if (lacking)
    driver.missing = std::string("the HIP library ") + path + " is too old: it lacks " + lacking;
  else if (int error = driver.init(0))
    driver.missing = "HIP does not start: " + driver.describe(error);
  return driver;
}

const HipDriver &HipDriver::get() {
  // Never destroyed: kernels that are global objects give their code back after it would be.
  static const auto *driver = new HipDriver(openDriver());
  return *driver;
}

std::string HipDriver::describe(int error) const {
  return std::string(getErrorName(error)) + ": " + getErrorString(error);
}

} // namespace sectile::runtime
