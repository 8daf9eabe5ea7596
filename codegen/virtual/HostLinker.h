// Makes shared objects of what was compiled for the virtual GPU, for bundles.
#pragma once
#include "llvm/Support/Error.h"
#include <string>

namespace sectile::vgpu {

// Links a relocatable object of portableCpu into one that openSharedObject() takes.
llvm::Expected<std::string> linkForBundle(llvm::StringRef object);

} // namespace sectile::vgpu
