// One program of a kernel while it is interpreted, and the table of what each operation does.
#ifndef SECTILE_JIT_INTERPRETER_RUN_H
#define SECTILE_JIT_INTERPRETER_RUN_H

#include "jit/interpreter/Elements.h"
#include "jit/interpreter/Interpreter.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace sectile::interpreter {

/// Thrown where the program does what it must not do.
struct Fault {
  vgpu::Finding finding;
};

/// Thrown where an assertion does not hold: the program ends.
struct FailedAssertion {
  AssertionError::Failure failure;
};

class LineWatch;
class Run;
using Evaluate = void (*)(Run &, mlir::Operation &);
using Table = llvm::StringMap<Evaluate>;

/// Each family's entries.
void addIntegers(Table &table);
void addFloats(Table &table);
void addConversions(Table &table);
void addShapes(Table &table);
void addMemory(Table &table);
void addAtomics(Table &table);
void addDots(Table &table);
void addCombining(Table &table);
void addControl(Table &table);
void addEscapes(Table &table);
void addChannels(Table &table);

/// The allocations of the device, at the start of the launch.
class Allocations {
public:
  explicit Allocations(std::vector<vgpu::MemoryRange> ranges) : ranges(std::move(ranges)) {}
  bool contains(uint64_t address, uint64_t bytes);
  std::string describe(uint64_t address) const { return vgpu::describeAddress(ranges, address); }

private:
  std::vector<vgpu::MemoryRange> ranges; // sorted
  vgpu::MemoryRange last{0, 0};          // where the last access was
};

class Run {
public:
  Run(const Program &program, const Launch &launch, const Options &options,
      Allocations &allocations);
  ~Run();

  /// One program, from the kernel's first operation to its last.
  void runProgram(const GridExtents &id);

  const Elements &get(mlir::Value value) const { return *share(value); }
  const ElementsRef &share(mlir::Value value) const {
    auto found = values.find(value);
    assert(found != values.end() && "a value is used before it is made");
    return found->second;
  }
  /// What was just made, to add to it.
  Elements &amend(mlir::Value value) { return const_cast<Elements &>(get(value)); }
  void set(mlir::Value value, ElementsRef elements) { values[value] = std::move(elements); }
  void set(mlir::Value value, Elements elements) {
    set(value, std::make_shared<const Elements>(std::move(elements)));
  }
  /// A scalar's bits.
  uint64_t word(mlir::Value value) const { return get(value)[0]; }
  int64_t number(mlir::Value value) const { return get(value).asSigned(0); }

  /// Runs a block but for its terminator, which it gives.
  mlir::Operation &runBlock(mlir::Block &block);
  /// Runs a block that has no terminator.
  void runAll(mlir::Block &block);
  /// What the terminator passes on.
  llvm::SmallVector<ElementsRef> passedBy(mlir::OperandRange operands) const;
  llvm::SmallVector<ElementsRef> call(mlir::Block &block, llvm::ArrayRef<ElementsRef> arguments);
  void setResults(mlir::Operation &op, llvm::ArrayRef<ElementsRef> results);

  /// What a call of a library's function calls.
  vgpu::HostLibraries::Function hostFunction(mlir::Operation &op) const;

  /// Memory, after checks. `element` is an element of a tile of `shape`.
  uint64_t read(mlir::Operation &op, uint64_t address, ElementType type, size_t element,
                llvm::ArrayRef<int64_t> shape);
  void write(mlir::Operation &op, uint64_t address, ElementType type, uint64_t word, size_t element,
             llvm::ArrayRef<int64_t> shape);

  /// Gives up where an element of this value is not certain, for what is done depends on it.
  void requireCertain(mlir::Operation &op, mlir::Value value) const;
  MemoryBounds *bounds() const { return options.bounds; }

  [[noreturn]] void fail(vgpu::FindingKind kind, mlir::Operation &op, const std::string &message,
                         const std::string &place = "") const;

  const std::string &kernelName() const { return program.name(); }

  const Launch &launch;
  const Options &options;
  GridExtents id{0, 0, 0};

  /// The channels' tiles that were filled and not released, and the uses that were committed, by
  /// what slotOf gives.
  llvm::DenseMap<uint64_t, ElementsRef> slots;
  llvm::DenseSet<uint64_t> committed;
  /// How many of those that read a use have released it, while others have not.
  llvm::DenseMap<uint64_t, unsigned> released;

private:
  void check(mlir::Operation &op, const char *verb, uint64_t address, uint64_t bytes,
             size_t element, llvm::ArrayRef<int64_t> shape);
  void run(mlir::Operation &op);

  const Program &program;
  Allocations &allocations;
  llvm::DenseMap<mlir::Value, ElementsRef> values;
  std::unique_ptr<LineWatch> watch;
};

/// Fails where the address of an element was computed from an integer that did not fit.
void checkOffset(Run &run, mlir::Operation &op, const Elements &pointers, size_t element);
/// Calls `access` for every element of a block that lies within its view, with the address.
void eachInside(Run &run, mlir::Operation &op, mlir::Value view, mlir::ValueRange offsets,
                llvm::ArrayRef<int64_t> shape,
                llvm::function_ref<void(size_t element, uint64_t address)> access);

} // namespace sectile::interpreter

#endif
