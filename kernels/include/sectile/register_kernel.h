// Kernels of your own beside the library's: run_kernel() and prepare_kernel() find them by name,
// and so does the program `sectile --load libmine.so`.
#pragma once
#include <sectile/kernel_spec.h>
#include <sectile/use.h>
#include <string_view>

namespace sectile {

namespace detail {
// `layout` is how large the descriptions are for whoever made this one.
void registerKernel(KernelSpec &kernel, std::string_view family, std::uint64_t layout);
constexpr std::uint64_t descriptionLayout =
    sizeof(KernelSpec) << 48 | sizeof(Invocation) << 32 | sizeof(ArgumentSpec) << 16 |
    (sizeof(OptionSpec) + sizeof(ConfigSpec) + sizeof(SearchSpace) + sizeof(Use));
} // namespace detail

// Adds a kernel under a heading of `sectile list`. It stays until the process ends, and so must the
// code that its description refers to. May be called from any thread. Throws InputError, and adds
// nothing, where the name is taken or the description is not whole: it says which field, and why.
inline void register_kernel(KernelSpec kernel, std::string_view family = "your own") {
  detail::registerKernel(kernel, family, detail::descriptionLayout);
}

} // namespace sectile

// `sectile --load` looks for this function in the shared library and calls it once. Define it
// there; it calls register_kernel() for each kernel, and may throw.
extern "C" [[gnu::visibility("default")]] void sectile_register_kernels();
