// The registers of an inline assembly text: what its constraints name, against what its operands
// and results need.
#ifndef SECTILE_IR_TILE_ASSEMBLY_H
#define SECTILE_IR_TILE_ASSEMBLY_H

#include "ir/Target.h"
#include "mlir/IR/TypeRange.h"
#include <optional>
#include <string>

namespace sectile::tile {

struct AssemblyRegisters {
  /// Of one operand or result.
  struct Value {
    unsigned bits;       ///< of a register: 32 or 64
    unsigned perWord;    ///< elements in a register
    std::string letters; ///< the constraint of each register
  };
  llvm::SmallVector<Value> results, operands;

  /// Nothing, and why, where the constraints do not fit the types.
  static std::optional<AssemblyRegisters> get(llvm::StringRef constraints, unsigned pack,
                                              mlir::TypeRange results, mlir::TypeRange operands,
                                              std::string &why);
};

/// Whose assembly the constraints belong to; nothing where they do not tell.
std::optional<Vendor> vendorOfConstraints(llvm::StringRef constraints);

} // namespace sectile::tile

#endif
