// Calls of flash::attend and flash::backward with drawn scores and visibilities, against float64.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace sectile::fuzz {

/// What the device does and the reference does not.
enum class Spoilt { Nothing, Score, Sight };

/// What is wrong with a call that follows from its seed, on a virtual device or the interpreter, or
/// nothing. At most one in a process, whose kernels are in its memory alone (SECTILE_CACHE_DIR is
/// empty): what they are traced of is not in the key of a launch.
std::optional<std::string> attentionCase(uint64_t seed, const std::string &device,
                                         Spoilt spoilt = Spoilt::Nothing);

} // namespace sectile::fuzz
