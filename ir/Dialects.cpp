// Every dialect that Sectile's IR uses, for contexts and tools.
#include "ir/Dialects.h"
#include "ir/cta/Cta.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

void sectile::registerDialects(mlir::DialectRegistry &registry) {
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, tile::TileDialect, cta::CtaDialect>();
}
