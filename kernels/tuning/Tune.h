// Tuning the library's kernels: on made-up inputs, for any caller that knows a kernel by its name.
#pragma once
#include "kernels/tuning/Choices.h"
#include "kernels/tuning/KnownConfigs.h"
#include "runtime/Chip.h"

namespace sectile {

namespace autotune {
class Database;
}

// The configurations that are tried for this call: the kernel's own choice first, then those of its
// space, the last axis changing fastest; where the order of sums is fixed, those that share its.
std::vector<Config> candidatesFor(const Invocation &call, const SearchSpace &space,
                                  const std::string &target);

// Measures what is not known yet of the candidates, and records it. Of the options the bucket and
// the outputs are the kernel's. A report for each of its search spaces.
std::vector<TuneReport> tuneKernel(const Invocation &call, const Device &device,
                                   AutotuneOptions options = {});

// The strategy of this name; throws InputError, whose message begins with `who` asked for it.
Strategy strategyNamed(const std::string &name, const std::string &who);

// The best that is known, without tuning: of the call's bucket, else of the nearest.
std::optional<Config> bestKnown(const Invocation &call, const Device &device);
// The same of a chip that need not be there, as this database knows it of devices of that name.
std::optional<Config> bestKnown(const Invocation &call, const Chip &chip,
                                const std::string &product, autotune::Database &database);
// How many buckets' answers this process remembers. Options may have any number of values.
std::size_t bucketsRemembered();
inline constexpr std::size_t mostBuckets = 1024;

} // namespace sectile
