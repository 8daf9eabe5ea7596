// Gather and scatter of rows of views.
#include "Devices.h"
#include <limits>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(Rows);

template <class T> std::vector<T> counting(size_t count) {
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i)
    result[i] = static_cast<T>(static_cast<float>(i % 251));
  return result;
}

// Rows within the view and beyond both of its ends.
template <class I> std::vector<I> chosen(int count, int rows) {
  std::vector<I> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<I>(static_cast<int>(i * 7 % size_t(rows + 5)) - 2);
  return result;
}

template <class T, class I> void checkGather(const sc::Device &device, int m, int n) {
  constexpr int rows = 23, columns = 37;
  sc::Kernel kernel{"gather",
                    [=](sc::View<const T, 2> x, sc::Ptr<const I> rows, sc::View<T, 2> out) {
                      auto chosen = sc::load(rows + sc::arange(0, m));
                      auto j = sc::program_id(0);
                      auto tiles = x.tile(m, n);
                      out.tile(m, n).store(0, j, tiles.gather(chosen, j));
                      out.tile(m, n).store(1, j, tiles.padding(7).gather_at(chosen, j * n - 3));
                    }};
  const std::vector<T> x = counting<T>(rows * columns);
  const std::vector<I> places = chosen<I>(m, rows);
  const int blocks = (columns + n - 1) / n, width = blocks * n;
  auto given = device.upload(x);
  auto out = device.allocate<T>(size_t(2 * m * width));
  kernel.launch(device.stream(), unsigned(blocks), sc::tensor(given, {rows, columns}),
                device.upload(places), sc::tensor(out, {2 * m, width}));
  const std::vector<T> got = out.download();
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < width; ++j) {
      auto want = [&](int column, float padding) {
        const auto row = static_cast<std::int64_t>(places[size_t(i)]);
        bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
        return inside ? static_cast<float>(x[size_t(row * columns + column)]) : padding;
      };
      ASSERT_EQ(static_cast<float>(got[size_t(i * width + j)]), want(j, 0)) << i << ", " << j;
      ASSERT_EQ(static_cast<float>(got[size_t((m + i) * width + j)]), want(j - 3, 7))
          << i << ", " << j;
    }
}

TEST_P(Rows, Gather) {
  checkGather<float, std::int32_t>(device, 32, 16);
  checkGather<sc::half, std::int64_t>(device, 48, 64);
  checkGather<std::uint8_t, std::int16_t>(device, 1, 1);
  checkGather<double, std::int8_t>(device, 16, 24);
}

TEST_P(Rows, GatherBools) {
  sc::Kernel kernel{"bools", [](sc::View<const bool, 2> x, sc::Ptr<int> out) {
                      auto i = sc::arange(0, 4), j = sc::arange(0, 8);
                      auto got = x.tile(4, 8).padding(true).gather(3 - i * 2, 0);
                      sc::store(out + sc::expand(i, 1) * 8 + j, sc::cast<int>(got));
                    }};
  auto x = device.allocate<bool>(32);
  std::vector<unsigned char> bytes(32);
  for (size_t k = 0; k < 32; ++k)
    bytes[k] = k % 3 == 0;
  x.memory().upload(bytes.data());
  auto out = device.allocate<int>(32);
  kernel.launch(device.stream(), 1, sc::tensor(x, {4, 8}), out);
  const std::vector<int> got = out.download();
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j) {
      int row = 3 - 2 * i;
      EXPECT_EQ(got[size_t(i * 8 + j)], row < 0 ? 1 : bytes[size_t(row * 8 + j)]);
    }
}

TEST_P(Rows, Scatter) {
  constexpr int rows = 23, columns = 37, m = 16, n = 32;
  sc::Kernel kernel{"scatter", [](sc::View<const float, 2> x, sc::Ptr<const int> rows,
                                  sc::View<sc::half, 2> out) {
                      auto chosen = sc::load(rows + sc::arange(0, m));
                      auto j = sc::program_id(0);
                      out.tile(m, n).scatter(chosen, j, x.tile(m, n).load(0, j)); // converts
                      out.tile(1, n).scatter_at(sc::full<int>(22, 1), j * n - 5, 9);
                    }};
  std::vector<int> places(m);
  for (int i = 0; i < m; ++i)
    places[size_t(i)] = i * 3 - 4; // -4 … 41, each once
  const std::vector<float> x = counting<float>(m * columns);
  auto given = device.upload(x);
  auto out = device.upload(std::vector<sc::half>(rows * columns, sc::half(-1)));
  kernel.launch(device.stream(), 2, sc::tensor(given, {m, columns}), device.upload(places),
                sc::tensor(out, {rows, columns}));
  std::vector<float> want(rows * columns, -1);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < columns; ++j)
      if (int row = places[size_t(i)]; row >= 0 && row < rows)
        want[size_t(row * columns + j)] = x[size_t(i * columns + j)];
  for (int j = 0; j < columns; ++j)
    want[size_t(22 * columns + j)] = 9;
  const std::vector<sc::half> got = out.download();
  for (size_t k = 0; k < got.size(); ++k)
    ASSERT_EQ(float(got[k]), want[k]) << k / columns << ", " << k % columns;
}

TEST_P(Rows, OfOneAndOfThreeAxes) {
  sc::Kernel kernel{"ranks", [](sc::View<float, 1> x, sc::View<float, 3> y, sc::Ptr<float> out) {
                      auto i = sc::arange(0, 8);
                      auto line = x.tile(8).gather((i * 3) % 8);
                      sc::barrier(); // others may still read what is written next
                      x.tile(8).scatter(7 - i, line * 2);
                      auto cube = y.tile(2, 4, 8).gather(sc::arange(1, 3), 1, 0);
                      auto sums = sc::sum(sc::reshape(cube, 8, 8), 1);
                      sc::store(out + i, sums);
                    }};
  auto x = device.upload(counting<float>(8));
  auto y = device.upload(counting<float>(3 * 7 * 8));
  auto out = device.allocate<float>(8);
  kernel.launch(device.stream(), 1, sc::tensor(x, {8}), sc::tensor(y, {3, 7, 8}), out);
  const std::vector<float> line = x.download(), sums = out.download();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(line[7 - i], 2.0f * static_cast<float>(i * 3 % 8));
    float want = 0;
    const size_t plane = 1 + i / 4, row = 4 + i % 4;
    for (size_t k = 0; row < 7 && k < 8; ++k)
      want += static_cast<float>((plane * 7 + row) * 8 + k);
    EXPECT_EQ(sums[i], want);
  }
}

// Rows so far apart that 32 bits would not do, though the numbers of the rows fit.
TEST_P(Rows, OffsetsOf64Bits) {
  constexpr std::int64_t stride = 1024, first = 5'000'000;
  sc::Kernel kernel{"wide", [](sc::Ptr<float> p, sc::Ptr<float> out) {
                      auto i = sc::arange(0, 8);
                      sc::View<float, 2> view(p - sc::Tile<std::int64_t>(first * stride),
                                              {sc::Int(first + 4), sc::Int(16)},
                                              {sc::Tile<std::int64_t>(stride), 1});
                      auto got = view.tile(8, 16).gather(i + first, 0);
                      sc::store(out + sc::expand(i, 1) * 16 + sc::arange(0, 16), got);
                      sc::barrier();
                      view.tile(8, 16).scatter(i + first, 0, got + 1);
                    }};
  auto p = device.upload(counting<float>(4 * stride));
  auto out = device.allocate<float>(8 * 16);
  kernel.launch(device.stream(), 1, p, out);
  const std::vector<float> before = counting<float>(4 * stride), after = p.download(),
                           got = out.download();
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 16; ++j) {
      EXPECT_EQ(got[i * 16 + j], i < 4 ? before[i * stride + j] : 0);
      if (i < 4) {
        EXPECT_EQ(after[i * stride + j], before[i * stride + j] + 1);
      }
    }
}

} // namespace
