// The compiler driver: passes, emission, LLVM, and what turns its output into loadable code.
#include "codegen/Compiler.h"
#include "codegen/DebugSites.h"
#include "codegen/Optimizer.h"
#include "codegen/Registers.h"
#include "codegen/UserCode.h"
#include "codegen/amd/CodeObject.h"
#include "codegen/common/Emitter.h"
#include "codegen/nvidia/Ptxas.h"
#include "codegen/nvidia/RegisterEstimate.h"
#include "codegen/virtual/HostCompiler.h"
#include "codegen/virtual/HostLinker.h"
#include "ir/cta/Cta.h"
#include "ir/cta/TensorMap.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "passes/Kernel.h"
#include "passes/Pipelines.h"
#include "passes/analysis/Clusters.h"
#include "runtime/BuildId.h"
#include "runtime/DebugLog.h"
#include "runtime/PtxForms.h"
#include "sectile/version.h"
#include "llvm-c/Core.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Target/TargetMachine.h"
#include <chrono>

using namespace mlir;
using llvm::Expected, llvm::StringRef;

namespace sectile {

static constexpr StringRef formNames[] = {"tile",   "cta",   "llvm",    "ptx",    "cubin",
                                          "amdgcn", "hsaco", "virtual", "virtual"};

static bool isVirtual(Form form) { return form >= Form::Virtual; }

StringRef formName(Form form) { return formNames[static_cast<unsigned>(form)]; }

Expected<Form> formByName(StringRef name, const Target &target) {
  SmallVector<Form> forms = {Form::Tile, Form::Cta, Form::Llvm};
  if (target.vendor == Vendor::Nvidia)
    forms.append({Form::Ptx, Form::Cubin});
  else
    forms.append({Form::Amdgcn, Form::Hsaco});
  std::string known;
  for (Form form : forms) {
    if (formName(form) == name)
      return form;
    known += (known.empty() ? "" : ", ") + formName(form).str();
  }
  return llvm::createStringError("'" + name + "' cannot be emitted for " + target.name + "; " +
                                 known + " can");
}

static const char anchor = 0; // somewhere in this library

const std::string &libraryBuildId() {
  static const std::string id = buildOf(&anchor);
  return id;
}

// A distribution updates LLVM and MLIR without a new version and without building this anew.
std::string compilerVersion() {
  static const std::string version = [] {
    const auto verifyOfMlir =
        static_cast<llvm::LogicalResult (*)(Operation *, bool)>(&mlir::verify);
    return "sectile " SECTILE_VERSION_STRING " build " + libraryBuildId() + " runtime build " +
           runtimeBuildId() + " llvm " LLVM_VERSION_STRING " build " +
           buildOf(reinterpret_cast<const void *>(&LLVMGetVersion)) + " mlir build " +
           buildOf(reinterpret_cast<const void *>(verifyOfMlir));
  }();
  return version;
}

namespace {

/// Adds the time since the last mark to a list.
class Stopwatch {
public:
  explicit Stopwatch(CompileTimes *times) : times(times), last(Clock::now()) {}
  void mark(StringRef stage) {
    if (!times)
      return;
    Clock::time_point now = Clock::now();
    times->emplace_back(stage.str(), std::chrono::duration<double, std::milli>(now - last).count());
    last = now;
  }

private:
  using Clock = std::chrono::steady_clock;
  CompileTimes *times;
  Clock::time_point last;
};

/// One compile, stage by stage.
class Compilation {
public:
  Compilation(ModuleOp module, const Target &target, const CompileOptions &options,
              CompileTimes *times, std::vector<Remark> *remarks = nullptr)
      : module(module), target(target), options(options), watch(times), remarks(remarks) {}

  llvm::Error runPasses(Stage last);
  /// For another module that runPasses took as far as `Placed`.
  llvm::Error finishPasses(ModuleOp placed);
  llvm::Error emitAndOptimize(Form form);
  Expected<std::string> generate(Form form);

  std::string text() {
    std::string text;
    llvm::raw_string_ostream out(text);
    module.print(out); // unlike <<, with aliases
    return text;
  }

  ModuleOp module;
  const Target &target;
  const CompileOptions &options;
  Stopwatch watch;
  std::vector<Remark> *remarks; ///< or null

  llvm::LLVMContext llvmContext;
  AssemblerErrors assemblerErrors{llvmContext};
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvmModule;

private:
  /// Whether the kernel's shared memory was added up to more than the target has.
  bool needsTooMuch() {
    func::FuncOp kernel = *module.getOps<func::FuncOp>().begin();
    auto bytes = kernel->getAttrOfType<IntegerAttr>(cta::sharedBytesAttr);
    return bytes && bytes.getInt() > target.maxSharedBytes;
  }
  llvm::Error passesFailed(const std::optional<std::pair<Location, std::string>> &error);
  llvm::Error failure(const std::optional<KernelError::Kind> &kind, Location where,
                      const std::string &message);
  OwningOpRef<ModuleOp> original; ///< as it came, for a reproducer
};

FileLineColLoc findLine(Location location) {
  FileLineColLoc found;
  location->walk([&](Location inner) {
    if ((found = dyn_cast<FileLineColLoc>(inner)))
      return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return found;
}

void addRemark(std::vector<Remark> &remarks, Diagnostic &diagnostic) {
  Remark remark;
  remark.text = diagnostic.str();
  if (FileLineColLoc line = findLine(diagnostic.getLocation())) {
    remark.file = line.getFilename().str();
    remark.line = line.getLine();
  }
  if (!llvm::is_contained(remarks, remark))
    remarks.push_back(std::move(remark));
}

/// Runs `work` and collects what it says about errors, and remarks where they are wanted.
template <class Work>
LogicalResult collectErrors(MLIRContext *context, Work work,
                            std::optional<std::pair<Location, std::string>> &first,
                            std::vector<Remark> *remarks = nullptr) {
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (remarks && diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      addRemark(*remarks, diagnostic);
    // Remarks and warnings go on to whoever listens to the context.
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    if (!first) {
      std::string text = diagnostic.str();
      for (Diagnostic &note : diagnostic.getNotes())
        text += "; " + note.str();
      first.emplace(diagnostic.getLocation(), std::move(text));
    }
    return success();
  });
  return work();
}

} // namespace

/// Says what went wrong. Passes put the user's mistakes in plain words; what begins with an
/// operation's name, or says nothing, is the compiler's own failure and leaves a reproducer.
llvm::Error Compilation::failure(const std::optional<KernelError::Kind> &kind, Location where,
                                 const std::string &message) {
  FileLineColLoc line = findLine(where);
  std::string file = line ? line.getFilename().str() : "";
  unsigned number = line ? line.getLine() : 0;
  if (kind)
    return llvm::make_error<KernelError>(*kind, file, number, message);

  std::string text = "this is a bug in Sectile: " + message;
  SmallString<128> path;
  int fd = -1;
  if (!llvm::sys::fs::createTemporaryFile("sectile-reproducer", "mlir", fd, path)) {
    llvm::raw_fd_ostream(fd, /*shouldClose=*/true) << *original;
    text += "; sectile-opt --sectile-pipeline replays it from " + path.str().str();
  }
  return llvm::make_error<KernelError>(KernelError::Kind::Internal, file, number, text);
}

llvm::Error Compilation::runPasses(Stage last) {
  MLIRContext *context = module.getContext();
  Builder builder(context);
  module->setAttr(cta::targetAttr, builder.getStringAttr(target.name));
  for (auto kernel : module.getOps<func::FuncOp>()) {
    kernel->setAttr(cta::warpsAttr, builder.getI32IntegerAttr(options.warps));
    kernel->setAttr(cta::stagesAttr, builder.getI32IntegerAttr(options.stages));
    if (options.maxRegisters)
      kernel->setAttr(cta::maxRegistersAttr, builder.getI32IntegerAttr(options.maxRegisters));
    if (options.minPrograms)
      kernel->setAttr(cta::minProgramsAttr, builder.getI32IntegerAttr(options.minPrograms));
    if (!options.plans)
      kernel->setAttr(cta::asWrittenAttr, builder.getUnitAttr());
    if (!options.debug && !options.checked)
      kernel->setAttr(StringRef(debuglog::withoutAttr), builder.getUnitAttr());
    if (options.checked)
      kernel->setAttr(StringRef(debuglog::checkedAttr), builder.getUnitAttr());
  }
  original = module.clone();
  std::optional<std::pair<Location, std::string>> error;
  LogicalResult done =
      collectErrors(context, [&] { return runPipeline(module, target, last); }, error, remarks);
  watch.mark("passes");
  return succeeded(done) ? llvm::Error::success() : passesFailed(error);
}

llvm::Error Compilation::finishPasses(ModuleOp placed) {
  module = placed;
  std::optional<std::pair<Location, std::string>> error;
  LogicalResult done =
      collectErrors(module.getContext(), [&] { return finishPipeline(module); }, error);
  return succeeded(done) ? llvm::Error::success() : passesFailed(error);
}

llvm::Error
Compilation::passesFailed(const std::optional<std::pair<Location, std::string>> &error) {
  if (!error)
    return failure(std::nullopt, module.getLoc(), "a pass failed and does not say why");
  std::optional<KernelError::Kind> kind;
  if (!StringRef(error->second).starts_with("'"))
    kind = needsTooMuch() ? KernelError::Kind::Resources : KernelError::Kind::Kernel;
  return failure(kind, error->first, error->second);
}

llvm::Error Compilation::emitAndOptimize(Form form) {
  std::optional<std::pair<Location, std::string>> error;
  LogicalResult done = collectErrors(
      module.getContext(),
      [&]() -> LogicalResult {
        auto emitted = emitLLVM(module, target, llvmContext,
                                /*reportsDivisors=*/isVirtual(form));
        if (failed(emitted))
          return mlir::failure();
        llvmModule = std::move(*emitted);
        return success();
      },
      error, remarks);
  if (failed(done))
    return failure(std::nullopt, error ? error->first : module.getLoc(),
                   error ? error->second : "code generation failed and does not say why");
  watch.mark("emit");

  auto created = createTargetMachine(target);
  if (!created)
    return created.takeError();
  machine = std::move(*created);
  llvmModule->setDataLayout(machine->createDataLayout());
  if (llvm::Error failed = linkLibraries(module, *llvmModule))
    return failed;
  optimize(*llvmModule, *machine);
  watch.mark("optimize");
  return llvm::Error::success();
}

Expected<std::string> Compilation::generate(Form form) {
  auto code =
      form == Form::Hsaco ? emitObject(*llvmModule, *machine) : emitAssembly(*llvmModule, *machine);
  if (!code)
    return code.takeError();
  if (llvm::Error error = assemblerErrors.take(module))
    return error;
  watch.mark("codegen");
  return code;
}

/// Adds a remark on the kernel as a whole.
static void remarkOn(std::vector<Remark> &remarks, ModuleOp module, std::string text) {
  const FileLineColLoc line = findLine(module.getLoc());
  remarks.push_back({.file = line ? line.getFilename().str() : "",
                     .line = line ? line.getLine() : 0,
                     .text = std::move(text)});
}

static unsigned sharedBytes(func::FuncOp kernel) {
  auto bytes = kernel->getAttrOfType<IntegerAttr>(cta::sharedBytesAttr);
  return bytes ? bytes.getInt() : 0;
}

Expected<std::string> compileTo(ModuleOp module, const Target &target,
                                const CompileOptions &options, Form form, CompileTimes *times,
                                std::vector<Remark> *remarks) {
  Compilation compilation(module, target, options, times, remarks);
  if (form > Form::Tile)
    if (llvm::Error error = resolveAssembly(module, target, isVirtual(form)))
      return error;
  if (llvm::Error error = compilation.runPasses(form == Form::Tile ? Stage::Tile : Stage::Cta))
    return error;
  if (form == Form::Tile || form == Form::Cta)
    return compilation.text();
  if (llvm::Error error = compilation.emitAndOptimize(form))
    return error;
  switch (form) {
  case Form::Llvm: {
    std::string text;
    llvm::raw_string_ostream(text) << *compilation.llvmModule;
    return text;
  }
  case Form::Virtual:
  case Form::VirtualShared: {
    const bool isShared = form == Form::VirtualShared;
    auto object =
        vgpu::compileForHost(*compilation.llvmModule, {.cpu = isShared ? vgpu::portableCpu : ""});
    compilation.watch.mark("host");
    if (!object)
      return object.takeError();
    if (isShared) {
      auto linked = vgpu::linkForBundle(object->object);
      compilation.watch.mark("lld");
      if (!linked)
        return linked.takeError();
      object->object = std::move(*linked);
      object->hostCpu = vgpu::portableHost();
    }
    object->kernel = (*module.getOps<func::FuncOp>().begin()).getName();
    return object->serialize();
  }
  default:
    break;
  }
  auto code = compilation.generate(form);
  if (!code)
    return code.takeError();
  if (form == Form::Hsaco) {
    auto linked = linkCodeObject(*code);
    compilation.watch.mark("lld");
    return linked;
  }
  if (form == Form::Cubin) {
    auto result = assemble(*code, target, sharedBytes(*module.getOps<func::FuncOp>().begin()));
    compilation.watch.mark("ptxas");
    if (!result)
      return result.takeError();
    if (remarks && result->spillStoreBytes)
      remarkOn(*remarks, module, runtime::spillRemark(result->registers, result->spillStoreBytes));
    return result->cubin;
  }
  return code;
}

OperationLines linesOf(ModuleOp traced) {
  OperationLines lines;
  traced.walk<WalkOrder::PreOrder>([&](Operation *op) {
    FileLineColLoc line = findLine(op->getLoc());
    lines.emplace_back(line ? line.getFilename().str() : "", line ? line.getLine() : 0);
  });
  return lines;
}

void attach(std::vector<Remark> &remarks, const OperationLines &lines) {
  for (Remark &remark : remarks)
    if (auto found = llvm::find(lines, std::pair(remark.file, remark.line)); found != lines.end())
      remark.operation = static_cast<int32_t>(found - lines.begin());
}

std::vector<Remark> relocated(std::vector<Remark> remarks, const OperationLines &lines) {
  for (Remark &remark : remarks)
    if (remark.operation >= 0 && static_cast<size_t>(remark.operation) < lines.size())
      std::tie(remark.file, remark.line) = lines[remark.operation];
  return remarks;
}

static Resources resourcesOf(Form form, const std::string &bytes) {
  Resources resources;
  if (form == Form::Hsaco)
    return resourcesOfCodeObject(bytes);
  if (isVirtual(form))
    if (auto object = vgpu::VirtualObject::deserialize(bytes))
      resources.staticSharedBytes = object->staticSharedBytes;
  return resources;
}

/// What a thread of a block of so many can have.
static unsigned registersOfThread(const Target &target, unsigned threads) {
  if (target.vendor == Vendor::Nvidia)
    return nvidia::registerLimit(target, threads);
  // Accumulation registers take what ordinary ones have no room for.
  return target.maxRegistersPerThread * (target.warpSize == 64 ? 2 : 1);
}

Expected<ResourceEstimate> estimateResources(ModuleOp module, const Target &target,
                                             const CompileOptions &options) {
  ResourceEstimate estimate;
  const unsigned computing = options.warps * target.warpSize;
  estimate.threads = computing;
  if (computing > target.maxThreads) {
    estimate.excess = std::to_string(computing) + " threads; " + target.name + " has " +
                      std::to_string(target.maxThreads);
    return estimate;
  }
  if (llvm::Error error = resolveAssembly(module, target, /*forVirtualDevice=*/false))
    return error;
  Compilation compilation(module, target, options, nullptr);
  llvm::Error error = llvm::handleErrors(compilation.runPasses(Stage::Placed),
                                         [&](std::unique_ptr<KernelError> failure) -> llvm::Error {
                                           if (failure->kind != KernelError::Kind::Resources)
                                             return llvm::Error(std::move(failure));
                                           estimate.excess = failure->message;
                                           return llvm::Error::success();
                                         });
  if (error)
    return error;
  func::FuncOp kernel = *module.getOps<func::FuncOp>().begin();
  estimate.threads = launchedWarpsOf(kernel) * target.warpSize;
  estimate.sharedBytes = sharedBytes(kernel);
  kernel.walk([&](cta::DotOp dot) { estimate.plainDots += !dot.getInstruction(); });
  // A partition gives its registers to those that compute.
  const unsigned most = registersOfThread(target, computing);
  auto tooMany = [&](const Twine &has) {
    return ("kernel '" + kernel.getName() + "' " + has + " registers of each thread, " +
            target.name + " has " + Twine(most) + ": raise the warps or lower the tile's extents")
        .str();
  };
  estimate.fewestRegisters = fewestRegisters(kernel);
  estimate.registers = std::min(usualRegisters(estimate.fewestRegisters),
                                registersOfThread(target, estimate.threads));
  // Where LLVM's code is looked at as well, this is there to spare it the largest: it may take a
  // product in parts, so that tiles are not alive as a whole.
  const unsigned beyond = target.vendor == Vendor::Nvidia ? 2 * most : most;
  if (estimate.excess.empty() && estimate.fewestRegisters > beyond)
    estimate.excess = tooMany("holds tiles in " + Twine(estimate.fewestRegisters));
  if (!estimate.excess.empty() || target.vendor != Vendor::Nvidia)
    return estimate;

  OwningOpRef<ModuleOp> placed = module.clone();
  if (llvm::Error failed = compilation.finishPasses(*placed))
    return failed;
  if (llvm::Error failed = compilation.emitAndOptimize(Form::Ptx))
    return failed;
  const auto registers = nvidia::estimateRegisters(*compilation.llvmModule);
  estimate.fewestRegisters = registers.fewest;
  // Of a launch with a partition each thread has as many, whoever computes.
  estimate.registers = std::min(registers.usual, registersOfThread(target, estimate.threads));
  if (registers.fewest > most + nvidia::registerError(most))
    estimate.excess = tooMany("needs about " + Twine(registers.fewest));
  return estimate;
}

/// What the launch makes the kernel's tensor maps of.
static void planTensorMaps(func::FuncOp kernel, LaunchPlan &plan) {
  auto given = [&](const cta::TensorMap::Given &from) {
    TensorMapPlan::Given result;
    result.argument = static_cast<int32_t>(from.argument);
    result.factor = from.factor;
    result.constant = from.constant;
    if (from.argument >= 0)
      result.bits = kernel.getArgument(from.argument).getType().getIntOrFloatBitWidth();
    return result;
  };
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
    Attribute attribute = kernel.getArgAttr(i, cta::tensorMapAttr);
    if (!attribute)
      continue;
    if (plan.tensorMaps.empty())
      plan.firstTensorMap = i;
    const cta::TensorMap map = cta::TensorMap::fromAttribute(attribute);
    TensorMapPlan &planned = plan.tensorMaps.emplace_back();
    planned.pointer = map.pointer;
    planned.elementBytes = map.elementBytes;
    planned.number = map.number;
    planned.swizzle = map.swizzle;
    llvm::transform(map.extents, std::back_inserter(planned.extents), given);
    llvm::transform(map.strides, std::back_inserter(planned.strides), given);
    planned.box.assign(map.box.begin(), map.box.end());
    planned.isWritten = map.isWritten;
  }
}

Expected<Artifact> compile(ModuleOp module, const Target &target, const CompileOptions &options,
                           CodeFor device, CompileTimes *times) {
  const Form form = device == CodeFor::VirtualDevice           ? Form::Virtual
                    : device == CodeFor::VirtualDeviceAnywhere ? Form::VirtualShared
                    : target.vendor == Vendor::Nvidia          ? Form::Ptx
                                                               : Form::Hsaco;
  Artifact artifact;
  const OperationLines lines = linesOf(module);
  auto bytes = compileTo(module, target, options, form, times, &artifact.remarks);
  if (!bytes)
    return bytes.takeError();
  attach(artifact.remarks, lines);
  func::FuncOp kernel = *module.getOps<func::FuncOp>().begin();
  artifact.target = target.name;
  artifact.kind = formName(form).str();
  artifact.entry = kernel.getName().str();
  artifact.bytes = std::move(*bytes);
  artifact.plan.threads = launchedWarpsOf(kernel) * target.warpSize;
  artifact.plan.sharedBytes = sharedBytes(kernel);
  artifact.plan.cluster = clusterOf(kernel);
  artifact.plan.wait = waitPointOf(kernel, target);
  planTensorMaps(kernel, artifact.plan);
  artifact.resources = resourcesOf(form, artifact.bytes);
  artifact.debugSites = debugSitesOf(kernel);
  return artifact;
}

} // namespace sectile
