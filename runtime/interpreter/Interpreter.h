// The interpreter: runs `tile` IR as it was traced, one program at a time, with the types' exact
// semantics. It is the definition of the language.
#ifndef SECTILE_RUNTIME_INTERPRETER_INTERPRETER_H
#define SECTILE_RUNTIME_INTERPRETER_INTERPRETER_H

#include "mlir/IR/BuiltinOps.h"
#include "runtime/DeviceImpl.h"
#include "runtime/virtual/Finding.h"
#include "runtime/virtual/Memory.h"
#include "llvm/ADT/DenseMap.h"
#include <functional>
#include <optional>
#include <sectile/report.h>
#include <span>
#include <vector>

namespace sectile::interpreter {

using runtime::GridExtents;

class Run;

struct Options {
  /// Takes what programs print, whole lines of it; standard output, or the handler that is set,
  /// where there is none.
  std::function<void(std::string_view text)> print;
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
  llvm::DenseMap<mlir::OperationName, Evaluate> table; ///< of the operations that occur
};

} // namespace sectile::interpreter

#endif
