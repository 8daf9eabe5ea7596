// Finds and opens devices by name, and keeps the ones that are open.
#include "runtime/CompilerLink.h"
#include "runtime/DeviceImpl.h"
#include "runtime/VirtualGpu.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/hip/HipDevice.h"
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>

namespace sectile {

using runtime::DeviceImpl;

namespace {

// Open devices stay open: a driver's context must outlive whatever static objects still hold memory
// of it.
struct OpenDevices {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<DeviceImpl>, std::less<>> byName;
  std::vector<std::shared_ptr<DeviceImpl>> reset; // kernels have them in their keys

  const std::shared_ptr<DeviceImpl> &add(std::string_view name,
                                         std::shared_ptr<DeviceImpl> device) {
    device->name = name;
    device->ownStream = Stream(std::make_shared<runtime::StreamImpl>(device, device->createStream(),
                                                                     runtime::StreamOwner::device));
    return byName.emplace(name, std::move(device)).first->second;
  }
};

OpenDevices &openDevices() {
  static auto *devices = new OpenDevices;
  return *devices;
}

// Of a program without the compiler. The library lies beside this one, else where the system looks.
std::shared_ptr<DeviceImpl> openWithoutCompiler(const std::string &name, const char *target) {
  static constexpr char library[] = "libsectile_vgpu.so." SECTILE_ABI;
  static const auto open = [] {
    Dl_info here{};
    void *handle = nullptr;
    if (dladdr(static_cast<const void *>(library), &here) && here.dli_fname) {
      const std::string path = here.dli_fname;
      handle = dlopen((path.substr(0, path.rfind('/') + 1) + library).c_str(), RTLD_NOW);
    }
    if (!handle)
      handle = dlopen(library, RTLD_NOW);
    return handle ? reinterpret_cast<decltype(&sectile_open_virtual_device)>(
                        dlsym(handle, "sectile_open_virtual_device"))
                  : nullptr;
  }();
  if (!open)
    throw DeviceError("device '" + name + "': this program has no compiler, and " + library +
                      " cannot be opened: install it, or link Sectile::sectile");
  return std::shared_ptr<DeviceImpl>(open(target));
}

std::shared_ptr<DeviceImpl> openNew(std::string_view name) {
  const size_t colon = name.find(':');
  const std::string_view kind = name.substr(0, colon);
  const std::string_view rest = colon == name.npos ? "" : name.substr(colon + 1);
  if (kind == "virtual" || name == "interpreter") {
    if (runtime::CompilerLink *compiler = runtime::compiler())
      return compiler->open(name);
    if (kind == "virtual")
      return openWithoutCompiler(std::string(name), std::string(rest).c_str());
    throw DeviceError("device '" + std::string(name) +
                      "': this program has no compiler, which it needs: link it with "
                      "Sectile::sectile");
  }
  unsigned index = 0;
  if (colon != name.npos) {
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
    if (error != std::errc() || end != rest.data() + rest.size() || rest != std::to_string(index))
      throw DeviceError("device '" + std::string(name) + "': '" + std::string(rest) +
                        "' is no number of a device, as in cuda:0");
  }
  if (kind == "cuda")
    return runtime::openCudaDevice(index);
  if (kind == "hip")
    return runtime::openHipDevice(index);
  throw DeviceError("unknown device '" + std::string(name) +
                    "': devices are called cuda:N, hip:N, virtual:TARGET, as in virtual:sm_90a, or "
                    "interpreter");
}

} // namespace

Device Device::open(std::string_view name) {
  if (name == "cuda" || name == "hip")
    return open(std::string(name) + ":0");
  OpenDevices &open = openDevices();
  std::lock_guard lock(open.mutex);
  const auto found = open.byName.find(name);
  return Device(found != open.byName.end() ? found->second : open.add(name, openNew(name)));
}

Device Device::wrap(void *context) {
  char name[64];
  std::snprintf(name, sizeof name, "cuda context %p", context);
  OpenDevices &open = openDevices();
  std::lock_guard lock(open.mutex);
  const auto found = open.byName.find(name);
  return Device(found != open.byName.end()
                    ? found->second
                    : open.add(name, runtime::openCudaContext(name, context)));
}

void Device::reset() const {
  OpenDevices &open = openDevices();
  std::lock_guard lock(open.mutex);
  const auto found = open.byName.find(impl_->name);
  if (found == open.byName.end() || found->second != impl_)
    return; // it has been already
  open.reset.push_back(impl_);
  open.byName.erase(found);
  impl_->end("it was reset");
  impl_->reset();
}

Device Device::best() {
  if (const char *name = std::getenv("SECTILE_DEVICE"); name && *name)
    return open(name);
  if (runtime::cudaDeviceCount() > 0)
    return open("cuda:0");
  if (runtime::hipDeviceCount() > 0)
    return open("hip:0");
  if (runtime::compiler())
    return open("virtual:sm_90a");
  std::string reasons;
  for (const char *name : {"cuda:0", "hip:0"})
    try {
      return open(name);
    } catch (const DeviceError &error) {
      reasons += (reasons.empty() ? "" : "; ") + std::string(error.what());
    }
  throw DeviceError("no GPU was found (" + reasons +
                    "), and this program has no compiler, which virtual GPUs need: link it with "
                    "Sectile::sectile");
}

Device Device::interpreter() { return open("interpreter"); }

std::vector<Device> Device::all() {
  std::vector<Device> devices;
  auto add = [&](const std::string &name) {
    try {
      devices.push_back(open(name));
    } catch (const DeviceError &) {
      return; // a chip that no target fits, or one that is in disorder
    }
  };
  for (unsigned i = 0, count = runtime::cudaDeviceCount(); i < count; ++i)
    add("cuda:" + std::to_string(i));
  for (unsigned i = 0, count = runtime::hipDeviceCount(); i < count; ++i)
    add("hip:" + std::to_string(i));
  if (!runtime::compiler())
    return devices;
  for (const Chip &chip : Chip::all())
    devices.push_back(open("virtual:" + chip.name));
  devices.push_back(interpreter());
  return devices;
}

const std::string &Device::name() const { return impl_->name; }
const std::string &Device::description() const { return impl_->description; }
const std::string &Device::target() const { return impl_->target; }
const DeviceLimits &Device::limits() const { return impl_->limits; }
MemoryInfo Device::memory() const { return impl_->memory(); }
const Stream &Device::stream() const { return impl_->ownStream; }
void Device::synchronize() const {
  impl_->synchronize();
  impl_->captures.collect();
  impl_->collect();
  impl_->debugLogs.reportAll();
}

void Device::set_allocator(Allocator allocator) const { impl_->setAllocator(std::move(allocator)); }
void Device::trim() const { impl_->trim(); }

Stream Device::new_stream() const {
  return Stream(std::make_shared<runtime::StreamImpl>(impl_, impl_->createStream(),
                                                      runtime::StreamOwner::handle));
}

namespace runtime {

std::string codeKeyOf(const Chip &chip) {
  return chip.name + " " + chip.name + " " + chip.features;
}

void *DeviceImpl::allocateHost(size_t bytes) {
  void *const address = std::malloc(bytes);
  if (!address && bytes)
    throw DeviceError(name + ": allocating " + std::to_string(bytes) + " bytes of host memory");
  return address;
}
void DeviceImpl::freeHost(void *address) noexcept { std::free(address); }

std::string DeviceImpl::codeKey() const { return codeKeyOf(Chip::known(target)); }

int64_t DeviceImpl::indexBound() const {
  int64_t known = knownBound.load(std::memory_order_relaxed);
  if (known < 0) {
    const Chip *chip = Chip::find(target);
    known = chip ? chip->indexBound() : 0;
    knownBound.store(known, std::memory_order_relaxed);
  }
  return known;
}

static std::atomic<bool> anyLost = false;

bool DeviceImpl::anyIsLost() { return anyLost; }

void DeviceImpl::abandon(const std::string &why) {
  anyLost = true;
  end(why);
}

void DeviceImpl::end(const std::string &why) {
  const std::string *none = nullptr;
  const auto *text = new std::string(name + " is lost to this process: " + why);
  if (!lost.compare_exchange_strong(none, text))
    delete text; // it was lost before
}

static std::string kibibytes(size_t bytes) {
  return bytes % 1024 ? std::to_string(bytes) + " bytes" : std::to_string(bytes / 1024) + " KiB";
}

void DeviceImpl::checkResources(const Artifact &artifact) const {
  if (artifact.plan.sharedBytes > limits.max_shared_bytes)
    throw LaunchError("kernel '" + artifact.entry + "' needs " +
                      kibibytes(artifact.plan.sharedBytes) + " of shared memory, " + target +
                      " has " + kibibytes(limits.max_shared_bytes) +
                      ": lower the stages or the tile's extents");
  if (artifact.plan.threads > limits.max_threads)
    throw LaunchError("kernel '" + artifact.entry + "' needs blocks of " +
                      std::to_string(artifact.plan.threads) + " threads, " + target + " has " +
                      std::to_string(limits.max_threads) + ": lower the warps");
}

void DeviceImpl::throwGridTooLarge(const LoadedKernel &kernel, const GridExtents &grid) const {
  auto extents = [](unsigned x, unsigned y, unsigned z) {
    return std::to_string(x) + " x " + std::to_string(y) + " x " + std::to_string(z);
  };
  throw LaunchError("kernel '" + kernel.name + "': a grid of " + extents(grid.x, grid.y, grid.z) +
                    " blocks; " + name + " takes at most " +
                    extents(limits.max_grid[0], limits.max_grid[1], limits.max_grid[2]));
}

void DeviceImpl::throwGridUneven(const LoadedKernel &kernel, const GridExtents &grid) const {
  throw LaunchError("kernel '" + kernel.name + "': a grid of " + std::to_string(grid.x) +
                    " blocks along its first axis, which are no whole clusters of " +
                    std::to_string(kernel.cluster) + " (sc::program_clusters)");
}

} // namespace runtime
} // namespace sectile
