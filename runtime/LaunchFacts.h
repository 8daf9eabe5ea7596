// What code may depend on of a launch's arguments: a few bits of each.
#ifndef SECTILE_RUNTIME_LAUNCHFACTS_H
#define SECTILE_RUNTIME_LAUNCHFACTS_H

#include "runtime/Artifact.h"
#include "runtime/CompileOptions.h"
#include "runtime/DeviceImpl.h"
#include <sectile/kernel.h>
#include <span>
#include <string>
#include <vector>

namespace sectile::runtime {

/// What is known of one flattened argument, five bits of a key.
inline constexpr uint64_t divisible16 = 1, is32bit = 2, isOne = 4, isBelow = 8, divisible8 = 16;
inline uint64_t knownBits(uint64_t value, uint64_t indexBound) {
  return (value % 16 == 0 ? divisible16 : 0) | (value % 8 == 0 ? divisible8 : 0) |
         (detail::fits_index32(static_cast<int64_t>(value)) ? is32bit : 0) |
         (value == 1 ? isOne : 0) | (value < indexBound ? isBelow : 0);
}

/// How an index bound (Chip::indexBound) compares with what 32 bits are used for,
/// detail::fits_index32.
enum BoundKind : unsigned { noBound, someIndices, allIndices, boundKinds };
BoundKind boundKindOf(int64_t indexBound);

/// Which of the bits count, for every flattened argument. What else would be another variant of the
/// code for nothing: that indices and strides are below a bound where no access has another form
/// for it, and that extents are where they may be anything else but negative.
std::vector<uint8_t> countingBits(std::span<const detail::ArgSpec> specs, BoundKind bound);

/// What is known of arguments, for the trace, and in words: "0:16 3=1 4:64bit 5:16:<1048576".
std::vector<detail::ArgSpecialization> specializations(std::span<const uint8_t> masks,
                                                       const uint64_t *words, int64_t indexBound);
std::string describe(const std::vector<detail::ArgSpecialization> &arguments);

/// What code that is specialised like this may assume of a launch's arguments.
std::vector<ArgumentFacts> factsOf(const std::vector<detail::ArgSpecialization> &arguments,
                                   std::span<const uint8_t> masks);

/// Everything that decides which loaded kernel a launch needs.
class LaunchWords {
public:
  LaunchWords(const DeviceImpl &device, std::span<const uint8_t> masks,
              const detail::PackedLaunch &packed, const CompileOptions &options,
              unsigned longAxis = 0) {
    words[count++] = reinterpret_cast<uintptr_t>(&device);
    words[count++] =
        options.warps | static_cast<uint64_t>(options.stages) << 32 |
        static_cast<uint64_t>(options.plans) << 59 | static_cast<uint64_t>(longAxis) << 60 |
        static_cast<uint64_t>(options.debug) << 62 | static_cast<uint64_t>(options.checked) << 63;
    const auto indexBound = static_cast<uint64_t>(device.indexBound());
    for (size_t i = 0; i < masks.size();) {
      uint64_t bits = 0;
      const size_t end = std::min<size_t>(masks.size(), i + argumentsPerWord);
      for (unsigned shift = 0; i < end; ++i, shift += bitsEach)
        bits |= (knownBits(packed.words[i], indexBound) & masks[i]) << shift;
      words[count++] = bits;
    }
    for (size_t i = 0; i < packed.configCount; ++i)
      words[count++] = packed.configWords[i];
  }
  std::span<const uint64_t> get() const { return {words, count}; }

private:
  // Of an argument.
  static constexpr unsigned bitsEach = 5, argumentsPerWord = 64 / bitsEach;

  uint64_t words[2 + (detail::maxArguments + argumentsPerWord - 1) / argumentsPerWord +
                 detail::maxConfigFields];
  size_t count = 0;
};

} // namespace sectile::runtime

#endif
