// A virtual device over the machine: its memory, its streams, and launches that turn findings into
// errors.
#include "vgpu/VirtualDevice.h"
#include "runtime/Numerals.h"
#include "runtime/VirtualGpu.h"
#include "vgpu/GlobalShadow.h"
#include "vgpu/Program.h"
#include "vgpu/TensorMap.h"
#include "vgpu/VirtualObject.h"
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <unistd.h>

namespace sectile::runtime {
namespace {

thread_local VirtualDevice::WatchLaunches *watcher = nullptr;

class VirtualKernel : public LoadedKernel {
public:
  VirtualKernel(const Artifact &artifact, std::unique_ptr<vgpu::Program> program)
      : LoadedKernel(artifact), program(std::move(program)) {}

  const std::shared_ptr<const vgpu::Program> program;
};

const Chip &chipNamed(std::string_view name) {
  if (const Chip *chip = Chip::find(name))
    return *chip;
  throw DeviceError("virtual:" + std::string(name) + ": " + Chip::whyUnknown(name));
}

} // namespace

VirtualDevice::VirtualDevice(std::string_view targetName)
    : launchesOverlap(chipNamed(targetName).dependentLaunch),
      theMachine(chipNamed(targetName).warpSize) {
  const Chip &chip = chipNamed(targetName);
  name = "virtual:" + std::string(targetName);
  description = "virtual " + chip.name;
  dlpackDevice = 1;
  target = chip.name;
  limits.warp_size = chip.warpSize;
  limits.max_threads = chip.maxThreads;
  limits.max_shared_bytes = chip.maxSharedBytes;
  limits.multiprocessors = static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const char *seed = std::getenv("SECTILE_VIRTUAL_SEED"))
    options.seed = std::strtoull(seed, nullptr, 10);
  if (const char *checks = std::getenv("SECTILE_VIRTUAL_CHECKS"))
    options.checks = std::strcmp(checks, "0") != 0;
  if (const char *deadline = std::getenv("SECTILE_VIRTUAL_DEADLINE"))
    options.deadline = numberIn(deadline).value_or(0);
  if (const char *counters = std::getenv("SECTILE_VIRTUAL_COUNTERS"))
    printCounters = std::strcmp(counters, "0") != 0;
  options.counters = printCounters;
}

std::string VirtualDevice::codeKey() const {
  return DeviceImpl::codeKey() + " virtual on " + vgpu::portableHost();
}

std::shared_ptr<LoadedKernel> VirtualDevice::load(const Artifact &artifact) {
  checkResources(artifact);
  std::optional<vgpu::VirtualObject> object;
  if (artifact.kind == "virtual")
    object = vgpu::VirtualObject::deserialize(artifact.bytes);
  if (!object)
    throw DeviceError(name + ": cannot load kernel '" + artifact.entry +
                      "': its code is of the kind '" + artifact.kind + "'");
  try {
    return std::make_shared<VirtualKernel>(artifact, vgpu::Program::load(std::move(*object)));
  } catch (const std::runtime_error &error) {
    throw DeviceError(name + ": loading kernel '" + artifact.entry + "': " + error.what());
  }
}

size_t VirtualDevice::argumentCount(const LoadedKernel &kernel) const {
  return kernel.tensorMaps.empty()
             ? static_cast<const VirtualKernel &>(kernel).program->argumentCount()
             : kernel.firstTensorMap;
}

void VirtualDevice::finishWork() noexcept {
  std::lock_guard lock(mutex);
  latest.clear();
}

void VirtualDevice::run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                        void *stream) {
  std::vector<vgpu::TensorMap> maps;
  std::vector<void *> all;
  if (!kernel.tensorMaps.empty()) {
    all.assign(arguments, arguments + kernel.firstTensorMap);
    for (const TensorMapPlan &plan : kernel.tensorMaps)
      try {
        maps.push_back(vgpu::TensorMap::of(valuesOf(plan, arguments)));
      } catch (const std::invalid_argument &error) {
        throw DeviceError(name + ": " + error.what());
      }
    for (vgpu::TensorMap &map : maps)
      all.push_back(&map);
    arguments = all.data();
  }
  vgpu::LaunchShape shape;
  shape.grid[0] = grid.x;
  shape.grid[1] = grid.y;
  shape.grid[2] = grid.z;
  shape.block[0] = kernel.threads;
  shape.sharedBytes = kernel.sharedBytes;
  if (kernel.cluster > 1)
    shape.cluster[0] = kernel.cluster;
  vgpu::LaunchOptions how;
  {
    std::lock_guard lock(mutex);
    how = options;
    std::shared_ptr<const vgpu::EarlierLaunch> ahead = std::exchange(latest[stream], nullptr);
    if (grid.dependent)
      how.overlapped = std::move(ahead);
  }
  if (watcher) {
    how.counters = true;
    if (watcher->deadline > 0)
      how.deadline = watcher->deadline;
  }
  vgpu::LaunchResult result =
      theMachine.launch(*static_cast<const VirtualKernel &>(kernel).program, shape, arguments, how);
  if (printCounters && !result.finding)
    std::fprintf(stderr, "%s: %s\n%s", name.c_str(),
                 static_cast<const VirtualKernel &>(kernel).program->kernel().c_str(),
                 result.counters.text().c_str());
  if (watcher)
    watcher->launch(kernel, result.counters);
  {
    std::lock_guard lock(mutex);
    counters = std::move(result.counters);
    allocations = std::move(result.allocations);
    if (launchesOverlap && result.launched) {
      result.launched->owner = static_cast<const VirtualKernel &>(kernel).program;
      latest[stream] = std::move(result.launched);
    }
  }
  if (result.finding)
    std::swap(result.finding->block[0], result.finding->block[kernel.longAxis]);
  if (result.finding && result.finding->kind == vgpu::FindingKind::TimedOut)
    throw DeadlinePassed(name + ": " + result.finding->text());
  if (result.finding)
    throw FoundFault(name, std::move(*result.finding));
}

VirtualDevice::WatchLaunches::WatchLaunches(Launch launch, double deadline)
    : launch(std::move(launch)), deadline(deadline), before(std::exchange(watcher, this)) {}
VirtualDevice::WatchLaunches::~WatchLaunches() { watcher = before; }

void VirtualDevice::setOptions(const vgpu::LaunchOptions &newOptions) {
  std::lock_guard lock(mutex);
  options = newOptions;
}

void VirtualDevice::countAccesses() {
  std::lock_guard lock(mutex);
  options.counters = true;
}

vgpu::Counters VirtualDevice::lastCounters() const {
  std::lock_guard lock(mutex);
  assert(options.counters && "zeros would be taken for what was counted");
  return counters;
}

std::vector<vgpu::AllocationCounters> VirtualDevice::lastAllocations() const {
  std::lock_guard lock(mutex);
  assert(options.counters && "nothing would be taken for what was read");
  return allocations;
}

} // namespace sectile::runtime

sectile::runtime::DeviceImpl *sectile_open_virtual_device(const char *target) {
  return new sectile::runtime::VirtualDevice(target);
}
