// Launches of the library's kernels in configurations from all over their search spaces.
#pragma once
#include "jit/CodeAccess.h"
#include "kernels/calls/Use.h"
#include "kernels/tuning/Tune.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sectile::test {

/// Of a call that makes each launch with a search space.
inline Assignments allLaunches(const KernelSpec &kernel) {
  return kernel.name == "sample" ? Assignments{{"top_p", "0.9"}} : Assignments{};
}

/// In this dtype where the kernel takes it, else in its usual one.
inline Invocation typicalCall(const KernelSpec &kernel, std::string_view dtype) {
  const std::vector<DType> &known = kernel.arguments.front().dtypes;
  const bool takes =
      std::any_of(known.begin(), known.end(), [&](DType one) { return name_of(one) == dtype; });
  return resolveTypical(kernel, takes ? dtype : "", {}, allLaunches(kernel));
}

struct Candidate {
  std::string what;
  detail::BoundLaunch launch;
};

/// The one that this space is for.
inline Candidate candidateOf(const Invocation &call, const SearchSpace &space,
                             const Config &config) {
  const BoundKernel bound = bindKernel(call, config);
  const detail::BoundLaunch &launch = bound.part(space.part);
  const std::string name(launch.kernel->name());
  return {call.kernel->name + (name == call.kernel->name ? "" : ", " + name) + " " +
              describe(*call.kernel, config),
          launch};
}

/// `count` of this space, evenly from all of it; `shift` says which.
inline std::vector<Candidate> someOf(const Invocation &call, const SearchSpace &space,
                                     const std::string &target, std::size_t count,
                                     std::size_t shift) {
  const std::vector<Config> configs = candidatesFor(call, space, target);
  count = std::min(count, configs.size());
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < count; ++i)
    candidates.push_back(
        candidateOf(call, space, configs[(i * configs.size() / count + shift) % configs.size()]));
  return candidates;
}

/// The launches that no space is for, each kernel once.
inline std::vector<Candidate> othersOf(const Invocation &call, const std::string &target) {
  std::set<std::string_view> known;
  const BoundKernel bound = bindKernel(call, call.kernel->defaults(call, target));
  for (const SearchSpace &space : call.kernel->spaces)
    if (const detail::BoundLaunch *tuned = bound.find(space.part))
      known.insert(tuned->kernel->name());
  std::vector<Candidate> candidates;
  for (const detail::BoundLaunch &launch : bound.launches)
    if (known.insert(launch.kernel->name()).second)
      candidates.push_back({call.kernel->name + ", " + std::string(launch.kernel->name()), launch});
  return candidates;
}

inline ResourceEstimate estimateOf(const detail::BoundLaunch &launch, const Target &target) {
  ResourceEstimate estimate;
  runtime::CodeAccess::trace(launch, target, [&](mlir::ModuleOp module) {
    estimate =
        llvm::cantFail(estimateResources(module, target, runtime::LaunchAccess::options(launch)));
  });
  return estimate;
}

} // namespace sectile::test
