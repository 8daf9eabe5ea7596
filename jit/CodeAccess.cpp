// The code of kernels: the trace, its key in the compile cache, and the compile where the cache has
// none.
#include "jit/CodeAccess.h"
#include "codegen/UserCode.h"
#include "dsl/Trace.h"
#include "jit/CodeSource.h"
#include "jit/CompileCache.h"
#include "jit/CompileTimes.h"
#include "jit/LaunchKey.h"
#include "jit/Remarks.h"
#include "runtime/KernelState.h"
#include "vgpu/VirtualObject.h"
#include <chrono>
#include <functional>

namespace sectile {

using namespace runtime;

namespace {

thread_local CompileTimes *timesSink = nullptr;

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
    if (!desc.body)
      throw CompileError(desc.where.file_name(), desc.where.line(),
                         "kernel '" + std::string(desc.name) +
                             "' was compiled with SECTILE_SEALED, so there is nothing to compile "
                             "here: link Sectile::sectile in place of Sectile::runtime and "
                             "Sectile::kernels");
    const auto start = std::chrono::steady_clock::now();
    module = detail::trace(desc, arguments, packed.config, context.get(), &stateless, longAxis);
    if (timesSink)
      timesSink->emplace_back("trace", std::chrono::duration<double, std::milli>(
                                           std::chrono::steady_clock::now() - start)
                                           .count());
  }
};

std::string printed(mlir::ModuleOp module, bool locations) {
  std::string text;
  llvm::raw_string_ostream out(text);
  mlir::OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo();
  module.print(out, flags);
  return text;
}

// What code is for: a device that is open, or one that need not be there.
struct CodeTarget {
  std::string key; // all of it that the code depends on
  int64_t indexBound;
  bool namesLines; // findings name the lines of the source
  std::function<llvm::Expected<Artifact>(mlir::ModuleOp, const CompileOptions &, CompileTimes *)>
      compile;

  explicit CodeTarget(const DeviceImpl &device)
      : key(device.codeKey()), indexBound(device.indexBound()), namesLines(device.namesLines()),
        compile(
            [&device](mlir::ModuleOp module, const CompileOptions &options, CompileTimes *times) {
              return compileFor(device, module, options, times);
            }) {}
  CodeTarget(const Chip &chip, bool isVirtual)
      : key(codeKeyOf(chip) + (isVirtual ? " virtual on " + vgpu::portableHost() : "")),
        indexBound(chip.indexBound()), namesLines(isVirtual),
        compile([&chip, isVirtual](mlir::ModuleOp module, const CompileOptions &options,
                                   CompileTimes *times) {
          return sectile::compile(module, Target(chip), options,
                                  isVirtual ? CodeFor::VirtualDeviceAnywhere : CodeFor::Chip,
                                  times);
        }) {}
};

// One launch, on its way from what identifies it to the key of its code.
class KeyedLaunch {
public:
  KeyedLaunch(const detail::KernelDesc &desc, CodeTarget codeTarget, const CompileOptions &options,
              const detail::PackedLaunch &packed, unsigned longAxis = 0)
      : target(std::move(codeTarget)), desc(desc), options(options), packed(packed),
        longAxis(longAxis) {
    if (launchIndexMode() == LaunchIndexMode::Off || !CompileCache::get().disk())
      return;
    indexKey =
        launchKey(desc, target.key, options, longAxis,
                  describe(specializations(countingBits(desc.args, boundKindOf(target.indexBound)),
                                           packed.words, target.indexBound)),
                  {packed.configWords, packed.configCount});
    if (indexKey)
      record = CompileCache::get().findLaunch(*indexKey);
  }

  // What the index says, where a trace need not be compared with it, or give lines to remarks.
  const std::optional<LaunchRecord> &known() const {
    static const std::optional<LaunchRecord> none;
    const bool needsTrace = launchIndexMode() == LaunchIndexMode::Check || printsRemarks();
    return needsTrace ? none : record;
  }

  TracedKernel &trace() {
    traced.emplace(desc, packed, target.indexBound, longAxis);
    const mlir::ModuleOp module = *traced->module;
    const std::string libraries = describeLibraries(module);
    key.kernel = desc.name;
    key.target = target.key;
    key.options = "warps=" + std::to_string(options.warps) +
                  " stages=" + std::to_string(options.stages) + limitsText(options);
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
    key.ir = printed(module, target.namesLines);
    irHash = contentHash(target.namesLines ? printed(module, false) : key.ir);
    if (indexKey && traced->stateless && libraries.empty())
      index();
    return *traced;
  }

  const CodeTarget target;
  CacheKey key; // once it was traced
  std::string irHash;

private:
  void index() {
    if (launchIndexMode() == LaunchIndexMode::Check && record && record->irHash != irHash)
      throw CompileError(
          desc.where.file_name(), desc.where.line(),
          "kernel '" + std::string(desc.name) +
              "' is not what it was when the launch index recorded it: its trace depends on more "
              "than its arguments, its configuration and the program's code. Set "
              "SECTILE_LAUNCH_INDEX=0, or make what it reads a part of its configuration");
    CompileCache::get().rememberLaunch(*indexKey, key, irHash);
  }

  const detail::KernelDesc &desc;
  const CompileOptions &options;
  const detail::PackedLaunch &packed;
  const unsigned longAxis;
  std::optional<std::string> indexKey;
  std::optional<LaunchRecord> record;
  std::optional<TracedKernel> traced;
};

void report(std::span<const Remark> remarks, Activities &activities) {
  if (printsRemarks())
    print(remarks);
  if (activities)
    for (const Remark &remark : remarks)
      activities.done(Activity::Kind::compile, "remark", textOf(remark));
}

} // namespace

llvm::Expected<Artifact> runtime::compileFor(const DeviceImpl &device, mlir::ModuleOp module,
                                             const CompileOptions &options, CompileTimes *times) {
  if (const auto *own = dynamic_cast<const CompilesItself *>(&device))
    return own->compile(module, options, times);
  return sectile::compile(module, Target(Chip::known(device.target)), options, CodeFor::Chip,
                          times);
}

static std::shared_ptr<const Artifact> codeOf(KeyedLaunch &launch, const detail::KernelDesc &desc,
                                              const CompileOptions &options,
                                              const detail::PackedLaunch &packed,
                                              std::span<const ArgumentMask> masks,
                                              unsigned longAxis, Activities &activities) {
  using Kind = Activity::Kind;
  CompileCache &cache = CompileCache::get();
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
  if (activities || printsRemarks())
    lines = linesOf(*traced.module);
  const Recipe recipe{options, launch.target.namesLines ? "" : printed(*traced.module, true)};
  bool hit = true;
  const auto compile = [&] {
    hit = false;
    activities.done(Kind::cache, "miss");
    detail::checkHostVariables(desc, traced.arguments, packed.config, traced.context.get(),
                               *traced.module, longAxis);
    activities.done(Kind::trace, "check");
    CompileTimes stages;
    llvm::Expected<Artifact> compiled =
        launch.target.compile(*traced.module, options, timesSink || activities ? &stages : nullptr);
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

std::shared_ptr<const Artifact> runtime::compiledCode(const CodeRequest &request) {
  const auto &[desc, device, packed, options, masks, longAxis, activities] = request;
  KeyedLaunch launch(desc, CodeTarget(device), options, packed, longAxis);
  return codeOf(launch, desc, options, packed, masks, longAxis, activities);
}

std::shared_ptr<const Artifact> runtime::codeForBundle(const CodeRequest &request) {
  const auto &[desc, device, packed, options, masks, longAxis, activities] = request;
  KeyedLaunch launch(desc, CodeTarget(Chip::known(device.target), /*isVirtual=*/true), options,
                     packed, longAxis);
  return codeOf(launch, desc, options, packed, masks, longAxis, activities);
}

std::string detail::KernelBase::emit(std::string_view targetName, std::string_view formName,
                                     const detail::PackedLaunch &packed) const {
  const Target target = targetOf(targetName);
  llvm::Expected<Form> form = formByName(llvm::StringRef(formName.data(), formName.size()), target);
  if (!form)
    throw CompileError(llvm::toString(form.takeError()));
  TracedKernel traced(desc_, packed, target.indexBound());
  detail::checkHostVariables(desc_, traced.arguments, packed.config, traced.context.get(),
                             *traced.module);
  std::vector<Remark> remarks;
  llvm::Expected<std::string> text =
      compileTo(*traced.module, target, detail::resolve(packed.options, options_), *form, timesSink,
                &remarks);
  if (!text)
    rethrow(text.takeError(), desc_.name);
  if (printsRemarks())
    print(remarks);
  if (std::vector<Remark> *recorded = RecordRemarks::current())
    recorded->insert(recorded->end(), remarks.begin(), remarks.end());
  return std::move(*text);
}

std::string detail::KernelBase::codeHash(const Device &device,
                                         const detail::PackedLaunch &packed) const {
  const CompileOptions options = detail::resolve(packed.options, options_);
  detail::KernelState &state = this->state();
  const LaunchWords key(*device.impl(), state.masksFor(*device.impl()), packed, options);
  const std::vector<uint64_t> words(key.get().begin(), key.get().end());
  std::lock_guard lock(state.mutex);
  std::string &hash = state.codeHashes[words];
  if (hash.empty()) {
    KeyedLaunch launch(desc_, CodeTarget(*device.impl()), options, packed);
    if (launch.known()) {
      hash = launch.known()->irHash;
    } else {
      launch.trace();
      hash = launch.irHash;
    }
  }
  return hash;
}

std::string detail::KernelBase::cacheKey(const Device &device,
                                         const detail::PackedLaunch &packed) const {
  const CompileOptions options = detail::resolve(packed.options, options_);
  KeyedLaunch launch(desc_, CodeTarget(*device.impl()), options, packed);
  launch.trace();
  return launch.key.text();
}

namespace runtime {

RecordCompileTimes::RecordCompileTimes(CompileTimes &times)
    : before(std::exchange(timesSink, &times)) {}
RecordCompileTimes::~RecordCompileTimes() { timesSink = before; }

// Of any arguments: no address and no integer is a multiple of 16, or 1, or large. But which
// dimension of a view is dense decides much of what code is fast: transposed ones are others.
static std::vector<uint64_t> wordsOfHash(const detail::BoundLaunch &launch) {
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
  return words;
}

std::string CodeAccess::hash(const detail::BoundLaunch &launch, const Device &device) {
  const std::vector<uint64_t> words = wordsOfHash(launch);
  detail::PackedLaunch packed = launch.packed();
  packed.words = words.data();
  return launch.kernel->codeHash(device, packed);
}

std::string CodeAccess::hash(const detail::BoundLaunch &launch, const Chip &chip) {
  const std::vector<uint64_t> words = wordsOfHash(launch);
  detail::PackedLaunch packed = launch.packed();
  packed.words = words.data();
  const TracedKernel traced(launch.kernel->desc_, packed, chip.indexBound());
  return contentHash(printed(*traced.module, /*locations=*/false));
}

CacheKey CodeAccess::cacheKey(const detail::BoundLaunch &launch, const Device &device) {
  const CompileOptions options = LaunchAccess::options(launch);
  const detail::PackedLaunch packed = launch.packed();
  KeyedLaunch keyed(launch.kernel->desc_, CodeTarget(*device.impl()), options, packed,
                    detail::longAxisOf(launch.grid, device.limits()));
  keyed.trace();
  return keyed.key;
}

std::string CodeAccess::emit(const detail::BoundLaunch &launch, std::string_view target,
                             std::string_view form) {
  return launch.kernel->emit(target, form, launch.packed());
}

std::pair<BundleKey, Artifact> CodeAccess::bundled(const detail::BoundLaunch &launch,
                                                   const Chip &chip, bool forVirtualDevice) {
  const detail::KernelDesc &desc = launch.kernel->desc_;
  const detail::PackedLaunch packed = launch.packed();
  const CompileOptions options = LaunchAccess::options(launch);
  const unsigned longAxis = detail::longAxisOf(launch.grid, DeviceLimits());
  const auto describeConfig = [&] {
    return packed.describeConfig ? packed.describeConfig(packed.config) : "";
  };
  Activities activities(desc.name, chip.name, describeConfig);
  KeyedLaunch keyed(desc, CodeTarget(chip, forVirtualDevice), options, packed, longAxis);
  const std::shared_ptr<const Artifact> artifact =
      codeOf(keyed, desc, options, packed, countingBits(desc.args, boundKindOf(chip.indexBound())),
             longAxis, activities);
  return {BundleKey{.kernel = std::string(desc.name),
                    .signature = {desc.args.begin(), desc.args.end()},
                    .target = forVirtualDevice ? virtualTarget(chip.name) : chip.name,
                    .warps = options.warps,
                    .stages = options.stages,
                    .longAxis = longAxis,
                    .debug = options.debug,
                    .checked = options.checked,
                    .maxRegisters = options.maxRegisters,
                    .minPrograms = options.minPrograms,
                    .configuration = launch.configWords,
                    .described = describeConfig()},
          *artifact};
}

void CodeAccess::trace(const detail::BoundLaunch &launch, const Chip &chip,
                       llvm::function_ref<void(mlir::ModuleOp)> use) {
  const TracedKernel traced(launch.kernel->desc_, launch.packed(), chip.indexBound());
  use(*traced.module);
}

} // namespace runtime
} // namespace sectile
