// BundleBuilder: compiles what a bundle is to have, for chips that need not be there.
#pragma once
#include "jit/BundleWriter.h"
#include "kernels/Registry.h"
#include <deque>
#include <sectile/bundle.h>
#include <set>

namespace sectile {

class BundleBuilder {
public:
  // A target is a chip ("sm_90a"), or its virtual device on this machine ("virtual:sm_90a").
  struct Options {
    bool onlyLikeThese = false; // no code for arguments of which less is known
    bool machineCode = false;   // of NVIDIA's chips, beside PTX
  };
  // Throws InputError for a target that there is not, or where a ptxas is needed and missing.
  BundleBuilder(const std::vector<std::string> &targets, Options options);

  // A call with this configuration, where it is given, and the kernel's own choice for the rest.
  void add(const Invocation &call, const Config &given);
  // What SECTILE_BUNDLE names.
  void add(std::string_view kernel, const BundledCalls &calls);
  void add(const detail::BoundLaunch &launch, bool hasArguments);

  const runtime::BundleWriter &writer() const { return writer_; }
  // Why kernels have no code for any arguments, a sentence each.
  const std::vector<std::string> &gaps() const { return gaps_; }

private:
  struct Place {
    const Chip *chip;
    bool isVirtual;
    std::set<std::pair<const void *, std::string>> compiled; // kernels with what they assume
  };
  void add(const detail::BoundLaunch &launch, Place &place, bool hasArguments);
  void compile(const detail::BoundLaunch &launch, Place &place);

  const Options options_;
  std::deque<Place> places_;
  runtime::BundleWriter writer_;
  std::vector<std::string> gaps_;
};

// What SECTILE_BUNDLE has declared in this process, in order.
const std::vector<void (*)(BundleContents &)> &declaredBundles();

} // namespace sectile
