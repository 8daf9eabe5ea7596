// Links AMDGPU code objects.
#include "codegen/amd/CodeObject.h"
#include "codegen/common/Lld.h"

llvm::Expected<std::string> sectile::linkCodeObject(llvm::StringRef object) {
  // A chip has no library that could define what is missing.
  return linkShared(object);
}
