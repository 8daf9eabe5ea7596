// A virtual device over the machine: its memory, its streams, and launches that turn findings into
// errors.
#include "jit/virtual/VirtualDevice.h"
#include "codegen/virtual/HostCompiler.h"
#include "codegen/virtual/VirtualObject.h"
#include "ir/Target.h"
#include "jit/virtual/GlobalShadow.h"
#include "jit/virtual/Program.h"
#include "jit/virtual/TensorMap.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

Target targetNamed(std::string_view name) {
  llvm::Expected<Target> target = Target::get(llvm::StringRef(name.data(), name.size()));
  if (target)
    return *target;
  throw DeviceError("virtual:" + std::string(name) + ": " + llvm::toString(target.takeError()));
}

} // namespace

VirtualDevice::VirtualDevice(std::string_view targetName)
    : launchesOverlap(targetNamed(targetName).dependentLaunch),
      theMachine(targetNamed(targetName).warpSize) {
  const Target chip = targetNamed(targetName);
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
    options.deadline = std::strtod(deadline, nullptr);
  if (const char *counters = std::getenv("SECTILE_VIRTUAL_COUNTERS"))
    printCounters = std::strcmp(counters, "0") != 0;
}

std::string VirtualDevice::codeKey() const {
  return DeviceImpl::codeKey() + " virtual on " + vgpu::hostCpuName();
}

llvm::Expected<Artifact> VirtualDevice::compile(mlir::ModuleOp module,
                                                const CompileOptions &options,
                                                CompileTimes *times) const {
  return sectile::compile(module, targetNamed(target), options, /*forVirtualDevice=*/true, times);
}

std::shared_ptr<LoadedKernel> VirtualDevice::load(const Artifact &artifact) {
  checkResources(artifact);
  std::optional<vgpu::VirtualObject> object;
  if (artifact.kind == "virtual")
    object = vgpu::VirtualObject::deserialize(artifact.bytes);
  if (!object)
    throw DeviceError(name + ": cannot load kernel '" + artifact.entry +
                      "': its code is of the kind '" + artifact.kind + "'");
  llvm::Expected<std::unique_ptr<vgpu::Program>> program = vgpu::Program::load(std::move(*object));
  if (!program)
    throw DeviceError(name + ": loading kernel '" + artifact.entry +
                      "': " + llvm::toString(program.takeError()));
  return std::make_shared<VirtualKernel>(artifact, std::move(*program));
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
    for (const TensorMapPlan &plan : kernel.tensorMaps) {
      auto map = vgpu::TensorMap::of(valuesOf(plan, arguments));
      if (!map)
        throw DeviceError(name + ": " + llvm::toString(map.takeError()));
      maps.push_back(*map);
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

vgpu::Counters VirtualDevice::lastCounters() const {
  std::lock_guard lock(mutex);
  return counters;
}

std::vector<vgpu::AllocationCounters> VirtualDevice::lastAllocations() const {
  std::lock_guard lock(mutex);
  return allocations;
}

std::shared_ptr<DeviceImpl> openVirtualDevice(std::string_view target) {
  return std::make_shared<VirtualDevice>(target);
}

} // namespace sectile::runtime
