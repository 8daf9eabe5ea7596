// The rewrites of tile and cta operations that the pass `simplify` adds to upstream's
// canonicalisation.
#ifndef SECTILE_PASSES_LANGUAGE_SIMPLIFYPATTERNS_H
#define SECTILE_PASSES_LANGUAGE_SIMPLIFYPATTERNS_H

#include "mlir/IR/PatternMatch.h"

namespace sectile {

void addSimplifyPatterns(mlir::RewritePatternSet &patterns);

} // namespace sectile

#endif
