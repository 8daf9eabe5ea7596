// register_kernel() adds your kernels to those of the library: run_kernel(), prepare_kernel() and
// the program `sectile` then find them by name.
#pragma once
#include <sectile/kernel_spec.h>
#include <sectile/use.h>
#include <string_view>

namespace sectile {

namespace detail {
// `layout` tells whether the caller's headers have the same structs as the library.
void registerKernel(KernelSpec &kernel, std::string_view family, std::uint64_t layout);
constexpr std::uint64_t descriptionLayout =
    sizeof(KernelSpec) << 48 | sizeof(Invocation) << 32 | sizeof(ArgumentSpec) << 16 |
    (sizeof(OptionSpec) + sizeof(ConfigSpec) + sizeof(SearchSpace) + sizeof(Use));
} // namespace detail

// Adds a kernel under a heading of `sectile list`. It stays until the process ends; do not unload
// the code that it refers to. Any thread may call this. If the name is taken or the description is
// incomplete, it adds nothing and throws InputError, which names the field and the reason.
inline void register_kernel(KernelSpec kernel, std::string_view family = "your own") {
  detail::registerKernel(kernel, family, detail::descriptionLayout);
}

} // namespace sectile

// `sectile --load` calls this function of your shared library once. Define it there to call
// register_kernel() for each of your kernels. It may throw.
extern "C" [[gnu::visibility("default")]] void sectile_register_kernels();
