// The code of a kernel's launches.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// The code of one launch.
struct KernelCode {
  std::string name; // of the kernel
  std::string code;
};

// Each kernel that is launched, once.
std::vector<KernelCode> emitKernel(const Invocation &call, const Config &config,
                                   const std::string &target, const std::string &form);

} // namespace sectile
