// Functions of single numbers that become an operation's region: the function of `map`, the
// meaning of assembly.
#pragma once
#include "dsl/Trace.h"
#include <sectile/map.h>

namespace sectile::detail {

/// Traces the function on numbers of these element types, and checks that it only computes numbers,
/// from its arguments and the kernel's numbers. `what` names it: "the function of sc::map".
std::unique_ptr<mlir::Region> traceMapping(Trace &trace, const Mapping &function, size_t results,
                                           llvm::ArrayRef<mlir::Type> arguments,
                                           llvm::StringRef what, Location where);

} // namespace sectile::detail
