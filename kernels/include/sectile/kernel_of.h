// kernelOf: the kernel of a function that a caller's types are part of, as an epilogue's lambda is.
#pragma once
#include <sectile/kernel.h>
#include <string>
#include <string_view>
#include <typeinfo>

namespace sectile::detail {

// `name` and a hash of a type's name.
std::string nameWithType(std::string_view name, std::string_view type);

// One for each function. Bundles find code by a kernel's name and the types of its arguments; the
// caller's types are part of the name, as nothing else tells two such kernels apart.
template <class Function> const Kernel<Function> &kernelOf(std::string_view name) {
  static const std::string own = nameWithType(name, typeid(Function).name());
  static const Kernel<Function> kernel{own.c_str(), {}};
  return kernel;
}

} // namespace sectile::detail
