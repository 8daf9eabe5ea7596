// lld as a library.
#ifndef SECTILE_CODEGEN_COMMON_LLD_H
#define SECTILE_CODEGEN_COMMON_LLD_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace sectile {

/// Links relocatable objects into a shared one, inside this process. Nothing may stay undefined.
/// Safe from several threads.
llvm::Expected<std::string> linkShared(llvm::ArrayRef<llvm::StringRef> objects,
                                       llvm::ArrayRef<const char *> options = {});

} // namespace sectile

#endif
