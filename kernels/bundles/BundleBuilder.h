// BundleBuilder: compiles what a bundle is to have, for chips that need not be there.
#pragma once
#include "autotune/Database.h"
#include "jit/BundleWriter.h"
#include "kernels/bundles/BundleHeader.h"
#include "kernels/registry/Registry.h"
#include <deque>
#include <exception>
#include <memory>
#include <sectile/bundle.h>
#include <set>

namespace sectile {

class BundleBuilder {
public:
  // A target is a chip ("sm_90a"), or its virtual device ("virtual:sm_90a").
  struct Options {
    bool onlyLikeThese = false; // no code for arguments of which less is known
    bool compresses = false;    // the code, which then needs libzstd where it is launched
    bool machineCode = false;   // of NVIDIA's chips, beside PTX
  };
  // Throws InputError for a target that there is not, or where a ptxas is needed and missing.
  BundleBuilder(const std::vector<std::string> &targets, Options options);

  // Has measurements choose the configurations of calls, on all targets or on one: those of a file
  // that `sectile cache export` wrote, or of a database. Throws InputError for a file that cannot
  // be read, and where it has measurements of several products and `products` names none of them.
  void tuneBy(const std::string &file, const std::vector<std::string> &products,
              std::string_view target = {});

  // A call with this configuration, and the kernel's own choice for the rest. Where none is given,
  // it is what was measured, else the kernel's own choice, and a sealed program learns of it.
  void add(const Invocation &call, const Config &given);
  // What SECTILE_BUNDLE names.
  void add(std::string_view kernel, const BundledCalls &calls);
  void add(const detail::BoundLaunch &launch, bool hasArguments);

  // Compiles what was added, on all cores; what the compile cache has is taken from it. Throws
  // CompileError, LaunchError.
  void finish();
  // What was compiled: all of it after finish().
  const runtime::BundleWriter &writer() const { return writer_; }
  // Functions of C for all that was added.
  const BundleHeader &header() const { return header_; }
  // Why kernels have no code for any arguments, a sentence each.
  const std::vector<std::string> &gaps() const { return gaps_; }

private:
  struct Place {
    const Chip *chip;
    bool isVirtual;
    std::set<std::pair<const void *, std::string>> added; // kernels with what they assume
    struct Measured {
      std::shared_ptr<autotune::Database> database;
      std::string product;
    };
    std::vector<Measured> measured;
  };
  Config choose(const Invocation &call, const Place &place);
  void add(const detail::BoundLaunch &launch, Place &place, bool hasArguments);
  // Code that is to be compiled.
  struct Job {
    detail::BoundLaunch launch;
    const Place *place;
    bool mayLack; // else the bundle is of no use without it
    std::vector<std::pair<runtime::BundleKey, Artifact>> made;
    std::string gap;
    std::exception_ptr failure;
  };
  void plan(const detail::BoundLaunch &launch, Place &place, bool mayLack);
  void compile(Job &job) const;

  const Options options_;
  std::deque<Place> places_;
  std::deque<Job> jobs_;
  runtime::BundleWriter writer_;
  BundleHeader header_;
  std::vector<std::string> gaps_;
};

// What SECTILE_BUNDLE has declared in this process, in order.
const std::vector<void (*)(BundleContents &)> &declaredBundles();

} // namespace sectile
