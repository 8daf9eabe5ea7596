// Moving elements within tiles, on every device: each element must arrive where it belongs.
#include "TileRun.h"
#include <numeric>

using namespace sectile;
using namespace sectile::test;

namespace {

SECTILE_ON_DEVICES(Move);

template <class T> std::vector<T> counting(std::size_t count) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(static_cast<float>(i % 101));
  return values;
}

// function of a tile that holds its elements' numbers; where each element of the result was.
template <class F>
std::vector<int> moved(const Device &device, const Shape &shape, std::size_t results, F function,
                       unsigned warps = 4) {
  std::vector<int> in(elementsOf(shape));
  std::iota(in.begin(), in.end(), 0);
  return runOn<int>(device, in, shape, results, function, warps);
}

TEST_P(Move, JoinAndSplit) {
  for (const Shape &shape :
       {Shape{1}, {32}, {48}, {1024}, {8, 32}, {16, 48}, {3, 80}, {2, 3, 16}}) {
    const std::size_t count = elementsOf(shape);
    SCOPED_TRACE(testing::PrintToString(shape));
    auto joined = moved(device, shape, 2 * count, [](auto x) { return join(x, x + 1000); });
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(joined[2 * i], i);
      ASSERT_EQ(joined[2 * i + 1], i + 1000);
    }
    Shape pairs = shape;
    pairs.push_back(2);
    auto halves = moved(device, pairs, count, [](auto x) {
      auto [a, b] = split(x);
      return a + b * 10000;
    });
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(halves[i], 2 * i + (2 * i + 1) * 10000);
  }
}

template <class T> void checkJoin(const Device &device) {
  const auto in = counting<T>(96);
  auto out = runOn<T>(device, in, {48, 2}, 96, [](auto x) {
    auto [a, b] = split(x);
    return join(b, a);
  });
  for (std::size_t i = 0; i < 96; ++i)
    ASSERT_EQ(out[i], in[i ^ 1]);
}

TEST_P(Move, EveryType) {
  checkJoin<bool>(device);
  checkJoin<std::int8_t>(device);
  checkJoin<std::uint16_t>(device);
  checkJoin<std::int64_t>(device);
  checkJoin<half>(device);
  checkJoin<bfloat16>(device);
  checkJoin<float8_e5m2>(device);
  checkJoin<double>(device);
}

TEST_P(Move, SingleNumbers) {
  Kernel kernel{"numbers", [](Ptr<const int> x, Ptr<int> y) {
                  auto [a, b] = split(load(x + arange(0, 2)));
                  store(y + arange(0, 2), join(b, a));
                  store(y + 2, squeeze(ravel(a * 10 + b), 0));
                }};
  auto out = device.allocate<int>(3);
  kernel.launch(device.stream(), 1, device.upload(std::vector<int>{3, 7}), out);
  EXPECT_THAT(out.download(), testing::ElementsAre(7, 3, 37));
}

TEST_P(Move, InterleaveAndCat) {
  for (const Shape &shape : {Shape{1}, {64}, {48}, {176}, {8, 16}, {16, 48}}) {
    const std::size_t count = elementsOf(shape);
    SCOPED_TRACE(testing::PrintToString(shape));
    auto mixed = moved(device, shape, 2 * count, [](auto x) { return interleave(x, x + 5000); });
    for (std::size_t i = 0; i < 2 * count; ++i)
      ASSERT_EQ(mixed[i], i / 2 + (i % 2) * 5000);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      auto got = moved(device, shape, 2 * count, [axis](auto x) { return cat(x, x + 5000, axis); });
      std::size_t inner = 1;
      for (std::size_t d = axis + 1; d < shape.size(); ++d)
        inner *= static_cast<std::size_t>(shape[d]);
      const std::size_t block = inner * static_cast<std::size_t>(shape[axis]);
      for (std::size_t i = 0; i < 2 * count; ++i)
        ASSERT_EQ(got[i], i / (2 * block) * block + i % block + (i / block % 2) * 5000) << i;
    }
  }
}

// Halves, quarters and single elements, which threads keep, and others, which are gathered.
TEST_P(Move, Slice) {
  for (const Shape &shape : {Shape{64}, {48}, {8, 32}, {16, 48}, {3, 80}, {2, 12, 16}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const int extent = static_cast<int>(shape[axis]);
      std::size_t inner = 1;
      for (std::size_t d = axis + 1; d < shape.size(); ++d)
        inner *= static_cast<std::size_t>(shape[d]);
      std::vector<std::pair<int, int>> parts{
          {0, extent}, {extent - 1, 1}, {extent / 3, extent / 2}};
      for (int count = 2; extent % count == 0 && count <= 4; count *= 2) {
        parts.push_back({0, extent / count});
        parts.push_back({extent - extent / count, extent / count});
      }
      for (auto [begin, length] : parts)
        for (bool traced : {false, true}) {
          SCOPED_TRACE(testing::PrintToString(shape) + " axis " + std::to_string(axis) + " from " +
                       std::to_string(begin) + " " + std::to_string(length));
          const std::size_t count = elementsOf(shape) / static_cast<std::size_t>(extent) *
                                    static_cast<std::size_t>(length);
          auto got = moved(device, shape, count, [=](auto x) {
            return traced ? slice(x, axis, program_id(0) + begin, length)
                          : slice(x, axis, begin, length);
          });
          const std::size_t block = inner * static_cast<std::size_t>(length);
          for (std::size_t i = 0; i < count; ++i)
            ASSERT_EQ(got[i], i / block * inner * static_cast<std::size_t>(extent) +
                                  static_cast<std::size_t>(begin) * inner + i % block);
        }
    }
}

// Columns of a product's sums are registers of each thread.
TEST(SliceOf, SumsMovesNothing) {
  Kernel kernel{"halves", [](View<const half, 2> a, View<const half, 2> b, View<float, 2> c) {
                  auto sums = dot(a.tile(64, 64).load(0, 0), b.tile(64, 128).load(0, 0));
                  auto gate = slice(sums, 1, 0, 64), up = slice(sums, 1, 64, 64);
                  c.tile(64, 64).store(0, 0, gate * up);
                }};
  Kernel whole{"whole", [](View<const half, 2> a, View<const half, 2> b, View<float, 2> c) {
                 auto sums = dot(a.tile(64, 64).load(0, 0), b.tile(64, 128).load(0, 0));
                 c.tile(64, 128).store(0, 0, sums * sums);
               }};
  const Tensor<half, 2> a(nullptr, {64, 64}, {64, 1}), b(nullptr, {64, 128}, {128, 1});
  const Tensor<float, 2> c(nullptr, {64, 128}, {128, 1});
  auto barriers = [](const std::string &text) {
    std::size_t found = 0;
    for (auto at = text.find("bar.sync"); at != text.npos; at = text.find("bar.sync", at + 1))
      ++found;
    return found;
  };
  for (const char *target : {"sm_80", "sm_90a"})
    EXPECT_EQ(barriers(kernel.emit(target, "ptx", a, b, c)),
              barriers(whole.emit(target, "ptx", a, b, c)));
}

TEST_P(Move, Flip) {
  for (const Shape &shape : {Shape{1}, {64}, {80}, {4, 96}, {3, 5, 16}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      SCOPED_TRACE(testing::PrintToString(shape));
      const std::size_t count = elementsOf(shape), extent = static_cast<std::size_t>(shape[axis]);
      auto got = moved(device, shape, count, [axis](auto x) { return flip(x, axis); });
      std::size_t inner = 1;
      for (std::size_t d = axis + 1; d < shape.size(); ++d)
        inner *= static_cast<std::size_t>(shape[d]);
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i / inner % extent;
        ASSERT_EQ(got[i], i + (extent - 1 - at) * inner - at * inner);
      }
    }
}

TEST_P(Move, SqueezeAndRavel) {
  auto got = moved(device, {3, 1, 16}, 48, [](auto x) { return squeeze(x, 1) + 1; });
  auto flat = moved(device, {16, 48}, 768, [](auto x) { return ravel(x) + 1; });
  for (std::size_t i = 0; i < 768; ++i) {
    if (i < 48) {
      ASSERT_EQ(got[i], i + 1);
    }
    ASSERT_EQ(flat[i], i + 1);
  }
}

// Reshapes in which the odd factors of extents change places with powers of two.
TEST_P(Move, Reshapes) {
  for (unsigned warps : {1u, 4u}) {
    auto check = [&](const Shape &from, auto to) {
      auto got = moved(device, from, elementsOf(from), to, warps);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(got[i], i) << testing::PrintToString(from);
    };
    check({16, 48}, [](auto x) { return reshape(x, 768); });
    check({768}, [](auto x) { return reshape(x, 16, 48); });
    check({24, 40}, [](auto x) { return reshape(x, 40, 24); });
    check({5, 7, 8}, [](auto x) { return reshape(x, 8, 35); });
    check({2, 3, 4}, [](auto x) { return reshape(reshape(x, 4, 6), 24); });
    check({13, 16}, [](auto x) { return reshape(reshape(x, 16, 13), 13, 16); });
  }
}

template <class T, class I> void checkGather(const Device &device, unsigned warps) {
  struct Case {
    Shape shape;
    std::size_t axis;
    std::int64_t extent; // of the result along the axis
  };
  for (const Case &c : {Case{{64}, 0, 64},
                        {{48}, 0, 7},
                        {{1}, 0, 32},
                        {{16, 32}, 1, 32},
                        {{16, 32}, 0, 5},
                        {{8, 48}, 1, 80},
                        {{12, 20}, 0, 24},
                        {{2, 3, 8}, 1, 6}}) {
    SCOPED_TRACE(testing::PrintToString(c.shape) + " along " + std::to_string(c.axis));
    Shape shape = c.shape;
    shape[c.axis] = c.extent;
    const std::size_t count = elementsOf(c.shape), results = elementsOf(shape);
    const std::int64_t from = c.shape[c.axis];
    const auto in = counting<T>(count);
    auto got = runOn<T>(
        device, in, c.shape, results,
        [=](auto x) {
          auto index = (numbersOf(shape) * 7 + 3) % from;
          return gather(x, cast<I>(index), c.axis);
        },
        warps);
    std::size_t inner = 1;
    for (std::size_t d = c.axis + 1; d < shape.size(); ++d)
      inner *= static_cast<std::size_t>(shape[d]);
    for (std::size_t i = 0; i < results; ++i) {
      const std::size_t outer = i / (inner * static_cast<std::size_t>(c.extent));
      const std::size_t index = (i * 7 + 3) % static_cast<std::size_t>(from);
      ASSERT_EQ(got[i], in[(outer * static_cast<std::size_t>(from) + index) * inner + i % inner])
          << i;
    }
  }
}

TEST_P(Move, Gather) {
  for (unsigned warps : {1u, 4u, 8u})
    checkGather<float, std::int32_t>(device, warps);
  checkGather<bool, std::int32_t>(device, 4);
  checkGather<half, std::uint8_t>(device, 4);
  checkGather<double, std::int64_t>(device, 4);
}

// The same scratch again and again: nobody may write it before all have read.
TEST_P(Move, GatherInALoop) {
  Kernel kernel{"walk", [](Ptr<int> y, Int steps) {
                  auto i = arange(0, 256);
                  Tile<std::int32_t> next = cast<std::int32_t>((i * 5 + 1) % 256);
                  auto at = cast<std::int32_t>(i);
                  for ([[maybe_unused]] auto step : range(steps))
                    at = gather(next, at, 0);
                  store(y + i, at);
                }};
  auto out = device.allocate<int>(256);
  kernel.launch(device.stream(), 1, out, 5);
  const std::vector<int> got = out.download();
  for (int i = 0; i < 256; ++i) {
    int at = i;
    for (int step = 0; step < 5; ++step)
      at = (at * 5 + 1) % 256;
    ASSERT_EQ(got[static_cast<std::size_t>(i)], at);
  }
}

} // namespace
