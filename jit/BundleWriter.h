// BundleWriter: bundles of what was compiled.
#ifndef SECTILE_JIT_BUNDLEWRITER_H
#define SECTILE_JIT_BUNDLEWRITER_H

#include "runtime/Bundle.h"
#include <map>

namespace sectile::runtime {

/// What bundles that this program writes say of it, as JSON.
std::string aboutBundles();

/// Makes a bundle. Equal codes are kept once.
class BundleWriter {
public:
  /// `about` is for people, as JSON. Compressed code needs libzstd where it is launched.
  explicit BundleWriter(std::string about, bool compresses = false)
      : about(std::move(about)), compresses(compresses) {}
  /// Adds a variant, unless it is there already. Throws InputError for another kernel's code for
  /// the same launches.
  void add(const BundleKey &key, const Artifact &artifact);
  void add(const BundledChoice &choice);
  /// The whole file.
  std::string bytes() const;

private:
  struct Kernel {
    std::string name;
    std::vector<detail::ArgSpec> signature;
  };
  std::vector<Kernel> kernels;
  std::vector<std::string> variants;
  std::vector<std::string> codes;
  std::vector<BundledChoice> choices;
  std::map<std::string, uint32_t> codeNumbers;
  std::map<std::string, std::string> irHashes; ///< by the launches that a variant is for
  std::string about;
  bool compresses;
};

} // namespace sectile::runtime

#endif
