// A HIP device, and the calls into HIP's run-time library.
#include "runtime/hip/HipDevice.h"
#include "ir/Target.h"
#include "runtime/hip/HipDriver.h"
#include <cctype>
#include <cstring>

namespace sectile::runtime {
namespace {

const HipDriver &driver() { return HipDriver::get(); }

[[noreturn]] void fail(hipError error, const std::string &device, const std::string &doing) {
  throw DeviceError(device + ": " + doing + ": " + driver().describe(error));
}

/// Makes a device this thread's current one for a while, unless it already is.
class CurrentDevice {
public:
  explicit CurrentDevice(int device) {
    driver().hipGetDevice(&before);
    changed = before != device;
    if (changed)
      driver().hipSetDevice(device);
  }
  CurrentDevice(const CurrentDevice &) = delete;
  ~CurrentDevice() {
    if (changed)
      driver().hipSetDevice(before);
  }

private:
  int before = 0;
  bool changed;
};

/// The device stays open for as long as the process.
class HipKernel : public LoadedKernel {
public:
  HipKernel(const Artifact &artifact, const DeviceImpl &device, int ordinal, hipModule module)
      : LoadedKernel(artifact), device(device), ordinal(ordinal), module(module) {}
  ~HipKernel() override {
    if (device.isLost())
      return;
    CurrentDevice current(ordinal);
    driver().hipDeviceSynchronize(); // It may be running.
    driver().hipModuleUnload(module);
  }

  hipFunction function = nullptr;

private:
  const DeviceImpl &device;
  int ordinal;
  hipModule module;
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

class HipDevice final : public DeviceImpl {
public:
  explicit HipDevice(unsigned index) : ordinal(static_cast<int>(index)) {
    name = "hip:" + std::to_string(index);
    dlpackDevice = 10;
    std::vector<char> properties(16384);
    check(driver().hipGetDeviceProperties(properties.data(), ordinal),
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
    check(driver().hipDriverGetVersion(&version), "asking for the driver's version");
    return "HIP " + std::to_string(version);
  }

  MemoryInfo memory() override {
    MemoryInfo info{};
    call("asking for the memory there is", driver().hipMemGetInfo, &info.free_bytes,
         &info.total_bytes);
    return info;
  }

  uint64_t allocate(size_t bytes) override {
    if (bytes == 0)
      return 0;
    const CurrentDevice current = enter();
    void *address = nullptr;
    std::string doing = "allocating " + std::to_string(bytes) + " bytes";
    if (hipError error = driver().hipMalloc(&address, bytes)) {
      if (error == hip::errorOutOfMemory) {
        MemoryInfo info = memory();
        doing += " (" + std::to_string(info.free_bytes) + " of " +
                 std::to_string(info.total_bytes) + " are free)";
      }
      fail(error, name, doing);
    }
    return reinterpret_cast<uint64_t>(address);
  }
  void free(uint64_t address) noexcept override { release(driver().hipFree, pointer(address)); }

  void copyToDevice(uint64_t to, const void *from, size_t bytes) override {
    call("copying to the device", driver().hipMemcpyHtoD, pointer(to), from, bytes);
  }
  void copyToHost(void *to, uint64_t from, size_t bytes) override {
    call("copying to the host", driver().hipMemcpyDtoH, to, pointer(from), bytes);
  }
  void copyOnDevice(uint64_t to, uint64_t from, size_t bytes, void *stream) override {
    call("copying on the device", driver().hipMemcpyDtoDAsync, pointer(to), pointer(from), bytes,
         static_cast<hipStream>(stream));
  }

  void fill(uint64_t to, const void *pattern, size_t patternBytes, size_t count,
            void *stream) override {
    static const char doing[] = "filling memory";
    auto in = static_cast<hipStream>(stream);
    uint32_t words[2] = {};
    std::memcpy(words, pattern, patternBytes);
    if (patternBytes == 1) {
      call(doing, driver().hipMemsetD8Async, pointer(to), static_cast<unsigned char>(words[0]),
           count, in);
    } else if (patternBytes == 2) {
      call(doing, driver().hipMemsetD16Async, pointer(to), static_cast<unsigned short>(words[0]),
           count, in);
    } else if (patternBytes == 4 || words[0] == words[1]) {
      call(doing, driver().hipMemsetD32Async, pointer(to), static_cast<int>(words[0]),
           count * (patternBytes / 4), in);
    } else { // The two halves of the first element, then copies of what there is, twice as much
             // each time.
      for (size_t i = 0; i < 2; ++i)
        call(doing, driver().hipMemsetD32Async, pointer(to + 4 * i), static_cast<int>(words[i]),
             size_t{1}, in);
      for (size_t done = 1; done < count; done *= 2)
        copyOnDevice(to + 8 * done, to, 8 * std::min(done, count - done), stream);
    }
  }

  void synchronize() override { call("waiting for the device", driver().hipDeviceSynchronize); }

  void *createStream() override {
    hipStream stream = nullptr;
    call("creating a stream", driver().hipStreamCreate, &stream);
    return stream;
  }
  void destroyStream(void *stream) noexcept override {
    release(driver().hipStreamDestroy, static_cast<hipStream>(stream));
  }
  void synchronizeStream(void *stream) override {
    call("waiting for a stream", driver().hipStreamSynchronize, static_cast<hipStream>(stream));
  }

  void *createEvent() override {
    hipEvent event = nullptr;
    call("creating an event", driver().hipEventCreate, &event);
    return event;
  }
  void destroyEvent(void *event) noexcept override {
    release(driver().hipEventDestroy, static_cast<hipEvent>(event));
  }
  void recordEvent(void *event, void *stream) override {
    call("recording an event", driver().hipEventRecord, static_cast<hipEvent>(event),
         static_cast<hipStream>(stream));
  }
  void synchronizeEvent(void *event) override {
    call("waiting for an event", driver().hipEventSynchronize, static_cast<hipEvent>(event));
  }
  bool eventDone(void *event) override {
    const CurrentDevice current = enter();
    const hipError result = driver().hipEventQuery(static_cast<hipEvent>(event));
    if (result != hip::errorNotReady)
      check(result, "asking for an event");
    return result == hip::success;
  }
  void waitEvent(void *stream, void *event) override {
    call("making a stream wait for an event", driver().hipStreamWaitEvent,
         static_cast<hipStream>(stream), static_cast<hipEvent>(event), 0u);
  }
  float elapsedMilliseconds(void *from, void *to) override {
    float milliseconds = 0;
    call("measuring the time between events", driver().hipEventElapsedTime, &milliseconds,
         static_cast<hipEvent>(from), static_cast<hipEvent>(to));
    return milliseconds;
  }

  void beginCapture(void *stream) override {
    call("starting a capture", driver().hipStreamBeginCapture, static_cast<hipStream>(stream),
         hip::captureThreadLocal);
  }
  void *endCapture(void *stream) override {
    hipGraph graph = nullptr;
    call("ending a capture", driver().hipStreamEndCapture, static_cast<hipStream>(stream), &graph);
    const CurrentDevice current = enter();
    hipGraphExec executable = nullptr;
    const hipError result = driver().hipGraphInstantiateWithFlags(&executable, graph, 0ull);
    driver().hipGraphDestroy(graph);
    check(result, "making the captured graph executable");
    return executable;
  }
  void launchGraph(void *graph, void *stream) override {
    call("launching a graph", driver().hipGraphLaunch, static_cast<hipGraphExec>(graph),
         static_cast<hipStream>(stream));
  }
  void destroyGraph(void *graph) noexcept override {
    release(driver().hipGraphExecDestroy, static_cast<hipGraphExec>(graph));
  }

  std::unique_ptr<LoadedKernel> load(const Artifact &artifact) override {
    checkResources(artifact);
    if (artifact.kind != "hsaco")
      throw DeviceError(name + ": cannot load kernel '" + artifact.entry +
                        "': its code is of the kind '" + artifact.kind + "'");
    const CurrentDevice current = enter();
    hipModule module = nullptr;
    check(driver().hipModuleLoadData(&module, artifact.bytes.data()),
          "loading kernel '" + artifact.entry + "'");
    auto kernel = std::make_unique<HipKernel>(artifact, *this, ordinal, module);
    check(driver().hipModuleGetFunction(&kernel->function, module, artifact.entry.c_str()),
          "finding kernel '" + artifact.entry + "' in its code");
    return kernel;
  }

  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
              void *stream) override {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
      return;
    checkGrid(kernel, grid);
    const CurrentDevice current = enter();
    const hipError error = driver().hipModuleLaunchKernel(
        static_cast<const HipKernel &>(kernel).function, grid.x, grid.y, grid.z, kernel.threads, 1,
        1, kernel.sharedBytes, static_cast<hipStream>(stream), arguments, nullptr);
    if (error)
      fail(error, name, "launching kernel '" + kernel.name + "'");
  }

private:
  CurrentDevice enter() const {
    requireNotLost();
    return CurrentDevice(ordinal);
  }
  static void *pointer(uint64_t address) { return reinterpret_cast<void *>(address); }

  void check(hipError error, const std::string &doing) const {
    if (error)
      fail(error, name, doing);
  }
  template <class Function, class... Arguments>
  void call(const char *doing, Function function, Arguments... arguments) {
    const CurrentDevice current = enter();
    if (hipError error = function(arguments...))
      fail(error, name, doing);
  }
  /// Gives something back. A failure has been or will be reported by the calls that do work.
  template <class Function, class Handle> void release(Function function, Handle handle) noexcept {
    if (!handle || isLost())
      return;
    CurrentDevice current(ordinal);
    function(handle);
  }

  int ordinal;
};

} // namespace

unsigned hipDeviceCount() {
  int count = 0;
  if (!driver().missing.empty() || driver().hipGetDeviceCount(&count) != hip::success)
    return 0;
  return static_cast<unsigned>(count);
}

std::shared_ptr<DeviceImpl> openHipDevice(unsigned index) {
  const std::string name = "hip:" + std::to_string(index);
  if (!driver().missing.empty())
    throw DeviceError(name + ": " + driver().missing);
  if (unsigned count = hipDeviceCount(); index >= count)
    throw DeviceError(
        name + ": there " +
        (count == 1 ? "is 1 HIP device" : "are " + std::to_string(count) + " HIP devices"));
  return std::make_shared<HipDevice>(index);
}

} // namespace sectile::runtime
