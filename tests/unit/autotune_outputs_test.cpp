// Whether two candidates wrote the same: by type, with tolerances, and said in a sentence.
#include "autotune/Outputs.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>

using namespace sectile;
using namespace sectile::autotune;

namespace {

// What comparing an output of such elements says; empty where it is right.
template <class T>
std::string compare(const std::vector<T> &expected, const std::vector<T> &actual,
                    std::optional<double> tolerance = std::nullopt) {
  auto bytes = [](const std::vector<T> &values) {
    std::vector<char> result(values.size() * sizeof(T));
    std::memcpy(result.data(), values.data(), result.size());
    return OutputBytes{result};
  };
  const ExpectedOutputs outputs({{3, dtype_of<T>, 0, expected.size() * sizeof(T)}},
                                bytes(expected));
  return outputs.compare(bytes(actual), tolerance).value_or("");
}

template <class T> std::vector<T> floats(std::initializer_list<float> values) {
  std::vector<T> result;
  for (float value : values)
    result.push_back(static_cast<T>(value));
  return result;
}

template <class T> void holdsItsTolerance() {
  const float within = static_cast<float>(0.6 * toleranceOf(dtype_of<T>));
  const float beyond = static_cast<float>(2.5 * toleranceOf(dtype_of<T>));
  const auto expected = floats<T>({1, 1, 1, 1});
  EXPECT_EQ(compare(expected, floats<T>({1, 1 + within, 1, 1 - within})), "");
  EXPECT_NE(compare(expected, floats<T>({1, 1, 1 + beyond, 1})), "") << name_of(dtype_of<T>);
}

TEST(Outputs, FloatsMayDifferByTheirTolerance) {
  holdsItsTolerance<float8_e4m3>();
  holdsItsTolerance<float8_e5m2>();
  holdsItsTolerance<float8_e4m3fnuz>();
  holdsItsTolerance<float8_e5m2fnuz>();
  holdsItsTolerance<float8_e4m3b11fnuz>();
  holdsItsTolerance<half>();
  holdsItsTolerance<bfloat16>();
  holdsItsTolerance<float>();
  EXPECT_EQ(compare<double>({1, 2}, {1, 2 + 1e-10}), "");
  EXPECT_EQ(compare<double>({1, 2}, {1, 2.0001}),
            "argument 3: 1 of 2 elements differ from the reference configuration's; element 1 is "
            "2.0001 instead of 2");
}

TEST(Outputs, SmallElementsAreHeldAgainstTheTypicalOne) {
  // A sum that cancels is as far off as its summands are large.
  EXPECT_EQ(compare<float>({100, -100, 0, 100}, {100, -100, 0.1f, 100}), "");
  EXPECT_NE(compare<float>({1, -1, 0, 1}, {1, -1, 0.1f, 1}), "");
  EXPECT_EQ(compare<float>({1, -1, 0, 1}, {1, -1, 0.1f, 1}, 0.2), "");
  EXPECT_NE(compare<float>({100, -100, 0, 100}, {100, -100, 0.1f, 100}, 0), "");
}

TEST(Outputs, WhatIsNoNumberMeetsItsLike) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(compare<float>({nan, 1}, {-nan, 1}), "");
  EXPECT_NE(compare<float>({nan, 1}, {1, 1}), "");
  EXPECT_NE(compare<float>({1, 1}, {nan, 1}), "");
  EXPECT_EQ(compare<float>({infinity, 1}, {infinity, 1}), "");
  EXPECT_NE(compare<float>({infinity, 1}, {-infinity, 1}), "");
  EXPECT_NE(compare<float>({1, infinity}, {infinity, infinity}), "");
  EXPECT_NE(compare<float>({1, infinity}, {1, 5}), "");
  EXPECT_EQ(compare<float>({0.0f, 1}, {-0.0f, 1}), "");
}

TEST(Outputs, IntegersAreExact) {
  EXPECT_EQ(compare<std::int32_t>({5, -7}, {5, -7}), "");
  EXPECT_EQ(compare<std::int32_t>({5, -7}, {5, -8}, 0.5),
            "argument 3: 1 of 2 elements differ from the reference configuration's; element 1 is "
            "-8 instead of -7");
  EXPECT_EQ(compare<std::uint8_t>({250, 1}, {251, 2}),
            "argument 3: 2 of 2 elements differ from the reference configuration's; element 0 is "
            "251 instead of 250");
  EXPECT_NE(compare<std::int64_t>({1}, {std::int64_t{1} << 40}), "");
}

} // namespace
