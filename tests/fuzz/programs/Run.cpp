// Inputs, the two ways to run, and the comparison.
#include "tests/fuzz/programs/Run.h"
#include "jit/CodeSource.h"
#include "jit/interpreter/Interpreter.h"
#include "runtime/DebugLog.h"
#include "runtime/DeviceImpl.h"
#include "vgpu/Machine.h"
#include "vgpu/Program.h"
#include "vgpu/TensorMap.h"
#include "vgpu/VirtualObject.h"
#include <cmath>
#include <cstring>
#include <sectile/buffer.h>

using namespace mlir;

namespace sectile::fuzz {

namespace {

uint64_t someNumber(Type element, bool exact, std::mt19937_64 &random) {
  if (element.isInteger(1))
    return random() % 2;
  if (isa<IntegerType>(element)) // small and large ones
    return static_cast<uint64_t>(static_cast<int64_t>(random()) >> random() % 64);
  auto type = cast<FloatType>(element);
  if (exact)
    return bitsOf(type, double(random() % 9) - 4);
  if (random() % 64 == 0) // any at all
    return random();
  return bitsOf(type, std::ldexp(double(random() % 4096) - 2048, -9 - int(random() % 4)));
}

/// Memory with the buffers of a case, of a machine.
struct Buffers {
  Buffers(vgpu::DeviceMemory &memory, const Inputs &inputs) {
    for (const std::vector<uint8_t> &buffer : inputs.buffers) {
      addresses.push_back(memory.allocate(buffer.size()));
      std::memcpy(addresses.back(), buffer.data(), buffer.size());
      memory.written(addresses.back(), buffer.size());
      sizes.push_back(buffer.size());
    }
  }
  Outputs outputs() const {
    Outputs result;
    for (auto [address, size] : llvm::zip(addresses, sizes)) {
      auto *first = static_cast<const uint8_t *>(address);
      result.buffers.emplace_back(first, first + size);
    }
    return result;
  }
  std::vector<void *> addresses;
  std::vector<size_t> sizes;
};

/// Of the kernel's arguments after the two numbers, the buffers whose second names they are: those
/// that are written to.
llvm::SmallVector<size_t> secondNames(ModuleOp module) {
  const llvm::SmallVector<Type> elements = elementTypes(module.getContext());
  llvm::SmallVector<size_t> buffers;
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(tile::kernelAttr))
      for (Type type : function.getArgumentTypes().drop_front(2 * elements.size() + 2)) {
        Type element = cast<tile::PtrType>(type).getElement();
        buffers.push_back(elements.size() + (llvm::find(elements, element) - elements.begin()));
      }
  return buffers;
}

/// On a device of the machine, whose name the setting has in place of a target.
llvm::Expected<Outputs> runOnChip(ModuleOp module, const Inputs &inputs, const Setting &setting) {
  Device opened = Device::open(setting.target);
  runtime::DeviceImpl &device = *opened.impl();
  OwningOpRef<ModuleOp> copy = module.clone();
  auto artifact = runtime::compileFor(device, *copy, setting.compile);
  if (!artifact)
    return artifact.takeError();
  std::shared_ptr<runtime::LoadedKernel> kernel = device.load(*artifact);
  std::vector<Buffer<uint8_t>> buffers;
  for (const std::vector<uint8_t> &buffer : inputs.buffers)
    buffers.push_back(opened.upload(buffer));
  std::vector<uint64_t> words;
  for (const Buffer<uint8_t> &buffer : buffers)
    words.push_back(reinterpret_cast<uint64_t>(buffer.data()));
  for (int32_t number : {inputs.n, inputs.m})
    words.push_back(static_cast<uint32_t>(number));
  for (size_t buffer : secondNames(module))
    words.push_back(words[buffer]);
  std::vector<void *> arguments;
  for (uint64_t &word : words)
    arguments.push_back(&word);
  const runtime::GridExtents grid = {static_cast<unsigned>(inputs.options.programs), 1, 1};
  const size_t count = arguments.size();
  arguments.resize(count + 2); // of the debug log
  try {
    if (kernel->debug)
      device.debugLogs.launch(*kernel, grid, arguments.data(), count, opened.stream().native());
    else
      device.launch(*kernel, grid, arguments.data(), opened.stream().native());
    opened.synchronize();
  } catch (const std::exception &error) {
    return llvm::createStringError(error.what());
  }
  Outputs outputs;
  for (const Buffer<uint8_t> &buffer : buffers)
    outputs.buffers.push_back(buffer.download());
  return outputs;
}

llvm::Expected<Outputs> runOnMachine(ModuleOp module, const Inputs &inputs,
                                     const Setting &setting) {
  Target target = llvm::cantFail(Target::get(setting.target));
  OwningOpRef<ModuleOp> copy = module.clone();
  auto artifact = compile(*copy, target, setting.compile, CodeFor::VirtualDevice);
  if (!artifact)
    return artifact.takeError();
  auto object = vgpu::VirtualObject::deserialize(artifact->bytes);
  if (!object)
    return llvm::createStringError("the artifact cannot be read");
  const auto program = vgpu::Program::load(std::move(*object));
  vgpu::Machine machine(target.warpSize);
  Buffers buffers(machine.memory(), inputs);
  std::vector<void *> arguments;
  for (void *&address : buffers.addresses)
    arguments.push_back(&address);
  // As 64-bit words, which tensor maps are made of.
  int64_t n = inputs.n, m = inputs.m;
  arguments.insert(arguments.end(), {&n, &m});
  for (size_t buffer : secondNames(module))
    arguments.push_back(&buffers.addresses[buffer]);
  // The checked mode's assertions have a log.
  auto *log = static_cast<debuglog::Head *>(machine.memory().allocate(debuglog::recordsAt));
  std::memset(log, 0, debuglog::recordsAt);
  machine.memory().written(log, debuglog::recordsAt);
  uint64_t launchNumber = 1;
  if (!artifact->debugSites.empty())
    arguments.insert(arguments.end(), {&log, &launchNumber});
  std::vector<vgpu::TensorMap> maps;
  for (const TensorMapPlan &plan : artifact->plan.tensorMaps)
    maps.push_back(vgpu::TensorMap::of(valuesOf(plan, arguments.data())));
  for (vgpu::TensorMap &map : maps)
    arguments.push_back(&map);
  vgpu::LaunchShape shape;
  shape.grid[0] = inputs.options.programs;
  shape.block[0] = artifact->plan.threads;
  if (artifact->plan.cluster > 1)
    shape.cluster[0] = artifact->plan.cluster;
  shape.sharedBytes = artifact->plan.sharedBytes;
  vgpu::LaunchOptions launch;
  launch.seed = setting.schedule;
  launch.counters = false;
  launch.hostThreads = 1;
  if (!secondNames(module).empty()) {
    // Programs wait for those before them: such a seed leaves the grid in order. A program that
    // fails raises no flag.
    // It is small, as a product that wraps is no multiple.
    launch.seed = launch.seed % (1 << 20) * uint64_t(inputs.options.programs);
    launch.deadline = 20;
  }
  vgpu::LaunchResult result = machine.launch(*program, shape, arguments.data(), launch);
  if (result.finding)
    return llvm::createStringError(result.finding->text());
  if (log->failures) {
    auto *failure = reinterpret_cast<const debuglog::Failure *>(
        reinterpret_cast<const char *>(log) + debuglog::failuresAt);
    return llvm::createStringError("assertion: " + artifact->debugSites[failure->site].text);
  }
  return buffers.outputs();
}

/// Whether two elements are as good as the same: any NaN is one, and so is either zero.
bool agree(Type element, uint64_t a, uint64_t b, double bound) {
  auto type = dyn_cast<FloatType>(element);
  if (a == b || std::isinf(bound))
    return true;
  if (!type)
    return false;
  unsigned bits = type.getWidth();
  llvm::APFloat x(type.getFloatSemantics(), llvm::APInt(bits, a)),
      y(type.getFloatSemantics(), llvm::APInt(bits, b));
  if ((x.isNaN() && y.isNaN()) || (x.isZero() && y.isZero()))
    return true;
  if (bound == 0)
    return false;
  bool lossy;
  for (llvm::APFloat *number : {&x, &y})
    number->convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return std::fabs(x.convertToDouble() - y.convertToDouble()) <= bound;
}

std::string show(Type element, uint64_t word) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::format_hex(word, 2 + 2 * bytesOf(element));
  if (auto type = dyn_cast<FloatType>(element)) {
    llvm::SmallString<32> number;
    llvm::APFloat(type.getFloatSemantics(), llvm::APInt(type.getWidth(), word)).toString(number);
    out << " (" << number << ")";
  }
  return text;
}

} // namespace

Inputs makeInputs(MLIRContext *context, uint64_t seed, const GeneratorOptions &options) {
  std::mt19937_64 random(seed + 77);
  Inputs inputs;
  inputs.options = options;
  const llvm::SmallVector<Type> elements = elementTypes(context);
  for (Type element : elements) {
    unsigned bytes = bytesOf(element);
    std::vector<uint8_t> buffer(inputElements * bytes);
    for (int64_t i = 0; i < inputElements; ++i) {
      uint64_t number = someNumber(element, options.exact, random);
      std::memcpy(&buffer[i * bytes], &number, bytes);
    }
    // Arenas begin with the same numbers.
    const size_t read = buffer.size();
    buffer.resize(read + arenaElements * bytes);
    for (size_t at = read; at < buffer.size(); at += read)
      std::memcpy(&buffer[at], buffer.data(), read);
    inputs.buffers.push_back(std::move(buffer));
  }
  for (Type element : elements) {
    const unsigned bytes = bytesOf(element);
    const uint64_t before = bitsBefore(element);
    std::vector<uint8_t> &fresh = inputs.buffers.emplace_back(outputElements * bytes);
    for (int64_t i = 0; i < outputElements; ++i)
      std::memcpy(&fresh[i * bytes], &before, bytes);
  }
  return inputs;
}

llvm::Expected<std::optional<Outputs>> interpret(ModuleOp module, const Inputs &inputs) {
  interpreter::Program program(module);
  if (program.problem())
    return llvm::createStringError(*program.problem());
  vgpu::DeviceMemory memory;
  Buffers buffers(memory, inputs);
  std::vector<uint64_t> arguments;
  for (void *address : buffers.addresses)
    arguments.push_back(reinterpret_cast<uint64_t>(address));
  for (int32_t number : {inputs.n, inputs.m})
    arguments.push_back(static_cast<uint32_t>(number));
  for (size_t buffer : secondNames(module))
    arguments.push_back(arguments[buffer]);
  interpreter::MemoryBounds bounds;
  interpreter::Options options;
  options.bounds = &bounds;
  interpreter::Outcome outcome =
      program.run({{uint32_t(inputs.options.programs), 1, 1}, arguments, memory.ranges()}, options);
  if (outcome.finding)
    return llvm::createStringError(outcome.finding->text());
  if (outcome.uncertain)
    return std::nullopt;
  Outputs outputs = buffers.outputs();
  const llvm::SmallVector<Type> elements = elementTypes(module.getContext());
  for (size_t i = 0; i < outputs.buffers.size(); ++i) {
    std::vector<double> &ofBuffer = outputs.bounds.emplace_back();
    const unsigned bytes = bytesOf(elements[i % elements.size()]);
    for (int64_t at = 0; at < elementsOf(i, elements.size()); ++at)
      ofBuffer.push_back(bounds.at(arguments[i] + at * bytes));
  }
  return outputs;
}

Setting Setting::of(uint64_t seed, llvm::StringRef target) {
  std::mt19937_64 random(seed ^ 0xabcdef);
  Setting setting;
  setting.target = target.str();
  setting.compile.warps = 1u << random() % 4;
  if (target == "sm_90a" && random() % 2) // whose products are those of four warps
    setting.compile.warps = 4u << random() % 2;
  setting.compile.stages = 1 + random() % 4;
  setting.schedule = random() % 3 ? seed + 1 : 0;
  setting.compile.checked = random() % 4 == 0;
  setting.compile.plans = random() % 8 != 0;
  return setting;
}

std::string Setting::text() const {
  return target + ", " + std::to_string(compile.warps) + " warps, " +
         std::to_string(compile.stages) + " stages" + (compile.checked ? ", checked" : "") +
         (compile.plans ? "" : ", loops as written");
}

std::optional<std::string> difference(ModuleOp module, const Inputs &inputs,
                                      const Outputs &expected, const Setting &setting) {
  auto got = Setting::isChip(setting.target) ? runOnChip(module, inputs, setting)
                                             : runOnMachine(module, inputs, setting);
  if (!got) {
    std::string why = llvm::toString(got.takeError());
    // What a program may not ask for: more shared memory than there is, some reshapes.
    for (const char *refusal : {"shared memory, ", "odd factors", "elements for each of"})
      if (why.find(refusal) != std::string::npos)
        return std::nullopt;
    return why;
  }
  const llvm::SmallVector<Type> elements = elementTypes(module.getContext());
  for (size_t i = 0; i < got->buffers.size(); ++i) {
    Type element = elements[i % elements.size()];
    unsigned bytes = bytesOf(element);
    for (int64_t at = 0; at < elementsOf(i, elements.size()); ++at) {
      uint64_t is = 0, wanted = 0;
      std::memcpy(&is, &got->buffers[i][at * bytes], bytes);
      std::memcpy(&wanted, &expected.buffers[i][at * bytes], bytes);
      double bound = expected.bounds[i][at];
      if (!agree(element, is, wanted, bound)) {
        std::string type;
        llvm::raw_string_ostream(type) << element;
        return "wrong: element " + std::to_string(at) + " of argument " + std::to_string(i) + ", " +
               type + ", is " + show(element, is) + ", not " + show(element, wanted);
      }
    }
  }
  return std::nullopt;
}

} // namespace sectile::fuzz
