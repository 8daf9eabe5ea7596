// dropout and dropout_backward.
#include "KernelTest.h"
#include "kernels/attention/Dropout.h"
#include "kernels/elementwise/Draws.h"
#include "kernels/references/ReferencePhilox.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(Dropout);
class DropoutOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(DropoutOnChips, "virtual:sm_80,virtual:sm_90a");

TEST_P(Dropout, EveryTypeAndSeed) {
  for (const char *kernel : {"dropout", "dropout_backward"})
    for (const char *dtype : {"f32", "f16", "bf16"})
      for (const char *seed : {"0", "-1", "81985529216486895", "9223372036854775808"})
        expectRight(device, {kernel, {{"...", 1500}}, {{"p", "0.3"}, {"seed", seed}}, {}, dtype});
}

TEST_P(DropoutOnChips, AnyLength) {
  for (const char *kernel : {"dropout", "dropout_backward"})
    for (std::int64_t n : {0, 1, 3, 1023, 1025, 4000}) {
      expectRight(device, {kernel, {{"...", n}}});
      expectRightWithStrides(device, {kernel, {{"...", n}}});
    }
}

TEST_P(DropoutOnChips, NoneAndAll) {
  for (const char *p : {"0", "1"}) {
    const auto y = expectRight(
        device,
        {.kernel = "dropout", .options = {{"p", p}}, .prepare = [](const Invocation &, auto &in) {
           fillIntegers(in[0], 5, 1);
           if (in[0].count() > 3)
             in[0].template as<float>()[3] = 7;
         }});
    EXPECT_EQ(y[0].as<float>()[3], p[0] == '0' ? 7.0f : 0.0f);
  }
}

// What is left out is 0 even where it was NaN.
TEST_P(DropoutOnChips, NanIsLeftOut) {
  expectRight(device, {.kernel = "dropout", .prepare = [](const Invocation &, auto &in) {
                         for (float &value : in[0].template as<float>())
                           value = NAN;
                       }});
}

// The mask is that of the elements' places, however they lie and whatever the configuration.
TEST_P(DropoutOnChips, OneMaskForAllStridesAndConfigurations) {
  constexpr std::int64_t m = 30, n = 77;
  const auto ones = device.upload(std::vector<float>(2 * m * n, 1.0f));
  const KernelOptions options{{"p", "0.4"}, {"seed", "5"}};
  auto run = [&](std::int64_t step, std::int64_t next) {
    const Tensor<float, 2> x(ones.data(), {m, n}, {step, next}, ones.memory());
    const auto y = run_kernel(device.stream(), "dropout", {{"x", x}}, options).at("y");
    return Buffer<float>(y.memory).download();
  };
  const std::vector<float> dense = run(n, 1);
  EXPECT_EQ(run(2 * n, 1), dense);
  EXPECT_EQ(run(1, m), dense);
  const auto kept = std::count_if(dense.begin(), dense.end(), [](float v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / (m * n), 0.6, 0.04);
  for (std::int64_t size : {128, 256, 2048})
    expectRight(device, {"dropout", {}, {}, {}, "", {{"size", size}}});
}

// Places beyond 2^32, without the memory that an array of so many elements takes: the tiles of a
// program far into one, dense and in rows.
TEST_P(DropoutOnChips, PlacesHave64Bits) {
  Kernel kernel{"draws",
                [](Ptr<const float> nothing, Ptr<float> numbers, Int rows, Int columns, Int row,
                   Int column, Tile<std::int64_t> seed, const ElementsConfig &config) {
                  const View<const float, 3> x(nothing, {1, rows, columns}, {0, columns, 1});
                  ElementTile at(x, config);
                  at.row = row;
                  at.column = column;
                  View<float, 3>(numbers, {1, config.rows, config.columns}, {0, config.columns, 1})
                      .tile(1, config.rows, config.columns)
                      .store(0, 0, 0, drawn(x, at, seed, config));
                }};
  const std::int64_t seed = -7, size = 256;
  const auto numbers = device.allocate<float>(size);
  auto expectDraws = [&](std::int64_t rows, std::int64_t columns, std::int64_t row,
                         std::int64_t column, const ElementsConfig &config) {
    SCOPED_TRACE(config.dense ? "dense" : "in rows");
    kernel.launch(device.stream(), 1, numbers, numbers, rows, columns, row, column, seed, config);
    const std::vector<float> got = numbers.download();
    for (int i = 0; i < config.rows; ++i)
      for (int j = 0; j < config.columns; ++j) {
        const auto place = static_cast<std::uint64_t>((row * config.rows + i) * columns +
                                                      column * config.columns + j);
        const std::uint64_t count = place / 4;
        const auto words = philoxWords(
            static_cast<std::uint64_t>(seed),
            {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(count >> 32), 0, 0});
        EXPECT_EQ(got[static_cast<std::size_t>(i * config.columns + j)],
                  static_cast<float>(words[place % 4] >> 8) * 0x1p-24f)
            << "place " << place;
      }
  };
  const std::int64_t many = (std::int64_t(1) << 36) + 1024;
  expectDraws(1, many, 0, (std::int64_t(1) << 28) + 3, {.rows = 1, .columns = 256});
  expectDraws(std::int64_t(1) << 33, 9, (std::int64_t(1) << 30) + 1, 0,
              {.rows = 8, .columns = 32, .dense = false});
  expectDraws(5, many, 1, (std::int64_t(1) << 29) + 5, {.rows = 2, .columns = 128, .dense = false});
}

// Attention's: batch, head, group of queries and group of keys are words of the counter, each to
// its end, whatever the block's extents.
TEST_P(DropoutOnChips, PlacesOfAttentionHave32BitsEach) {
  constexpr int rows = 32;
  auto kernelOf = [](int columns) {
    return Kernel{"kept", [columns](Ptr<float> result, Int batch, Int head, Int row, Int column,
                                    Scalar<std::uint64_t> seed, Scalar<std::uint32_t> threshold) {
                    const blockwise::Dropout dropout{seed, threshold, batch, head};
                    View<float, 2>(result, {rows, columns}, {columns, 1})
                        .tile(rows, columns)
                        .store(0, 0, cast<float>(dropout.kept(row, rows, column, columns)));
                  }};
  };
  const std::uint64_t seed = 0x123456789abcdef0;
  const std::uint32_t threshold = 0x60000000;
  for (int columns : {16, 32, 48, 64}) {
    const auto kernel = kernelOf(columns);
    const auto result = device.allocate<float>(static_cast<std::size_t>(rows * columns));
    for (auto [batch, head, row, block] : {std::array<std::int64_t, 4>{3, 31, 8192, 171},
                                           {0x7fffffff, 0x7ffffff1, 0x7fffffc0, 0x1fffff1},
                                           {0, 0, std::int64_t(1) << 30, 4}}) {
      const std::int64_t column = block * columns;
      kernel.launch(device.stream(), 1, result, batch, head, row, column, seed, threshold);
      const std::vector<float> got = result.download();
      for (std::int64_t i = row; i < row + rows; ++i)
        for (std::int64_t j = column; j < column + columns; ++j) {
          const auto words =
              philoxWords(seed,
                          {static_cast<std::uint32_t>(j / 32 * 8 + j % 8),
                           static_cast<std::uint32_t>(i / 16 * 8 + i % 8),
                           static_cast<std::uint32_t>(head), static_cast<std::uint32_t>(batch)},
                          7);
          const std::uint32_t word = words[static_cast<std::size_t>(j / 8 % 4)];
          EXPECT_EQ(got[static_cast<std::size_t>((i - row) * columns + j - column)] != 0,
                    (i / 8 % 2 ? word : word << 16) >= threshold)
              << batch << " " << head << " " << i << " " << j;
        }
    }
  }
}

TEST(DropoutMask, ChangesWithSeedAndPlace) {
  const Invocation call = resolveCase({"dropout", {{"...", 4000}}});
  const HostArray ones(DType::float64, {4000}, std::vector<double>(4000, 1.0));
  const auto first = referenceOutputs(call, std::vector{ones}, Arithmetic::exact)[0].to_double();
  const Invocation other = resolveCase({"dropout", {{"...", 4000}}, {{"seed", "1"}}});
  const auto second = referenceOutputs(other, std::vector{ones}, Arithmetic::exact)[0].to_double();
  long same = 0;
  for (std::size_t i = 0; i < 4000; ++i) {
    EXPECT_TRUE(first[i] == 0 || first[i] == 2);
    same += first[i] == second[i];
  }
  EXPECT_NEAR(static_cast<double>(same), 2000, 150);
  EXPECT_FALSE(std::equal(first.begin(), first.begin() + 2000, first.begin() + 2000));
}

TEST(DropoutGradients, AgainstCentralDifferences) {
  for (const char *p : {"0", "0.3", "1"})
    expectGradients({"dropout", {{"...", 24}}, {{"p", p}, {"seed", "9"}}}, "dropout_backward");
}

TEST(DropoutErrors, ProbabilitiesAreFromZeroToOne) {
  for (const char *p : {"-0.1", "1.1"})
    EXPECT_THROW(resolveCase({"dropout", {}, {{"p", p}}}), std::exception);
}

// A mask of another seed; what is kept does not grow.
TEST(DropoutJudge, PlantedMistakesAreSeen) {
  for (const char *kernel : {"dropout", "dropout_backward"}) {
    const FilledCall right = fill({kernel, {}, {{"p", "0.3"}, {"seed", "5"}}, {}, "f16"});
    expectMistakeIsSeen(right, fill({kernel, {}, {{"p", "0.3"}, {"seed", "6"}}, {}, "f16"}));
    auto outputs = referenceOutputs(right.call, right.inputs, Arithmetic::own);
    std::vector<double> values = outputs[0].to_double();
    for (double &value : values)
      value *= 0.7;
    outputs[0].assign(values);
    EXPECT_FALSE(check(right.call, right.inputs, outputs)[0].accuracy.ok());
  }
}
