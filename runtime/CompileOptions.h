// How a kernel is compiled, beside what its arguments and its configuration say.
#ifndef SECTILE_RUNTIME_COMPILEOPTIONS_H
#define SECTILE_RUNTIME_COMPILEOPTIONS_H

#include <string>
#include <utility>
#include <vector>

namespace sectile {

struct CompileOptions {
  unsigned warps = 4;  ///< per block; a power of two
  unsigned stages = 3; ///< depth of software pipelines; 1 turns them off
  bool debug = true;   ///< false: without assertions and prints
  bool checked =
      false;         ///< integer arithmetic that feeds addresses is checked, promises are verified
  bool plans = true; ///< false: loops do everything in the iteration that it is written in
  unsigned maxRegisters = 0; ///< of one thread; 0: the assembler decides
  unsigned minPrograms = 0;  ///< that fit on a multiprocessor at once; 0: the assembler decides

  bool limitsRegisters() const { return maxRegisters || minPrograms; }
};

/// " max-registers=64 min-programs=2": those that are given.
inline std::string limitsText(const CompileOptions &options) {
  std::string text;
  if (options.maxRegisters)
    text += " max-registers=" + std::to_string(options.maxRegisters);
  if (options.minPrograms)
    text += " min-programs=" + std::to_string(options.minPrograms);
  return text;
}

/// Where the time of a compile went, in milliseconds, in order.
using CompileTimes = std::vector<std::pair<std::string, double>>;

} // namespace sectile

#endif
