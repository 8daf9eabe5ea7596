// The version of LLVM that the compiler was built with.
#include "llvm/Config/llvm-config.h"
#include <sectile/version.h>

const char *sectile::llvm_version() { return LLVM_VERSION_STRING; }
