// Configurations in a sealed program: what its bundles say of such calls, else the kernel's own.
#include "kernels/tuning/Choices.h"
#include "kernels/tuning/KnownConfigs.h"
#include "runtime/Bundle.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace sectile;

namespace {

// Of extents by name, as the database's neighbours: the sum of |log2 of their ratio|. Infinite
// where the names are others.
double distance(const NamedExtents &a, const NamedExtents &b) {
  constexpr double never = std::numeric_limits<double>::infinity();
  if (a.size() != b.size())
    return never;
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first)
      return never;
    const auto logarithm = [](std::int64_t extent) {
      return std::log2(static_cast<double>(std::max<std::int64_t>(extent, 1)));
    };
    sum += std::abs(logarithm(a[i].second) - logarithm(b[i].second));
  }
  return sum;
}

struct Candidate {
  std::pair<double, std::size_t> rank; // how far, then in the bundles' order
  bool isTuned;
  KnownConfig known;
};

struct Candidates {
  std::string target; // of the code
  std::vector<Candidate> all;
};

// What bundles say of such calls on the target whose code this chip takes, the nearest first.
Candidates candidatesFor(const Invocation &call, const std::string &chip) {
  const KernelSpec &kernel = *call.kernel;
  const std::string kind = kindOf(call);
  const NamedExtents bucket = bucketOf(call);
  Candidates result{chip, {}};
  std::vector<Candidate> &all = result.all;
  int best = 0; // how well these choices' targets suit
  for (const auto &source : *runtime::codeSources())
    for (const runtime::BundledChoice &choice : source->choices()) {
      const int suits = runtime::suitability(choice.target, chip);
      if (!suits || suits < best || choice.kernel != kernel.name || choice.kind != kind)
        continue;
      if (suits > best) {
        result = {choice.target, {}};
        best = suits;
      }
      const double far = distance(bucket, choice.bucket);
      if (std::optional<Config> config = parseDescribed(kernel, choice.config);
          config && std::isfinite(far))
        all.push_back({{far, all.size()}, choice.isTuned, {std::move(*config), choice.order}});
    }
  std::ranges::sort(all, {}, &Candidate::rank);
  return result;
}

// The first of these that the call may take.
template <class Filter>
std::optional<Config> firstOf(const std::vector<Candidate> &candidates, const Invocation &call,
                              const std::string &target, const Config &own, Filter filter) {
  for (const Candidate &candidate : candidates)
    if (filter(candidate) && mayTake(call, target, candidate.known, own))
      return candidate.known.config;
  return std::nullopt;
}

} // namespace

Config sectile::configFor(const Invocation &call, const Device &device) {
  // As on the chip that the code is for: an older one, perhaps.
  const auto [target, candidates] = candidatesFor(call, device.target());
  Config own = ownChoice(call, target);
  const bool mayBeTuned = autotune_mode() != AutotuneMode::off;
  if (std::optional<Config> tuned =
          firstOf(candidates, call, target, own,
                  [&](const Candidate &one) { return mayBeTuned && one.isTuned; }))
    return *tuned;
  const auto isOwn = [&](const Candidate &one) { return one.known.config == own; };
  if (std::ranges::any_of(candidates, isOwn))
    return own;
  // There is no code for the own choice, as far as such calls go.
  return firstOf(candidates, call, target, own, [](const Candidate &) { return true; })
      .value_or(std::move(own));
}

std::uint64_t sectile::choicesRecorded() { return runtime::codeSources()->size(); }
