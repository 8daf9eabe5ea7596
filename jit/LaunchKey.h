// What identifies a launch before its kernel is traced: the key of the launch index.
#ifndef SECTILE_JIT_LAUNCHKEY_H
#define SECTILE_JIT_LAUNCHKEY_H

#include "codegen/Compiler.h"
#include <optional>
#include <sectile/kernel.h>
#include <span>
#include <string>
#include <string_view>

namespace sectile::runtime {

enum class LaunchIndexMode {
  Off,
  On,
  Check, ///< kernels are traced all the same, and what the index says is compared
};

/// SECTILE_LAUNCH_INDEX: 0, 1 (without it) or check.
LaunchIndexMode launchIndexMode();

/// All that the trace of a kernel can depend on and that is known beforehand: the program's code,
/// by the build IDs of what the kernel can call, and where in it the kernel is; configuration and
/// specialisation; target, options and compiler. Nothing where the kernel's lambda captures, or
/// where the program's code cannot be named.
std::optional<std::string> launchKey(const detail::KernelDesc &kernel, const std::string &target,
                                     const CompileOptions &options, unsigned longAxis,
                                     const std::string &specialization,
                                     std::span<const uint64_t> configWords);

/// The name of the kernel that such a key is of.
std::string kernelOfLaunch(std::string_view key);

} // namespace sectile::runtime

#endif
