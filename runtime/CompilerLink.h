// What a program can do that is linked with the compiler, as the runtime asks for it. The
// compiler's library sets it when it is loaded.
#ifndef SECTILE_RUNTIME_COMPILERLINK_H
#define SECTILE_RUNTIME_COMPILERLINK_H

#include "runtime/Activities.h"
#include "runtime/DeviceImpl.h"
#include "runtime/LaunchFacts.h"
#include "runtime/Remark.h"
#include <sectile/kernel.h>

namespace sectile::runtime {

/// A launch that needs code.
struct CodeRequest {
  const detail::KernelDesc &kernel;
  DeviceImpl &device;
  const detail::PackedLaunch &packed;
  const CompileOptions &options;
  std::span<const ArgumentMask> masks; ///< of what is known of the arguments, that which counts
  unsigned longAxis;                   ///< of the grid that is launched as the first; 0: none
  Activities &activities;
};

/// The chip and the driver that machine code is for.
struct MachineCodeUser {
  unsigned major, minor;     ///< the chip's compute capability
  std::string driverVersion; ///< "CUDA 13.0"
  std::string driverBuild;
};

class CompilerLink {
public:
  virtual ~CompilerLink() = default;

  /// The code for a launch, from the compile cache or compiled. Throws CompileError, LaunchError.
  virtual std::shared_ptr<const Artifact> codeFor(const CodeRequest &request) = 0;
  /// One of the devices that run kernels on the host, "virtual:TARGET" or "interpreter". Throws
  /// DeviceError.
  virtual std::shared_ptr<DeviceImpl> open(std::string_view device) = 0;
  /// The machine code of a kernel's PTX: from the compile cache, else made by a ptxas of the
  /// driver's release and kept there. Nothing where there is no such ptxas, no folder to keep it
  /// in, or ptxas fails: then the driver compiles the PTX. The driver's linker is no substitute: it
  /// compiles relocatable code, which takes more registers and ignores setmaxnreg.
  virtual std::optional<std::string> machineCodeOf(const Artifact &ptx,
                                                   const MachineCodeUser &user) = 0;
  /// Prints a remark of the runtime's where SECTILE_REMARKS asks for it.
  virtual void print(const Remark &remark) = 0;
};

/// Null in a program without the compiler.
CompilerLink *compiler();
void setCompiler(std::unique_ptr<CompilerLink> link);

} // namespace sectile::runtime

#endif
