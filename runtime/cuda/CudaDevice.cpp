// A CUDA device: its primary context, which other CUDA code in the process shares, and the calls
// into the driver.
#include "runtime/cuda/CudaDevice.h"
#include "runtime/BuildId.h"
#include "runtime/CompilerLink.h"
#include "runtime/DriverDevice.h"
#include "runtime/PtxForms.h"
#include "runtime/cuda/CudaDriver.h"
#include <bit>
#include <cstdlib>
#include <mutex>

namespace sectile::runtime {
namespace {

/// Makes a context this thread's current one for a while, unless it already is.
class CurrentContext {
public:
  using Place = void *;

  explicit CurrentContext(void *context) {
    void *current = nullptr;
    CudaDriver::get().ctxGetCurrent(&current);
    pushed = current != context;
    if (!pushed)
      return;
    if (const int error = CudaDriver::get().ctxPushCurrent(context))
      driver::throwDriverError(error, "a CUDA context cannot be made current: " +
                                          CudaDriver::get().describe(error));
  }
  CurrentContext(const CurrentContext &) = delete;
  ~CurrentContext() {
    void *popped;
    if (pushed)
      CudaDriver::get().ctxPopCurrent(&popped);
  }

private:
  bool pushed;
};

static std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Null where no target is for chips that are as old.
static const Chip *targetOf(unsigned major, unsigned minor) {
  const char *chosen = std::getenv("SECTILE_CUDA_TARGET");
  if (!chosen || !*chosen)
    return Chip::forComputeCapability(major, minor);
  const Chip *chip = Chip::find(chosen);
  if (!chip)
    throw DeviceError("SECTILE_CUDA_TARGET: " + Chip::whyUnknown(chosen));
  if (chip->vendor != Vendor::Nvidia)
    throw DeviceError("SECTILE_CUDA_TARGET: '" + chip->name + "' is no target of a CUDA device");
  return chip;
}

/// Why the driver cannot run code for the chip, and what it can run.
static std::string tooOld(int version, const Chip &chip) {
  std::string text = "the driver has CUDA " + versionText(version) + ", and code for " + chip.name +
                     " needs CUDA " + versionText(static_cast<int>(chip.leastCuda));
  const Chip &oldest = Chip::all().front();
  if (version >= static_cast<int>(oldest.leastCuda))
    text += "; with SECTILE_CUDA_TARGET=" + oldest.name + " it makes do with " +
            versionText(static_cast<int>(oldest.leastCuda));
  return text;
}

class CudaDevice final : public DriverDevice<CudaDriver, CurrentContext> {
public:
  CudaDevice(const std::string &called, unsigned index) : DriverDevice(static_cast<int>(index)) {
    name = called;
    int device = 0;
    check(table().deviceGet(&device, static_cast<int>(index)), "opening the device");
    learn(device);
    check(table().devicePrimaryCtxRetain(&place, device), "taking the device's context");
    ownsContext = true;
  }

  /// On a context that another library made.
  CudaDevice(const std::string &called, void *context) : DriverDevice(noOrdinal, context) {
    name = called;
    int device = 0;
    call("asking for the context's device", table().ctxGetDevice, &device);
    learn(device);
  }

  void reset() override {
    if (ownsContext)
      check(table().devicePrimaryCtxReset(dlpackIndex), "resetting the device");
  }

  std::string driverVersion() override {
    int version = 0;
    check(table().driverGetVersion(&version), "asking for the driver's version");
    return "CUDA " + versionText(version);
  }

  std::shared_ptr<void> makeCurrent() override {
    requireNotLost();
    return std::make_shared<CurrentContext>(place);
  }

  std::shared_ptr<LoadedKernel> load(const Artifact &artifact) override {
    checkResources(artifact);
    requireKind(artifact, {"ptx", "cubin"});
    if (!artifact.plan.tensorMaps.empty())
      prepareTensorMaps(artifact);
    void *module = nullptr;
    std::optional<std::string> machineCode;
    if (!artifact.machineCode.empty())
      machineCode = artifact.machineCode;
    else if (CompilerLink *link = compiler(); link && artifact.kind == "ptx")
      machineCode = link->machineCodeOf(artifact, codeUser);
    const CurrentContext current = enter();
    const BesideCaptures<CudaDriver> beside;
    const auto isLoaded = [&](const std::string &code) {
      return table().moduleLoadDataEx(&module, code.c_str(), 0, nullptr, nullptr) ==
             driver::success;
    };
    const auto kernelOfModule = [&] {
      auto kernel = kernelIn(artifact, module);
      const auto attribute = [&](int which) {
        int value = 0;
        check(table().funcGetAttribute(&value, which, kernel->function),
              "asking what kernel '" + artifact.entry + "' takes");
        return static_cast<unsigned>(value);
      };
      kernel->resources.registers = attribute(cuda::functionRegisters);
      kernel->resources.spillBytes = attribute(cuda::functionLocalBytes);
      return kernel;
    };
    // Where the driver refuses it, it takes the PTX.
    const bool isAssembled = machineCode && isLoaded(*machineCode);
    if (!isAssembled)
      module = loadModule(artifact);
    auto kernel = kernelOfModule();
    // As codegen/nvidia/Ptxas.h does with ptxas. The driver's own cache has all forms.
    if (!isAssembled && artifact.kind == "ptx" && kernel->resources.spillBytes)
      for (const std::string &form : otherForms(artifact.bytes))
        if (kernel->resources.spillBytes && isLoaded(form))
          if (auto other = kernelOfModule();
              other->resources.spillBytes < kernel->resources.spillBytes)
            kernel = std::move(other);
    if (!isAssembled && artifact.kind == "ptx" && !kernel->resources.spillBytes)
      if (const auto form = formForTwo(artifact.bytes, kernel->resources.registers,
                                       artifact.plan.sharedBytes, Chip::known(target));
          form && isLoaded(*form))
        if (auto two = kernelOfModule(); two->resources.spillBytes <= mostSpiltForTwo)
          kernel = std::move(two);
    if (artifact.plan.sharedBytes > defaultSharedBytes)
      check(table().funcSetAttribute(kernel->function, cuda::functionMaxDynamicShared,
                                     static_cast<int>(artifact.plan.sharedBytes)),
            "giving kernel '" + artifact.entry + "' " + std::to_string(artifact.plan.sharedBytes) +
                " bytes of shared memory");
    return kernel;
  }

private:
  /// What the device is and has.
  void learn(int device) {
    dlpackDevice = 2;
    dlpackIndex = device;
    char product[256] = "";
    check(table().deviceGetName(product, sizeof product, device), "asking for the device's name");
    description = product;
    auto attribute = [&](int which) {
      int value = 0;
      check(table().deviceGetAttribute(&value, which, device),
            "asking for the device's attributes");
      return static_cast<unsigned>(value);
    };
    codeUser = {attribute(cuda::attributeMajor), attribute(cuda::attributeMinor), driverVersion(),
                buildOf(reinterpret_cast<const void *>(table().init))};
    const std::string who = name + " (" + description + "): ";
    const Chip *found = targetOf(codeUser.major, codeUser.minor);
    if (!found)
      throw DeviceError(who + "its compute capability is " + std::to_string(codeUser.major) + "." +
                        std::to_string(codeUser.minor) +
                        ", and Sectile makes code for 8.0 and newer");
    const Chip &chip = *found;
    target = chip.name;
    int version = 0;
    check(table().driverGetVersion(&version), "asking for the driver's version");
    if (version < static_cast<int>(chip.leastCuda))
      throw DeviceError(who + tooOld(version, chip));
    launchesOverlap = chip.dependentLaunch && version >= capturesOverlaps;
    limits.warp_size = attribute(cuda::attributeWarpSize);
    limits.max_threads = attribute(cuda::attributeMaxThreads);
    limits.max_shared_bytes = attribute(cuda::attributeMaxSharedOptIn);
    limits.multiprocessors = attribute(cuda::attributeMultiprocessors);
    for (int i = 0; i < 3; ++i)
      limits.max_grid[i] = attribute(cuda::attributeMaxGridX + i);
    int kilohertz = 0, bits = 0; // Memory moves data at both edges of its clock.
    if (!table().deviceGetAttribute(&kilohertz, cuda::attributeMemoryClock, device) &&
        !table().deviceGetAttribute(&bits, cuda::attributeMemoryBusWidth, device))
      limits.memory_gigabytes = 2e-6 * kilohertz * bits / 8;
  }

  void checkOwnerOf(void *stream) override {
    void *context = nullptr;
    const CurrentContext current = enter();
    // What a driver does not tell, the calls that do work will.
    if (!table().streamGetCtx(stream, &context) && context && context != place)
      throw DeviceError(name + ": the stream is one of another context: Device::wrap(context) is "
                               "the device for it");
  }

  void *loadModule(const Artifact &artifact) {
    void *module = nullptr;
    std::string log(16384, '\0');
    int options[] = {cuda::jitErrorLog, cuda::jitErrorLogSize};
    void *values[] = {log.data(), reinterpret_cast<void *>(log.size())};
    if (int error = table().moduleLoadDataEx(&module, artifact.bytes.c_str(), 2, options, values)) {
      log.resize(std::strlen(log.c_str()));
      fail(error,
           "loading kernel '" + artifact.entry + "'" + (log.empty() ? "" : " (" + log + ")"));
    }
    return module;
  }

  void prepareTensorMaps(const Artifact &artifact) {
    if (!table().tensorMapEncodeTiled)
      throw DeviceError(name + ": kernel '" + artifact.entry +
                        "' needs the tensor maps of CUDA 12.0, the driver has " + driverVersion());
    std::lock_guard lock(mutex);
    if (zeros)
      return;
    static constexpr char pattern[2 * pieceBytes] = {};
    zeros = allocate(sizeof pattern);
    copyToDevice(zeros, pattern, sizeof pattern);
  }

  void fillPairs(uint64_t to, const uint32_t (&words)[2], size_t count, void *stream) override {
    // One word of each eight bytes at a time: a column of a matrix.
    for (unsigned i = 0; i < 2; ++i)
      call(filling, table().memsetD2D32Async, to + 4 * i, size_t{8}, words[i], size_t{1}, count,
           stream);
  }

  static int tensorType(const TensorMapValues &values) {
    static constexpr int types[] = {cuda::tensorUint8, cuda::tensorUint16, cuda::tensorUint32,
                                    cuda::tensorUint64};
    switch (values.number) {
    case TensorNumber::Half:
      return cuda::tensorFloat16;
    case TensorNumber::BFloat:
      return cuda::tensorBfloat16;
    case TensorNumber::Float:
      return cuda::tensorFloat32;
    case TensorNumber::Bits:
      break;
    }
    return types[std::countr_zero(values.elementBytes)];
  }

  CudaTensorMap encode(const TensorMapValues &values) {
    const int swizzle = values.swizzle == 128  ? cuda::tensorSwizzle128
                        : values.swizzle == 64 ? cuda::tensorSwizzle64
                        : values.swizzle == 32 ? cuda::tensorSwizzle32
                                               : cuda::tensorSwizzle0;
    TensorMapValues given = values;
    if (values.isEmpty()) {
      given.address = values.isWritten ? zeros + pieceBytes : zeros;
      std::fill_n(given.extents, given.rank, 1);
      std::fill_n(given.strides, given.rank, 16);
    }
    static constexpr unsigned steps[TensorMapValues::mostDimensions] = {1, 1, 1, 1, 1};
    CudaTensorMap map;
    check(table().tensorMapEncodeTiled(
              &map, tensorType(given), given.rank, reinterpret_cast<void *>(given.address),
              given.extents, given.strides, given.box, steps, cuda::tensorNotInterleaved, swizzle,
              cuda::tensorPromotes256Bytes, cuda::tensorFillsZeros),
          "making a tensor map");
    return map;
  }

  /// The map of these values: made by the driver, once for launches alike that follow each other.
  const CudaTensorMap &tensorMapOf(const TensorMapValues &values) {
    struct Made {
      const CudaDevice *device = nullptr;
      TensorMapValues values;
      CudaTensorMap map;
    };
    constexpr size_t places = 16;
    static thread_local Made made[places];
    Made &place = made[(values.address >> 8 ^ values.extents[0] ^ values.box[1]) % places];
    if (place.device != this || !(place.values == values)) {
      place.map = encode(values);
      place.values = values;
      place.device = this;
    }
    return place.map;
  }

  int start(const Kernel &kernel, const GridExtents &grid, void **arguments,
            void *stream) override {
    if (kernel.tensorMaps.empty())
      return startWith(kernel, grid, arguments, stream);
    std::vector<CudaTensorMap> maps;
    maps.reserve(kernel.tensorMaps.size());
    std::vector<void *> all(arguments, arguments + kernel.firstTensorMap);
    for (const TensorMapPlan &plan : kernel.tensorMaps) {
      maps.push_back(tensorMapOf(valuesOf(plan, arguments)));
      all.push_back(&maps.back());
    }
    return startWith(kernel, grid, all.data(), stream);
  }

  int startWith(const Kernel &kernel, const GridExtents &grid, void **arguments, void *stream) {
    if (!grid.dependent || !launchesOverlap)
      return table().launchKernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1,
                                  kernel.sharedBytes, stream, arguments, nullptr);
    CudaLaunchAttribute overlap{cuda::launchProgrammaticSerialization, {}};
    overlap.value.programmaticSerializationAllowed = 1;
    const CudaLaunchConfig config{
        grid.x, grid.y, grid.z, kernel.threads, 1, 1, kernel.sharedBytes, stream, &overlap, 1};
    return table().launchKernelEx(&config, kernel.function, arguments, nullptr);
  }

  /// What a kernel may use without asking for more.
  static constexpr unsigned defaultSharedBytes = 48 * 1024;
  /// The first driver whose captures take launches that overlap.
  static constexpr int capturesOverlaps = 12030;

  MachineCodeUser codeUser;
  bool launchesOverlap = false;
  bool ownsContext = false; ///< it is the device's primary context
  std::mutex mutex;         ///< guards what follows
  /// Stands for tensors without elements, once a kernel takes tensor maps: a piece of zeros, and
  /// one that is only written.
  uint64_t zeros = 0;
  static constexpr unsigned pieceBytes = 16; ///< that the copy engine moves at once
};

} // namespace

unsigned cudaDeviceCount() { return driverDeviceCount<CudaDriver>(); }

std::shared_ptr<DeviceImpl> openCudaContext(const std::string &name, void *context) {
  if (!CudaDriver::get().missing.empty())
    throw DeviceError(name + ": " + CudaDriver::get().missing);
  return std::make_shared<CudaDevice>(name, context);
}

std::shared_ptr<DeviceImpl> openCudaDevice(unsigned index) {
  return openDriverDevice<CudaDriver, CudaDevice>("cuda", "CUDA", index);
}

} // namespace sectile::runtime
