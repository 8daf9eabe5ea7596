// What docs/language.md promises of sums of fp8 products ("Sums of fp8 products"), for tests.
#ifndef SECTILE_TESTS_UNIT_FP8SUMS_H
#define SECTILE_TESTS_UNIT_FP8SUMS_H

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace sectile::test {

/// How far off the sum of products of e4m3 with the default precision may be.
inline double boundOfE4m3Sum(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t group = 128, step = 32;
  constexpr double leastNormal = 0x1p-6;
  auto magnitude = [&](float value) {
    return value == 0 ? 0 : std::max(std::fabs(double(value)), leastNormal);
  };
  double bound = 0, all = 0;
  for (std::size_t first = 0; first < a.size(); first += group) {
    const std::size_t end = std::min(first + group, a.size());
    double largest = 0, partial = 0;
    for (std::size_t k = first; k < end; ++k) {
      partial += double(a[k]) * b[k];
      largest = std::max(largest, magnitude(a[k]) * magnitude(b[k]));
      if ((k + 1) % step == 0 || k + 1 == end)
        largest = std::max(largest, std::fabs(partial));
      all += std::fabs(double(a[k]) * b[k]);
    }
    // Partial sums are off themselves by no more than all that was lost.
    const double lost = double(end - first + 2 * group / step - 1) * 0x1p-13 * largest;
    bound += lost * (1 + double(end - first + 7) * 0x1p-13);
  }
  return bound + double(a.size() / group + 1) * 0x1p-23 * all;
}

} // namespace sectile::test

#endif
