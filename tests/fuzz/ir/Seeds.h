// The IR that the fuzzer starts from.
#pragma once
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace sectile::fuzz {

struct Seed {
  std::string name; ///< where it comes from
  std::string text;
};

/// The inputs of the lit tests below a folder, part by part, and the library's kernels; each as
/// written, in generic form, and after each pass of the pipeline. The same in every run.
std::vector<Seed> collectSeeds(mlir::MLIRContext &context, llvm::StringRef litFolder);

} // namespace sectile::fuzz
