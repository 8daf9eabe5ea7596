// Compiles the optimised LLVM IR of one kernel (NVPTX or AMDGPU flavoured) into an object the
// virtual GPU runs.
#pragma once
#include "codegen/virtual/VirtualObject.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
}

namespace sectile::vgpu {

struct HostOptions {
  std::string cpu;       // empty: this machine's, with all its features
  unsigned optLevel = 2; // of the host's code generator, 0 to 3
};

// The module holds exactly one kernel, and no function it calls is undefined but intrinsics and the
// pseudo-intrinsics sectile.*. The module is left as it was.
llvm::Expected<VirtualObject> compileForHost(const llvm::Module &module,
                                             const HostOptions &options = {});

// The name compiled objects carry as hostCpu, with the version of the machine's ABI; part of a
// cache key.
std::string hostCpuName();

} // namespace sectile::vgpu
