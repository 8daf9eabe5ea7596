// Machine code as text.
#ifndef SECTILE_CODEGEN_DISASSEMBLY_H
#define SECTILE_CODEGEN_DISASSEMBLY_H

#include "runtime/Artifact.h"
#include <string>

namespace sectile {

/// The instructions of a code object for an AMD chip or of a virtual GPU's object for this host,
/// with labels where symbols are. A sentence in brackets where they cannot be read.
std::string disassemble(const Artifact &artifact);

} // namespace sectile

#endif
