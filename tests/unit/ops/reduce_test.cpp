// Reductions, on every device: ties, NaN, several axes, every type.
#include "TileRun.h"
#include <cmath>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_ON_DEVICES(Reduce);

template <class T> std::vector<T> someValues(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int x = static_cast<int>(i * 2654435761u >> 9) % 7;
    values[i] = static_cast<T>(static_cast<float>(std::is_unsigned_v<T> ? x : x - 3));
  }
  return values;
}

// Lines along an axis, one after the other.
template <class T>
std::vector<std::vector<T>> linesOf(const std::vector<T> &values, const Shape &shape,
                                    std::size_t axis) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d)
    inner *= static_cast<std::size_t>(shape[d]);
  const std::size_t extent = static_cast<std::size_t>(shape[axis]);
  std::vector<std::vector<T>> lines;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / inner % extent == 0)
      for (std::size_t j = 0; j < extent; ++j)
        (j ? lines.back() : lines.emplace_back()).push_back(values[i + j * inner]);
  return lines;
}

template <class T> void checkArg(const Device &device, const Shape &shape, std::size_t axis) {
  const std::vector<T> in = someValues<T>(elementsOf(shape));
  const auto lines = linesOf(in, shape, axis);
  for (bool largest : {true, false})
    for (Tie tie : {Tie::first, Tie::last}) {
      SCOPED_TRACE(std::string(name_of(dtype_of<T>)) + " " + testing::PrintToString(shape) +
                   " along " + std::to_string(axis) + (largest ? " max" : " min"));
      auto at = runOn<std::int32_t>(device, in, shape, lines.size(), [=](auto x) {
        return largest ? argmax(x, axis, Nan::ignore, tie) : argmin(x, axis, Nan::ignore, tie);
      });
      std::vector<T> value;
      if (tie == Tie::first)
        value = runOn<T>(device, in, shape, lines.size(), [=](auto x) {
          return std::get<0>(largest ? max_with_index(x, axis) : min_with_index(x, axis));
        });
      for (std::size_t i = 0; i < lines.size(); ++i) {
        std::size_t best = 0;
        for (std::size_t j = 1; j < lines[i].size(); ++j) {
          const double x = static_cast<double>(lines[i][j]),
                       y = static_cast<double>(lines[i][best]);
          if ((largest ? x > y : x < y) || (x == y && tie == Tie::last))
            best = j;
        }
        ASSERT_EQ(at[i], best) << i;
        if (tie == Tie::first) {
          ASSERT_EQ(static_cast<double>(value[i]), static_cast<double>(lines[i][best])) << i;
        }
      }
    }
}

TEST_P(Reduce, WhereTheLargestIs) {
  for (const Shape &shape : {Shape{1}, {64}, {48}, {1024}, {4, 80}, {16, 48}, {2, 3, 32}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      checkArg<std::int32_t>(device, shape, axis);
  checkArg<std::int8_t>(device, {4, 48}, 1);
  checkArg<std::uint64_t>(device, {4, 48}, 1);
  checkArg<half>(device, {4, 48}, 1);
  checkArg<bfloat16>(device, {4, 48}, 1);
  checkArg<float>(device, {4, 48}, 0);
  checkArg<double>(device, {4, 48}, 1);
}

TEST_P(Reduce, Nan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  auto at = [&](const std::vector<float> &in, auto function) {
    return runOn<std::int32_t>(device, in, {static_cast<std::int64_t>(in.size())}, 1, function)[0];
  };
  const std::vector<float> some{1, nan, 5, nan, 5, -2, 0, -2}, none(8, nan);
  EXPECT_EQ(at(some, [](auto x) { return argmax(x, 0); }), 2);
  EXPECT_EQ(at(some, [](auto x) { return argmin(x, 0); }), 5);
  EXPECT_EQ(at(some, [](auto x) { return argmax(x, 0, Nan::propagate); }), 1);
  EXPECT_EQ(at(some, [](auto x) { return argmin(x, 0, Nan::propagate, Tie::last); }), 3);
  EXPECT_EQ(at(none, [](auto x) { return argmax(x, 0); }), 0);
  EXPECT_EQ(at(none, [](auto x) { return argmin(x, 0, Nan::ignore, Tie::last); }), 7);
}

TEST_P(Reduce, SeveralAxes) {
  const Shape shape{4, 3, 16};
  const auto in = someValues<std::int32_t>(192);
  std::vector<std::int32_t> sums(3), least(64, 1000), most(64, -1000);
  std::int32_t all = 0;
  for (std::size_t i = 0; i < 192; ++i) {
    sums[i / 16 % 3] += in[i];
    all += in[i];
    const std::size_t column = i / 48 * 16 + i % 16;
    least[column] = std::min(least[column], in[i]);
    most[column] = std::max(most[column], in[i]);
  }
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 3, [](auto x) { return sum(x, {0, 2}); }), sums);
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 3, [](auto x) { return sum(x, {-1, 0}); }),
            sums);
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 64, [](auto x) { return min(x, {1}); }), least);
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 64, [](auto x) { return max(x, {1}); }), most);
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 1, [](auto x) { return sum(x, {0, 1, 2}); })[0],
            all);
  EXPECT_EQ(runOn<std::int32_t>(
                device, in, shape, 3,
                [](auto x) { return reduce(x, {0, 2}, [](auto a, auto b) { return a + b; }); }),
            sums);
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 3,
                                [](auto x) {
                                  auto [a, b] =
                                      sectile::reduce(std::tuple(x, x * 2), {0, 2},
                                                      [](auto a1, auto b1, auto a2, auto b2) {
                                                        return std::tuple(a1 + a2, b1 + b2);
                                                      });
                                  return b - a;
                                }),
            sums);
}

// x -> a x + b, one after the other.
struct Map {
  std::uint32_t a = 1, b = 0;
  Map then(const Map &next) const { return {a * next.a, b * next.a + next.b}; }
};

TEST_P(Reduce, InOrderWhereTheCombinerDoesNotCommute) {
  auto then = [](auto a, auto b, auto c, auto d) { return std::tuple(a * c, b * c + d); };
  for (const Shape &shape : {Shape{96}, {1024}, {7, 20}, {4, 8, 16}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      SCOPED_TRACE(testing::PrintToString(shape) + " along " + std::to_string(axis));
      const unsigned warps = shape.size() == 3 ? 2 : 1;
      std::vector<std::uint32_t> in(elementsOf(shape));
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<std::uint32_t>(i * 2654435761u) >> 5 | 1;
      const auto lines = linesOf(in, shape, axis);
      const auto got = runOn<std::uint32_t>(
          device, in, shape, lines.size(),
          [=](auto x) {
            return std::get<1>(sectile::reduce(std::tuple(x, x >> 3u), int(axis), then));
          },
          warps);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        Map all;
        for (std::uint32_t x : lines[i])
          all = all.then({x, x >> 3});
        ASSERT_EQ(got[i], all.b) << i;
      }
    }
  std::vector<std::uint32_t> in(3 * 64 * 4);
  Map all;
  for (std::uint32_t i = 0; i < in.size(); ++i)
    all = all.then({in[i] = i * 2654435761u | 1, (i * 2654435761u | 1) >> 3});
  const auto whole = runOn<std::uint32_t>(device, in, {3, 64, 4}, 1, [=](auto x) {
    return std::get<1>(sectile::reduce(std::tuple(x, x >> 3u), {0, 1, 2}, then));
  });
  EXPECT_EQ(whole[0], all.b);
}

TEST_P(Reduce, TheOthers) {
  const Shape shape{8, 48};
  std::vector<std::int32_t> in(384);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<std::int32_t>(i * 2654435761u >> 3);
  const auto lines = linesOf(in, shape, 1);
  auto products = runOn<std::int32_t>(device, in, shape, 8, [](auto x) { return prod(x | 1, 1); });
  auto xors = runOn<std::int32_t>(device, in, shape, 8, [](auto x) { return xor_sum(x, 1); });
  auto some = runOn<bool>(device, in, shape, 8, [](auto x) { return any(x % 48 == 7, 1); });
  auto every = runOn<bool>(device, in, shape, 8, [](auto x) { return all(x % 48 != 7, 1); });
  std::int32_t whole = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint32_t product = 1;
    std::int32_t bits = 0;
    bool found = false;
    for (std::int32_t x : lines[i]) {
      product *= static_cast<std::uint32_t>(x | 1);
      bits ^= x;
      found |= x % 48 == 7;
    }
    EXPECT_EQ(static_cast<std::uint32_t>(products[i]), product);
    EXPECT_EQ(xors[i], bits);
    EXPECT_EQ(some[i], found);
    EXPECT_EQ(every[i], !found);
    whole ^= bits;
  }
  EXPECT_EQ(runOn<std::int32_t>(device, in, shape, 1, [](auto x) { return xor_sum(x); })[0], whole);
  EXPECT_TRUE(runOn<bool>(device, in, shape, 1, [](auto x) { return any(x != 0); })[0]);
  EXPECT_FALSE(runOn<bool>(device, in, shape, 1, [](auto x) { return all(x != 0); })[0]);
  const std::vector<half> halves(64, half(1.5f));
  EXPECT_EQ(
      static_cast<float>(runOn<half>(device, halves, {64}, 1, [](auto x) { return sum(x); })[0]),
      96);
}

TEST_P(Reduce, Softmax) {
  const auto in = someValues<float>(16 * 48);
  auto got = runOn<float>(device, in, {16, 48}, in.size(), [](auto x) {
    auto e = exp(x - expand(max(x, 1), 1));
    return e / expand(sum(e, 1), 1);
  });
  const auto lines = linesOf(in, {16, 48}, 1);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    double sum = 0;
    for (float x : lines[i])
      sum += std::exp(static_cast<double>(x) - 3);
    for (std::size_t j = 0; j < 48; ++j)
      EXPECT_NEAR(got[i * 48 + j], std::exp(static_cast<double>(lines[i][j]) - 3) / sum, 1e-6);
  }
}

} // namespace
