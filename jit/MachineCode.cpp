// Which ptxas makes machine code for whom, and its key in the compile cache.
#include "jit/MachineCode.h"
#include "codegen/nvidia/Ptxas.h"
#include "jit/CompileCache.h"
#include "runtime/PtxForms.h"

namespace sectile::runtime {

static std::string chipOf(const Target &target, const MachineCodeUser &user) {
  if (target.isForOneChip)
    return target.cpu;
  return "sm_" + std::to_string(user.major) + std::to_string(user.minor);
}

std::optional<std::string> machineCodeOf(const Artifact &ptx, const MachineCodeUser &user) {
  CompileCache &cache = CompileCache::get();
  if (!cache.disk())
    return std::nullopt;
  llvm::Expected<Target> target = Target::get(ptx.target);
  if (!target) {
    llvm::consumeError(target.takeError());
    return std::nullopt;
  }
  // Another release may have faults that the driver has not, or make code that the driver refuses.
  const std::optional<PtxasVersion> version = ptxasVersion();
  if (!version || "CUDA " + version->release != user.driverVersion)
    return std::nullopt;
  target->cpu = chipOf(*target, user);
  const std::string key = machineCodeKey(ptx.entry) + "chip " + target->cpu + "\ndriver " +
                          user.driverVersion + " build " + user.driverBuild + "\nassembler " +
                          version->text + "\nforms " + std::string(formsOfPtx) + "\nptx " +
                          digestOf(ptx.bytes);
  return cache.machineCode(key, [&]() -> std::optional<std::string> {
    llvm::Expected<PtxasResult> made = assemble(ptx.bytes, *target, ptx.plan.sharedBytes);
    if (made)
      return std::move(made->cubin);
    llvm::consumeError(made.takeError()); // the driver says better what is wrong
    return std::nullopt;
  });
}

} // namespace sectile::runtime
