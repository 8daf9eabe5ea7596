// Contents for inputs that nobody gave: what ArgumentSpec::sample fills arrays with.
#pragma once
#include "kernels/references/HostArray.h"
#include <algorithm>
#include <numeric>
#include <sectile/kernel_spec.h>

namespace sectile {

// Numbers that draw() gives one by one. Large arrays repeat themselves, with a prime period: no two
// rows of one are equal, and drawing the numbers does not take longer than the kernel.
template <class Draw> void fillDrawn(HostArray &array, Draw &&draw) {
  constexpr std::int64_t period = 1'048'573;
  HostArray drawn(array.dtype, {std::min(array.count(), period)});
  std::vector<double> values(static_cast<std::size_t>(drawn.count()));
  for (double &value : values)
    value = draw();
  drawn.assign(values);
  for (std::size_t at = 0; at < array.data.size(); at += drawn.data.size())
    std::copy_n(drawn.data.begin(), std::min(drawn.data.size(), array.data.size() - at),
                array.data.begin() + static_cast<std::ptrdiff_t>(at));
}

// For ArgumentSpec::sample: numbers within a range,
inline auto sampleUniform(double from, double to) {
  return [=](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    std::uniform_real_distribution<double> number(from, to);
    fillDrawn(array, [&] { return number(random); });
  };
}
// integers within a range, its ends included,
inline auto sampleIntegers(int from, int to) {
  return [=](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    std::uniform_int_distribution<int> number(from, to);
    fillDrawn(array, [&] { return number(random); });
  };
}
// boundaries of packed sequences, of lengths that differ, some of them 0, along that axis,
inline auto sampleBoundaries(const char *axis) {
  return [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const auto ends = array.as<std::int32_t>();
    const auto length = static_cast<std::uint64_t>(call.extent(axis));
    for (std::size_t i = 1; i < ends.size(); ++i)
      ends[i] = static_cast<std::int32_t>(random() % (length + 1));
    std::ranges::sort(ends);
    if (ends.size() > 1)
      ends.back() = static_cast<std::int32_t>(length);
  };
}
// rows of a pool of so many, each once, and now and then none,
inline auto sampleRows(const char *axis) {
  return [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(call.extent(axis)));
    std::iota(rows.begin(), rows.end(), 0);
    std::ranges::shuffle(rows, random);
    const auto to = array.as<std::int32_t>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = i < rows.size() && random() % 8 != 0 ? rows[i] : -1;
  };
}
// and normal numbers with this deviation, or such integers where the array has integers.
inline auto sampleNormal(double deviation, int from = -127, int to = 127) {
  return [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    if (!is_floating(array.dtype))
      return sampleIntegers(from, to)(call, array, random);
    std::normal_distribution<double> number;
    fillDrawn(array, [&] { return deviation * number(random); });
  };
}

} // namespace sectile
