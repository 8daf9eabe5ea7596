// Tuning the library's kernels: on made-up inputs, for any caller that knows a kernel by its name.
#pragma once
#include "kernels/Choices.h"
#include <sectile/tuning.h>

namespace sectile {

// The configurations that are tried for this call: the kernel's own choice first, then those of its
// space, the last axis changing fastest; where the order of sums is fixed, those that share its.
std::vector<Config> candidatesFor(const Invocation &call, const SearchSpace &space,
                                  const std::string &target);

// "m=128 n=64 k=32 group=8 warps=4 stages=3"
std::string describe(const KernelSpec &kernel, const Config &config);
// What of it decides the order of sums: "m=128 n=64 k=32 warps=4".
std::string orderOf(const KernelSpec &kernel, const Config &config);

// The extents that calls share their best configuration by: each up to the next power of two.
NamedExtents bucketOf(const Invocation &call);

// Measures what is not known yet of the candidates, and records it. Of the options the bucket and
// the outputs are the kernel's. A report for each of its search spaces.
std::vector<TuneReport> tuneKernel(const Invocation &call, const Device &device,
                                   AutotuneOptions options = {});

// The best that is known, without tuning: of the call's bucket, else of the nearest.
std::optional<Config> bestKnown(const Invocation &call, const Device &device);
// How many buckets' answers this process remembers. Options may have any number of values.
std::size_t bucketsRemembered();
inline constexpr std::size_t mostBuckets = 1024;

} // namespace sectile
