// What a bundle is built of, as functions of C11 over sectile.h.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/kernel.h>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

class BundleHeader {
public:
  // A launch of a kernel of the user's.
  void add(const detail::BoundLaunch &launch);
  // A kernel that is called by its name.
  void add(const KernelSpec &kernel);

  // The header's text. Its functions' names begin with `prefix` and an underscore; what is no
  // letter or digit becomes an underscore, too.
  std::string text(std::string_view prefix) const;

private:
  struct Configuration {
    std::vector<std::pair<std::string, std::string>> fields; // with warps and stages
    friend bool operator==(const Configuration &, const Configuration &) = default;
  };
  struct Kernel {
    std::string name;
    std::vector<detail::ArgSpec> signature;
    std::vector<Configuration> configurations;
  };
  std::vector<Kernel> kernels_;
  std::vector<const KernelSpec *> operations_;
};

} // namespace sectile
