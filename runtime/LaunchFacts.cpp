// What is known of arguments, as bits, in words and as facts of a launch plan.
#include "runtime/LaunchFacts.h"

namespace sectile::runtime {

BoundKind boundKindOf(int64_t indexBound) {
  return !indexBound ? noBound : detail::fits_index32(indexBound + 1) ? someIndices : allIndices;
}

std::vector<ArgumentMask> countingBits(std::span<const detail::ArgSpec> specs, BoundKind bound) {
  // Eight elements of 16 bits are a vector of the widest accesses, and what the copy engine needs.
  constexpr uint8_t ofAddress = divisible16, ofInteger = divisible16 | divisible8 | isOne;
  const uint8_t ofIndex = ofInteger | is32bit | (bound != noBound ? isBelow : 0);
  const uint8_t ofExtent = ofInteger | is32bit | (bound == allIndices ? isBelow : 0);
  std::vector<ArgumentMask> masks;
  for (const detail::ArgSpec &spec : specs) {
    const uint8_t varies = spec.varying ? ofInteger : 0;
    const auto without = [&](uint8_t bits) { return ArgumentMask{uint8_t(bits & ~varies)}; };
    switch (spec.kind) {
    case detail::ArgKind::pointer:
      masks.push_back({ofAddress});
      break;
    case detail::ArgKind::index:
      masks.push_back(without(ofIndex));
      break;
    case detail::ArgKind::scalar: {
      const bool isInteger = spec.dtype >= DType::int8 && spec.dtype <= DType::uint64;
      masks.push_back(without(isInteger && size_of(spec.dtype) < 8 ? ofInteger : 0));
      break;
    }
    case detail::ArgKind::view:
      // A vector with another stride than 0 has different elements anyway.
      masks.push_back(spec.readonly || spec.rank == 1
                          ? ArgumentMask{ofAddress}
                          : ArgumentMask{ofAddress | distinct, spec.rank});
      masks.insert(masks.end(), spec.rank, without(ofExtent));
      masks.insert(masks.end(), spec.rank, {ofIndex});
      break;
    }
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
    if (argument.distinct)
      one += ":distinct";
    if (argument.below && !argument.value)
      one += ":<" + std::to_string(argument.below);
    if (!one.empty())
      text += " " + std::to_string(i) + one;
  }
  return text;
}

std::vector<detail::ArgSpecialization> specializations(std::span<const ArgumentMask> masks,
                                                       const uint64_t *words, int64_t indexBound) {
  std::vector<detail::ArgSpecialization> result;
  for (size_t i = 0; i < masks.size(); ++i) {
    const uint64_t bits = knownBits(masks[i], words + i, static_cast<uint64_t>(indexBound));
    detail::ArgSpecialization argument;
    argument.divisor = bits & divisible16 ? 16 : bits & divisible8 ? 8 : 1;
    argument.is32bit = bits & is32bit || !(masks[i].bits & is32bit); // only an index can need more
    argument.below = bits & isBelow ? indexBound : 0;
    argument.distinct = bits & distinct;
    if (bits & isOne)
      argument.value = 1;
    result.push_back(argument);
  }
  return result;
}

std::vector<ArgumentFacts> factsOf(const std::vector<detail::ArgSpecialization> &arguments,
                                   std::span<const ArgumentMask> masks) {
  std::vector<ArgumentFacts> result;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const detail::ArgSpecialization &argument = arguments[i];
    ArgumentFacts &facts = result.emplace_back();
    facts.divisor = argument.divisor;
    facts.distinct = argument.distinct ? masks[i].rank : 0;
    if (masks[i].bits & is32bit && argument.is32bit)
      facts.low = -(facts.high = int64_t(1) << 30);
    if (argument.below)
      facts.low = 0, facts.high = argument.below - 1;
    if (argument.value)
      facts.low = facts.high = *argument.value;
  }
  return result;
}

} // namespace sectile::runtime
