// Random numbers on every device: Random123's published vectors, the generator written down a
// second time, and the distributions' moments.
#include "Apply.h"
#include <cmath>
#include <numbers>

using namespace sectile;
using sectile::test::apply;

SECTILE_ON_DEVICES(Random);

namespace {

struct Words {
  std::array<std::uint32_t, 4> at;
};

Words philoxOnHost(std::uint64_t key, std::array<std::uint32_t, 4> c) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {c};
}

TEST_P(Random, PublishedVectors) {
  // Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, result.
  struct Vector {
    std::array<std::uint32_t, 4> counter;
    std::array<std::uint32_t, 2> key;
    std::array<std::uint32_t, 4> result;
  };
  const Vector vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  std::vector<std::uint64_t> seeds, offsets;
  std::vector<std::uint32_t> word2, word3;
  for (const Vector &v : vectors) {
    seeds.push_back(v.key[0] | std::uint64_t{v.key[1]} << 32);
    offsets.push_back(v.counter[0] | std::uint64_t{v.counter[1]} << 32);
    word2.push_back(v.counter[2]);
    word3.push_back(v.counter[3]);
  }
  const auto got = apply<std::uint32_t>(
      device, [](auto seed, auto offset, auto c2, auto c3) { return philox(seed, offset, c2, c3); },
      seeds, offsets, word2, word3);
  for (size_t v = 0; v < std::size(vectors); ++v) {
    EXPECT_EQ(philoxOnHost(seeds[v], vectors[v].counter).at, vectors[v].result);
    for (size_t word = 0; word < 4; ++word)
      EXPECT_EQ(got[word * std::size(vectors) + v], vectors[v].result[word]) << v << " " << word;
  }
}

std::vector<std::int32_t> offsets(size_t count) {
  std::vector<std::int32_t> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(static_cast<std::int32_t>(i) - 3);
  return values;
}

// Counter words of an offset that is extended by its sign.
Words ofOffset(std::uint64_t seed, std::int64_t offset) {
  const auto bits = static_cast<std::uint64_t>(offset);
  return philoxOnHost(
      seed, {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), 0, 0});
}

TEST_P(Random, SeedsAndOffsetsOfEveryWidth) {
  const auto at = offsets(300);
  const auto all = apply<std::uint32_t>(
      device,
      [](auto i) {
        return std::array{randint(7, i), randint(-2, cast<std::int64_t>(i)),
                          randint(full<std::uint64_t>(0x123456789abcdefull), cast<Index>(i)),
                          randint4x(7, i)[3]};
      },
      at);
  for (size_t i = 0; i < at.size(); ++i) {
    ASSERT_EQ(all[i], ofOffset(7, at[i]).at[0]) << i;
    ASSERT_EQ(all[at.size() + i], ofOffset(static_cast<std::uint64_t>(-2), at[i]).at[0]) << i;
    ASSERT_EQ(all[2 * at.size() + i], ofOffset(0x123456789abcdefull, at[i]).at[0]) << i;
    ASSERT_EQ(all[3 * at.size() + i], ofOffset(7, at[i]).at[3]) << i;
  }
}

TEST_P(Random, Distributions) {
  constexpr std::uint64_t seed = 42;
  const auto at = offsets(1 << 14);
  const auto uniform = apply<float>(device, [](auto i) { return rand4x(seed, i); }, at);
  const auto normal = apply<float>(device, [](auto i) { return randn4x(seed, i); }, at);
  const auto first =
      apply<float>(device, [](auto i) { return std::array{rand(seed, i), randn(seed, i)}; }, at);
  double sum = 0, square = 0, normalSum = 0, normalSquare = 0, fourth = 0;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto words = ofOffset(seed, at[i]).at;
    ASSERT_EQ(first[i], uniform[i]);
    ASSERT_EQ(first[at.size() + i], normal[i]);
    for (size_t word = 0; word < 4; ++word) {
      const double u = uniform[word * at.size() + i], g = normal[word * at.size() + i];
      ASSERT_EQ(u, (words[word] >> 8) * 0x1p-24);
      sum += u, square += u * u;
      normalSum += g, normalSquare += g * g, fourth += g * g * g * g;
      const size_t even = word & ~size_t{1};
      const double radius = std::sqrt(-2 * std::log((words[even] + 0.5) * 0x1p-32));
      const double angle = 2 * std::numbers::pi * (words[even + 1] >> 8) * 0x1p-24;
      ASSERT_NEAR(g, radius * (word % 2 ? std::sin(angle) : std::cos(angle)), 1e-5);
    }
  }
  const auto count = static_cast<double>(uniform.size());
  // Five standard deviations of each estimate.
  EXPECT_NEAR(sum / count, 0.5, 5 * std::sqrt(1 / 12.0 / count));
  EXPECT_NEAR(square / count, 1 / 3.0, 5 * std::sqrt(4 / 45.0 / count));
  EXPECT_NEAR(normalSum / count, 0, 5 / std::sqrt(count));
  EXPECT_NEAR(normalSquare / count, 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(fourth / count, 3, 5 * std::sqrt(96 / count));
}

TEST_P(Random, ShapesBroadcast) {
  Kernel kernel{"matrix", [](Ptr<std::uint32_t> out, Scalar<std::int64_t> seed) {
                  auto row = expand(arange(0, 4), 1);
                  auto column = expand(arange(0, 48), 0);
                  store(out + (row * 48 + column), randint(seed + cast<std::int64_t>(row), column));
                  store(out + 4 * 48, randint(seed, 5));
                }};
  auto out = device.allocate<std::uint32_t>(4 * 48 + 1);
  kernel.launch(device.stream(), {1}, out, std::int64_t{99});
  const auto got = out.download();
  for (unsigned row = 0; row < 4; ++row)
    for (unsigned column = 0; column < 48; ++column)
      ASSERT_EQ(got[row * 48 + column], ofOffset(99 + row, column).at[0]);
  EXPECT_EQ(got.back(), ofOffset(99, 5).at[0]);
}

} // namespace
