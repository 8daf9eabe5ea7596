// The form of the log that a kernel's assertions and prints are written into, as the device and the
// host see it, and the attributes by which passes, code generation and runtime agree on it.
#ifndef SECTILE_RUNTIME_DEBUGLOG_H
#define SECTILE_RUNTIME_DEBUGLOG_H

#include <cstdint>
#include <string_view>

namespace sectile::debuglog {

/// What begins the log. `used` counts the bytes of records, those that did not fit included.
struct Head {
  uint64_t used, capacity, dropped, failures;
};

/// A failed assertion. A program has one at most, since it ends there.
struct Failure {
  uint32_t site;
  uint32_t index; ///< of the element, in row-major order; noIndex for a condition of one element
  uint64_t launch;
  uint32_t program[3];
  uint32_t written; ///< 1
};

/// What begins a printed record. The values follow, each from a multiple of `alignment` bytes on,
/// with their elements in row-major order as memory holds them (bools as bytes, pointers as 64
/// bits).
struct Record {
  uint32_t bytes; ///< with this head, a multiple of `alignment`; 0 where no record begins
  uint32_t site;
  uint64_t launch;
  uint32_t program[3];
  uint32_t unused;
};

inline constexpr uint32_t noIndex = ~uint32_t{0};
inline constexpr uint32_t alignment = 16;
/// Failures beyond these are only counted.
inline constexpr uint32_t maxFailures = 64;
inline constexpr uint32_t failuresAt = sizeof(Head);
inline constexpr uint32_t recordsAt = failuresAt + maxFailures * sizeof(Failure);

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// On a kernel: what its assertions and prints are (an array of dictionaries, one per site). Such a
/// kernel has two arguments more than it was written with: the log's address, and a number of 64
/// bits that tells the launch.
inline constexpr std::string_view sitesAttr = "tile.debug_sites";
/// On a kernel before lower-debug: assertions and prints are left out.
inline constexpr std::string_view withoutAttr = "tile.without_debug";
/// On a kernel: arithmetic that feeds addresses is checked for overflow, and promises are verified.
inline constexpr std::string_view checkedAttr = "tile.checked";

} // namespace sectile::debuglog

#endif
