// What a chip can do, as a value. Passes and code generation ask a Target; none compares
// architecture names.
#ifndef SECTILE_IR_TARGET_H
#define SECTILE_IR_TARGET_H

#include "ir/MmaInstruction.h"
#include "runtime/Chip.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sectile {

/// A chip with what only the compiler asks.
struct Target : Chip {
  std::string triple;                  ///< LLVM target triple
  std::string cpu;                     ///< LLVM processor name
  llvm::ArrayRef<MmaInstruction> mmas; ///< the preferred first among those of the same elements

  Target() = default;
  explicit Target(const Chip &chip);

  /// The target of this name, or an error that lists the known names.
  static llvm::Expected<Target> get(llvm::StringRef name);
  /// Every known name, oldest first, NVIDIA before AMD.
  static llvm::ArrayRef<llvm::StringRef> names();
};

} // namespace sectile

#endif
