// What stands behind Kernel: the way of a launch to a loaded kernel, and the compile where there is
// none yet.
#include "codegen/UserCode.h"
#include "dsl/Trace.h"
#include "runtime/Activities.h"
#include "runtime/CompileCache.h"
#include "runtime/CompileTimes.h"
#include "runtime/Environment.h"
#include "runtime/HostDevice.h"
#include "runtime/LaunchAccess.h"
#include "runtime/LaunchKey.h"
#include "runtime/Remarks.h"
#include "runtime/Specialization.h"
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <sectile/kernel.h>

namespace sectile {

using runtime::DeviceImpl;
using runtime::LoadedKernel;

namespace {

thread_local CompileTimes *timesSink = nullptr;
thread_local bool isPreparing = false;

// What is known of one flattened argument, five bits of a key.
constexpr uint64_t divisible16 = 1, is32bit = 2, isOne = 4, isBelow = 8, divisible8 = 16;
constexpr unsigned bitsPerArgument = 5, argumentsPerWord = 64 / bitsPerArgument;

uint64_t knownBits(uint64_t value, uint64_t indexBound) {
  return (value % 16 == 0 ? divisible16 : 0) | (value % 8 == 0 ? divisible8 : 0) |
         (detail::fits_index32(static_cast<int64_t>(value)) ? is32bit : 0) |
         (value == 1 ? isOne : 0) | (value < indexBound ? isBelow : 0);
}

// How an index bound compares with what 32 bits are used for, detail::fits_index32.
enum BoundKind : unsigned { noBound, someIndices, allIndices, boundKinds };
BoundKind boundKindOf(int64_t indexBound) {
  return !indexBound ? noBound : detail::fits_index32(indexBound + 1) ? someIndices : allIndices;
}

// Which of the bits count, for every flattened argument. What else would be another variant of the
// code for nothing: that indices and strides are below a bound where no access has another form for
// it, and that extents are where they may be anything else but negative.
std::vector<uint8_t> countingBits(std::span<const detail::ArgSpec> specs, BoundKind bound) {
  // Eight elements of 16 bits are a vector of the widest accesses, and what the copy engine needs.
  constexpr uint8_t ofAddress = divisible16, ofInteger = divisible16 | divisible8 | isOne;
  const uint8_t ofIndex = ofInteger | is32bit | (bound != noBound ? isBelow : 0);
  const uint8_t ofExtent = ofInteger | is32bit | (bound == allIndices ? isBelow : 0);
  std::vector<uint8_t> masks;
  for (const detail::ArgSpec &spec : specs)
    switch (spec.kind) {
    case detail::ArgKind::pointer:
      masks.push_back(ofAddress);
      break;
    case detail::ArgKind::index:
      masks.push_back(ofIndex);
      break;
    case detail::ArgKind::scalar:
      masks.push_back(spec.dtype >= DType::int8 && spec.dtype <= DType::uint64 ? ofInteger : 0);
      break;
    case detail::ArgKind::view:
      masks.push_back(ofAddress);
      masks.insert(masks.end(), spec.rank, ofExtent);
      masks.insert(masks.end(), spec.rank, ofIndex);
      break;
    }
  return masks;
}

// Everything that decides which compiled kernel a launch needs.
class Key {
public:
  Key(const DeviceImpl &device, std::span<const uint8_t> masks, const detail::PackedLaunch &packed,
      const CompileOptions &options, unsigned longAxis = 0) {
    words[count++] = reinterpret_cast<uintptr_t>(&device);
    words[count++] = options.warps | static_cast<uint64_t>(options.stages) << 32 |
                     static_cast<uint64_t>(options.plans) << 59 |
                     static_cast<uint64_t>(longAxis) << 60 |
                     static_cast<uint64_t>(options.debug) << 62 |
                     static_cast<uint64_t>(options.checked) << 63;
    const auto indexBound = static_cast<uint64_t>(device.indexBound());
    for (size_t i = 0; i < masks.size();) {
      uint64_t bits = 0;
      const size_t end = std::min<size_t>(masks.size(), i + argumentsPerWord);
      for (unsigned shift = 0; i < end; ++i, shift += bitsPerArgument)
        bits |= (knownBits(packed.words[i], indexBound) & masks[i]) << shift;
      words[count++] = bits;
    }
    for (size_t i = 0; i < packed.configCount; ++i)
      words[count++] = packed.configWords[i];
  }
  std::span<const uint64_t> get() const { return {words, count}; }

private:
  uint64_t words[2 + (detail::maxArguments + argumentsPerWord - 1) / argumentsPerWord +
                 detail::maxConfigFields];
  size_t count = 0;
};

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
  return options;
}

// Which arguments were specialised how, in words: "0:16 3=1 4:64bit 5:16:<1048576".
std::string describe(const std::vector<detail::ArgSpecialization> &arguments) {
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto &argument = arguments[i];
    std::string one;
    if (argument.value)
      one = "=" + std::to_string(*argument.value);
    else if (argument.divisor > 1)
      one = ":" + std::to_string(argument.divisor);
    if (!argument.is32bit)
      one += ":64bit";
    if (argument.below && !argument.value)
      one += ":<" + std::to_string(argument.below);
    if (!one.empty())
      text += " " + std::to_string(i) + one;
  }
  return text;
}

std::vector<detail::ArgSpecialization> specializations(std::span<const uint8_t> masks,
                                                       const uint64_t *words, int64_t indexBound) {
  std::vector<detail::ArgSpecialization> result;
  for (size_t i = 0; i < masks.size(); ++i) {
    const uint64_t bits = knownBits(words[i], static_cast<uint64_t>(indexBound)) & masks[i];
    detail::ArgSpecialization argument;
    argument.divisor = bits & divisible16 ? 16 : bits & divisible8 ? 8 : 1;
    argument.is32bit = bits & is32bit || !(masks[i] & is32bit); // only an index can need more
    argument.below = bits & isBelow ? indexBound : 0;
    if (bits & isOne)
      argument.value = 1;
    result.push_back(argument);
  }
  return result;
}

// What code that is specialised like this may assume of a launch's arguments.
std::vector<ArgumentFacts> factsOf(const std::vector<detail::ArgSpecialization> &arguments,
                                   std::span<const uint8_t> masks) {
  std::vector<ArgumentFacts> result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const detail::ArgSpecialization &argument = arguments[i];
    ArgumentFacts &facts = result.emplace_back();
    facts.divisor = argument.divisor;
    if (masks[i] & is32bit && argument.is32bit)
      facts.low = -(facts.high = int64_t(1) << 30);
    if (argument.below)
      facts.low = 0, facts.high = argument.below - 1;
    if (argument.value)
      facts.low = facts.high = *argument.value;
  }
  return result;
}

// The compiler's errors as what users catch.
[[noreturn]] void rethrow(llvm::Error error, std::string_view kernel) {
  std::string file, message;
  unsigned line = 0;
  KernelError::Kind kind = KernelError::Kind::Internal;
  llvm::handleAllErrors(
      std::move(error),
      [&](const KernelError &e) {
        kind = e.kind;
        file = e.file;
        line = e.line;
        message = e.message;
      },
      [&](const llvm::ErrorInfoBase &e) { message = e.message(); });
  if (kind == KernelError::Kind::Resources) // names the kernel itself
    throw LaunchError(message);
  if (file.empty())
    throw CompileError("kernel '" + std::string(kernel) + "': " + message);
  throw CompileError(file, line, message);
}

Target targetOf(std::string_view name) {
  if (name == "interpreter")
    throw CompileError("the interpreter runs a kernel as it is traced, so there is nothing to "
                       "compile for it: name a chip, as in sm_90a");
  llvm::Expected<Target> target = Target::get(llvm::StringRef(name.data(), name.size()));
  if (!target)
    throw CompileError(llvm::toString(target.takeError()));
  return *target;
}

// A kernel's IR, and the context it lives in.
struct TracedKernel {
  ContextLease context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<detail::ArgSpecialization> arguments;
  bool stateless = false; // no lambda that was traced captures anything

  TracedKernel(const detail::KernelDesc &desc, const detail::PackedLaunch &packed,
               int64_t indexBound, unsigned longAxis = 0)
      : arguments(specializations(countingBits(desc.args, boundKindOf(indexBound)), packed.words,
                                  indexBound)) {
    const auto start = std::chrono::steady_clock::now();
    module = detail::trace(desc, arguments, packed.config, context.get(), &stateless, longAxis);
    if (timesSink)
      timesSink->emplace_back("trace", std::chrono::duration<double, std::milli>(
                                           std::chrono::steady_clock::now() - start)
                                           .count());
  }
};

std::string print(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream out(text);
  mlir::OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module.print(out, flags);
  return text;
}

// One launch, on its way from what identifies it to the key of its code.
class KeyedLaunch {
public:
  KeyedLaunch(const detail::KernelDesc &desc, const DeviceImpl &device,
              const CompileOptions &options, const detail::PackedLaunch &packed,
              unsigned longAxis = 0)
      : desc(desc), device(device), options(options), packed(packed), longAxis(longAxis),
        target(device.codeKey()) {
    if (runtime::launchIndexMode() == runtime::LaunchIndexMode::Off ||
        !runtime::CompileCache::get().disk())
      return;
    indexKey = runtime::launchKey(
        desc, target, options, longAxis,
        describe(specializations(countingBits(desc.args, boundKindOf(device.indexBound())),
                                 packed.words, device.indexBound())),
        {packed.configWords, packed.configCount});
    if (indexKey)
      record = runtime::CompileCache::get().findLaunch(*indexKey);
  }

  // What the index says, where a trace need not be compared with it, or give lines to remarks.
  const std::optional<runtime::LaunchRecord> &known() const {
    static const std::optional<runtime::LaunchRecord> none;
    const bool needsTrace =
        runtime::launchIndexMode() == runtime::LaunchIndexMode::Check || runtime::printsRemarks();
    return needsTrace ? none : record;
  }

  TracedKernel &trace() {
    traced.emplace(desc, packed, device.indexBound(), longAxis);
    const mlir::ModuleOp module = *traced->module;
    const std::string libraries = describeLibraries(module);
    key.kernel = desc.name;
    key.target = target;
    key.options =
        "warps=" + std::to_string(options.warps) + " stages=" + std::to_string(options.stages);
    if (!options.debug)
      key.options += " debug=0";
    if (options.checked)
      key.options += " checked=1";
    if (!options.plans)
      key.options += " plans=0";
    if (longAxis)
      key.options += " long-axis=" + std::to_string(longAxis);
    if (packed.describeConfig)
      key.options += " " + packed.describeConfig(packed.config);
    key.options += " arguments" + describe(traced->arguments) + libraries;
    key.ir = print(module, device.namesLines());
    irHash = runtime::contentHash(device.namesLines() ? print(module, false) : key.ir);
    if (indexKey && traced->stateless && libraries.empty())
      index();
    return *traced;
  }

  runtime::CacheKey key; // once it was traced
  std::string irHash;

private:
  void index() {
    if (runtime::launchIndexMode() == runtime::LaunchIndexMode::Check && record &&
        record->irHash != irHash)
      throw CompileError(
          desc.where.file_name(), desc.where.line(),
          "kernel '" + std::string(desc.name) +
              "' is not what it was when the launch index recorded it: its trace depends on more "
              "than its arguments, its configuration and the program's code. Set "
              "SECTILE_LAUNCH_INDEX=0, or make what it reads a part of its configuration");
    runtime::CompileCache::get().rememberLaunch(*indexKey, key, irHash);
  }

  const detail::KernelDesc &desc;
  const DeviceImpl &device;
  const CompileOptions &options;
  const detail::PackedLaunch &packed;
  const unsigned longAxis;
  const std::string target;
  std::optional<std::string> indexKey;
  std::optional<runtime::LaunchRecord> record;
  std::optional<TracedKernel> traced;
};

// "m=128 n=64 warps=4 stages=3".
std::string summary(const CompileOptions &options, const detail::PackedLaunch &packed) {
  std::string text = packed.describeConfig ? packed.describeConfig(packed.config) + " " : "";
  return text + "warps=" + std::to_string(options.warps) +
         " stages=" + std::to_string(options.stages);
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

namespace runtime {
RecordCompileTimes::RecordCompileTimes(CompileTimes &times)
    : before(std::exchange(timesSink, &times)) {}
RecordCompileTimes::~RecordCompileTimes() { timesSink = before; }
} // namespace runtime

namespace detail {

struct KernelState {
  explicit KernelState(const KernelDesc &desc)
      : masks{countingBits(desc.args, noBound), countingBits(desc.args, someIndices),
              countingBits(desc.args, allIndices)} {}

  const std::vector<uint8_t> &masksFor(const DeviceImpl &device) const {
    return masks[boundKindOf(device.indexBound())];
  }
  size_t countArguments() const { return masks[0].size(); }

  const std::array<std::vector<uint8_t>, boundKinds> masks;
  runtime::SpecializationTable table;
  std::mutex mutex; ///< guards what follows
  std::map<std::vector<uint64_t>, std::string> codeHashes;
};

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

static void report(std::span<const Remark> remarks, runtime::Activities &activities) {
  if (runtime::printsRemarks())
    runtime::print(remarks);
  if (activities)
    for (const Remark &remark : remarks)
      activities.done(Activity::Kind::compile, "remark", runtime::textOf(remark));
}

// The code that a launch needs, compiled unless the cache has it.
static std::shared_ptr<const Artifact> findCode(const KernelDesc &desc, DeviceImpl &device,
                                                const PackedLaunch &packed,
                                                const CompileOptions &options,
                                                std::span<const uint8_t> masks, unsigned longAxis,
                                                runtime::Activities &activities) {
  using Kind = Activity::Kind;
  runtime::CompileCache &cache = runtime::CompileCache::get();
  KeyedLaunch launch(desc, device, options, packed, longAxis);
  if (launch.known())
    if (auto artifact = cache.get(*launch.known())) {
      activities.done(Kind::cache, "index hit");
      report(artifact->remarks, activities);
      return artifact;
    }
  TracedKernel &traced = launch.trace();
  activities.done(Kind::trace, "trace");
  // The compile changes the module.
  OperationLines lines;
  if (activities || runtime::printsRemarks())
    lines = linesOf(*traced.module);
  const runtime::Recipe recipe{options, device.namesLines() ? "" : print(*traced.module, true)};
  bool hit = true;
  const auto compile = [&] {
    hit = false;
    activities.done(Kind::cache, "miss");
    detail::checkHostVariables(desc, traced.arguments, packed.config, traced.context.get(),
                               *traced.module, longAxis);
    activities.done(Kind::trace, "check");
    CompileTimes stages;
    llvm::Expected<Artifact> compiled =
        device.compile(*traced.module, options, timesSink || activities ? &stages : nullptr);
    activities.done(Kind::compile, stages);
    if (timesSink)
      timesSink->insert(timesSink->end(), stages.begin(), stages.end());
    if (!compiled) {
      activities.done(Kind::compile, "failed");
      rethrow(compiled.takeError(), desc.name);
    }
    compiled->irHash = launch.irHash;
    compiled->plan.arguments = factsOf(traced.arguments, masks);
    activities.begin();
    return std::move(*compiled);
  };
  auto artifact = cache.get(launch.key, compile, recipe);
  activities.done(Kind::cache, hit ? "hit" : "store");
  report(relocated(artifact->remarks, lines), activities);
  return artifact;
}

static std::shared_ptr<LoadedKernel> loadKernel(const KernelDesc &desc, DeviceImpl &device,
                                                void *stream, const PackedLaunch &packed,
                                                const CompileOptions &options,
                                                std::span<const uint8_t> masks, unsigned longAxis) {
  if (stream && device.captureOf(stream))
    throw LaunchError("kernel '" + std::string(desc.name) +
                      "': its first launch for such arguments compiles and loads code, which a "
                      "capture does not bear: launch it before, or see sectile::prepare");
  runtime::Activities activities(desc.name, device.name, [&] { return summary(options, packed); });
  const auto artifact = findCode(desc, device, packed, options, masks, longAxis, activities);
  // The code may be another program's work. All that this key finds later are alike.
  if (std::string fact = brokenFact(artifact->plan, {packed.words, masks.size()}); !fact.empty())
    throw LaunchError("kernel '" + std::string(desc.name) +
                      "': its code in the cache is for other arguments: " + fact);
  auto loaded = device.load(*artifact);
  loaded->longAxis = longAxis;
  if (loaded->debug)
    loaded->debug->longAxis = longAxis;
  activities.done(Activity::Kind::load, "load");
  return loaded;
}

// The axis of this grid that is launched as the first one, where a device takes many more programs
// along that; 0 where the grid is launched as it is.
static unsigned longAxisOf(const Grid &grid, const DeviceLimits &limits) {
  const unsigned axis = grid.y > limits.max_grid[1] ? 1 : grid.z > limits.max_grid[2] ? 2 : 0;
  return grid.x <= limits.max_grid[axis] ? axis : 0;
}

const LoadedKernel &KernelBase::prepare(DeviceImpl &device, const Grid &grid,
                                        const PackedLaunch &packed, void *stream) const {
  const CompileOptions options = resolve(packed.options, options_);
  KernelState &state = this->state();
  const unsigned longAxis = longAxisOf(grid, device.limits);
  const Key key(device, state.masksFor(device), packed, options, longAxis);
  const LoadedKernel *kernel = state.table.find(key.get());
  return kernel ? *kernel
                : *state.table.insert(key.get(), loadKernel(desc_, device, stream, packed, options,
                                                            state.masksFor(device), longAxis));
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
                         runtime::GridExtents grid, std::span<const ArgSpec> specs,
                         const uint64_t *words, size_t count) {
  DeviceImpl &device = *stream.device;
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
  launchLoaded(prepare(device, grid, packed, stream.native()), *stream.impl(),
               {grid.x, grid.y, grid.z, packed.options.dependent || options_.dependent}, desc_.args,
               packed.words, state().countArguments());
}

std::string KernelBase::emit(std::string_view targetName, std::string_view formName,
                             const PackedLaunch &packed) const {
  const Target target = targetOf(targetName);
  llvm::Expected<Form> form = formByName(llvm::StringRef(formName.data(), formName.size()), target);
  if (!form)
    throw CompileError(llvm::toString(form.takeError()));
  TracedKernel traced(desc_, packed, target.indexBound());
  checkHostVariables(desc_, traced.arguments, packed.config, traced.context.get(), *traced.module);
  std::vector<Remark> remarks;
  llvm::Expected<std::string> text = compileTo(
      *traced.module, target, resolve(packed.options, options_), *form, timesSink, &remarks);
  if (!text)
    rethrow(text.takeError(), desc_.name);
  if (runtime::printsRemarks())
    runtime::print(remarks);
  if (std::vector<Remark> *recorded = runtime::RecordRemarks::current())
    recorded->insert(recorded->end(), remarks.begin(), remarks.end());
  return std::move(*text);
}

std::string KernelBase::codeHash(const Device &device, const PackedLaunch &packed) const {
  const CompileOptions options = resolve(packed.options, options_);
  KernelState &state = this->state();
  const Key key(*device.impl(), state.masksFor(*device.impl()), packed, options);
  const std::vector<uint64_t> words(key.get().begin(), key.get().end());
  std::lock_guard lock(state.mutex);
  std::string &hash = state.codeHashes[words];
  if (hash.empty()) {
    KeyedLaunch launch(desc_, *device.impl(), options, packed);
    if (launch.known()) {
      hash = launch.known()->irHash;
    } else {
      launch.trace();
      hash = launch.irHash;
    }
  }
  return hash;
}

std::string KernelBase::cacheKey(const Device &device, const PackedLaunch &packed) const {
  const CompileOptions options = resolve(packed.options, options_);
  KeyedLaunch launch(desc_, *device.impl(), options, packed);
  launch.trace();
  return launch.key.text();
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
  return detail::findCode(launch.kernel->desc_, *device.impl(), packed, options,
                          launch.kernel->state().masksFor(*device.impl()),
                          detail::longAxisOf(launch.grid, device.limits()), activities);
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
  detail::launchLoaded(
      code, *stream.impl(),
      {grid.x, grid.y, grid.z, launch.options.dependent || kernel.options_.dependent},
      kernel.desc_.args, launch.words.data(), launch.words.size());
}

void LaunchAccess::checkOwners(const detail::BoundLaunch &launch, const Device &device) {
  sectile::checkOwners(launch.kernel->name(), launch.kernel->arguments(), launch.owners.data(),
                       *device.impl());
}

bool exchangePreparing(bool preparing) { return std::exchange(isPreparing, preparing); }

CompileOptions LaunchAccess::options(const detail::BoundLaunch &launch) {
  return resolve(launch.options, launch.kernel->options_);
}

std::string LaunchAccess::codeHash(const detail::BoundLaunch &launch, const Device &device) {
  // Of any arguments: no address and no integer is a multiple of 16, or 1, or large. But which
  // dimension of a view is dense decides much of what code is fast: transposed ones are others.
  constexpr uint64_t nothingKnown = 3, dense = 1;
  std::vector<uint64_t> words(launch.words.size(), nothingKnown);
  size_t word = 0;
  for (const detail::ArgSpec &spec : launch.kernel->arguments()) {
    if (spec.kind != detail::ArgKind::view) {
      ++word;
      continue;
    }
    for (size_t stride = word + 1 + spec.rank; stride < word + 1 + 2 * spec.rank; ++stride)
      if (launch.words[stride] == dense)
        words[stride] = dense;
    word += 1 + 2 * spec.rank;
  }
  detail::PackedLaunch packed = launch.packed();
  packed.words = words.data();
  return launch.kernel->codeHash(device, packed);
}

CacheKey LaunchAccess::cacheKey(const detail::BoundLaunch &launch, const Device &device) {
  const CompileOptions options = LaunchAccess::options(launch);
  const detail::PackedLaunch packed = launch.packed();
  KeyedLaunch keyed(launch.kernel->desc_, *device.impl(), options, packed,
                    detail::longAxisOf(launch.grid, device.limits()));
  keyed.trace();
  return keyed.key;
}

std::string LaunchAccess::specialization(const detail::BoundLaunch &launch, const Target &target) {
  const detail::PackedLaunch packed = launch.packed();
  std::string text = summary(options(launch), packed) +
                     describe(specializations(
                         countingBits(launch.kernel->desc_.args, boundKindOf(target.indexBound())),
                         packed.words, target.indexBound()));
  for (const uint64_t word : launch.configWords)
    text += " " + std::to_string(word);
  return text;
}

std::string LaunchAccess::emit(const detail::BoundLaunch &launch, std::string_view target,
                               std::string_view form) {
  return launch.kernel->emit(target, form, launch.packed());
}

void LaunchAccess::trace(const detail::BoundLaunch &launch, const Target &target,
                         llvm::function_ref<void(mlir::ModuleOp)> use) {
  const TracedKernel traced(launch.kernel->desc_, launch.packed(), target.indexBound());
  use(*traced.module);
}

} // namespace runtime
} // namespace sectile
