// SECTILE_BUILD=FILE: a bundle of the code that a program launched, written when it ends.
#ifndef SECTILE_JIT_BUNDLERECORDER_H
#define SECTILE_JIT_BUNDLERECORDER_H

#include "runtime/CompilerLink.h"

namespace sectile::runtime {

/// Keeps the code of a launch for the bundle, if one is asked for.
void recordForBundle(const CodeRequest &request, const Artifact &artifact);

} // namespace sectile::runtime

#endif
