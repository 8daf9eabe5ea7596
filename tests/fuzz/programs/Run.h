// One random kernel on its inputs: by the interpreter, and compiled for a virtual GPU or a chip.
#pragma once
#include "codegen/Compiler.h"
#include "tests/fuzz/programs/Generator.h"

namespace sectile::fuzz {

/// What is in the buffers of a kernel before it runs, and the two numbers it takes.
struct Inputs {
  std::vector<std::vector<uint8_t>> buffers; ///< in the order of the arguments
  int32_t n = 13, m = 57;
  GeneratorOptions options;
};

Inputs makeInputs(mlir::MLIRContext *context, uint64_t seed, const GeneratorOptions &options);

/// What is in a kernel's buffers afterwards. By the interpreter also how far off each element may
/// be elsewhere; infinite where it may be anything.
struct Outputs {
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<std::vector<double>> bounds;
};

/// Nothing where what the program does depends on numbers that devices may differ in. Errors are
/// faults of the program.
llvm::Expected<std::optional<Outputs>> interpret(mlir::ModuleOp module, const Inputs &inputs);

/// How and where a kernel is compiled and run.
struct Setting {
  std::string target; ///< of a virtual GPU, as "sm_80", or a device of the machine, as "cuda:0"
  CompileOptions compile;
  uint64_t schedule = 0;

  /// One for each seed.
  static Setting of(uint64_t seed, llvm::StringRef target);
  static bool isChip(llvm::StringRef target) { return target.contains(':'); }
  std::string text() const;
};

/// What the compiled kernel does otherwise than `expected`, or nothing.
std::optional<std::string> difference(mlir::ModuleOp module, const Inputs &inputs,
                                      const Outputs &expected, const Setting &setting);

} // namespace sectile::fuzz
