// Loops, run: bounds of every kind, hints, tiles that loops carry, loops in loops and branches.
#include "Devices.h"
#include "tests/unit/LoopPlans.h"
#include <cmath>
#include <numeric>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(Loops);

/// Begin, end and step of a loop.
struct Bounds {
  std::int64_t begin, end, step;
};
const std::vector<Bounds> bounds32 = {{0, 0, 1},   {0, 1, 1},   {0, 7, 1},    {5, 5, 1},
                                      {5, 3, 1},   {-4, 4, 1},  {-9, -2, 3},  {-3, -8, 2},
                                      {0, 12, 3},  {0, 13, 3},  {0, 14, 3},   {2, 3, 100},
                                      {-7, 20, 5}, {100, 8, 4}, {-64, 64, 16}};

/// What the body of a loop does with i, in order: the order of iterations shows.
std::int64_t fold(std::int64_t value, std::int64_t i) { return (value * 3 + i) % 1000003; }

std::vector<std::int64_t> expected(const Bounds &b) {
  std::int64_t value = 1, trips = 0, last = -77;
  for (std::int64_t i = b.begin; i < b.end; i += b.step, ++trips)
    value = fold(value, last = i);
  return {value, trips, last};
}

template <class Hints>
void checkBounds(const sc::Device &device, const std::vector<Bounds> &all, Hints hints) {
  sc::Kernel kernel{"bounds",
                    [=](sc::Ptr<std::int64_t> out, sc::Int begin, sc::Int end, sc::Int step) {
                      sc::Tile<std::int64_t> value = 1, trips = 0, last = -77;
                      for (auto i : sc::range(begin, end, step, hints)) {
                        last = i;
                        value = (value * 3 + last) % 1000003;
                        trips += 1;
                      }
                      sc::store(out, value);
                      sc::store(out + 1, trips);
                      sc::store(out + 2, last);
                    }};
  auto out = device.allocate<std::int64_t>(3);
  for (const Bounds &b : all) {
    kernel.launch(device.stream(), 1, out, b.begin, b.end, b.step);
    EXPECT_EQ(out.download(), expected(b)) << b.begin << " to " << b.end << " by " << b.step;
  }
}

TEST_P(Loops, Bounds) { checkBounds(device, bounds32, sc::LoopOptions{}); }

TEST_P(Loops, BoundsOf64Bits) {
  const std::int64_t far = std::int64_t{1} << 40;
  checkBounds(device,
              {{far, far + 5, 1},
               {-far - 4, -far + 3, 2},
               {-far, far, far / 2},
               {far, -far, 1},
               {far, far, 7},
               {-(std::int64_t{1} << 62), std::int64_t{1} << 62, std::int64_t{1} << 60}},
              sc::LoopOptions{});
}

TEST_P(Loops, UnrolledLoopsRunAsOften) {
  for (int unroll : {1, 2, 3, 4, 8})
    checkBounds(device, bounds32, sc::LoopOptions{.unroll = unroll});
  const std::int64_t far = std::int64_t{1} << 40;
  checkBounds(device, {{far, far + 5, 1}, {-far, far, far / 2}, {-far - 4, -far + 3, 2}},
              sc::LoopOptions{.unroll = 3});
}

TEST_P(Loops, OtherHintsChangeNothing) {
  checkBounds(
      device, {{0, 7, 1}, {3, 1, 1}},
      sc::LoopOptions{.warp_specialize = true, .disallow_acc_multi_buffer = true, .flatten = true});
}

TEST_P(Loops, ConstantBounds) {
  sc::Kernel kernel{"constant_bounds", [](sc::Ptr<int> out) {
                      sc::Tile<int> sum = 0, down = 0, product = 1;
                      for (auto i : sc::range(-6, 6, 2, {.unroll = 3}))
                        sum = sum * 2 + sc::cast<int>(i);
                      for (auto i : sc::range(0, 7, {.unroll = 7}))
                        sum += sc::cast<int>(i);
                      for (auto i : sc::range(5, 5, {.unroll = 2}))
                        sum += sc::cast<int>(i) * 1000;
                      for (auto i : sc::static_range(10, 0, -3))
                        down = down * 10 + i;
                      for (auto i : sc::static_range(1, 5))
                        product *= i;
                      for ([[maybe_unused]] auto i : sc::static_range(0))
                        product = 0;
                      sc::store(out, sum);
                      sc::store(out + 1, down);
                      sc::store(out + 2, product);
                    }};
  auto out = device.allocate<int>(3);
  kernel.launch(device.stream(), 1, out);
  int sum = 0;
  for (int i = -6; i < 6; i += 2)
    sum = sum * 2 + i;
  EXPECT_EQ(out.download(), (std::vector<int>{sum + 21, 10741, 24}));
}

//===-- Loads ahead -------------------------------------------------------------------------===//

struct Ahead {
  int stages = 0, width = 64, unroll = 0;
};
SECTILE_CONFIG(Ahead, stages, width, unroll)

/// Sums rows of x chunk by chunk, times a page of a table that memory names, beyond whose end there
/// are ones, plus a number; the pointer to the numbers is one that the loop carries.
sc::Kernel loadsAhead{
    "loads_ahead", [](sc::View<const float, 2> x, sc::Ptr<const float> table, sc::Int size,
                      sc::Ptr<const int> pages, sc::Ptr<const sc::half> numbers,
                      sc::View<float, 2> out, sc::Int begin, sc::Int end, const Ahead &form) {
      auto row = sc::program_id(0);
      auto sums = sc::zeros<float>(form.width);
      sc::Ptr<const sc::half> number = numbers + begin;
      sc::Tile<float> largest = 0;
      for (auto i : sc::range(begin, end, {.stages = form.stages, .unroll = form.unroll})) {
        auto chunk = x.at(row).tile(form.width).load(i);
        auto at = sc::cast<int>(sc::load(pages + i)) * form.width + sc::arange(0, form.width);
        auto page = sc::load(table + at, at < size, 1.0f);
        sums += chunk * page + sc::cast<float>(sc::load(number));
        largest = sc::maximum(largest, sc::max(chunk));
        number = number + 1;
      }
      out.tile(1, form.width).store(row, 0, sc::expand(sums + largest, 0));
    }};

TEST_P(Loops, LoadsRunAhead) {
  constexpr int rows = 3, chunks = 7;
  for (const Ahead form :
       {Ahead{2, 64}, {3, 64}, {4, 256}, {3, 48}, {2, 16}, {5, 512}, {3, 128, 2}, {2, 128, 3}}) {
    const int columns = chunks * form.width - 5, size = 4 * form.width - 9;
    std::vector<float> x, table;
    std::vector<int> pages;
    std::vector<sc::half> numbers;
    for (int i = 0; i < rows * columns; ++i)
      x.push_back(static_cast<float>(i * 31 % 17 - 8));
    for (int i = 0; i < size; ++i)
      table.push_back(static_cast<float>(i * 7 % 5));
    for (int i = 0; i < chunks; ++i) {
      pages.push_back(i * 5 % 4);
      numbers.push_back(sc::half(static_cast<float>(i)));
    }
    auto xs = device.upload(x), tables = device.upload(table);
    auto places = device.upload(pages);
    auto halves = device.upload(numbers);
    for (auto [begin, end] : {std::pair{0, chunks}, {2, 3}, {1, 5}, {4, 4}, {6, 2}}) {
      SCOPED_TRACE("stages " + std::to_string(form.stages) + " width " +
                   std::to_string(form.width) + " from " + std::to_string(begin) + " to " +
                   std::to_string(end));
      auto out = device.upload(std::vector<float>(static_cast<size_t>(rows * form.width), -1));
      loadsAhead.launch(device.stream(), rows, sc::tensor(xs, {rows, columns}), tables, size,
                        places, halves, sc::tensor(out, {rows, form.width}), begin, end, form);
      std::vector<float> want;
      for (int row = 0; row < rows; ++row) {
        float largest = 0;
        std::vector<float> sums(static_cast<size_t>(form.width));
        for (int i = begin; i < end; ++i)
          for (int k = 0; k < form.width; ++k) {
            const int column = i * form.width + k,
                      at = pages[static_cast<size_t>(i)] * form.width + k;
            const float value =
                column < columns ? x[static_cast<size_t>(row * columns + column)] : 0.0f;
            sums[static_cast<size_t>(k)] +=
                value * (at < size ? table[static_cast<size_t>(at)] : 1.0f) + static_cast<float>(i);
            largest = std::max(largest, value);
          }
        for (float sum : sums)
          want.push_back(sum + largest);
      }
      ASSERT_EQ(out.download(), want);
    }
  }
}

//===-- Tiles -------------------------------------------------------------------------------===//

/// Rows whose sum is halved until it is below a bound, tile by tile of different extents.
template <int Rows, int Columns> void checkWhileOfTiles(const sc::Device &device) {
  sc::Kernel kernel{
      "while_of_tiles", [](sc::Ptr<const float> in, sc::Ptr<float> out, sc::Ptr<int> steps) {
        auto at =
            sc::expand(sc::arange(0, Rows), 1) * Columns + sc::expand(sc::arange(0, Columns), 0);
        auto x = sc::load(in + at);
        auto columns = sc::zeros<float>(Columns);
        sc::Tile<int> count = 0;
        sc::loop_while([&] { return sc::max(sc::sum(x, 1)) > 8.0f; },
                       [&] {
                         // Sums along the other axis, and the sum of all through scratch.
                         columns += sc::sum(x, 0);
                         x = sc::where(sc::expand(sc::sum(x, 1), 1) > 8.0f, x * 0.5f, x);
                         count += 1;
                       });
        sc::store(out + at, x + sc::expand(columns, 0));
        sc::store(steps, count);
      }};
  std::vector<float> in(Rows * Columns);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i % 7) * static_cast<float>(1 << (i / Columns % 5));
  auto out = device.allocate<float>(in.size());
  auto steps = device.allocate<int>(1);
  kernel.launch(device.stream(), 1, device.upload(in), out, steps);
  std::vector<float> x = in, columns(Columns, 0);
  auto sumOfRow = [&](int row) {
    return std::accumulate(x.begin() + row * Columns, x.begin() + (row + 1) * Columns, 0.0f);
  };
  int count = 0;
  for (;; ++count) {
    std::vector<float> sums;
    for (int row = 0; row < Rows; ++row)
      sums.push_back(sumOfRow(row));
    if (*std::max_element(sums.begin(), sums.end()) <= 8)
      break;
    for (int row = 0; row < Rows; ++row)
      for (int column = 0; column < Columns; ++column) {
        float &value = x[static_cast<size_t>(row * Columns + column)];
        columns[static_cast<size_t>(column)] += value;
        if (sums[static_cast<size_t>(row)] > 8)
          value *= 0.5f;
      }
  }
  EXPECT_EQ(steps.download()[0], count);
  const std::vector<float> got = out.download();
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_FLOAT_EQ(got[i], x[i] + columns[i % Columns]) << i;
}

TEST_P(Loops, WhileCarriesTiles) {
  checkWhileOfTiles<16, 32>(device);
  checkWhileOfTiles<64, 64>(device);
  checkWhileOfTiles<48, 80>(device);
  checkWhileOfTiles<1, 96>(device);
}

TEST_P(Loops, WhileInLoopsAndBranches) {
  // Each round of the outer loop shrinks a tile in an inner loop that may not run at all, in a
  // branch that may not be taken.
  constexpr int extent = 96;
  sc::Kernel kernel{"nested_while", [](sc::Ptr<const float> in, sc::Ptr<float> out, sc::Int n) {
                      auto i = sc::arange(0, extent);
                      auto x = sc::load(in + i);
                      sc::Tile<int> steps = 0;
                      for (auto round : sc::range(n)) {
                        sc::when(
                            round % 2 == 0,
                            [&] {
                              sc::loop_while([&] { return sc::sum(x) > 10; },
                                             [&] {
                                               for ([[maybe_unused]] auto k : sc::range(2))
                                                 x = x * 0.75f;
                                               sc::when(sc::max(x) > 1, [&] { x = x - 0.125f; });
                                               steps += 1;
                                             });
                            },
                            [&] { x = x * 3; });
                      }
                      sc::store(out + i, x);
                      sc::store(out + extent, sc::cast<float>(steps));
                    }};
  std::vector<float> in(extent);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<float>(i % 5) * 0.5f;
  auto input = device.upload(in);
  auto out = device.allocate<float>(extent + 1);
  for (int n : {0, 1, 4}) {
    kernel.launch(device.stream(), 1, input, out, n);
    std::vector<float> x = in;
    int steps = 0;
    for (int round = 0; round < n; ++round) {
      if (round % 2 == 0)
        while (std::accumulate(x.begin(), x.end(), 0.0f) > 10) {
          for (float &value : x)
            value = value * 0.75f * 0.75f;
          if (*std::max_element(x.begin(), x.end()) > 1)
            for (float &value : x)
              value -= 0.125f;
          ++steps;
        }
      else
        for (float &value : x)
          value *= 3;
    }
    const std::vector<float> got = out.download();
    EXPECT_EQ(got[extent], static_cast<float>(steps)) << n;
    for (size_t i = 0; i < in.size(); ++i)
      EXPECT_NEAR(got[i], x[i], 1e-4f) << n << " at " << i;
  }
}

TEST_P(Loops, WhileWithDots) {
  // A product per round, its operands through shared memory, until enough rounds are done.
  constexpr int extent = 32;
  sc::Kernel kernel{"while_with_dots",
                    [](sc::Ptr<const sc::half> a, sc::Ptr<float> out, sc::Int rounds) {
                      auto row = sc::expand(sc::arange(0, extent), 1);
                      auto at = row * extent + sc::expand(sc::arange(0, extent), 0);
                      auto x = sc::load(a + at);
                      auto power = x;
                      sc::Int round = 0;
                      sc::loop_while([&] { return round < rounds; },
                                     [&] {
                                       power = sc::cast<sc::half>(sc::dot(power, x));
                                       round += 1;
                                     });
                      sc::store(out + at, power);
                    }};
  // A permutation and a doubling of one row keep all products exact.
  std::vector<sc::half> a(extent * extent, sc::half(0.0f));
  for (size_t i = 0; i < extent; ++i)
    a[i * extent + (i * 5 + 3) % extent] = sc::half(i == 4 ? 2.0f : 1.0f);
  auto input = device.upload(a);
  auto out = device.allocate<float>(extent * extent);
  for (int rounds : {0, 1, 5}) {
    kernel.launch(device.stream(), 1, input, out, rounds);
    std::vector<float> want(a.size());
    for (size_t i = 0; i < a.size(); ++i)
      want[i] = static_cast<float>(a[i]);
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> next(a.size());
      for (size_t i = 0; i < extent; ++i)
        for (size_t k = 0; k < extent; ++k)
          for (size_t j = 0; j < extent; ++j)
            next[i * extent + j] += want[i * extent + k] * static_cast<float>(a[k * extent + j]);
      want = next;
    }
    EXPECT_EQ(out.download(), want) << rounds;
  }
}

TEST_P(Loops, UnrolledMatmulsGiveTheSame) {
  constexpr int m = 32, n = 32, k = 16;
  for (int unroll : {0, 2, 3})
    for (int stages : {1, 2, 3}) {
      sc::Kernel kernel{"unrolled_matmul", [=](sc::View<const sc::half, 2> a,
                                               sc::View<const sc::half, 2> b, sc::Ptr<float> c) {
                          auto acc = sc::zeros<float>(m, n);
                          for (auto i : sc::range(0, sc::cdiv(a.extent(1), k),
                                                  {.stages = stages, .unroll = unroll}))
                            acc = sc::dot(a.tile(m, k).load(0, i), b.tile(k, n).load(i, 0), acc);
                          auto row = sc::expand(sc::arange(0, m), 1);
                          sc::store(c + row * n + sc::expand(sc::arange(0, n), 0), acc);
                        }};
      for (int depth : {16, 40, 80}) {
        std::vector<sc::half> a, b;
        for (int i = 0; i < m * depth; ++i)
          a.push_back(sc::half(static_cast<float>(i % 5 - 2)));
        for (int i = 0; i < n * depth; ++i)
          b.push_back(sc::half(static_cast<float>(i % 7 - 3)));
        auto c = device.allocate<float>(m * n);
        kernel.launch(device.stream(), 1, sc::tensor(device.upload(a), {m, depth}),
                      sc::tensor(device.upload(b), {depth, n}), c);
        std::vector<float> want(m * n);
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < n; ++j)
            for (int l = 0; l < depth; ++l)
              want[static_cast<size_t>(i * n + j)] +=
                  static_cast<float>(a[static_cast<size_t>(i * depth + l)]) *
                  static_cast<float>(b[static_cast<size_t>(l * n + j)]);
        EXPECT_EQ(c.download(), want) << unroll << " " << stages << " " << depth;
      }
    }
}

std::vector<sc::half> numbers(int count) {
  std::vector<sc::half> x;
  for (int i = 0; i < count; ++i)
    x.push_back(sc::half(static_cast<float>(i % 5 - 2)));
  return x;
}

// A product for each matrix of many, one after another, each with another number of steps: what is
// fetched ahead goes on from where the product before ended.
TEST_P(Loops, ProductsWithinLoops) {
  constexpr int m = 64, n = 64, k = 32, matrices = 11, most = 4;
  for (int stages : {2, 3, 4}) {
    sc::Kernel kernel{"products", [=](sc::View<const sc::half, 3> a, sc::View<const sc::half, 3> b,
                                      sc::View<float, 3> c, sc::Int groups) {
                        for (auto group : sc::range(0, groups, 1, {.stages = 1}))
                          for (auto inner : sc::range(0, 3, 1, {.stages = 1})) {
                            auto which =
                                sc::maximum(sc::minimum(group * 3 + inner, c.extent(0) - 1), 0);
                            auto acc = sc::zeros<float>(m, n);
                            for (auto i : sc::range(0, which % (most + 1), 1, {.stages = stages}))
                              acc = sc::dot(a.at(which).tile(m, k).load(0, i),
                                            b.at(which).tile(k, n).load(i, 0), acc);
                            c.at(which).tile(m, n).store(0, 0, acc);
                          }
                      }};
    const std::vector<sc::half> a = numbers(matrices * m * most * k),
                                b = numbers(matrices * most * k * n);
    auto c = device.allocate<float>(matrices * m * n);
    kernel.launch(device.stream(), 1, sc::tensor(device.upload(a), {matrices, m, most * k}),
                  sc::tensor(device.upload(b), {matrices, most * k, n}),
                  sc::tensor(c, {matrices, m, n}), (matrices + 2) / 3);
    std::vector<float> want(matrices * m * n);
    auto at = [](int matrix, int row, int columns, int column, int rows) {
      return static_cast<size_t>((matrix * rows + row) * columns + column);
    };
    for (int matrix = 0; matrix < matrices; ++matrix)
      for (int row = 0; row < m; ++row)
        for (int column = 0; column < n; ++column)
          for (int l = 0; l < matrix % (most + 1) * k; ++l)
            want[at(matrix, row, n, column, m)] +=
                static_cast<float>(a[at(matrix, row, most * k, l, m)]) *
                static_cast<float>(b[at(matrix, l, n, column, most * k)]);
    EXPECT_EQ(c.download(), want) << stages << " stages";
  }
}

/// Chunks of x, each of which is both factors of a product: an m × k tile and a k × m one.
constexpr int chunkRows = 64, chunkColumns = 32, chunk = chunkRows * chunkColumns;

auto productOfChunk(sc::Ptr<const sc::half> x, const sc::Int &start, const sc::Tile<float> &acc) {
  auto index = [](int rows, int columns) {
    return sc::expand(sc::arange(0, rows), 1) * columns + sc::expand(sc::arange(0, columns), 0);
  };
  return sc::dot(sc::load(x + (start + index(chunkRows, chunkColumns))),
                 sc::load(x + (start + index(chunkColumns, chunkRows))), acc);
}

void addProductOfChunk(const std::vector<sc::half> &x, std::int64_t start,
                       std::vector<float> &sums) {
  auto at = [&](int i) { return static_cast<float>(x[static_cast<size_t>(start + i)]); };
  for (int row = 0; row < chunkRows; ++row)
    for (int column = 0; column < chunkRows; ++column)
      for (int l = 0; l < chunkColumns; ++l)
        sums[static_cast<size_t>(row * chunkRows + column)] +=
            at(row * chunkColumns + l) * at(l * chunkRows + column);
}

void storeSums(sc::Ptr<float> c, const sc::Tile<float> &sums) {
  sc::store(c + sc::expand(sc::arange(0, chunkRows), 1) * chunkRows +
                sc::expand(sc::arange(0, chunkRows), 0),
            sums);
}

// Iterations fetched ahead beyond either end of the numbers are none, and those within are.
TEST_P(Loops, PipelinedNearTheEndsOfTheIntegers) {
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max(), min = -max - 1;
  const std::vector<sc::half> x = numbers(9 * chunk);
  for (int stages : {2, 3, 4}) {
    // Of numbers in memory the compiler takes 32 bits to be enough.
    sc::Kernel kernel{
        "ends", [=](sc::Ptr<const sc::half> x, sc::Ptr<float> c, sc::Ptr<const int> bounds) {
          const sc::Int begin = sc::load(bounds), end = sc::load(bounds + 1),
                        step = sc::load(bounds + 2);
          auto acc = sc::zeros<float>(chunkRows, chunkRows);
          sc::Int start = 0;
          for ([[maybe_unused]] auto i : sc::range(begin, end, step, {.stages = stages})) {
            acc = productOfChunk(x, start, acc);
            start += chunk;
          }
          storeSums(c, acc);
        }};
    for (const Bounds &b : std::vector<Bounds>{{max - 1, max, 1},
                                               {max - 6, max, 3},
                                               {max - (1 << 30), max, 1 << 30},
                                               {min, 0, 1 << 30},
                                               {min, (1 << 30) + 1, 1 << 29},
                                               {max, min, 1},
                                               {min, min + 3, 1}}) {
      std::vector<float> want(chunkRows * chunkRows);
      std::int64_t read = 0;
      for (std::int64_t i = b.begin; i < b.end; i += b.step, read += chunk)
        addProductOfChunk(x, read, want);
      // Nothing lies behind what the loop reads.
      const std::vector<sc::half> given(x.begin(), x.begin() + std::max<std::int64_t>(read, 1));
      const std::vector<int> bounds{static_cast<int>(b.begin), static_cast<int>(b.end),
                                    static_cast<int>(b.step)};
      auto c = device.allocate<float>(want.size());
      kernel.launch(device.stream(), 1, device.upload(given), c, device.upload(bounds));
      EXPECT_EQ(c.download(), want)
          << b.begin << " to " << b.end << " by " << b.step << ", " << stages << " stages";
    }
  }
}

// How wide the copies of an iteration fetched ahead are follows from the load's own addresses: what
// is promised there is not said of those computed ahead.
TEST_P(Loops, PipelinedLoadsWithPromisesInTheLoop) {
  constexpr int count = 6, by = chunk + 8;
  const std::vector<sc::half> x = numbers((count + 1) * chunk);
  auto in = device.upload(x);
  for (int stages : {1, 2, 3, 4}) {
    sc::Kernel kernel{"promised",
                      [=](sc::Ptr<const sc::half> x, sc::Ptr<float> c, sc::Int steps, sc::Int by) {
                        auto acc = sc::zeros<float>(chunkRows, chunkRows);
                        sc::Int start = 0;
                        for ([[maybe_unused]] auto i : sc::range(0, steps, {.stages = stages})) {
                          sc::assume(start % 8 == 0);
                          acc = productOfChunk(x, start, acc);
                          start += by;
                        }
                        storeSums(c, acc);
                      }};
    std::vector<float> want(chunkRows * chunkRows);
    for (int i = 0; i < count; ++i)
      addProductOfChunk(x, i * by, want);
    auto c = device.allocate<float>(want.size());
    kernel.launch(device.stream(), 1, in, c, count, by);
    EXPECT_EQ(c.download(), want) << stages << " stages";
    if (stages > 1 && sc::loopPlans()) {
      const std::string ptx = kernel.emit("sm_80", "ptx", in, c, count, by);
      EXPECT_NE(ptx.find("cp.async.cg.shared.global"), std::string::npos);
      EXPECT_EQ(ptx.find("cp.async.ca.shared.global"), std::string::npos) << "less than 16 bytes";
    }
  }
}

} // namespace
