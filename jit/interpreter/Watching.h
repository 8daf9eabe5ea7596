// What is watched while programs run: lines of source, the first NaN.
#ifndef SECTILE_JIT_INTERPRETER_WATCHING_H
#define SECTILE_JIT_INTERPRETER_WATCHING_H

#include "jit/interpreter/Run.h"

namespace sectile::interpreter {

/// Collects what the operations of a watched line make, and hands it on when the line is done.
class LineWatch {
public:
  LineWatch(const Run &run, const std::vector<Watch> &watches) : run(run), watches(watches) {}
  /// After an operation.
  void saw(mlir::Operation &op);
  /// What follows is of another line.
  void leave();

private:
  const Watch *watchOf(mlir::Operation &op, unsigned &line) const;

  const Run &run;
  const std::vector<Watch> &watches;
  const Watch *current = nullptr;
  LineStop stop;
};

/// Ends the program where an operation has made a NaN of numbers that are none.
void checkNan(const Run &run, mlir::Operation &op);

/// What the process watches: what on_line() and trap_nan() said, and SECTILE_BREAK and
/// SECTILE_TRAP.
void watchAsAsked(Options &options);

} // namespace sectile::interpreter

#endif
