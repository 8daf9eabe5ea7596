// A virtual device over the machine: its memory, its streams, and launches that turn findings into
// errors.
#include "runtime/virtual/VirtualDevice.h"
#include "codegen/virtual/VirtualObject.h"
#include "ir/Target.h"
#include "runtime/virtual/Program.h"
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <unistd.h>
#include <vector>

namespace sectile::runtime {
namespace {

using Work = std::function<void()>;

struct VirtualStream {
  bool capturing = false;
  std::vector<Work> captured;
};
struct VirtualEvent {
  std::chrono::steady_clock::time_point time;
};
struct VirtualGraph {
  std::vector<Work> work;
};

/// Does the work now, or remembers it where the stream is being captured.
void submit(void *stream, Work work) {
  auto *to = static_cast<VirtualStream *>(stream);
  if (to && to->capturing)
    to->captured.push_back(std::move(work));
  else
    work();
}

class VirtualKernel : public LoadedKernel {
public:
  VirtualKernel(const Artifact &artifact, std::unique_ptr<vgpu::Program> program)
      : LoadedKernel(artifact), program(std::move(program)) {}

  const std::unique_ptr<vgpu::Program> program;
};

Target targetNamed(std::string_view name) {
  llvm::Expected<Target> target = Target::get(llvm::StringRef(name.data(), name.size()));
  if (target)
    return *target;
  throw DeviceError("virtual:" + std::string(name) + ": " + llvm::toString(target.takeError()));
}

size_t hostMemory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

template <class T> T *pointer(uint64_t address) { return reinterpret_cast<T *>(address); }

} // namespace

VirtualDevice::VirtualDevice(std::string_view targetName)
    : theMachine(targetNamed(targetName).warpSize) {
  const Target chip = targetNamed(targetName);
  name = "virtual:" + std::string(targetName);
  description = "virtual " + chip.name;
  isVirtual = true;
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
  if (const char *counters = std::getenv("SECTILE_VIRTUAL_COUNTERS"))
    printCounters = std::strcmp(counters, "0") != 0;
}

MemoryInfo VirtualDevice::memory() {
  const size_t total = hostMemory(), used = theMachine.memory().bytesInUse();
  return {used < total ? total - used : 0, total};
}

uint64_t VirtualDevice::allocate(size_t bytes) {
  if (bytes == 0)
    return 0;
  void *address = bytes > hostMemory() ? nullptr : theMachine.memory().allocate(bytes);
  if (!address)
    throw DeviceError(name + ": allocating " + std::to_string(bytes) + " bytes: there are " +
                      std::to_string(memory().free_bytes) + " of " +
                      std::to_string(memory().total_bytes));
  return reinterpret_cast<uint64_t>(address);
}

void VirtualDevice::free(uint64_t address) noexcept {
  if (address)
    theMachine.memory().free(pointer<void>(address));
}

void VirtualDevice::checkRange(uint64_t address, size_t bytes, const char *doing) const {
  if (!const_cast<VirtualDevice *>(this)->theMachine.memory().contains(pointer<void>(address),
                                                                       bytes))
    throw DeviceError(name + ": " + doing + ": " + std::to_string(bytes) +
                      " bytes there are not inside one allocation of this device");
}

void VirtualDevice::copyToDevice(uint64_t to, const void *from, size_t bytes) {
  checkRange(to, bytes, "copying to the device");
  std::memcpy(pointer<void>(to), from, bytes);
}

void VirtualDevice::copyToHost(void *to, uint64_t from, size_t bytes) {
  checkRange(from, bytes, "copying to the host");
  std::memcpy(to, pointer<void>(from), bytes);
}

void VirtualDevice::copyOnDevice(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  checkRange(from, bytes, "copying on the device");
  checkRange(to, bytes, "copying on the device");
  submit(stream, [=] { std::memmove(pointer<void>(to), pointer<void>(from), bytes); });
}

void VirtualDevice::fill(uint64_t to, const void *pattern, size_t patternBytes, size_t count,
                         void *stream) {
  checkRange(to, patternBytes * count, "filling memory");
  uint64_t value = 0;
  std::memcpy(&value, pattern, patternBytes);
  submit(stream, [=] {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(pointer<char>(to) + i * patternBytes, &value, patternBytes);
  });
}

void *VirtualDevice::createStream() { return new VirtualStream; }
void VirtualDevice::destroyStream(void *stream) noexcept {
  delete static_cast<VirtualStream *>(stream);
}

void VirtualDevice::synchronizeStream(void *stream) {
  if (static_cast<VirtualStream *>(stream)->capturing)
    throw DeviceError(name + ": waiting for a stream: it is being captured");
}

void *VirtualDevice::createEvent() { return new VirtualEvent; }
void VirtualDevice::destroyEvent(void *event) noexcept {
  delete static_cast<VirtualEvent *>(event);
}

void VirtualDevice::recordEvent(void *event, void *stream) {
  submit(stream,
         [event] { static_cast<VirtualEvent *>(event)->time = std::chrono::steady_clock::now(); });
}

float VirtualDevice::elapsedMilliseconds(void *from, void *to) {
  return std::chrono::duration<float, std::milli>(static_cast<VirtualEvent *>(to)->time -
                                                  static_cast<VirtualEvent *>(from)->time)
      .count();
}

void VirtualDevice::beginCapture(void *stream) {
  auto *captured = static_cast<VirtualStream *>(stream);
  if (captured->capturing)
    throw DeviceError(name + ": starting a capture: the stream is being captured already");
  captured->capturing = true;
}

void *VirtualDevice::endCapture(void *stream) {
  auto *captured = static_cast<VirtualStream *>(stream);
  if (!captured->capturing)
    throw DeviceError(name + ": ending a capture: the stream is not being captured");
  captured->capturing = false;
  return new VirtualGraph{std::exchange(captured->captured, {})};
}

void VirtualDevice::launchGraph(void *graph, void *stream) {
  for (const Work &work : static_cast<VirtualGraph *>(graph)->work)
    submit(stream, work);
}

void VirtualDevice::destroyGraph(void *graph) noexcept {
  delete static_cast<VirtualGraph *>(graph);
}

std::unique_ptr<LoadedKernel> VirtualDevice::load(const Artifact &artifact) {
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
  return std::make_unique<VirtualKernel>(artifact, std::move(*program));
}

void VirtualDevice::launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                           void *stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  checkGrid(kernel, grid);
  if (auto *to = static_cast<VirtualStream *>(stream); !to || !to->capturing)
    return run(kernel, grid, arguments);
  // The graph outlives the caller's arguments. None is wider than a word.
  const auto &program = *static_cast<const VirtualKernel &>(kernel).program;
  std::vector<uint64_t> words(program.argumentCount());
  for (size_t i = 0; i < words.size(); ++i)
    std::memcpy(&words[i], arguments[i], sizeof(uint64_t));
  submit(stream, [this, &kernel, grid, words]() mutable {
    std::vector<void *> pointers;
    for (uint64_t &word : words)
      pointers.push_back(&word);
    run(kernel, grid, pointers.data());
  });
}

void VirtualDevice::run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments) {
  vgpu::LaunchShape shape;
  shape.grid[0] = grid.x;
  shape.grid[1] = grid.y;
  shape.grid[2] = grid.z;
  shape.block[0] = kernel.threads;
  shape.sharedBytes = kernel.sharedBytes;
  vgpu::LaunchOptions how;
  {
    std::lock_guard lock(mutex);
    how = options;
  }
  vgpu::LaunchResult result =
      theMachine.launch(*static_cast<const VirtualKernel &>(kernel).program, shape, arguments, how);
  if (printCounters && !result.finding)
    std::fprintf(stderr, "%s: %s\n%s", name.c_str(),
                 static_cast<const VirtualKernel &>(kernel).program->kernel().c_str(),
                 result.counters.text().c_str());
  {
    std::lock_guard lock(mutex);
    counters = std::move(result.counters);
  }
  if (result.finding)
    throw KernelFault(name, std::move(*result.finding));
}

void VirtualDevice::setOptions(const vgpu::LaunchOptions &newOptions) {
  std::lock_guard lock(mutex);
  options = newOptions;
}

vgpu::Counters VirtualDevice::lastCounters() const {
  std::lock_guard lock(mutex);
  return counters;
}

std::shared_ptr<DeviceImpl> openVirtualDevice(std::string_view target) {
  return std::make_shared<VirtualDevice>(target);
}

} // namespace sectile::runtime
