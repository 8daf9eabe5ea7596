// The code of a kernel's launches, as `sectile compile` shows it. Needs the compiler.
#include "kernels/calls/Emit.h"
#include "jit/CodeAccess.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>
#include <sectile/error.h>
#include <set>

using namespace sectile;

std::vector<KernelCode> sectile::emitLaunches(std::span<const detail::BoundLaunch> launches,
                                              const std::string &target, const std::string &form) {
  const Chip *chip = Chip::find(target);
  if (!chip)
    throw CompileError(Chip::whyUnknown(target));
  // A recurrence launches one kernel for every step: compiling takes far longer than telling
  // launches apart.
  std::set<std::pair<const void *, std::string>> compiled;
  std::vector<KernelCode> distinct;
  for (const detail::BoundLaunch &launch : launches) {
    if (!compiled.emplace(launch.kernel, runtime::LaunchAccess::specialization(launch, *chip))
             .second)
      continue;
    KernelCode one{std::string(launch.kernel->name()),
                   runtime::CodeAccess::emit(launch, target, form)};
    if (std::none_of(distinct.begin(), distinct.end(),
                     [&](const KernelCode &other) { return other.code == one.code; }))
      distinct.push_back(std::move(one));
  }
  return distinct;
}

std::vector<KernelCode> sectile::emitKernel(const Invocation &call, const Config &config,
                                            const std::string &target, const std::string &form) {
  return emitLaunches(bindKernel(call, config).launches, target, form);
}
