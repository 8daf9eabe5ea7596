// Programs that read what they wrote: loads and stores through one argument happen in the order in
// which they are written, whichever threads do them, and the result is what the interpreter gives.
#include "Devices.h"
#include <numeric>

namespace sc = sectile;

namespace {

class MemoryOrder : public sectile::test::OnDevice {};
SECTILE_INSTANTIATE_ON(MemoryOrder,
                       "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

constexpr int n = 128;

template <class T = int> std::vector<T> counted(int count, int first = 1) {
  std::vector<T> values(count);
  for (int i = 0; i < count; ++i)
    values[i] = static_cast<T>(first + i);
  return values;
}

/// Runs one program of `body(x)` on x = 1, 2, … and gives what x holds after it.
template <class Body> std::vector<int> changed(const sc::Device &device, int count, Body body) {
  sc::Kernel kernel{"changed", [=](sc::Ptr<int> x) { body(x); }};
  auto x = device.upload(counted(count));
  kernel.launch(device.stream(), 1, x);
  return x.download();
}

TEST_P(MemoryOrder, ALoadShiftedAgainstAStore) {
  const std::vector<int> x = changed(device, 2 * n, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    sc::store(x + i, i * 3);
    sc::store(x + n + i, sc::load(x + i + 1));
  });
  for (int i = 0; i < n - 1; ++i)
    EXPECT_EQ(x[n + i], 3 * (i + 1)) << i;
  EXPECT_EQ(x[2 * n - 1], n + 1);
}

TEST_P(MemoryOrder, ALoadThatReversesAStore) {
  const std::vector<int> x = changed(device, 2 * n, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    sc::store(x + i, i * 3);
    sc::store(x + n + i, sc::load(x + ((n - 1) - i)));
  });
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(x[n + i], 3 * (n - 1 - i)) << i;
}

TEST_P(MemoryOrder, AReversalInPlace) {
  const std::vector<int> x = changed(device, n, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    auto v = sc::load(x + i);
    sc::store(x + ((n - 1) - i), v);
  });
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(x[i], n - i) << i;
}

TEST_P(MemoryOrder, ABlockLoadedByElementFromABlockStoredByTile) {
  sc::Kernel kernel{"by_element", [](sc::View<int, 1> z) {
                      auto blocks = z.tile(n);
                      blocks.store(0, sc::arange(0, n) * 3);
                      blocks.store(1, blocks.load_at(1));
                    }};
  auto z = device.upload(counted(2 * n));
  kernel.launch(device.stream(), 1, sc::tensor(z, {2 * n}));
  const std::vector<int> out = z.download();
  for (int i = 0; i < n - 1; ++i)
    EXPECT_EQ(out[n + i], 3 * (i + 1)) << i;
}

TEST_P(MemoryOrder, APrefixSumInPlace) {
  const std::vector<int> x = changed(device, 256, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, 256);
    for (auto p : sc::range(0, 8)) {
      auto shift = sc::Int(1) << p;
      sc::store(x + i, sc::load(x + i) + sc::load(x + i - shift, i >= shift));
    }
  });
  int sum = 0;
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(x[i], sum += i + 1) << i;
}

TEST_P(MemoryOrder, PointersThatALoopSwaps) {
  constexpr int rounds = 5;
  sc::Kernel kernel{"swapped", [](sc::Ptr<int> x, sc::Ptr<int> y) {
                      auto i = sc::arange(0, n);
                      auto from = x, to = y;
                      for ([[maybe_unused]] auto round : sc::range(0, rounds)) {
                        sc::store(to + i, sc::load(from + ((n - 1) - i)) + 1);
                        auto next = to;
                        to = from;
                        from = next;
                      }
                    }};
  auto x = device.upload(counted(n)), y = device.upload(std::vector<int>(n));
  kernel.launch(device.stream(), 1, x, y);
  std::vector<int> a = counted(n), b(n);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < n; ++i)
      b[i] = a[n - 1 - i] + 1;
    std::swap(a, b);
  }
  EXPECT_EQ(y.download(), a);
  EXPECT_EQ(x.download(), b);
}

TEST_P(MemoryOrder, PointersThatABranchChooses) {
  sc::Kernel kernel{"chosen", [](sc::Ptr<int> x, sc::Ptr<int> y, sc::Int flag) {
                      auto i = sc::arange(0, n);
                      auto to = y;
                      sc::when(flag > 0, [&] { to = x; });
                      sc::store(to + i, i * 5);
                      sc::store(y + n + i, sc::load(x + ((n - 1) - i)));
                    }};
  for (int flag : {0, 1}) {
    auto x = device.upload(counted(n)), y = device.upload(std::vector<int>(2 * n));
    kernel.launch(device.stream(), 1, x, y, flag);
    const std::vector<int> out = y.download();
    for (int i = 0; i < n; ++i)
      EXPECT_EQ(out[n + i], flag ? 5 * (n - 1 - i) : n - i) << flag << " " << i;
  }
}

// The store is a step behind the load, so that a barrier in the loop has to keep them apart.
TEST_P(MemoryOrder, AStencilInPlace) {
  const std::vector<int> x = changed(device, 8 * n + 1, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    for (auto j : sc::range(0, 8))
      sc::store(x + (j * n + i), sc::load(x + (j * n + i + 1)) * 2);
  });
  for (int i = 0; i < 8 * n; ++i)
    EXPECT_EQ(x[i], 2 * (i + 2)) << i;
}

// Elements that one iteration writes are those that the next one reads: nothing may be fetched
// before, and by nobody else.
TEST_P(MemoryOrder, ARecurrenceAcrossIterations) {
  const std::vector<int> x = changed(device, 9 * n, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    for (auto j : sc::range(0, 8))
      sc::store(x + ((j + 1) * n + i), sc::load(x + (j * n + ((n - 1) - i))) + 1);
  });
  for (int j = 1; j < 9; ++j)
    for (int i = 0; i < n; ++i)
      EXPECT_EQ(x[j * n + i], j % 2 ? n - i + j : i + 1 + j) << j << " " << i;
}

TEST_P(MemoryOrder, AtomicsAmongStores) {
  const std::vector<int> x = changed(device, 2 * n, [](sc::Ptr<int> x) {
    auto i = sc::arange(0, n);
    sc::store(x + i, i);
    sc::atomic_add(x + ((n - 1) - i), i * 2, true, {.order = sc::MemoryOrder::relaxed});
    sc::store(x + n + i, sc::load(x + (i ^ 1)));
  });
  for (int i = 0; i < n; ++i)
    EXPECT_EQ(x[n + i], (i ^ 1) + 2 * (n - 1 - (i ^ 1))) << i;
}

/// Stores a tile into scratch, then multiplies from there, piece by piece, in a loop that is
/// pipelined where the target can: other threads copy the pieces than those that stored the tile.
void checkScratchOfDots(const sc::Device &device, int stages) {
  constexpr int m = 64, k = 32, steps = 8, width = k * steps;
  auto element = [](auto row, auto column) { return (row * 7 + column * 5) % 13 - 6; };
  sc::Kernel kernel{"scratch", [=](sc::View<const sc::half, 2> d, sc::View<sc::half, 2> s,
                                   sc::View<float, 2> out) {
                      auto rows = sc::expand(sc::arange(0, m), 1),
                           columns = sc::expand(sc::arange(0, width), 0);
                      s.tile(m, width).store(0, 0, sc::cast<float>(element(rows, columns)));
                      auto acc = sc::zeros<float>(m, m);
                      for (auto j : sc::range(0, steps, {.stages = stages}))
                        acc = sc::dot(s.tile(m, k).load(0, j), d.tile(k, m).load(j, 0), acc);
                      out.tile(m, m).store(0, 0, acc);
                    }};
  std::vector<sc::half> d(width * m);
  for (int i = 0; i < width * m; ++i)
    d[i] = static_cast<float>(i * 7 % 11 - 5);
  auto in = device.upload(d);
  auto s = device.upload(std::vector<sc::half>(d.size()));
  auto out = device.allocate<float>(m * m);
  kernel.launch(device.stream(), 1, sc::tensor(in, {width, m}), sc::tensor(s, {m, width}),
                sc::tensor(out, {m, m}));
  const std::vector<float> sums = out.download();
  int wrong = 0;
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < m; ++column) {
      float sum = 0;
      for (int i = 0; i < width; ++i)
        sum += static_cast<float>(element(row, i)) * static_cast<float>(d[i * m + column]);
      wrong += sums[row * m + column] != sum;
    }
  EXPECT_EQ(wrong, 0) << "of " << m * m << " with " << stages << " stages";
}

TEST_P(MemoryOrder, ScratchThatALoopOfDotsReads) {
  for (int stages : {1, 2, 3, 4})
    checkScratchOfDots(device, stages);
}

} // namespace
