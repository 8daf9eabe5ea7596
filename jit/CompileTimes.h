// Where the time of compiling a kernel goes, for benchmarks.
#ifndef SECTILE_JIT_COMPILETIMES_H
#define SECTILE_JIT_COMPILETIMES_H

#include "runtime/CompileOptions.h"

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
