// From an AMDGPU object file to a code object that the HIP runtime loads.
#ifndef SECTILE_CODEGEN_AMD_CODEOBJECT_H
#define SECTILE_CODEGEN_AMD_CODEOBJECT_H

#include "llvm/Support/Error.h"
#include <string>

namespace sectile {

/// Links one relocatable object into a shared code object with lld, inside this process. Safe from
/// several threads.
llvm::Expected<std::string> linkCodeObject(llvm::StringRef object);

} // namespace sectile

#endif
