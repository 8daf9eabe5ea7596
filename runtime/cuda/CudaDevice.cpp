// A CUDA device: its primary context, which other CUDA code in the process shares, and the calls
// into the driver.
#include "runtime/cuda/CudaDevice.h"
#include "ir/Target.h"
#include "runtime/cuda/CudaDriver.h"
#include <cstring>
#include <utility>

namespace sectile::runtime {
namespace {

const CudaDriver &driver() { return CudaDriver::get(); }

[[noreturn]] void fail(CUresult error, const std::string &device, const std::string &doing) {
  throw DeviceError(device + ": " + doing + ": " + driver().describe(error));
}

/// Makes a context this thread's current one for a while, unless it already is.
class CurrentContext {
public:
  explicit CurrentContext(CUcontext context) {
    CUcontext current = nullptr;
    driver().cuCtxGetCurrent(&current);
    pushed = current != context && driver().cuCtxPushCurrent(context) == cuda::success;
  }
  CurrentContext(const CurrentContext &) = delete;
  ~CurrentContext() {
    CUcontext popped;
    if (pushed)
      driver().cuCtxPopCurrent(&popped);
  }

private:
  bool pushed;
};

/// The device stays open for as long as the process.
class CudaKernel : public LoadedKernel {
public:
  CudaKernel(const Artifact &artifact, const DeviceImpl &device, CUcontext context, CUmodule module)
      : LoadedKernel(artifact), device(device), context(context), module(module) {}
  ~CudaKernel() override {
    if (device.isLost())
      return;
    CurrentContext current(context);
    driver().cuCtxSynchronize(); // It may be running.
    driver().cuModuleUnload(module);
  }

  CUfunction function = nullptr;

private:
  const DeviceImpl &device;
  CUcontext context;
  CUmodule module;
};

class CudaDevice final : public DeviceImpl {
public:
  explicit CudaDevice(unsigned index) {
    name = "cuda:" + std::to_string(index);
    dlpackDevice = 2;
    CUdevice device;
    check(driver().cuDeviceGet(&device, static_cast<int>(index)), "opening the device");
    char product[256] = "";
    check(driver().cuDeviceGetName(product, sizeof product, device),
          "asking for the device's name");
    description = product;
    auto attribute = [&](int which) {
      int value = 0;
      check(driver().cuDeviceGetAttribute(&value, which, device),
            "asking for the device's attributes");
      return static_cast<unsigned>(value);
    };
    const Target chip = Target::forComputeCapability(attribute(cuda::attributeMajor),
                                                     attribute(cuda::attributeMinor));
    target = chip.name;
    launchesOverlap = chip.dependentLaunch;
    limits.warp_size = attribute(cuda::attributeWarpSize);
    limits.max_threads = attribute(cuda::attributeMaxThreads);
    limits.max_shared_bytes = attribute(cuda::attributeMaxSharedOptIn);
    limits.multiprocessors = attribute(cuda::attributeMultiprocessors);
    for (int i = 0; i < 3; ++i)
      limits.max_grid[i] = attribute(cuda::attributeMaxGridX + i);
    int kilohertz = 0, bits = 0; // Memory moves data at both edges of its clock.
    if (!driver().cuDeviceGetAttribute(&kilohertz, cuda::attributeMemoryClock, device) &&
        !driver().cuDeviceGetAttribute(&bits, cuda::attributeMemoryBusWidth, device))
      limits.memory_gigabytes = 2e-6 * kilohertz * bits / 8;
    check(driver().cuDevicePrimaryCtxRetain(&context, device), "taking the device's context");
  }

  std::string driverVersion() override {
    int version = 0;
    check(driver().cuDriverGetVersion(&version), "asking for the driver's version");
    return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  std::shared_ptr<void> makeCurrent() override {
    requireNotLost();
    return std::make_shared<CurrentContext>(context);
  }
  MemoryInfo memory() override {
    MemoryInfo info{};
    call("asking for the memory there is", driver().cuMemGetInfo, &info.free_bytes,
         &info.total_bytes);
    return info;
  }

  uint64_t allocate(size_t bytes) override {
    if (bytes == 0)
      return 0;
    const CurrentContext current = enter();
    CUdeviceptr address = 0;
    if (CUresult error = driver().cuMemAlloc(&address, bytes); error == cuda::errorOutOfMemory) {
      MemoryInfo info = memory();
      fail(error, name,
           "allocating " + std::to_string(bytes) + " bytes (" + std::to_string(info.free_bytes) +
               " of " + std::to_string(info.total_bytes) + " are free)");
    } else if (error) {
      fail(error, name, "allocating " + std::to_string(bytes) + " bytes");
    }
    return address;
  }
  void free(uint64_t address) noexcept override { release(driver().cuMemFree, address); }

  void copyToDevice(uint64_t to, const void *from, size_t bytes) override {
    call("copying to the device", driver().cuMemcpyHtoD, to, from, bytes);
  }
  void copyToHost(void *to, uint64_t from, size_t bytes) override {
    call("copying to the host", driver().cuMemcpyDtoH, to, from, bytes);
  }
  void copyOnDevice(uint64_t to, uint64_t from, size_t bytes, void *stream) override {
    call("copying on the device", driver().cuMemcpyDtoDAsync, to, from, bytes,
         static_cast<CUstream>(stream));
  }

  void fill(uint64_t to, const void *pattern, size_t patternBytes, size_t count,
            void *stream) override {
    static const char doing[] = "filling memory";
    CUstream in = static_cast<CUstream>(stream);
    uint32_t words[2] = {};
    std::memcpy(words, pattern, patternBytes);
    if (patternBytes == 1)
      call(doing, driver().cuMemsetD8Async, to, static_cast<unsigned char>(words[0]), count, in);
    else if (patternBytes == 2)
      call(doing, driver().cuMemsetD16Async, to, static_cast<unsigned short>(words[0]), count, in);
    else if (patternBytes == 4)
      call(doing, driver().cuMemsetD32Async, to, words[0], count, in);
    else if (words[0] == words[1])
      call(doing, driver().cuMemsetD32Async, to, words[0], 2 * count, in);
    else // One word of each eight bytes at a time: a column of a matrix.
      for (unsigned i = 0; i < 2; ++i)
        call(doing, driver().cuMemsetD2D32Async, to + 4 * i, size_t{8}, words[i], size_t{1}, count,
             in);
  }

  void synchronize() override { call("waiting for the device", driver().cuCtxSynchronize); }

  void *createStream() override {
    CUstream stream = nullptr;
    // Flags 0: such a stream keeps its order with the legacy default stream, which the copies to
    // and from the host use.
    call("creating a stream", driver().cuStreamCreate, &stream, 0u);
    return stream;
  }
  void destroyStream(void *stream) noexcept override {
    release(driver().cuStreamDestroy, static_cast<CUstream>(stream));
  }
  void synchronizeStream(void *stream) override {
    call("waiting for a stream", driver().cuStreamSynchronize, static_cast<CUstream>(stream));
  }

  void *createEvent() override {
    CUevent event = nullptr;
    call("creating an event", driver().cuEventCreate, &event, 0u);
    return event;
  }
  void destroyEvent(void *event) noexcept override {
    release(driver().cuEventDestroy, static_cast<CUevent>(event));
  }
  void recordEvent(void *event, void *stream) override {
    call("recording an event", driver().cuEventRecord, static_cast<CUevent>(event),
         static_cast<CUstream>(stream));
  }
  void synchronizeEvent(void *event) override {
    call("waiting for an event", driver().cuEventSynchronize, static_cast<CUevent>(event));
  }
  bool eventDone(void *event) override {
    const CurrentContext current = enter();
    const CUresult result = driver().cuEventQuery(static_cast<CUevent>(event));
    if (result != cuda::errorNotReady)
      check(result, "asking for an event");
    return result == cuda::success;
  }
  void waitEvent(void *stream, void *event) override {
    call("making a stream wait for an event", driver().cuStreamWaitEvent,
         static_cast<CUstream>(stream), static_cast<CUevent>(event), 0u);
  }
  float elapsedMilliseconds(void *from, void *to) override {
    float milliseconds = 0;
    call("measuring the time between events", driver().cuEventElapsedTime, &milliseconds,
         static_cast<CUevent>(from), static_cast<CUevent>(to));
    return milliseconds;
  }

  void beginCapture(void *stream) override {
    call("starting a capture", driver().cuStreamBeginCapture, static_cast<CUstream>(stream),
         cuda::captureThreadLocal);
  }
  void *endCapture(void *stream) override {
    CUgraph graph = nullptr;
    call("ending a capture", driver().cuStreamEndCapture, static_cast<CUstream>(stream), &graph);
    const CurrentContext current = enter();
    CUgraphExec executable = nullptr;
    const CUresult result = driver().cuGraphInstantiate(&executable, graph, 0ull);
    driver().cuGraphDestroy(graph);
    check(result, "making the captured graph executable");
    return executable;
  }
  void launchGraph(void *graph, void *stream) override {
    call("launching a graph", driver().cuGraphLaunch, static_cast<CUgraphExec>(graph),
         static_cast<CUstream>(stream));
  }
  void destroyGraph(void *graph) noexcept override {
    release(driver().cuGraphExecDestroy, static_cast<CUgraphExec>(graph));
  }

  std::unique_ptr<LoadedKernel> load(const Artifact &artifact) override {
    checkResources(artifact);
    if (artifact.kind != "ptx" && artifact.kind != "cubin")
      throw DeviceError(name + ": cannot load kernel '" + artifact.entry +
                        "': its code is of the kind '" + artifact.kind + "'");
    const CurrentContext current = enter();
    CUmodule module = nullptr;
    std::string log(16384, '\0');
    int options[] = {cuda::jitErrorLog, cuda::jitErrorLogSize};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    if (CUresult error =
            driver().cuModuleLoadDataEx(&module, artifact.bytes.c_str(), 2, options, values)) {
      log.resize(std::strlen(log.c_str()));
      fail(error, name,
           "loading kernel '" + artifact.entry + "'" + (log.empty() ? "" : " (" + log + ")"));
    }
    auto kernel = std::make_unique<CudaKernel>(artifact, *this, context, module);
    check(driver().cuModuleGetFunction(&kernel->function, module, artifact.entry.c_str()),
          "finding kernel '" + artifact.entry + "' in its code");
    auto attribute = [&](int which) {
      int value = 0;
      check(driver().cuFuncGetAttribute(&value, which, kernel->function),
            "asking what kernel '" + artifact.entry + "' takes");
      return static_cast<unsigned>(value);
    };
    kernel->resources.registers = attribute(cuda::functionRegisters);
    kernel->resources.spillBytes = attribute(cuda::functionLocalBytes);
    if (artifact.sharedBytes > defaultSharedBytes)
      check(driver().cuFuncSetAttribute(kernel->function, cuda::functionMaxDynamicShared,
                                        static_cast<int>(artifact.sharedBytes)),
            "giving kernel '" + artifact.entry + "' " + std::to_string(artifact.sharedBytes) +
                " bytes of shared memory");
    return kernel;
  }

  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
              void *stream) override {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0)
      return;
    checkGrid(kernel, grid);
    const CurrentContext current = enter();
    const CUfunction function = static_cast<const CudaKernel &>(kernel).function;
    const auto in = static_cast<CUstream>(stream);
    CUresult error = cuda::success;
    if (grid.dependent && launchesOverlap) {
      CudaLaunchAttribute overlap{cuda::launchProgrammaticSerialization, {}};
      overlap.value.programmaticSerializationAllowed = 1;
      const CudaLaunchConfig config{
          grid.x, grid.y, grid.z, kernel.threads, 1, 1, kernel.sharedBytes, in, &overlap, 1};
      error = driver().cuLaunchKernelEx(&config, function, arguments, nullptr);
    } else {
      error = driver().cuLaunchKernel(function, grid.x, grid.y, grid.z, kernel.threads, 1, 1,
                                      kernel.sharedBytes, in, arguments, nullptr);
    }
    if (error)
      fail(error, name, "launching kernel '" + kernel.name + "'");
  }

private:
  CurrentContext enter() const {
    requireNotLost();
    return CurrentContext(context);
  }

  /// What a kernel may use without asking for more.
  static constexpr unsigned defaultSharedBytes = 48 * 1024;

  void check(CUresult error, const std::string &doing) const {
    if (error)
      fail(error, name, doing);
  }
  template <class Function, class... Arguments>
  void call(const char *doing, Function function, Arguments... arguments) {
    const CurrentContext current = enter();
    if (CUresult error = function(arguments...))
      fail(error, name, doing);
  }
  /// Gives something back. A failure has been or will be reported by the calls that do work.
  template <class Function, class Handle> void release(Function function, Handle handle) noexcept {
    if (!handle || isLost())
      return;
    CurrentContext current(context);
    function(handle);
  }

  CUcontext context = nullptr;
  bool launchesOverlap = false;
};

} // namespace

unsigned cudaDeviceCount() {
  int count = 0;
  if (!driver().missing.empty() || driver().cuDeviceGetCount(&count) != cuda::success)
    return 0;
  return static_cast<unsigned>(count);
}

std::shared_ptr<DeviceImpl> openCudaDevice(unsigned index) {
  const std::string name = "cuda:" + std::to_string(index);
  if (!driver().missing.empty())
    throw DeviceError(name + ": " + driver().missing);
  if (unsigned count = cudaDeviceCount(); index >= count)
    throw DeviceError(
        name + ": there " +
        (count == 1 ? "is 1 CUDA device" : "are " + std::to_string(count) + " CUDA devices"));
  return std::make_shared<CudaDevice>(index);
}

} // namespace sectile::runtime
