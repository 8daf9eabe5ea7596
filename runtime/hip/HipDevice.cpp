// A HIP device, and the calls into HIP's run-time library.
#include "runtime/hip/HipDevice.h"
#include "runtime/DriverDevice.h"
#include "runtime/hip/HipDriver.h"

namespace sectile::runtime {
namespace {

/// Makes a device this thread's current one for a while, unless it already is.
class CurrentDevice {
public:
  using Place = int;

  explicit CurrentDevice(int device) {
    HipDriver::get().getDevice(&before);
    changed = before != device;
    if (!changed)
      return;
    if (const int error = HipDriver::get().setDevice(device))
      driver::throwDriverError(error, "a HIP device cannot be made current: " +
                                          HipDriver::get().describe(error));
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

/// "gfx942" of "gfx942:sramecc+:xnack-".
std::string architectureIn(const std::vector<char> &properties, size_t place) {
  const std::string_view text(&properties[place], strnlen(&properties[place], 256));
  return std::string(text.substr(0, text.find(':')));
}

class HipDevice final : public DriverDevice<HipDriver, CurrentDevice> {
public:
  HipDevice(const std::string &called, unsigned index)
      : DriverDevice(static_cast<int>(index), static_cast<int>(index)) {
    name = called;
    dlpackDevice = 10;
    dlpackIndex = static_cast<int>(index);
    std::vector<char> properties(16384);
    check(table().getDeviceProperties(properties.data(), place),
          "asking for the device's properties");
    description = std::string(properties.data(), strnlen(properties.data(), 256));
    const std::string architecture = architectureIn(properties, table().architectureAt);
    const Chip *chip = Chip::find(architecture);
    if (!chip)
      throw DeviceError(name + " (" + description + "): " + Chip::whyUnknown(architecture));
    target = chip->name;
    limits.warp_size = chip->warpSize;
    limits.max_threads = chip->maxThreads;
    limits.max_shared_bytes = chip->maxSharedBytes;
    limits.multiprocessors = chip->multiprocessors;
  }

  void reset() override {
    const CurrentDevice current(place);
    check(table().deviceReset(), "resetting the device");
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
