// From an AMDGPU object file to a code object that the HIP runtime loads, and what it says of
// itself.
#ifndef SECTILE_CODEGEN_AMD_CODEOBJECT_H
#define SECTILE_CODEGEN_AMD_CODEOBJECT_H

#include "runtime/Artifact.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sectile {

/// Links one relocatable object into a shared code object with lld, inside this process. Safe from
/// several threads.
llvm::Expected<std::string> linkCodeObject(llvm::StringRef object);

/// What the metadata of a code object's first kernel says; zeros where it cannot be read. Registers
/// are those of vectors.
Resources resourcesOfCodeObject(llvm::StringRef codeObject);

} // namespace sectile

#endif
