// Running one resolved kernel, or its reference, on arrays of the host.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/device.h>

namespace sectile {

// Contents for the inputs of a call, by their place among the arguments: those of
// ArgumentSpec::sample and KernelSpec::sample_dependent.
std::vector<HostArray> sampleInputs(const Invocation &call, std::uint64_t seed);

struct Execution {
  std::vector<HostArray> outputs;   // in order; what is not there is empty
  std::vector<double> milliseconds; // of each repetition: launch and wait, the first compiles too
};

// Inputs are by their place among the arguments; an optional one that is missing is empty. Outputs
// are poisoned before each run. Throws Error where the kernel changed an input.
Execution execute(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs, long repetitions = 1);

// Throws InputError for numbers that lead out of other arrays: see KernelSpec::contents.
void checkContents(const Invocation &call, std::span<const HostArray> inputs);

// The reference's outputs, axes as stored. Checks the contents first.
std::vector<HostArray> referenceOutputs(const Invocation &call, std::span<const HostArray> inputs,
                                        Arithmetic arithmetic);

} // namespace sectile
