// The interpreter as a device like any other: "interpreter".
#ifndef SECTILE_JIT_INTERPRETER_INTERPRETERDEVICE_H
#define SECTILE_JIT_INTERPRETER_INTERPRETERDEVICE_H

#include "jit/CodeSource.h"
#include "vgpu/HostDevice.h"

namespace sectile::runtime {

/// Loads `tile` IR as it was traced.
class InterpreterDevice final : public HostDevice, public CompilesItself {
public:
  InterpreterDevice();

  std::string codeKey() const override { return "interpreter"; }
  llvm::Expected<Artifact> compile(mlir::ModuleOp module, const CompileOptions &options,
                                   CompileTimes *times) const override;
  std::shared_ptr<LoadedKernel> load(const Artifact &artifact) override;

private:
  vgpu::DeviceMemory &deviceMemory() override { return theMemory; }
  size_t argumentCount(const LoadedKernel &kernel) const override;
  void run(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
           void *stream) override;

  vgpu::DeviceMemory theMemory;
};

std::shared_ptr<DeviceImpl> openInterpreterDevice();

} // namespace sectile::runtime

#endif
