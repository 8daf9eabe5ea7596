// One tuning: the candidates of one problem, from the static estimate to the best of them.
#ifndef SECTILE_AUTOTUNE_SESSION_H
#define SECTILE_AUTOTUNE_SESSION_H

#include "autotune/Database.h"
#include "runtime/Chip.h"
#include <functional>
#include <sectile/kernel.h>
#include <sectile/tuning.h>

namespace sectile::autotune {

/// What is tuned: a kernel with its arguments, and the configurations that it may have.
struct TuningTask {
  Stream stream;
  TuningKey key;
  std::vector<std::string> names; ///< of the candidates; the first is the reference configuration
  std::vector<std::string> numerics;               ///< of each
  std::function<detail::BoundLaunch(size_t)> bind; ///< any number of threads at once
  /// The launches that come before it, where what they leave behind depends on the configuration.
  /// One thread at a time.
  std::function<std::vector<detail::BoundLaunch>(size_t)> bindAhead = nullptr;
  /// Microseconds by a model that knows more of the kernel than its IR says; 0 or no function:
  /// there is none. Any number of threads at once.
  std::function<double(size_t)> predict = nullptr;
};

/// The kernel's arguments, as the bucket rule and the database see them.
TuningKey keyOf(const detail::BoundLaunch &reference, const Device &device,
                const AutotuneOptions &options);
/// The same for a product with this chip ("NVIDIA H200", "virtual:sm_90a") that need not be there.
TuningKey keyOf(const detail::BoundLaunch &reference, const Chip &chip, const std::string &product,
                const AutotuneOptions &options);

/// Measures the candidates that the store does not know, one by one, and records each. Throws what
/// the reference configuration throws.
TuneReport tune(const TuningTask &task, const AutotuneOptions &options, Database &store);

/// Whether the store knows as much as a tuning with these options would find out.
bool isTuned(const std::vector<std::string> &names, const std::vector<Measurement> &known,
             const AutotuneOptions &options);

/// The toolchain that measures now.
Toolchain toolchainOf(const Device &device);

} // namespace sectile::autotune

#endif
