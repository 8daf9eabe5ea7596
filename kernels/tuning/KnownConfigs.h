// Choosing among configurations that are known to be good for calls like this one: those of the
// database of measurements, or in a sealed program those of its bundles.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/tuning.h>

namespace sectile {

// "m=128 n=64 k=32 group=8 warps=4 stages=3"
std::string describe(const KernelSpec &kernel, const Config &config);
// The configuration that describe() wrote so; nothing where it is of other fields.
std::optional<Config> parseDescribed(const KernelSpec &kernel, std::string_view text);
// What of it decides the order of sums: "m=128 n=64 k=32 warps=4".
std::string orderOf(const KernelSpec &kernel, const Config &config);

// The extents that calls share their best configuration by: each up to the next power of two.
NamedExtents bucketOf(const Invocation &call);
// What else these share, as text: dtypes, the widths of heads, options.
std::string kindOf(const Invocation &call);

struct KnownConfig {
  Config config;
  std::string order; // of sums, as orderOf(), where that is known
};

// The first that is valid for this call, of each search space: `bySpace` has those of the kernel's
// spaces in order. Of fields that no space varies, only the kernel's own choice is taken, which may
// follow from the extents.
std::optional<Config> chooseKnown(const Invocation &call, const std::string &target,
                                  std::span<const std::vector<KnownConfig>> bySpace,
                                  const Config &own);

// Whether the call may take the whole of a configuration, by the same rules.
bool mayTake(const Invocation &call, const std::string &target, const KnownConfig &known,
             const Config &own);

} // namespace sectile
