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

/// What is known of one flattened argument, six bits of a key.
inline constexpr uint64_t divisible16 = 1, is32bit = 2, isOne = 4, isBelow = 8, divisible8 = 16,
                          distinct = 32;

/// Which of the bits count for an argument. The address of a view whose distinctness counts has the
/// view's rank, too: extents and strides are the arguments that follow.
struct ArgumentMask {
  uint8_t bits = 0, rank = 0;
};

/// What counts of the first of these words.
inline uint64_t knownBits(ArgumentMask mask, const uint64_t *words, uint64_t indexBound) {
  const uint64_t value = *words;
  const uint64_t bits = (value % 16 == 0 ? divisible16 : 0) | (value % 8 == 0 ? divisible8 : 0) |
                        (detail::fits_index32(static_cast<int64_t>(value)) ? is32bit : 0) |
                        (value == 1 ? isOne : 0) | (value < indexBound ? isBelow : 0);
  const bool isDistinct = mask.rank && areDistinct(mask.rank, words + 1, words + 1 + mask.rank);
  return (bits | (isDistinct ? distinct : 0)) & mask.bits;
}

/// How an index bound (Chip::indexBound) compares with what 32 bits are used for,
/// detail::fits_index32.
enum BoundKind : unsigned { noBound, someIndices, allIndices, boundKinds };
BoundKind boundKindOf(int64_t indexBound);

/// Which of the bits count, for every flattened argument. What else would be another variant of the
/// code for nothing: that indices and strides are below a bound where no access has another form
/// for it, and that extents are where they may be anything else but negative. Integers of 64 bits
/// are no sizes, as a rule, but seeds and steps, and Varying<T> says so of others. Whether elements
/// of a view have different addresses counts where the kernel may write to it.
std::vector<ArgumentMask> countingBits(std::span<const detail::ArgSpec> specs, BoundKind bound);

/// What is known of arguments, for the trace, and in words:
/// "0:16:distinct 3=1 4:64bit 5:16:<1048576".
std::vector<detail::ArgSpecialization> specializations(std::span<const ArgumentMask> masks,
                                                       const uint64_t *words, int64_t indexBound);
std::string describe(const std::vector<detail::ArgSpecialization> &arguments);

/// What code that is specialised like this may assume of a launch's arguments.
std::vector<ArgumentFacts> factsOf(const std::vector<detail::ArgSpecialization> &arguments,
                                   std::span<const ArgumentMask> masks);

/// Everything that decides which loaded kernel a launch needs.
class LaunchWords {
public:
  LaunchWords(const DeviceImpl &device, std::span<const ArgumentMask> masks,
              const detail::PackedLaunch &packed, const CompileOptions &options,
              unsigned longAxis = 0) {
    words[count++] = reinterpret_cast<uintptr_t>(&device);
    words[count++] =
        options.warps | static_cast<uint64_t>(options.stages) << 32 |
        static_cast<uint64_t>(options.plans) << 59 | static_cast<uint64_t>(longAxis) << 60 |
        static_cast<uint64_t>(options.debug) << 62 | static_cast<uint64_t>(options.checked) << 63;
    words[count++] = options.maxRegisters | static_cast<uint64_t>(options.minPrograms) << 32;
    const auto indexBound = static_cast<uint64_t>(device.indexBound());
    for (size_t i = 0; i < masks.size();) {
      uint64_t bits = 0;
      const size_t end = std::min<size_t>(masks.size(), i + argumentsPerWord);
      for (unsigned shift = 0; i < end; ++i, shift += bitsEach)
        bits |= knownBits(masks[i], packed.words + i, indexBound) << shift;
      words[count++] = bits;
    }
    for (size_t i = 0; i < packed.configCount; ++i)
      words[count++] = packed.configWords[i];
  }
  std::span<const uint64_t> get() const { return {words, count}; }
  /// All but what is known of the arguments.
  std::vector<uint64_t> others(size_t arguments) const {
    std::vector<uint64_t> result(words, words + firstArgument);
    result.insert(result.end(),
                  words + firstArgument + (arguments + argumentsPerWord - 1) / argumentsPerWord,
                  words + count);
    return result;
  }

private:
  // Of an argument.
  static constexpr unsigned firstArgument = 3, bitsEach = 6, argumentsPerWord = 64 / bitsEach;

  uint64_t words[firstArgument + (detail::maxArguments + argumentsPerWord - 1) / argumentsPerWord +
                 detail::maxConfigFields];
  size_t count = 0;
};

} // namespace sectile::runtime

#endif
