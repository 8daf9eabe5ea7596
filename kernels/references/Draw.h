// Contents for inputs that depend on the call, drawn number by number, for ArgumentSpec::sample.
#pragma once
#include "kernels/references/Sample.h"

namespace sectile {

// From 0 up to, without it, `count`.
inline std::int64_t drawBelow(std::mt19937_64 &random, std::int64_t count) {
  return static_cast<std::int64_t>(random() %
                                   static_cast<std::uint64_t>(std::max<std::int64_t>(count, 1)));
}

// Numbers that draw(call, random) gives one by one.
template <class Draw> auto sampleEach(Draw draw) {
  return [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    fillDrawn(array, [&] { return static_cast<double>(draw(call, random)); });
  };
}

} // namespace sectile
