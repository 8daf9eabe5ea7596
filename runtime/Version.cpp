// The versions that the library was built as and with.
#include "llvm/Config/llvm-config.h"
#include <sectile/version.h>

const char *sectile::version() { return SECTILE_VERSION_STRING; }

const char *sectile::llvm_version() { return LLVM_VERSION_STRING; }
