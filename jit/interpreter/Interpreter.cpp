// The interpreter's main part: programs, their operations in order, memory accesses, messages.
#include "jit/interpreter/Interpreter.h"
#include "codegen/common/DebugInfo.h"
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"
#include "jit/interpreter/Watching.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/DefaultArithmetic.h"
#include <algorithm>
#include <cstring>

using namespace mlir;

namespace sectile::interpreter {

namespace {

const Table &allOperations() {
  static const Table table = [] {
    Table all;
    for (auto add : {addIntegers, addFloats, addConversions, addShapes, addMemory, addAtomics,
                     addDots, addCombining, addControl, addEscapes, addChannels})
      add(all);
    return all;
  }();
  return table;
}

} // namespace

ElementType ElementType::of(mlir::Type type) {
  type = tile::elementType(type);
  if (llvm::isa<tile::PtrType>(type))
    return {64, nullptr, true};
  if (type.isIndex() || llvm::isa<tile::ViewType, tile::ChannelType, tile::SlotType>(type))
    return {64, nullptr};
  return {type.getIntOrFloatBitWidth(), FloatFormat::of(type)};
}

static std::string whyUnknown(Operation &op) {
  std::string place;
  if (FileLineColLoc line = lineOf(op.getLoc()))
    place = (line.getFilename().getValue() + ":" + Twine(line.getLine()) + ": ").str();
  if (isa<tile::InlineAsmOp>(op))
    return place +
           "sc::inline_asm: a chip's assembly means nothing to the interpreter; say what the "
           "text computes by a function before the operands, and it runs here too";
  return place + "the interpreter does not know " + op.getName().getStringRef().str();
}

//===-- Programs ------------------------------------------------------------------------------===//

Program::Program(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(tile::kernelAttr)) {
      theKernel = function;
      theName = function.getName().str();
    }
  if (!theKernel) {
    theProblem = "the module has no kernel";
    return;
  }
  if (auto compiled = vgpu::HostLibraries::compile(module))
    libraries = std::move(*compiled);
  else
    theProblem = llvm::toString(compiled.takeError());
  module.walk([&](Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>() || isa<ModuleOp, func::FuncOp>(op))
      return;
    auto found = allOperations().find(op->getName().getStringRef());
    auto assembly = dyn_cast<tile::InlineAsmOp>(op);
    if (found != allOperations().end() && !(assembly && assembly.getMeaning().empty()))
      table[op->getName()] = found->second;
    else if (!theProblem)
      theProblem = whyUnknown(*op);
  });
}

unsigned Program::argumentCount() const { return cast<func::FuncOp>(theKernel).getNumArguments(); }

Outcome Program::run(const Launch &launch, const Options &options) const {
  const runtime::DefaultArithmetic arithmetic;
  Allocations allocations(launch.memory);
  Outcome outcome;
  auto runOne = [&](const GridExtents &id) {
    try {
      Run(*this, launch, options, allocations).runProgram(id);
    } catch (FailedAssertion &failed) {
      if (!outcome.failed++)
        outcome.assertion = std::move(failed.failure);
    }
  };
  try {
    for (unsigned z = 0; z < launch.grid.z; ++z)
      for (unsigned y = 0; y < launch.grid.y; ++y)
        for (unsigned x = 0; x < launch.grid.x; ++x)
          runOne({x, y, z});
  } catch (Fault &fault) {
    outcome.finding = std::move(fault.finding);
  } catch (const Uncertain &uncertain) {
    outcome.uncertain = uncertain.op->getName().getStringRef().str();
    if (FileLineColLoc line = lineOf(uncertain.op->getLoc()))
      *outcome.uncertain +=
          (" at " + line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
  }
  return outcome;
}

Run::Run(const Program &program, const Launch &launch, const Options &options,
         Allocations &allocations)
    : launch(launch), options(options), program(program), allocations(allocations) {
  if (!options.watches.empty())
    watch = std::make_unique<LineWatch>(*this, options.watches);
}
Run::~Run() = default;

//===-- Operations in order -------------------------------------------------------------------===//

void Run::runProgram(const GridExtents &which) {
  id = which;
  auto function = cast<func::FuncOp>(program.kernel());
  for (auto [parameter, argument] : llvm::zip_equal(function.getArguments(), launch.arguments))
    set(parameter, Elements::scalar(ElementType::of(parameter.getType()), argument));
  runBlock(function.getBody().front());
}

vgpu::HostLibraries::Function Run::hostFunction(Operation &op) const {
  return program.libraries->function(op);
}

void Run::run(Operation &op) {
  program.table.find(op.getName())->second(*this, op);
  if (options.bounds)
    addBounds(*this, op);
  if (options.trapNan)
    checkNan(*this, op);
  if (watch)
    watch->saw(op);
}

void Run::requireCertain(Operation &op, Value value) const {
  if (llvm::any_of(get(value).bounds, [](double bound) { return bound != 0; }))
    throw Uncertain{&op};
}

void Run::runAll(Block &block) {
  for (Operation &op : block)
    run(op);
  if (watch)
    watch->leave();
}

Operation &Run::runBlock(Block &block) {
  for (Operation &op : block.without_terminator())
    run(op);
  if (watch)
    watch->leave();
  return *block.getTerminator();
}

SmallVector<ElementsRef> Run::passedBy(OperandRange operands) const {
  return llvm::map_to_vector(operands, [&](Value value) { return share(value); });
}

SmallVector<ElementsRef> Run::call(Block &block, ArrayRef<ElementsRef> arguments) {
  for (auto [parameter, argument] : llvm::zip_equal(block.getArguments(), arguments))
    set(parameter, argument);
  return passedBy(runBlock(block).getOperands());
}

void Run::setResults(Operation &op, ArrayRef<ElementsRef> results) {
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    set(result, value);
}

void Run::fail(vgpu::FindingKind kind, Operation &op, const std::string &message,
               const std::string &place) const {
  vgpu::Finding finding;
  finding.kind = kind;
  finding.block[0] = id.x;
  finding.block[1] = id.y;
  finding.block[2] = id.z;
  finding.ofThread = false;
  finding.element = place;
  finding.kernel = program.name();
  if (FileLineColLoc line = lineOf(op.getLoc())) {
    finding.file = line.getFilename().str();
    finding.line = line.getLine();
  }
  finding.message = message;
  throw Fault{std::move(finding)};
}

//===-- Memory --------------------------------------------------------------------------------===//

bool Allocations::contains(uint64_t address, uint64_t bytes) {
  auto within = [&](const vgpu::MemoryRange &range) {
    return address >= range.low && address <= range.high && bytes <= range.high - address;
  };
  if (within(last))
    return true;
  auto after = std::upper_bound(
      ranges.begin(), ranges.end(), address,
      [](uint64_t value, const vgpu::MemoryRange &range) { return value < range.low; });
  if (after == ranges.begin() || !within(*std::prev(after)))
    return false;
  last = *std::prev(after);
  return true;
}

void Run::check(Operation &op, const char *verb, uint64_t address, uint64_t bytes, size_t element,
                ArrayRef<int64_t> shape) {
  if (!allocations.contains(address, bytes))
    fail(vgpu::FindingKind::OutOfBounds, op,
         std::string(verb) + " of " + std::to_string(bytes) + " bytes " +
             allocations.describe(address),
         placeText(element, shape));
  if (address % bytes)
    fail(vgpu::FindingKind::Misaligned, op,
         std::string(verb) + " of " + std::to_string(bytes) +
             " bytes at an address that is no multiple of them",
         placeText(element, shape));
}

uint64_t Run::read(Operation &op, uint64_t address, ElementType type, size_t element,
                   ArrayRef<int64_t> shape) {
  check(op, "load", address, type.bytes(), element, shape);
  uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void *>(address), type.bytes());
  return word & type.mask();
}

void Run::write(Operation &op, uint64_t address, ElementType type, uint64_t word, size_t element,
                ArrayRef<int64_t> shape) {
  check(op, "store", address, type.bytes(), element, shape);
  std::memcpy(reinterpret_cast<void *>(address), &word, type.bytes());
}

} // namespace sectile::interpreter
