// The code of a kernel's launches.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// The code of one launch.
struct KernelCode {
  std::string name; // of the kernel
  std::string code;
};

// Of each different code among the launches, in order. Throws CompileError.
std::vector<KernelCode> emitLaunches(std::span<const detail::BoundLaunch> launches,
                                     const std::string &target, const std::string &form);
// The same of the launches of a call.
std::vector<KernelCode> emitKernel(const Invocation &call, const Config &config,
                                   const std::string &target, const std::string &form);

} // namespace sectile
