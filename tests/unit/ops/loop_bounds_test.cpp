// Loops whose bounds lie near the ends of their type, or further apart than it counts with a sign.
#include "../Processes.h"
#include "Devices.h"
#include <array>
#include <limits>
#include <random>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(LoopBounds);

struct Bounds {
  std::int64_t begin, end, step;
};

std::ostream &operator<<(std::ostream &out, const Bounds &b) {
  return out << b.begin << " to " << b.end << " by " << b.step;
}

/// Of at most nine iterations, the last of which plus the step stays in the type T.
template <class T> Bounds drawBounds(std::mt19937_64 &random) {
  constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  auto upTo = [&](std::uint64_t limit) { return limit ? random() % limit : 0; };
  const T begin = std::array<T, 6>{T(least + T(upTo(4))),     T(most - T(upTo(40))),
                                   T(T(upTo(9)) - 4),         T(random()),
                                   T(least / 2 - T(upTo(4))), T(most / 2 + T(upTo(4)))}[upTo(6)];
  // Distances are exact without a sign.
  const std::uint64_t distance =
      std::uint64_t(std::int64_t(most)) - std::uint64_t(std::int64_t(begin));
  const std::uint64_t trips = std::min<std::uint64_t>(upTo(10), distance);
  if (trips == 0)
    return {begin, std::int64_t(T(least + T(upTo(2) ? 0 : begin / 2 - least / 2))),
            1 + T(upTo(most))};
  const std::uint64_t longest = std::min<std::uint64_t>(distance / trips, std::uint64_t(most));
  const std::uint64_t step =
      upTo(2) ? longest - upTo(std::min<std::uint64_t>(longest, 3)) : 1 + upTo(longest);
  const std::uint64_t last = std::uint64_t(std::int64_t(begin)) + (trips - 1) * step;
  return {begin, std::int64_t(last + 1 + upTo(step)), std::int64_t(step)};
}

std::vector<std::int64_t> expected(const Bounds &b) {
  std::int64_t value = 1, trips = 0, last = -77;
  for (std::int64_t i = b.begin; i < b.end; i += b.step, ++trips)
    value = (value * 3 + (last = i) % 1009) % 1000003;
  return {value, trips, last};
}

/// The same in a kernel: with bounds of the host, or of its arguments.
template <class Bound>
void fold(sc::Ptr<std::int64_t> out, Bound begin, Bound end, Bound step, sc::LoopOptions hints,
          bool nested) {
  sc::Tile<std::int64_t> value = 1, trips = 0, last = -77;
  auto body = [&](const sc::Int &i) {
    last = i;
    value = (value * 3 + last % 1009) % 1000003;
    trips += 1;
  };
  if (nested)
    for ([[maybe_unused]] auto round : sc::range(0, 3)) {
      value = 1, trips = 0, last = -77;
      for (auto i : sc::range(begin, end, step, hints))
        body(i);
    }
  else
    for (auto i : sc::range(begin, end, step, hints))
      body(i);
  sc::store(out, value);
  sc::store(out + 1, trips);
  sc::store(out + 2, last);
}

const std::vector<sc::LoopOptions> allHints = {
    {}, {.unroll = 2}, {.unroll = 4}, {.unroll = 7}, {.flatten = true}, {.stages = 3}};

template <class T> void checkNearEnds(const sc::Device &device, unsigned count) {
  std::mt19937_64 random(sizeof(T));
  auto out = device.allocate<std::int64_t>(3);
  for (const sc::LoopOptions &hints : allHints)
    for (bool nested : {false, true}) {
      sc::Kernel kernel{"bounds",
                        [=](sc::Ptr<std::int64_t> out, sc::Int begin, sc::Int end, sc::Int step) {
                          fold(out, begin, end, step, hints, nested);
                        }};
      for (unsigned i = 0; i < count; ++i) {
        const Bounds b = drawBounds<T>(random);
        kernel.launch(device.stream(), 1, out, b.begin, b.end, b.step);
        ASSERT_EQ(out.download(), expected(b)) << b << " unroll " << hints.unroll;
      }
      for (unsigned i = 0; i < count / 3; ++i) {
        const Bounds b = drawBounds<T>(random);
        sc::Kernel constant{"constant_bounds", [=](sc::Ptr<std::int64_t> out) {
                              fold(out, b.begin, b.end, b.step, hints, nested);
                            }};
        constant.launch(device.stream(), 1, out);
        ASSERT_EQ(out.download(), expected(b)) << "constants " << b << " unroll " << hints.unroll;
      }
    }
}

TEST_P(LoopBounds, NearTheEndsOf32Bits) {
  checkNearEnds<std::int32_t>(device, sectile::test::count(9, 60));
}
TEST_P(LoopBounds, NearTheEndsOf64Bits) {
  checkNearEnds<std::int64_t>(device, sectile::test::count(9, 60));
}

// The language's own examples: bounds more than half of the type apart.
TEST_P(LoopBounds, FurtherApartThanHalfTheType) {
  sc::Kernel kernel{"far", [](sc::Ptr<int> out) {
                      sc::Int far = 0, unrolled = 0, one = 0;
                      for ([[maybe_unused]] auto i : sc::range(-1610612736, 1610612736, 1 << 29))
                        far = far + 1;
                      for ([[maybe_unused]] auto i :
                           sc::range(-1073741824, 1073741823, 1 << 29, {.unroll = 4}))
                        unrolled = unrolled + 1;
                      for ([[maybe_unused]] auto i : sc::range(-2147483647 - 1, -1, 2147483647))
                        one = one + 1;
                      sc::store(out, sc::cast<int>(far));
                      sc::store(out + 1, sc::cast<int>(unrolled));
                      sc::store(out + 2, sc::cast<int>(one));
                    }};
  auto out = device.allocate<int>(3);
  kernel.launch(device.stream(), 1, out);
  EXPECT_EQ(out.download(), (std::vector<int>{6, 4, 1}));
}

} // namespace
