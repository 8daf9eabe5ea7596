// What is known of arguments, as bits, in words and as facts of a launch plan.
#include "runtime/LaunchFacts.h"

namespace sectile::runtime {

BoundKind boundKindOf(int64_t indexBound) {
  return !indexBound ? noBound : detail::fits_index32(indexBound + 1) ? someIndices : allIndices;
}

std::vector<uint8_t> countingBits(std::span<const detail::ArgSpec> specs, BoundKind bound) {
  // Eight elements of 16 bits are a vector of the widest accesses, and what the copy engine needs.
  constexpr uint8_t ofAddress = divisible16, ofInteger = divisible16 | divisible8 | isOne;
  const uint8_t ofIndex = ofInteger | is32bit | (bound != noBound ? isBelow : 0);
  const uint8_t ofExtent = ofInteger | is32bit | (bound == allIndices ? isBelow : 0);
  std::vector<uint8_t> masks;
  for (const detail::ArgSpec &spec : specs)
    switch (spec.kind) {
    case detail::ArgKind::pointer:
      masks.push_back(ofAddress);
      break;
    case detail::ArgKind::index:
      masks.push_back(ofIndex);
      break;
    case detail::ArgKind::scalar:
      masks.push_back(spec.dtype >= DType::int8 && spec.dtype <= DType::uint64 ? ofInteger : 0);
      break;
    case detail::ArgKind::view:
      masks.push_back(ofAddress);
      masks.insert(masks.end(), spec.rank, ofExtent);
      masks.insert(masks.end(), spec.rank, ofIndex);
      break;
    }
  return masks;
}

std::string describe(const std::vector<detail::ArgSpecialization> &arguments) {
  std::string text;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto &argument = arguments[i];
    std::string one;
    if (argument.value)
      one = "=" + std::to_string(*argument.value);
    else if (argument.divisor > 1)
      one = ":" + std::to_string(argument.divisor);
    if (!argument.is32bit)
      one += ":64bit";
    if (argument.below && !argument.value)
      one += ":<" + std::to_string(argument.below);
    if (!one.empty())
      text += " " + std::to_string(i) + one;
  }
  return text;
}

std::vector<detail::ArgSpecialization> specializations(std::span<const uint8_t> masks,
                                                       const uint64_t *words, int64_t indexBound) {
  std::vector<detail::ArgSpecialization> result;
  for (size_t i = 0; i < masks.size(); ++i) {
    const uint64_t bits = knownBits(words[i], static_cast<uint64_t>(indexBound)) & masks[i];
    detail::ArgSpecialization argument;
    argument.divisor = bits & divisible16 ? 16 : bits & divisible8 ? 8 : 1;
    argument.is32bit = bits & is32bit || !(masks[i] & is32bit); // only an index can need more
    argument.below = bits & isBelow ? indexBound : 0;
    if (bits & isOne)
      argument.value = 1;
    result.push_back(argument);
  }
  return result;
}

std::vector<ArgumentFacts> factsOf(const std::vector<detail::ArgSpecialization> &arguments,
                                   std::span<const uint8_t> masks) {
  std::vector<ArgumentFacts> result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const detail::ArgSpecialization &argument = arguments[i];
    ArgumentFacts &facts = result.emplace_back();
    facts.divisor = argument.divisor;
    if (masks[i] & is32bit && argument.is32bit)
      facts.low = -(facts.high = int64_t(1) << 30);
    if (argument.below)
      facts.low = 0, facts.high = argument.below - 1;
    if (argument.value)
      facts.low = facts.high = *argument.value;
  }
  return result;
}

} // namespace sectile::runtime
