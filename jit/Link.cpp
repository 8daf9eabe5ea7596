// Tells the runtime that this program has the compiler, with the devices that need it.
#include "jit/BundleRecorder.h"
#include "jit/CodeSource.h"
#include "jit/MachineCode.h"
#include "jit/Remarks.h"
#include "jit/VirtualCompiler.h"
#include "jit/interpreter/InterpreterDevice.h"

namespace sectile::runtime {
namespace {

class Link : public CompilerLink {
  std::shared_ptr<const Artifact> codeFor(const CodeRequest &request) override {
    auto artifact = compiledCode(request);
    recordForBundle(request, *artifact);
    return artifact;
  }

  std::shared_ptr<DeviceImpl> open(std::string_view device) override {
    if (device == "interpreter")
      return openInterpreterDevice();
    const size_t colon = device.find(':');
    return openVirtualDevice(colon == device.npos ? "" : device.substr(colon + 1));
  }

  std::optional<std::string> machineCodeOf(const Artifact &ptx,
                                           const MachineCodeUser &user) override {
    return runtime::machineCodeOf(ptx, user);
  }

  void print(const Remark &remark) override {
    if (printsRemarks())
      runtime::print(std::span(&remark, 1));
  }
};

[[maybe_unused]] const bool isLinked = (setCompiler(std::make_unique<Link>()), true);

} // namespace
} // namespace sectile::runtime
