// A virtual device that compiles for this machine's processor.
#include "jit/VirtualCompiler.h"
#include "codegen/virtual/HostCompiler.h"

namespace sectile::runtime {
namespace {

class CompilingVirtualDevice final : public VirtualDevice, public CompilesItself {
public:
  using VirtualDevice::VirtualDevice;

  std::string codeKey() const override {
    return DeviceImpl::codeKey() + " virtual on " + vgpu::hostCpuName() + " at " +
           std::to_string(vgpu::hostOptLevel());
  }

  llvm::Expected<Artifact> compile(mlir::ModuleOp module, const CompileOptions &options,
                                   CompileTimes *times) const override {
    return sectile::compile(module, Target(Chip::known(target)), options, CodeFor::VirtualDevice,
                            times);
  }
};

} // namespace

std::shared_ptr<DeviceImpl> openVirtualDevice(std::string_view target) {
  return std::make_shared<CompilingVirtualDevice>(target);
}

} // namespace sectile::runtime
