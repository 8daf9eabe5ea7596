// Which element types matrix units multiply, and as what.
#ifndef SECTILE_IR_MMAELEMENTS_H
#define SECTILE_IR_MMAELEMENTS_H

#include "ir/Target.h"
#include "mlir/IR/Types.h"
#include <optional>

namespace sectile {

/// What matrix units take elements of this type as, if any do: f32 as tf32.
std::optional<MmaElement> mmaElementOf(mlir::Type type);

} // namespace sectile

#endif
