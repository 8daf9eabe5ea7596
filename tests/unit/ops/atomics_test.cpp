// Atomic operations: what they leave in memory, what they give, that each element is worked on
// once whatever the layout, and what programs build from them.
#include "Devices.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(Atomics);

enum class Op { add, max, min, exchange, bit_and, bit_or, bit_xor };
constexpr Op arithmetic[] = {Op::add, Op::max, Op::min, Op::exchange};
constexpr Op ofBits[] = {Op::bit_and, Op::bit_or, Op::bit_xor};

template <class T>
sc::Tile<T> update(Op op, const sc::Ptr<T> &p, const sc::Tile<T> &value, const sc::Bool &mask,
                   sc::Atomic how = {}) {
  if constexpr (std::integral<T>) {
    if (op == Op::bit_and)
      return sc::atomic_and(p, value, mask, how);
    if (op == Op::bit_or)
      return sc::atomic_or(p, value, mask, how);
    if (op == Op::bit_xor)
      return sc::atomic_xor(p, value, mask, how);
  }
  return op == Op::add   ? sc::atomic_add(p, value, mask, how)
         : op == Op::max ? sc::atomic_max(p, value, mask, how)
         : op == Op::min ? sc::atomic_min(p, value, mask, how)
                         : sc::atomic_exchange(p, value, mask, how);
}

template <class T> T combined(Op op, T before, T value) {
  if constexpr (std::integral<T>) {
    if (op == Op::bit_and)
      return before & value;
    if (op == Op::bit_or)
      return before | value;
    if (op == Op::bit_xor)
      return before ^ value;
  }
  if (op == Op::exchange)
    return value;
  if (op == Op::add) {
    if constexpr (std::integral<T>)
      return static_cast<T>(std::make_unsigned_t<T>(before) + std::make_unsigned_t<T>(value));
    else
      return T(before + value);
  }
  if constexpr (std::integral<T>)
    return op == Op::max ? std::max(before, value) : std::min(before, value);
  else if constexpr (sizeof(T) == 2)
    return T(op == Op::max ? std::fmax(float(before), float(value))
                           : std::fmin(float(before), float(value)));
  else
    return op == Op::max ? std::fmax(before, value) : std::fmin(before, value);
}

template <class T> std::vector<T> numbers(size_t count, unsigned seed) {
  std::vector<T> result(count);
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525 + 1013904223;
    if constexpr (std::integral<T>)
      result[i] = static_cast<T>(std::uint64_t(seed) << (i % 3 || sizeof(T) < 8 ? 0 : 32));
    else
      result[i] = static_cast<T>(static_cast<float>(static_cast<int>(seed >> 20) - 2048) / 16.0f);
  }
  return result;
}

template <class T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

// Every element of memory meets one of the tile, except where the mask is false.
template <class T>
void checkEach(const sc::Device &device, Op op, int extent, unsigned warps, sc::Atomic how = {},
               bool masked = true) {
  sc::Kernel kernel{"each", [=](sc::Ptr<T> memory, sc::Ptr<const T> values, sc::Ptr<T> before) {
                      auto i = sc::arange(0, extent);
                      auto mask = masked ? i % 3 != 1 : i >= 0;
                      auto got = update(op, memory + i, sc::load(values + i), mask, how);
                      sc::store(before + i, got);
                    }};
  const auto count = static_cast<size_t>(extent);
  const std::vector<T> start = numbers<T>(count, 1), values = numbers<T>(count, 2);
  auto memory = device.upload(start);
  auto before = device.allocate<T>(count);
  kernel.launch(device.stream(), 1, memory, device.upload(values), before, {.warps = warps});
  std::vector<T> wantMemory = start, wantBefore(count, T(0));
  for (size_t i = 0; i < count; ++i)
    if (!masked || i % 3 != 1) {
      wantMemory[i] = combined(op, start[i], values[i]);
      wantBefore[i] = start[i];
    }
  const auto what = "operation " + std::to_string(int(op)) + ", " + std::to_string(extent) +
                    " elements of " + std::to_string(sizeof(T)) + " bytes";
  EXPECT_EQ(bytesOf(memory.download()), bytesOf(wantMemory)) << what;
  EXPECT_EQ(bytesOf(before.download()), bytesOf(wantBefore)) << what;
}

template <class T> void checkKinds(const sc::Device &device, std::initializer_list<int> extents) {
  for (int extent : extents) {
    for (Op op : arithmetic)
      checkEach<T>(device, op, extent, 4);
    if constexpr (std::integral<T>)
      for (Op op : ofBits)
        checkEach<T>(device, op, extent, 4);
  }
}

TEST_P(Atomics, OnEveryType) {
  checkKinds<std::int16_t>(device, {1, 80});
  checkKinds<std::uint16_t>(device, {33 * 2});
  checkKinds<std::int32_t>(device, {1, 80});
  checkKinds<std::uint32_t>(device, {48});
  checkKinds<std::int64_t>(device, {1, 96});
  checkKinds<std::uint64_t>(device, {176});
  checkKinds<float>(device, {2, 512});
  checkKinds<double>(device, {33 * 2});
  checkKinds<sc::half>(device, {1, 48});
  checkKinds<sc::bfloat16>(device, {4, 160});
}

// Two of them share a word, so that they can be added at once.
TEST_P(Atomics, OnNeighboursOf16Bits) {
  for (int extent : {512, 1024, 768}) {
    checkEach<sc::half>(device, Op::add, extent, 1, {sc::MemoryOrder::relaxed}, /*masked=*/false);
    checkEach<sc::bfloat16>(device, Op::add, extent, 2, {}, /*masked=*/false);
  }
}

// Many programs update the halves of few words.
TEST_P(Atomics, IntegersOf16BitsShareWords) {
  sc::Kernel kernel{"share_words", [](sc::Ptr<std::uint16_t> sums, sc::View<std::int16_t, 1> most,
                                      sc::Ptr<std::uint16_t> swapped) {
                      auto i = sc::arange(0, 32), p = sc::program_id(0);
                      sc::atomic_add(sums + i % 3, sc::cast<std::uint16_t>(i + 1000 * p));
                      most.tile(32).atomic_max(0, sc::cast<std::int16_t>(i * 7 - 100 * p));
                      sc::atomic_cas(swapped + i, sc::cast<std::uint16_t>(i), 65535);
                    }};
  constexpr int programs = 20;
  auto sums = device.upload(std::vector<std::uint16_t>(4, 60000));
  auto most = device.upload(std::vector<std::int16_t>(29, -50));
  std::vector<std::uint16_t> wantSwapped(33);
  for (size_t i = 0; i < 33; ++i)
    wantSwapped[i] = static_cast<std::uint16_t>(i % 5 ? i : 70);
  auto swapped = device.upload(wantSwapped);
  kernel.launch(device.stream(), programs, sums, sc::tensor(most, {29}), swapped);
  std::vector<std::uint16_t> wantSums(4, 60000);
  std::vector<std::int16_t> wantMost(29, -50);
  for (int p = 0; p < programs; ++p)
    for (int i = 0; i < 32; ++i) {
      auto &sum = wantSums[static_cast<size_t>(i % 3)];
      sum = static_cast<std::uint16_t>(sum + i + 1000 * p);
      if (i < 29) {
        auto &largest = wantMost[static_cast<size_t>(i)];
        largest = std::max<std::int16_t>(largest, static_cast<std::int16_t>(i * 7 - 100 * p));
      }
    }
  for (size_t i = 0; i < 32; ++i)
    if (i % 5)
      wantSwapped[i] = 65535;
  EXPECT_EQ(sums.download(), wantSums);
  EXPECT_EQ(most.download(), wantMost);
  EXPECT_EQ(swapped.download(), wantSwapped);
}

TEST_P(Atomics, OneWarpAndMany) {
  for (unsigned warps : {1u, 2u, 8u}) {
    checkEach<int>(device, Op::add, 16, warps);
    checkEach<float>(device, Op::max, 1, warps);
    checkEach<std::uint64_t>(device, Op::exchange, 1024, warps);
  }
}

TEST_P(Atomics, InEveryOrderAndScope) {
  for (sc::MemoryOrder order : {sc::MemoryOrder::relaxed, sc::MemoryOrder::acquire,
                                sc::MemoryOrder::release, sc::MemoryOrder::acq_rel})
    for (sc::MemoryScope scope :
         {sc::MemoryScope::program, sc::MemoryScope::device, sc::MemoryScope::system}) {
      checkEach<int>(device, Op::add, 64, 4, {order, scope});
      checkEach<float>(device, Op::min, 8, 4, {order, scope});
    }
}

TEST_P(Atomics, OnOneNumber) {
  sc::Kernel kernel{"numbers", [](sc::Ptr<float> x, sc::Ptr<int> n, sc::Ptr<float> before) {
                      sc::store(before, sc::atomic_add(x, 2.5f));
                      sc::store(before + 1, sc::atomic_max(x, -4));
                      sc::store(before + 2, sc::cast<float>(sc::atomic_exchange(n, 7)));
                      auto none = sc::atomic_add(n, 100, sc::program_id(0) > 0);
                      sc::store(before + 3, sc::cast<float>(none));
                      sc::atomic_xor(n, 1); // without its result
                    }};
  auto x = device.upload(std::vector<float>{1});
  auto n = device.upload(std::vector<int>{3});
  auto before = device.allocate<float>(4);
  kernel.launch(device.stream(), 1, x, n, before);
  EXPECT_EQ(x.download()[0], 3.5f);
  EXPECT_EQ(n.download()[0], 6);
  EXPECT_EQ(before.download(), (std::vector<float>{1, 3.5f, 3, 0}));
}

TEST_P(Atomics, IgnoreNaNBesideANumber) {
  sc::Kernel kernel{"nan", [](sc::Ptr<float> x, sc::Ptr<const float> y) {
                      auto i = sc::arange(0, 4);
                      auto at = x + i;
                      sc::atomic_max(at, sc::load(y + i));
                      sc::atomic_min(at + 4, sc::load(y + i));
                    }};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  auto x = device.upload(std::vector<float>{nan, 1, -inf, -2, -nan, 1, inf, -2});
  kernel.launch(device.stream(), 1, x, device.upload(std::vector<float>{-3, nan, -1, -1}));
  EXPECT_EQ(x.download(), (std::vector<float>{-3, 1, -1, -1, -3, 1, -1, -2}));
}

TEST_P(Atomics, CompareAndSwapByBits) {
  sc::Kernel kernel{"cas", [](sc::Ptr<float> x, sc::Ptr<sc::half> h, sc::Ptr<std::uint64_t> u,
                              sc::Ptr<float> before) {
                      auto i = sc::arange(0, 4);
                      sc::store(before + i, sc::atomic_cas(x + i, 0.0f, sc::cast<float>(i + 10)));
                      sc::atomic_cas(h + i, 2, 5, i < 3);
                      sc::atomic_cas(u, ~0ull, 1);
                    }};
  // -0 is not 0 by its bits.
  auto x = device.upload(std::vector<float>{0, -0.0f, 1, 0});
  auto h = device.upload(std::vector<sc::half>{sc::half(1), sc::half(2), sc::half(2), sc::half(2)});
  auto u = device.upload(std::vector<std::uint64_t>{~0ull});
  auto before = device.allocate<float>(4);
  kernel.launch(device.stream(), 1, x, h, u, before);
  EXPECT_EQ(x.download(), (std::vector<float>{10, -0.0f, 1, 13}));
  EXPECT_EQ(before.download(), (std::vector<float>{0, -0.0f, 1, 0}));
  const std::vector<sc::half> halves = h.download();
  for (auto [i, want] : {std::pair{0, 1.0f}, {1, 5.0f}, {2, 5.0f}, {3, 2.0f}})
    EXPECT_EQ(float(halves[size_t(i)]), want);
  EXPECT_EQ(u.download()[0], 1u);
}

// Elements that layouts hold in several threads: sums along either axis, and numbers.
TEST_P(Atomics, OnceForEveryElement) {
  sc::Kernel kernel{"once", [](sc::Ptr<const float> x, sc::Ptr<float> rows, sc::Ptr<float> columns,
                               sc::Ptr<float> all, sc::Ptr<float> before) {
                      auto i = sc::arange(0, 32), j = sc::arange(0, 64);
                      auto tile = sc::load(x + sc::expand(i, 1) * 64 + j);
                      auto row = sc::sum(tile, 1), column = sc::sum(tile, 0);
                      auto old = sc::atomic_add(rows + i, row);
                      sc::atomic_add(columns + j, column);
                      sc::atomic_add(all, sc::sum(tile));
                      // Every replica of the result is the same: the tile grows again.
                      sc::store(before + sc::expand(i, 1) * 64 + j, sc::expand(old, 1) + tile);
                    }};
  std::vector<float> x(32 * 64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i * 7 % 13);
  std::vector<float> startRows(32);
  std::iota(startRows.begin(), startRows.end(), 100.0f);
  auto rows = device.upload(startRows);
  auto columns = device.upload(std::vector<float>(64, 1.0f));
  auto all = device.upload(std::vector<float>{5});
  auto before = device.allocate<float>(x.size());
  kernel.launch(device.stream(), 1, device.upload(x), rows, columns, all, before);
  std::vector<float> wantRows = startRows, wantColumns(64, 1), wantBefore(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    wantRows[i / 64] += x[i];
    wantColumns[i % 64] += x[i];
    wantBefore[i] = startRows[i / 64] + x[i];
  }
  EXPECT_EQ(rows.download(), wantRows);
  EXPECT_EQ(columns.download(), wantColumns);
  EXPECT_EQ(all.download()[0], 5 + std::accumulate(x.begin(), x.end(), 0.0f));
  EXPECT_EQ(before.download(), wantBefore);
}

// Many elements of many programs at one address.
template <class T> void checkOneAddress(const sc::Device &device, float step) {
  constexpr unsigned programs = 8;
  sc::Kernel kernel{"one_address", [=](sc::Ptr<T> sum, sc::Ptr<T> most) {
                      auto i = sc::program_id(0) * 64 + sc::arange(0, 64);
                      sc::atomic_add(sum + i % 2, sc::full<T>(static_cast<T>(step), 64), {},
                                     {.order = sc::MemoryOrder::relaxed});
                      sc::atomic_max(most + i % 2, sc::cast<T>(i));
                    }};
  auto sum = device.upload(std::vector<T>(2, T(0)));
  auto most = device.upload(std::vector<T>(2, T(0)));
  kernel.launch(device.stream(), programs, sum, most);
  for (T each : sum.download())
    EXPECT_EQ(static_cast<float>(each), step * 64 * programs / 2);
  const std::vector<T> largest = most.download();
  EXPECT_EQ(static_cast<float>(largest[0]), static_cast<float>(T(64.0f * programs - 2)));
  EXPECT_EQ(static_cast<float>(largest[1]), static_cast<float>(T(64.0f * programs - 1)));
}

TEST_P(Atomics, AtOneAddress) {
  checkOneAddress<int>(device, 3);
  checkOneAddress<std::uint64_t>(device, 5);
  checkOneAddress<float>(device, 0.25f);
  checkOneAddress<double>(device, 0.125f);
  checkOneAddress<sc::half>(device, 1);
  checkOneAddress<sc::bfloat16>(device, 1);
}

TEST_P(Atomics, OnViews) {
  sc::Kernel kernel{"views", [](sc::View<float, 2> sums, sc::View<int, 1> most,
                                sc::View<const float, 2> x, sc::View<float, 2> before) {
                      auto i = sc::program_id(0);
                      auto tile = x.tile(16, 32).load(i, 0);
                      before.tile(16, 32).store(i, 0, sums.tile(16, 32).atomic_add(i, 0, tile));
                      auto largest = sc::cast<int>(sc::max(tile, 0));
                      most.tile(32).atomic_max_at(-2, largest);
                    }};
  constexpr int rows = 41, columns = 27;
  std::vector<float> x(rows * columns), start(rows * columns);
  for (size_t k = 0; k < x.size(); ++k) {
    x[k] = static_cast<float>(k * 31 % 97);
    start[k] = static_cast<float>(k);
  }
  auto sums = device.upload(start);
  auto before = device.upload(std::vector<float>(x.size(), -1.0f));
  auto most = device.upload(std::vector<int>(29, 0));
  auto given = device.upload(x);
  kernel.launch(device.stream(), 3, sc::tensor(sums, {rows, columns}), sc::tensor(most, {29}),
                sc::tensor(given, {rows, columns}), sc::tensor(before, {rows, columns}));
  std::vector<float> want = start;
  std::vector<int> wantMost(29, 0);
  for (size_t k = 0; k < x.size(); ++k) {
    want[k] += x[k];
    if (size_t column = k % columns; column >= 2)
      wantMost[column - 2] = std::max(wantMost[column - 2], static_cast<int>(x[k]));
  }
  EXPECT_EQ(sums.download(), want);
  EXPECT_EQ(before.download(), start);
  EXPECT_EQ(most.download(), wantMost);
}

// Each thread reads what another has written.
TEST_P(Atomics, Barrier) {
  sc::Kernel kernel{"barrier", [](sc::Ptr<int> x, sc::Ptr<int> out) {
                      auto i = sc::arange(0, 512);
                      for (auto round : sc::range(1, 4)) {
                        sc::store(x + i, i * round);
                        sc::barrier();
                        auto seen = sc::load(x + (511 - i));
                        sc::barrier();
                        sc::store(out + i, seen);
                      }
                    }};
  auto x = device.upload(std::vector<int>(512, 0));
  auto out = device.allocate<int>(512);
  kernel.launch(device.stream(), 1, x, out);
  const std::vector<int> got = out.download();
  for (int i = 0; i < 512; ++i)
    EXPECT_EQ(got[size_t(i)], (511 - i) * 3);
}

//===-- What programs build from them ---------------------------------------------------------===//

TEST_P(Atomics, TicketCounter) {
  constexpr unsigned programs = 48;
  sc::Kernel kernel{"tickets", [](sc::Ptr<int> counter, sc::Ptr<int> out) {
                      auto ticket = sc::atomic_add(counter, 1);
                      sc::store(out + ticket, sc::program_id(0));
                    }};
  auto counter = device.upload(std::vector<int>{0});
  auto out = device.upload(std::vector<int>(programs, -1));
  kernel.launch(device.stream(), programs, counter, out);
  EXPECT_EQ(counter.download()[0], int(programs));
  std::vector<int> ids = out.download(), all(programs);
  std::sort(ids.begin(), ids.end());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(ids, all);
}

TEST_P(Atomics, Lock) {
  constexpr unsigned programs = 64;
  sc::Kernel kernel{
      "lock", [](sc::Ptr<int> lock, sc::Ptr<int> total) {
        auto i = sc::arange(0, 256);
        sc::loop_while(
            [&] { return sc::atomic_cas(lock, 0, 1, {.order = sc::MemoryOrder::acquire}) != 0; },
            [] {});
        sc::Access fresh{.cache = sc::Cache::uncached};
        sc::store(total + i, sc::load(total + i, fresh) + i);
        sc::atomic_exchange(lock, 0, {.order = sc::MemoryOrder::release});
      }};
  auto lock = device.upload(std::vector<int>{0});
  auto total = device.upload(std::vector<int>(256, 0));
  kernel.launch(device.stream(), programs, lock, total);
  EXPECT_EQ(lock.download()[0], 0);
  const std::vector<int> got = total.download();
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(got[size_t(i)], i * int(programs));
}

// The last program to finish adds up what all have written.
TEST_P(Atomics, LastOneIn) {
  constexpr int programs = 24;
  sc::Kernel kernel{"last", [](sc::Ptr<int> count, sc::Ptr<float> parts, sc::Ptr<float> out) {
                      auto j = sc::arange(0, 64);
                      auto id = sc::program_id(0);
                      sc::store(parts + id * 64 + j, sc::cast<float>(id * j));
                      auto arrived = sc::atomic_add(count, 1);
                      sc::when(arrived == programs - 1, [&] {
                        auto sum = sc::zeros<float>(64);
                        for (auto k : sc::range(programs))
                          sum += sc::load(parts + k * 64 + j, {.cache = sc::Cache::global});
                        sc::store(out + j, sum);
                      });
                    }};
  auto count = device.upload(std::vector<int>{0});
  auto parts = device.allocate<float>(programs * 64);
  auto out = device.allocate<float>(64);
  kernel.launch(device.stream(), programs, count, parts, out);
  const std::vector<float> got = out.download();
  for (size_t j = 0; j < 64; ++j)
    EXPECT_EQ(got[j], static_cast<float>(j * programs * (programs - 1) / 2));
}

TEST_P(Atomics, Histogram) {
  constexpr int size = 5000, bins = 37;
  sc::Kernel kernel{"histogram",
                    [](sc::Ptr<const int> x, sc::Ptr<std::uint32_t> counts, sc::Int n) {
                      auto i = sc::program_id(0) * 512 + sc::arange(0, 512);
                      auto inside = i < n;
                      sc::atomic_add(counts + sc::load(x + i, inside), 1, inside,
                                     {.order = sc::MemoryOrder::relaxed});
                    }};
  std::vector<int> x(size);
  std::vector<std::uint32_t> want(bins, 0);
  for (size_t i = 0; i < size; ++i)
    ++want[size_t(x[i] = int(i * i % 101 % bins))];
  auto counts = device.upload(std::vector<std::uint32_t>(bins, 0));
  kernel.launch(device.stream(), (size + 511) / 512, device.upload(x), counts, size);
  EXPECT_EQ(counts.download(), want);
}

// Programs share the inner dimension of a product and add their parts to the result.
template <class T> void checkSplitK(const sc::Device &device) {
  constexpr int m = 64, n = 48, k = 256, parts = 4;
  sc::Kernel kernel{
      "split_k",
      [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b, sc::View<T, 2> c) {
        auto acc = sc::zeros<float>(32, 32);
        auto i = sc::program_id(0), j = sc::program_id(1), part = sc::program_id(2);
        for (auto step : sc::range(part * 2, part * 2 + 2))
          acc = sc::dot(a.tile(32, 32).load(i, step), b.tile(32, 32).load(step, j), acc);
        c.tile(32, 32).atomic_add(i, j, acc, {.order = sc::MemoryOrder::relaxed});
      }};
  std::vector<sc::half> a(m * k), b(k * n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = sc::half(static_cast<float>(i % 5) - 2);
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = sc::half(static_cast<float>(i % 3) - 1);
  auto left = device.upload(a), right = device.upload(b);
  auto c = device.upload(std::vector<T>(m * n, T(1)));
  kernel.launch(device.stream(), {2, 2, parts}, sc::tensor(left, {m, k}), sc::tensor(right, {k, n}),
                sc::tensor(c, {m, n}));
  const std::vector<T> got = c.download();
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float want = 1;
      for (size_t l = 0; l < k; ++l)
        want += float(a[i * k + l]) * float(b[l * n + j]);
      ASSERT_EQ(static_cast<float>(got[i * n + j]), want) << i << ", " << j;
    }
}

TEST_P(Atomics, SplitK) {
  checkSplitK<float>(device);
  checkSplitK<sc::half>(device);
  checkSplitK<sc::bfloat16>(device); // whole numbers, small enough to be exact in it
}

} // namespace
