// A HIP device, and the calls into HIP's run-time library.
#include "runtime/hip/HipDevice.h"
#include "ir/Target.h"
#include "runtime/DriverDevice.h"
#include "runtime/hip/HipDriver.h"
#include <cctype>

namespace sectile::runtime {
namespace {

/// Makes a device this thread's current one for a while, unless it already is.
class CurrentDevice {
public:
  using Place = int;

  explicit CurrentDevice(int device) {
    HipDriver::get().getDevice(&before);
    changed = before != device;
    if (changed)
      HipDriver::get().setDevice(device);
  }
  CurrentDevice(const CurrentDevice &) = delete;
  ~CurrentDevice() {
    if (changed)
      HipDriver::get().setDevice(before);
  }

private:
  int before = 0;
  bool changed;
};

/// "gfx942" of the properties: the one field of them that reads so, wherever this version of ROCm
/// has it.
std::string architectureIn(const std::vector<char> &properties) {
  const std::string_view bytes(properties.data(), properties.size());
  for (size_t at = bytes.find("gfx"); at != bytes.npos; at = bytes.find("gfx", at + 1)) {
    size_t end = at + 3;
    while (end < bytes.size() && std::isxdigit(static_cast<unsigned char>(bytes[end])))
      ++end;
    if (end - at >= 6 && end < bytes.size() && (bytes[end] == '\0' || bytes[end] == ':'))
      return std::string(bytes.substr(at, end - at));
  }
  return "";
}

class HipDevice final : public DriverDevice<HipDriver, CurrentDevice> {
public:
  HipDevice(const std::string &called, unsigned index)
      : DriverDevice(static_cast<int>(index), static_cast<int>(index)) {
    name = called;
    dlpackDevice = 10;
    std::vector<char> properties(16384);
    check(table().getDeviceProperties(properties.data(), place),
          "asking for the device's properties");
    description = std::string(properties.data(), strnlen(properties.data(), 256));
    const std::string architecture = architectureIn(properties);
    llvm::Expected<Target> chip = Target::get(architecture);
    if (!chip)
      throw DeviceError(name + " (" + description + "): " + llvm::toString(chip.takeError()));
    target = chip->name;
    limits.warp_size = chip->warpSize;
    limits.max_threads = chip->maxThreads;
    limits.max_shared_bytes = chip->maxSharedBytes;
    limits.multiprocessors = chip->multiprocessors;
  }

  std::string driverVersion() override {
    int version = 0;
    check(table().driverGetVersion(&version), "asking for the driver's version");
    return "HIP " + std::to_string(version);
  }

  std::shared_ptr<LoadedKernel> load(const Artifact &artifact) override {
    checkResources(artifact);
    requireKind(artifact, {"hsaco"});
    const CurrentDevice current = enter();
    const BesideCaptures<HipDriver> beside;
    void *module = nullptr;
    check(table().moduleLoadData(&module, artifact.bytes.data()),
          "loading kernel '" + artifact.entry + "'");
    return kernelIn(artifact, module);
  }

private:
  void fillPairs(uint64_t to, const uint32_t (&words)[2], size_t count, void *stream) override {
    // The two halves of the first element, then copies of what there is, twice as much each time.
    for (size_t i = 0; i < 2; ++i)
      call(filling, table().memsetD32Async, to + 4 * i, words[i], size_t{1}, stream);
    for (size_t done = 1; done < count; done *= 2)
      copyOnDevice(to + 8 * done, to, 8 * std::min(done, count - done), stream);
  }

  int start(const Kernel &kernel, const GridExtents &grid, void **arguments,
            void *stream) override {
    return table().launchKernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1,
                                kernel.sharedBytes, stream, arguments, nullptr);
  }
};

} // namespace

unsigned hipDeviceCount() { return driverDeviceCount<HipDriver>(); }

std::shared_ptr<DeviceImpl> openHipDevice(unsigned index) {
  return openDriverDevice<HipDriver, HipDevice>("hip", "HIP", index);
}

} // namespace sectile::runtime
