// Making values: programs and their grid, constants, tiles of them, other readings of bits.
#include "Devices.h"
#include <bit>
#include <cstdint>
#include <gmock/gmock.h>

using namespace sectile;
using testing::Each;
using testing::ElementsAre;

namespace {

SECTILE_ON_DEVICES(Values);

TEST_P(Values, IdsAndExtentsOfTheGrid) {
  Kernel kernel{"ids", [](Ptr<int> out) {
                  auto place = (program_id(2) * num_programs(1) + program_id(1)) * num_programs(0) +
                               program_id(0);
                  store(out + place, 100 * program_id(0) + 10 * program_id(1) + program_id(2));
                }};
  auto out = device.allocate<int>(12);
  kernel.launch(device.stream(), {3, 2, 2}, out);
  EXPECT_THAT(out.download(), ElementsAre(0, 100, 200, 10, 110, 210, 1, 101, 201, 11, 111, 211));
}

TEST_P(Values, GroupedOrder) {
  Kernel kernel{"order", [](Ptr<int> out, Int rows, Int columns) {
                  auto tile = grouped_order(program_id(0), {rows, columns}, 2);
                  store(out + program_id(0), 10 * tile[0] + tile[1]);
                }};
  auto out = device.allocate<int>(6);
  kernel.launch(device.stream(), 6, out, 3, 2);
  // Rows in groups of two, columns one after the other; the last group has one row.
  EXPECT_THAT(out.download(), ElementsAre(0, 10, 1, 11, 20, 21));
}

// Two numbers have the type that tiles of their types would have.
TEST_P(Values, ChoiceOfNumbers) {
  Kernel kernel{"choice", [](Ptr<int> whole, Ptr<float> real, Ptr<std::int64_t> wide, Int n) {
                  auto i = arange(0, 8);
                  auto chosen = where(i < n, 1, 0);
                  static_assert(std::same_as<decltype(chosen), Tile<int>>);
                  auto mixed = where(i < n, 1, 0.5f);
                  static_assert(std::same_as<decltype(mixed), Tile<float>>);
                  auto large = where(n < 4, std::int64_t{1} << 40, -1);
                  static_assert(std::same_as<decltype(large), Tile<std::int64_t>>);
                  static_assert(std::same_as<decltype(where(i < n, 1.0, 0)), Tile<double>>);
                  static_assert(std::same_as<decltype(where(i < n, true, false)), Tile<bool>>);
                  store(whole + i, chosen);
                  store(real + i, mixed);
                  store(wide, large);
                  store(wide + 1, where(n > 4, 7, 8));
                }};
  auto whole = device.allocate<int>(8);
  auto real = device.allocate<float>(8);
  auto wide = device.allocate<std::int64_t>(2);
  kernel.launch(device.stream(), 1, whole, real, wide, 3);
  EXPECT_THAT(whole.download(), ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
  EXPECT_THAT(real.download(), ElementsAre(1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5));
  EXPECT_THAT(wide.download(), ElementsAre(std::int64_t{1} << 40, 8));
}

template <class T> void checkMade(const Device &device) {
  Kernel kernel{"made", [](Ptr<T> out, Tile<T> number) {
                  auto i = arange(0, 48);
                  store(out + i, full<T>(3, 48));
                  store(out + 48 + i, zeros<T>(48));
                  store(out + 96 + i, full<T>(number, 48));
                  store(out + 144 + i, full_like(zeros<T>(48), 2));
                  store(out + 192 + i, zeros_like(full<T>(number, 48)));
                  store(out + 240, full<T>(1));
                  store(out + 241 + expand(arange(0, 1), 0), full<T>(5, 1, 1));
                }};
  auto out = device.allocate<T>(242);
  kernel.launch(device.stream(), 1, out, static_cast<T>(7));
  const std::vector<T> got = out.download();
  for (int part = 0; part < 5; ++part)
    for (int i = 0; i < 48; ++i)
      ASSERT_EQ(static_cast<float>(got[static_cast<size_t>(part * 48 + i)]),
                (std::vector<float>{3, 0, 7, 2, 0}[static_cast<size_t>(part)]));
  EXPECT_EQ(static_cast<float>(got[240]), 1);
  EXPECT_EQ(static_cast<float>(got[241]), 5);
}

TEST_P(Values, Made) {
  checkMade<std::int8_t>(device);
  checkMade<std::uint64_t>(device);
  checkMade<float>(device);
  checkMade<double>(device);
  checkMade<half>(device);
}

TEST_P(Values, Bitcast) {
  Kernel kernel{"bits", [](Ptr<const float> x, Ptr<std::uint32_t> bits, Ptr<float> back,
                           Ptr<std::int16_t> halves) {
                  auto i = arange(0, 80);
                  auto value = load(x + i);
                  store(bits + i, bitcast<std::uint32_t>(value));
                  store(back + i, bitcast<float>(bitcast<std::uint32_t>(value)));
                  store(halves + i, bitcast<std::int16_t>(cast<half>(value)));
                }};
  std::vector<float> x;
  for (int i = 0; i < 80; ++i)
    x.push_back(static_cast<float>(i - 40) * 0.25f);
  x[40] = -0.0f;
  auto bits = device.allocate<std::uint32_t>(80);
  auto back = device.allocate<float>(80);
  auto halves = device.allocate<std::int16_t>(80);
  kernel.launch(device.stream(), 1, device.upload(x), bits, back, halves);
  const std::vector<std::uint32_t> words = bits.download();
  EXPECT_EQ(back.download(), x);
  const std::vector<std::int16_t> narrow = halves.download();
  for (size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(words[i], std::bit_cast<std::uint32_t>(x[i]));
    EXPECT_EQ(narrow[i], std::bit_cast<std::int16_t>(half(x[i])));
  }
}

TEST_P(Values, Cdiv) {
  Kernel kernel{"cdiv", [](Ptr<int> out, Int by) {
                  store(out + arange(0, 9), cdiv(arange(0, 9), by));
                  store(out + 9, cdiv(by, 2));
                }};
  auto out = device.allocate<int>(10);
  kernel.launch(device.stream(), 1, out, 4);
  EXPECT_THAT(out.download(), ElementsAre(0, 1, 1, 1, 1, 2, 2, 2, 2, 2));
}

} // namespace
