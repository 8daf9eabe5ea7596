// The interpreter: runs `tile` IR as it was traced, one program at a time, with the types' exact
// semantics. It is the definition of the language.
#ifndef SECTILE_JIT_INTERPRETER_INTERPRETER_H
#define SECTILE_JIT_INTERPRETER_INTERPRETER_H

#include "codegen/virtual/HostLibraries.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/DeviceImpl.h"
#include "vgpu/Finding.h"
#include "vgpu/Memory.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>
#include <optional>
#include <sectile/interpreter.h>
#include <sectile/report.h>
#include <span>
#include <unordered_map>
#include <vector>

namespace sectile::interpreter {

using runtime::GridExtents;

class Run;
class SumBound;

/// How far off what memory holds may be, on a device; see jit/interpreter/Bounds.h.
class MemoryBounds {
public:
  /// Of the element at this address. Infinite: it may be anything.
  double at(uint64_t address) const {
    auto found = bounds.find(address);
    return found == bounds.end() ? 0 : found->second;
  }
  void set(uint64_t address, double bound) {
    updates.erase(address);
    keep(address, bound);
  }

  /// Atomic updates of an element since it was last set.
  struct Updates {
    int kind;                      ///< of the first
    std::shared_ptr<SumBound> sum; ///< what was added, and to what
  };
  /// Takes account of an update. Whether the element is the same in every order of the updates up
  /// to this one: where there is one, or all are of one kind, of which several `commute`.
  bool update(uint64_t address, int kind, bool commute) {
    auto [at, isFirst] = updates.try_emplace(address, Updates{kind, nullptr});
    return isFirst || (commute && at->second.kind == kind);
  }
  std::shared_ptr<SumBound> &sumAt(uint64_t address) { return updates.at(address).sum; }
  /// The bound of an element that was updated.
  void keep(uint64_t address, double bound) {
    if (bound == 0)
      bounds.erase(address);
    else
      bounds[address] = bound;
  }

private:
  std::unordered_map<uint64_t, double> bounds;
  std::unordered_map<uint64_t, Updates> updates;
};

/// A line of source to stop at.
struct Watch {
  std::string file; ///< the end of its path
  unsigned line = 0;
  LineHandler handler;
};

struct Options {
  /// Takes what programs print, whole lines of it; standard output, or the handler that is set,
  /// where there is none.
  std::function<void(std::string_view text)> print;
  /// Where it is given: keeps account of how far off a device's results may be.
  MemoryBounds *bounds = nullptr;
  std::vector<Watch> watches;
  bool trapNan = false; ///< an operation that makes a NaN of numbers ends the launch
};

/// Where a kernel runs and on what. Arguments are words: addresses are the host's, of memory within
/// `memory`; integers and floats are their bits.
struct Launch {
  GridExtents grid;
  std::span<const uint64_t> arguments;
  std::vector<vgpu::MemoryRange> memory; ///< sorted
};

/// How a launch went. What a program does wrong ends the launch; a failed assertion only the
/// program.
struct Outcome {
  std::optional<vgpu::Finding> finding;
  std::optional<AssertionError::Failure> assertion; ///< the first
  size_t failed = 0;                                ///< programs that failed an assertion
  /// With bounds: what the program does depends on numbers that devices may differ in; the launch
  /// ended there. Says where.
  std::optional<std::string> uncertain;
};

/// A module with one kernel, and the functions it calls, ready to run. The module must outlive it.
class Program {
public:
  explicit Program(mlir::ModuleOp module);

  /// An operation that the interpreter does not know, or cannot know: what to tell the user.
  const std::optional<std::string> &problem() const { return theProblem; }
  mlir::Operation *kernel() const { return theKernel; }
  const std::string &name() const { return theName; }
  unsigned argumentCount() const;

  /// Runs every program of the grid in order.
  Outcome run(const Launch &launch, const Options &options = {}) const;

private:
  friend class Run;
  using Evaluate = void (*)(Run &, mlir::Operation &);

  mlir::Operation *theKernel = nullptr;
  std::string theName;
  std::optional<std::string> theProblem;
  std::shared_ptr<const vgpu::HostLibraries> libraries; ///< where functions of some are called
  llvm::DenseMap<mlir::OperationName, Evaluate> table;  ///< of the operations that occur
};

} // namespace sectile::interpreter

#endif
