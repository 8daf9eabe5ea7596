// Compiles the optimised LLVM IR of one kernel (NVPTX or AMDGPU flavoured) into an object the
// virtual GPU runs.
#pragma once
#include "vgpu/VirtualObject.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace sectile::vgpu {

// SECTILE_VIRTUAL_OPT, or 2 where that is no number from 0 to 3: how much the host's code generator
// optimises. Part of a cache key.
unsigned hostOptLevel();

struct HostOptions {
  std::string cpu; // empty: this machine's, with all its features
  unsigned optLevel = hostOptLevel();
};

// The module holds exactly one kernel, and no function it calls is undefined but intrinsics and the
// pseudo-intrinsics sectile.*. The module is left as it was.
llvm::Expected<VirtualObject> compileForHost(const llvm::Module &module,
                                             const HostOptions &options = {});

// A generator of code for this host, and the object that it makes of a module.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> hostMachine(const HostOptions &options);
llvm::Expected<std::string> emitHostObject(llvm::Module &module, llvm::TargetMachine &machine);
// Of the host's processors the one with the least.
#if defined(__x86_64__)
inline constexpr char plainHostCpu[] = "x86-64";
#else
inline constexpr char plainHostCpu[] = "generic";
#endif

// The name compiled objects carry as hostCpu, with the version of the machine's ABI; part of a
// cache key.
std::string hostCpuName();

} // namespace sectile::vgpu
