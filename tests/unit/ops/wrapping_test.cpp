// Integers that wrap, on every device against C++: what they index, mask and bound must not be
// computed as if they had not. ir/tile/Overflow.h has the contract.
#include "Devices.h"
#include <climits>
#include <gmock/gmock.h>
#include <limits>

using namespace sectile;

SECTILE_ON_DEVICES(Wrapping);

namespace {

/// C++'s arithmetic on T, wrapping.
template <class T> T wrap(std::uint64_t number) { return static_cast<T>(number); }

constexpr int programs = 16, width = 64, extent = 60, before = 700, after = 700;
constexpr float outside = -9;

/// Memory in which a view begins and ends, so that reads beyond either edge find other numbers.
struct Memory {
  explicit Memory(const Device &device) {
    std::vector<float> numbers(before + extent + after);
    for (size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = 1000 + float(i);
    all = device.upload(numbers);
  }
  Tensor<const float, 1> view() const {
    return Tensor<const float, 1>(all.data() + before, {extent}, {1}, all.memory());
  }
  static float at(std::int64_t index) {
    return index >= 0 && index < extent ? 1000 + float(before + index) : outside;
  }
  Buffer<float> all;
};

/// Blocks at hashed places: before, in and beyond a view.
template <class T> void blocksAtHashes(const Device &device) {
  const T factor = wrap<T>(1103515245), added = wrap<T>(12345);
  Kernel kernel{"blocks", [&](View<const float, 1> x, Ptr<float> y) {
                  const auto p = program_id(0);
                  const auto hash = cast<T>(p) * factor + added;
                  const auto rest = hash % T(100);
                  const auto i = arange(0, width);
                  store(y + p * width + i,
                        x.tile(width).padding(outside).load_at(cast<std::int64_t>(rest)));
                }};
  Memory memory(device);
  auto y = device.allocate<float>(programs * width);
  kernel.launch(device.stream(), programs, memory.view(), y);
  const auto got = y.download();
  for (int p = 0; p < programs; ++p) {
    const T hash = wrap<T>(std::uint64_t(T(p)) * std::uint64_t(factor) + std::uint64_t(added));
    const auto rest = static_cast<std::int64_t>(static_cast<T>(hash % T(100)));
    for (int i = 0; i < width; ++i)
      ASSERT_EQ(got[p * width + i], Memory::at(rest + i)) << "program " << p << ", element " << i;
  }
}

TEST_P(Wrapping, BlocksAtHashes) {
  blocksAtHashes<std::int8_t>(device);
  blocksAtHashes<std::int16_t>(device);
  blocksAtHashes<std::int32_t>(device);
  blocksAtHashes<std::int64_t>(device);
  blocksAtHashes<std::uint8_t>(device);
  blocksAtHashes<std::uint16_t>(device);
  blocksAtHashes<std::uint32_t>(device);
  blocksAtHashes<std::uint64_t>(device);
}

// Places in tiles that the type holds, but a number of elements does not.
TEST_P(Wrapping, BlocksFarOut) {
  Kernel kernel{"far", [](View<const float, 1> x, Ptr<float> y, Ptr<const std::int32_t> at,
                          Ptr<const std::int64_t> wide) {
                  const auto p = program_id(0);
                  const auto i = arange(0, width);
                  const auto tiles = x.tile(width).padding(outside);
                  store(y + p * 2 * width + i, tiles.load(load(at + p)));
                  store(y + (p * 2 + 1) * width + i, tiles.load(load(wide + p)));
                }};
  const std::vector<std::int32_t> at = {0,       1,       -1,      1 << 26,    -(1 << 26),
                                        3 << 25, INT_MAX, INT_MIN, 0x40000001, 5};
  std::vector<std::int64_t> wide(at.begin(), at.end());
  wide[3] = std::int64_t(1) << 58, wide[4] = std::numeric_limits<std::int64_t>::min(),
  wide[5] = std::int64_t(1) << 32;
  Memory memory(device);
  auto y = device.allocate<float>(2 * at.size() * width);
  kernel.launch(device.stream(), int(at.size()), memory.view(), y, device.upload(at),
                device.upload(wide));
  const auto got = y.download();
  for (size_t p = 0; p < at.size(); ++p)
    for (int i = 0; i < width; ++i) {
      ASSERT_EQ(got[2 * p * width + i], at[p] ? outside : Memory::at(i)) << "program " << p;
      ASSERT_EQ(got[(2 * p + 1) * width + i], wide[p] ? outside : Memory::at(i)) << "program " << p;
    }
}

/// Numbers that pass the end of their type within a tile, as masks, quotients, remainders and
/// comparisons.
template <class T> void masksAcrossTheEnd(const Device &device) {
  using U = std::make_unsigned_t<T>;
  constexpr int n = 512, kinds = 4;
  const T start = wrap<T>(std::uint64_t(std::numeric_limits<T>::max()) - 255); // 2^k - 256
  Kernel kernel{"masks", [&](Ptr<const float> x, Ptr<float> y) {
                  const auto i = arange(0, n);
                  const auto number = cast<T>(i) + start;
                  const Tile<bool> masks[kinds] = {(number / T(16)) % T(2) == T(0),
                                                   number < T(0) + T(64), number >= start,
                                                   (number >> T(4)) % T(2) == T(0)};
                  for (int k = 0; k < kinds; ++k)
                    store(y + k * n + i, load(x + i, masks[k], outside));
                }};
  std::vector<float> numbers(n);
  for (int i = 0; i < n; ++i)
    numbers[i] = float(i);
  auto x = device.upload(numbers), y = device.allocate<float>(kinds * n);
  kernel.launch(device.stream(), 1, x, y);
  const auto got = y.download();
  for (int i = 0; i < n; ++i) {
    const T number = wrap<T>(std::uint64_t(U(T(i))) + std::uint64_t(U(start)));
    const bool masks[kinds] = {T(T(number / 16) % 2) == 0, number < 64, number >= start,
                               T(T(number >> 4) % 2) == 0};
    for (int k = 0; k < kinds; ++k)
      ASSERT_EQ(got[k * n + i], masks[k] ? float(i) : outside) << "mask " << k << ", element " << i;
  }
}

TEST_P(Wrapping, MasksAcrossTheEndOfTheType) {
  masksAcrossTheEnd<std::int8_t>(device);
  masksAcrossTheEnd<std::int16_t>(device);
  masksAcrossTheEnd<std::int32_t>(device);
  masksAcrossTheEnd<std::int64_t>(device);
  masksAcrossTheEnd<std::uint8_t>(device);
  masksAcrossTheEnd<std::uint16_t>(device);
  masksAcrossTheEnd<std::uint32_t>(device);
  masksAcrossTheEnd<std::uint64_t>(device);
}

// Codes of four bits with a sign, by two shifts; blocks that are stored beyond either edge are
// dropped there.
TEST_P(Wrapping, SignsByTwoShifts) {
  Kernel kernel{"codes", [](View<float, 1> y, Ptr<const int> codes) {
                  const auto code = load(codes) & 15;
                  y.tile(8).store_at((code << 28) >> 28, full<float>(5, 8));
                }};
  for (int code = 0; code < 16; ++code) {
    auto y = device.upload(std::vector<float>(48, 1));
    kernel.launch(device.stream(), 1, Tensor<float, 1>(y.data() + 16, {16}, {1}, y.memory()),
                  device.upload(std::vector<int>{code}));
    const auto got = y.download();
    const int at = code >= 8 ? code - 16 : code;
    for (int i = 0; i < 48; ++i)
      ASSERT_EQ(got[i], i >= 16 && i < 32 && i - 16 >= at && i - 16 < at + 8 ? 5 : 1)
          << "code " << code << ", element " << i;
  }
}

// A ring of 256 entries is indexed by bytes that wrap on purpose, in the checked mode, too.
TEST_P(Wrapping, RingsOfBytes) {
  Kernel kernel{"ring", [](Ptr<const float> x, Ptr<float> y, Scalar<std::uint8_t> head) {
                  const auto i = arange(0, width);
                  store(y + i, load(x + cast<Index>(cast<std::uint8_t>(i) + head)));
                }};
  std::vector<float> numbers(256);
  for (int i = 0; i < 256; ++i)
    numbers[i] = float(i);
  auto x = device.upload(numbers), y = device.allocate<float>(width);
  for (const bool checked : {false, true})
    for (const int head : {0, 100, 250}) {
      kernel.launch(device.stream(), 1, x, y, std::uint8_t(head),
                    LaunchOptions{.checked = checked});
      const auto got = y.download();
      for (int i = 0; i < width; ++i)
        ASSERT_EQ(got[i], float((head + i) % 256)) << "head " << head << ", element " << i;
    }
}

// Bounds of loops are integers like others.
TEST_P(Wrapping, BoundsOfLoops) {
  Kernel kernel{"bounds", [](Ptr<int> y) {
                  const auto p = program_id(0);
                  const auto hash = cast<std::int32_t>(p) * 1103515245;
                  Int count = 0;
                  for (auto i :
                       range(Int(hash % 7), Int(cast<std::uint8_t>(hash) % std::uint8_t(9))))
                    count += i * 0 + 1;
                  store(y + p, cast<int>(count));
                }};
  auto y = device.allocate<int>(programs);
  kernel.launch(device.stream(), programs, y);
  const auto got = y.download();
  for (int p = 0; p < programs; ++p) {
    const auto hash = wrap<std::int32_t>(std::uint64_t(p) * 1103515245);
    ASSERT_EQ(got[p], std::max(0, std::uint8_t(hash) % 9 - hash % 7)) << "program " << p;
  }
}

// Part of an Int that is a hash: it wraps where it is divided.
TEST_P(Wrapping, HashesOfInts) {
  Kernel kernel{"hashes", [](View<const float, 1> x, Ptr<float> y, Int n) {
                  const auto p = program_id(0);
                  Int hash = p * 1103515245 + 12345;
                  for (auto k : range(0, n))
                    hash = hash * 31 + k;
                  const auto i = arange(0, width);
                  store(y + p * width + i, x.tile(width).padding(outside).load_at(hash % 100));
                }};
  Memory memory(device);
  auto y = device.allocate<float>(programs * width);
  for (const int n : {0, 9}) {
    kernel.launch(device.stream(), programs, memory.view(), y, n);
    const auto got = y.download();
    for (int p = 0; p < programs; ++p) {
      auto hash = wrap<std::int32_t>(std::uint64_t(p) * 1103515245 + 12345);
      for (int k = 0; k < n; ++k)
        hash = wrap<std::int32_t>(std::uint64_t(hash) * 31 + std::uint64_t(k));
      for (int i = 0; i < width; ++i)
        ASSERT_EQ(got[p * width + i], Memory::at(hash % 100 + i)) << "program " << p;
    }
  }
}

// A prefix sum that wraps, and where each part would begin.
TEST_P(Wrapping, PrefixSums) {
  Kernel kernel{"sums", [](Ptr<const int> x, Ptr<int> y) {
                  const auto i = arange(0, width);
                  const auto lengths = load(x + i) & 0x7fffffff;
                  store(y + i, (cumsum(lengths, 0) - lengths) / 3);
                }};
  std::vector<int> lengths(width);
  for (int i = 0; i < width; ++i)
    lengths[i] = wrap<int>(std::uint64_t(i) * 2654435761u) & 0x7fffffff;
  auto y = device.allocate<int>(width);
  kernel.launch(device.stream(), 1, device.upload(lengths), y);
  const auto got = y.download();
  std::uint32_t sum = 0;
  for (int i = 0; i < width; ++i) {
    ASSERT_EQ(got[i], static_cast<int>(sum) / 3) << "element " << i;
    sum += static_cast<std::uint32_t>(lengths[i]);
  }
}

template <class T> void roundsUpToTheEnd(const Device &device) {
  const T most = std::numeric_limits<T>::max();
  Kernel kernel{"up", [](Scalar<T> a, Scalar<T> b, Ptr<T> y) { store(y, cdiv(a, b)); }};
  auto y = device.allocate<T>(1);
  for (const T a : {T(0), T(1), T(most - 1), most})
    for (const T b : {T(1), T(10), T(most - 1), most}) {
      kernel.launch(device.stream(), 1, a, b, y);
      ASSERT_EQ(+y.download()[0], +T(a / b + (a % b != 0))) << +a << " by " << +b;
    }
}

TEST_P(Wrapping, QuotientsAreRoundedUpToTheEndOfTheType) {
  roundsUpToTheEnd<std::uint8_t>(device);
  roundsUpToTheEnd<std::int16_t>(device);
  roundsUpToTheEnd<std::int32_t>(device);
  roundsUpToTheEnd<std::uint64_t>(device);
}

} // namespace
