// What stands behind Kernel: the way of a launch to a loaded kernel.
#include "runtime/CodeChain.h"
#include "runtime/Environment.h"
#include "runtime/KernelState.h"
#include "runtime/LaunchAccess.h"
#include "runtime/PtxForms.h"
#include <algorithm>
#include <utility>

namespace sectile {

using runtime::DeviceImpl;
using runtime::LoadedKernel;

namespace {

thread_local bool isPreparing = false;
// The next launch is the first of a call.
thread_local bool beginsCall = false;

// Whether a launch may start before the kernel ahead of it is done.
bool mayOverlap(const LoadedKernel &kernel, bool wanted) {
  const bool isFirst = std::exchange(beginsCall, false);
  return wanted &&
         (kernel.wait == WaitPoint::Start || (kernel.wait == WaitPoint::ByHand && !isFirst));
}

// "m=128 n=64 warps=4 stages=3".
std::string summary(const CompileOptions &options, const detail::PackedLaunch &packed) {
  std::string text = packed.describeConfig ? packed.describeConfig(packed.config) + " " : "";
  return text + "warps=" + std::to_string(options.warps) +
         " stages=" + std::to_string(options.stages) + limitsText(options);
}

void checkOwners(std::string_view kernel, std::span<const detail::ArgSpec> specs,
                 const detail::Owner *owners, const DeviceImpl &device) {
  for (size_t i = 0; i < specs.size(); ++i) {
    const detail::Owner &owner = owners[i];
    if (owner.device && owner.device != &device)
      owner.device->requireNotLost();
    if (owner.device && owner.device != &device)
      throw LaunchError("kernel '" + std::string(kernel) + "': argument " + std::to_string(i) +
                        " lies on " + owner.device->name + ", the stream is one of " + device.name);
    if (owner.dlpackDevice && owner.dlpackDevice != device.dlpackDevice)
      throw LaunchError("kernel '" + std::string(kernel) + "': argument " + std::to_string(i) +
                        " is a DLPack tensor on a device of the kind " +
                        std::to_string(owner.dlpackDevice) + ", " + device.name +
                        " is of the kind " + std::to_string(device.dlpackDevice));
    if (owner.dlpackDevice && owner.dlpackIndex != device.dlpackIndex)
      throw LaunchError("kernel '" + std::string(kernel) + "': argument " + std::to_string(i) +
                        " is a DLPack tensor on device " + std::to_string(owner.dlpackIndex) +
                        " of its kind, " + device.name + " is device " +
                        std::to_string(device.dlpackIndex));
  }
}

} // namespace

namespace detail {

CompileOptions resolve(const LaunchOptions &launch, const LaunchOptions &kernel) {
  CompileOptions options;
  options.warps = launch.warps ? launch.warps : kernel.warps ? kernel.warps : detail::defaultWarps;
  options.stages = launch.stages   ? launch.stages
                   : kernel.stages ? kernel.stages
                                   : detail::defaultStages;
  static const bool debug = runtime::isSet("SECTILE_DEBUG", true),
                    checked = runtime::isSet("SECTILE_CHECKED", false),
                    plans = runtime::isSet("SECTILE_LOOP_PLANS", true);
  options.debug = launch.debug.value_or(kernel.debug.value_or(debug));
  options.checked = launch.checked.value_or(kernel.checked.value_or(checked));
  options.plans = plans;
  options.maxRegisters = launch.max_registers ? launch.max_registers : kernel.max_registers;
  options.minPrograms = launch.min_programs ? launch.min_programs : kernel.min_programs;
  return options;
}

KernelBase::~KernelBase() { delete state_.load(std::memory_order_acquire); }

KernelState &KernelBase::state() const {
  KernelState *state = state_.load(std::memory_order_acquire);
  if (state)
    return *state;
  auto fresh = std::make_unique<KernelState>(desc_);
  if (state_.compare_exchange_strong(state, fresh.get(), std::memory_order_acq_rel))
    return *fresh.release();
  return *state;
}

// Says something about a kernel that is no compile's to say.
static void remarkOn(const KernelDesc &desc, runtime::Activities &activities, std::string text) {
  const Remark remark{desc.where.file_name(), static_cast<unsigned>(desc.where.line()),
                      std::move(text)};
  activities.done(Activity::Kind::compile, "remark", runtime::textOf(remark));
  if (runtime::CompilerLink *link = runtime::compiler())
    link->print(remark);
}

static std::shared_ptr<LoadedKernel> loadKernel(const KernelDesc &desc, DeviceImpl &device,
                                                void *stream, const PackedLaunch &packed,
                                                const CompileOptions &options,
                                                std::span<const runtime::ArgumentMask> masks,
                                                unsigned longAxis) {
  if (stream && device.captureOf(stream))
    throw LaunchError("kernel '" + std::string(desc.name) +
                      "': there is no code for these arguments yet, and a capture can neither "
                      "compile nor load it: launch the kernel with such arguments before, or see "
                      "sectile::prepare. Integers that are 1 or multiples of 8 or 16 have versions "
                      "of their own, unless they are sectile::Varying");
  runtime::Activities activities(desc.name, device.name, [&] { return summary(options, packed); });
  const auto artifact =
      runtime::findCode({desc, device, packed, options, masks, longAxis, activities});
  // The code may be another program's work. All that this key finds later are alike.
  if (std::string fact = brokenFact(artifact->plan, {packed.words, masks.size()}); !fact.empty())
    throw LaunchError("kernel '" + std::string(desc.name) +
                      "': its code in the cache is for other arguments: " + fact);
  auto loaded = device.load(*artifact);
  loaded->longAxis = longAxis;
  if (loaded->debug)
    loaded->debug->longAxis = longAxis;
  activities.done(Activity::Kind::load, "load");
  if (const Resources &takes = loaded->resources; takes.spillBytes)
    remarkOn(desc, activities, runtime::spillRemark(takes.registers, takes.spillBytes));
  return loaded;
}

unsigned longAxisOf(const Grid &grid, const DeviceLimits &limits) {
  const unsigned axis = grid.y > limits.max_grid[1] ? 1 : grid.z > limits.max_grid[2] ? 2 : 0;
  return grid.x <= limits.max_grid[axis] ? axis : 0;
}

// What the versions of a kernel were told apart by: "argument 1, argument 3".
static std::string differencesOf(std::span<const ArgSpec> specs,
                                 const std::vector<std::vector<uint8_t>> &versions) {
  std::string text;
  size_t word = 0;
  for (size_t i = 0; i < specs.size(); ++i) {
    bool differs = false;
    for (int part = flattenedCount(specs[i]); part-- > 0; ++word)
      for (const std::vector<uint8_t> &version : versions)
        differs |= version[word] != versions.front()[word];
    if (differs)
      text += (text.empty() ? "argument " : ", argument ") + std::to_string(i);
  }
  return text;
}

// Each version is a compile, perhaps in the middle of serving.
void KernelBase::countVersion(const runtime::LaunchWords &key, const DeviceImpl &device,
                              const PackedLaunch &packed, const CompileOptions &options) const {
  constexpr size_t few = 4;
  KernelState &state = this->state();
  const std::vector<runtime::ArgumentMask> &masks = state.masksFor(device);
  std::vector<uint8_t> known;
  for (size_t i = 0; i < masks.size(); ++i)
    known.push_back(static_cast<uint8_t>(runtime::knownBits(
        masks[i], packed.words + i, static_cast<uint64_t>(device.indexBound()))));
  std::string text;
  {
    std::lock_guard lock(state.mutex);
    auto &versions = state.versions[key.others(masks.size())];
    if (std::ranges::find(versions, known) != versions.end())
      return;
    versions.push_back(std::move(known));
    const size_t times = (versions.size() - 1) / few; // said again when there are twice as many
    if ((versions.size() - 1) % few || (times & (times - 1)) || !times)
      return;
    text = "this kernel has " + std::to_string(versions.size()) +
           " versions now, by what is known of " + differencesOf(desc_.args, versions) +
           " (1, multiples of 8 and 16, addresses that are multiples of 16): a Varying<T> "
           "parameter needs none, and prepare_versions() compiles them beforehand";
  }
  runtime::Activities activities(desc_.name, device.name, [&] { return summary(options, packed); });
  remarkOn(desc_, activities, std::move(text));
}

const LoadedKernel &KernelBase::prepare(DeviceImpl &device, const Grid &grid,
                                        const PackedLaunch &packed, void *stream) const {
  const CompileOptions options = resolve(packed.options, options_);
  KernelState &state = this->state();
  const unsigned longAxis = longAxisOf(grid, device.limits);
  const runtime::LaunchWords key(device, state.masksFor(device), packed, options, longAxis);
  const LoadedKernel *kernel = state.table.find(key.get());
  if (kernel)
    return *kernel;
  kernel = state.table.insert(key.get(), loadKernel(desc_, device, stream, packed, options,
                                                    state.masksFor(device), longAxis));
  countVersion(key, device, packed, options);
  return *kernel;
}

template <class Extents> static void putFirst(unsigned axis, Extents &grid) {
  if (axis)
    std::swap(grid.x, axis == 1 ? grid.y : grid.z);
}

// The memory that the arguments of a captured launch point into.
static void keepForGraph(const runtime::StreamImpl &stream, std::span<const ArgSpec> specs,
                         const uint64_t *words) {
  runtime::Captures &captures = stream.device->captures;
  const std::shared_ptr<runtime::Capture> capture = captures.of(stream);
  if (!capture)
    return;
  for (const ArgSpec &spec : specs) {
    if (spec.kind == ArgKind::pointer || spec.kind == ArgKind::view)
      captures.keep(*capture, *words);
    words += spec.kind == ArgKind::view ? 1 + 2 * spec.rank : 1;
  }
}

// A launch of loaded code.
static void launchLoaded(const LoadedKernel &kernel, const runtime::StreamImpl &stream,
                         const Grid &launched, bool dependent, std::span<const ArgSpec> specs,
                         const uint64_t *words, size_t count) {
  DeviceImpl &device = *stream.device;
  runtime::GridExtents grid{launched.x, launched.y, launched.z, mayOverlap(kernel, dependent)};
  putFirst(kernel.longAxis, grid);
  keepForGraph(stream, specs, words);
  void *arguments[maxArguments + 2]; // two for the debug log
  for (size_t i = 0; i < count; ++i)
    arguments[i] = const_cast<uint64_t *>(&words[i]);
  if (kernel.debug)
    return device.debugLogs.launch(kernel, grid, arguments, count, stream.handle);
  try {
    device.launch(kernel, grid, arguments, stream.handle);
  } catch (const runtime::KernelFault &) {
    // What an earlier kernel left unwritten behind a failed assertion is that assertion's doing.
    device.debugLogs.report(stream.handle);
    throw;
  }
}

BoundLaunch KernelBase::keepPacked(const Grid &grid, const PackedLaunch &packed) const {
  std::size_t words = 0;
  for (const ArgSpec &spec : desc_.args)
    words += static_cast<std::size_t>(flattenedCount(spec));
  BoundLaunch bound{.kernel = this,
                    .grid = grid,
                    .words = {packed.words, packed.words + words},
                    .owners = {packed.owners, packed.owners + desc_.args.size()},
                    .config = nullptr,
                    .configWords = {packed.configWords, packed.configWords + packed.configCount},
                    .describeConfig = packed.describeConfig,
                    .options = packed.options};
  if (packed.configBytes > 0) {
    const std::shared_ptr<std::byte[]> config(new std::byte[packed.configBytes]);
    std::memcpy(config.get(), packed.config, packed.configBytes);
    bound.config = std::shared_ptr<const void>(config, config.get());
  }
  return bound;
}

void KernelBase::launch(const Stream &stream, const Grid &grid, const PackedLaunch &packed) const {
  if (isPreparing)
    prepareIn(stream, grid, packed);
  else
    launchNow(stream, grid, packed);
}

void KernelBase::prepareIn(const Stream &stream, const Grid &grid,
                           const PackedLaunch &packed) const {
  DeviceImpl &device = *stream.impl()->device;
  checkOwners(desc_.name, desc_.args, packed.owners, device);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  if (prepare(device, grid, packed, stream.native()).debug)
    device.debugLogs.prepare(stream.native());
}

void KernelBase::launchNow(const Stream &stream, const Grid &grid,
                           const PackedLaunch &packed) const {
  DeviceImpl &device = *stream.impl()->device;
  checkOwners(desc_.name, desc_.args, packed.owners, device);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  launchLoaded(prepare(device, grid, packed, stream.native()), *stream.impl(), grid,
               packed.options.dependent || options_.dependent, desc_.args, packed.words,
               state().countArguments());
}

void throwNotDense(int64_t stride) {
  throw LaunchError("a Ptr takes a tensor whose elements are next to each other, not " +
                    std::to_string(stride) + " apart");
}

void throwDoesNotFit(const std::string &value, std::string_view type) {
  throw LaunchError("argument " + value + " does not fit into " + std::string(type));
}

} // namespace detail

namespace runtime {

const LoadedKernel &LaunchAccess::prepare(const detail::BoundLaunch &launch, const Device &device) {
  return launch.kernel->prepare(*device.impl(), launch.grid, launch.packed(), nullptr);
}

std::shared_ptr<const Artifact> LaunchAccess::code(const detail::BoundLaunch &launch,
                                                   const Device &device) {
  const CompileOptions options = LaunchAccess::options(launch);
  const detail::PackedLaunch packed = launch.packed();
  Activities activities(launch.kernel->name(), device.name(),
                        [&] { return summary(options, packed); });
  return findCode({launch.kernel->desc_, *device.impl(), packed, options,
                   launch.kernel->state().masksFor(*device.impl()),
                   detail::longAxisOf(launch.grid, device.limits()), activities});
}

std::shared_ptr<const LoadedKernel> LaunchAccess::load(const detail::BoundLaunch &launch,
                                                       const Device &device) {
  return detail::loadKernel(launch.kernel->desc_, *device.impl(), nullptr, launch.packed(),
                            LaunchAccess::options(launch),
                            launch.kernel->state().masksFor(*device.impl()),
                            detail::longAxisOf(launch.grid, device.limits()));
}

Grid LaunchAccess::extents(const detail::BoundLaunch &launch, const Device &device) {
  Grid grid = launch.grid;
  detail::putFirst(detail::longAxisOf(grid, device.limits()), grid);
  return grid;
}

void LaunchAccess::launch(const detail::BoundLaunch &launch, const Stream &stream) {
  launch.kernel->launchNow(stream, launch.grid, launch.packed());
}

void LaunchAccess::launch(const detail::BoundLaunch &launch, const LoadedKernel &code,
                          const Stream &stream) {
  const Grid &grid = launch.grid;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0)
    return;
  const detail::KernelBase &kernel = *launch.kernel;
  detail::launchLoaded(code, *stream.impl(), grid,
                       launch.options.dependent || kernel.options_.dependent, kernel.desc_.args,
                       launch.words.data(), launch.words.size());
}

void LaunchAccess::checkOwners(const detail::BoundLaunch &launch, const Device &device) {
  sectile::checkOwners(launch.kernel->name(), launch.kernel->arguments(), launch.owners.data(),
                       *device.impl());
}

LaunchesOfCall::LaunchesOfCall() : before(std::exchange(beginsCall, true)) {}
LaunchesOfCall::~LaunchesOfCall() { beginsCall = before; }

bool exchangePreparing(bool preparing) { return std::exchange(isPreparing, preparing); }

CompileOptions LaunchAccess::options(const detail::BoundLaunch &launch) {
  return detail::resolve(launch.options, launch.kernel->options_);
}

std::string LaunchAccess::specialization(const detail::BoundLaunch &launch, const Chip &chip) {
  const detail::PackedLaunch packed = launch.packed();
  std::string text = summary(options(launch), packed) +
                     describe(specializations(
                         countingBits(launch.kernel->desc_.args, boundKindOf(chip.indexBound())),
                         packed.words, chip.indexBound()));
  for (const uint64_t word : launch.configWords)
    text += " " + std::to_string(word);
  return text;
}

} // namespace runtime
} // namespace sectile
