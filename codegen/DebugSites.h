// Sites of assertions and prints from the IR.
#ifndef SECTILE_CODEGEN_DEBUGSITES_H
#define SECTILE_CODEGEN_DEBUGSITES_H

#include "runtime/DebugSite.h"

namespace mlir {
class Type;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace sectile {

namespace tile {
class AssertOp;
class PrintOp;
} // namespace tile

/// How an element's type is named in a printed value.
std::string debugTypeName(mlir::Type element, bool isUnsigned);

DebugSite debugSiteOf(tile::AssertOp op);
DebugSite debugSiteOf(tile::PrintOp op);
/// Those that lower-debug has left at the kernel, by number; none where it has no assertions and
/// prints.
std::vector<DebugSite> debugSitesOf(mlir::func::FuncOp kernel);

} // namespace sectile

#endif
