// Where the time of compiling a kernel goes, for benchmarks.
#ifndef SECTILE_RUNTIME_COMPILETIMES_H
#define SECTILE_RUNTIME_COMPILETIMES_H

#include "codegen/Compiler.h"

namespace sectile::runtime {

/// While it lives, what this thread compiles adds its times to `times`: the trace first, then the
/// compiler's stages.
class RecordCompileTimes {
public:
  explicit RecordCompileTimes(CompileTimes &times);
  ~RecordCompileTimes();
  RecordCompileTimes(const RecordCompileTimes &) = delete;

private:
  CompileTimes *before;
};

} // namespace sectile::runtime

#endif
