// paged_decode: extents, dtypes and options, tables that lie about pages nobody needs, quantised
// caches and what they cost in accuracy, what is read.
#include "PagedTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
class PagedDecode : public OnDevice {};
SECTILE_INSTANTIATE_ON(PagedDecode, "virtual:sm_80,virtual:sm_90a");
class PagedDecodeEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(PagedDecodeEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

TEST_P(PagedDecodeEverywhere, IsRight) {
  expectRight(device, {"paged_decode", {}, {}, {"sinks"}, "f16", {{"splits", 3}}});
  expectRight(device, {"paged_decode", {}, {{"softcap", "2"}}, {}, "bf16"});
  expectRight(device, {"paged_decode", {}, {{"window_left", "9"}}, {}, "f32"});
  for (const char *dtypes : {"f16,k_cache=f8e4m3", "bf16,k_cache=i8"})
    expectRight(device, {"paged_decode", {}, {}, {"k_scale", "v_scale"}, dtypes});
  expectRight(device, {"paged_decode", {{"Dc", 16}}, {}, {"k_scale", "v_scale"}, "f16,k_cache=u8"});
}

TEST_P(PagedDecode, TakesPagesOfAnySize) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (int page : {1, 2, 3, 7, 16, 31, 48, 64, 100, 128, 256}) {
    const int max = std::max(2, 140 / page), all = page * max;
    for (int splits : {1, 3}) {
      KernelCase test{"paged_decode", {{"page", page}, {"max", max}, {"S", 5}}};
      test.config = {{"splits", splits}};
      test.prepare = lengths({all, 0, 1, all - 1, page + 1});
      expectRight(device, test);
    }
  }
}

// A warp of its own copies whole steps; behind the last key and before the window a page may hold
// anything.
TEST_P(PagedDecode, WholeStepsAreCopiedAsTheyAre) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  constexpr int page = 128, max = 4, width = 64;
  for (int splits : {1, 2})
    for (const char *left : {"-1", "70"}) {
      KernelCase test{"paged_decode",
                      {{"S", 6},
                       {"Hq", 8},
                       {"Hkv", 2},
                       {"D", width},
                       {"Dc", width},
                       {"page", page},
                       {"max", max},
                       {"blocks", 24}},
                      {{"window_left", left}},
                      {"sinks"},
                      splits == 1 ? "f16" : "bf16"};
      test.config = {{"splits", splits}};
      const std::vector<int> some{512, 64, 63, 0, 191, 257};
      test.prepare = [some, left = std::stoi(left), before = lengths(some)](
                         const Invocation &call, std::vector<HostArray> &inputs) {
        auto tables = inputs[tablesAt].as<std::int32_t>();
        for (std::size_t i = 0; i < tables.size(); ++i)
          tables[i] = static_cast<std::int32_t>(i); // each page is one sequence's
        before(call, inputs);
        for (const int cache : {kAt, vAt}) {
          std::vector<double> numbers = inputs[cache].to_double();
          for (std::size_t s = 0; s < some.size(); ++s)
            for (int j = 0; j < page * max; ++j)
              for (int h = 0; h < 2 && (j >= some[s] || (left >= 0 && j < some[s] - 1 - left)); ++h)
                for (int d = 0; d < width; ++d)
                  numbers[(((s * max + static_cast<std::size_t>(j / page)) * 2 +
                            static_cast<std::size_t>(h)) *
                               page +
                           static_cast<std::size_t>(j % page)) *
                              width +
                          static_cast<std::size_t>(d)] = std::nan("");
          inputs[cache].assign(numbers);
        }
      };
      EXPECT_EQ(completeConfig(resolveCase(test), device.target(), {}).at("overlap"),
                device.target() == "sm_90a");
      expectRight(device, test);
    }
}

TEST_P(PagedDecode, TakesContextsOfAnyLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (int length : {0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96})
    for (int splits : {1, 2, 5}) {
      KernelCase test{"paged_decode", {{"S", 1}, {"Hkv", 1}}, {}, {}, "f16"};
      test.config = {{"splits", splits}, {"n", 16}};
      test.prepare = lengths({length});
      const auto outputs = expectRight(device, test);
      if (length == 0) {
        EXPECT_EQ(outputs[0].to_double(), std::vector<double>(4 * 32, 0));
        EXPECT_EQ(outputs[1].to_double(), std::vector<double>(4, -inf));
      }
    }
}

TEST_P(PagedDecode, TakesAnyHeadsAndWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (auto [heads, kvHeads] :
       {std::pair{1, 1}, {2, 2}, {15, 1}, {16, 1}, {17, 1}, {40, 1}, {6, 2}})
    expectRight(device, {"paged_decode", {{"Hq", heads}, {"Hkv", kvHeads}}});
  const std::vector<std::pair<int, const char *>> widths{{16, "bf16"}, {17, "f16"},   {33, "f32"},
                                                         {64, "f16"},  {80, "bf16"},  {128, "f16"},
                                                         {200, "f16"}, {256, "bf16"}, {256, "f32"}};
  for (auto [width, dtype] : widths)
    expectRight(device, {"paged_decode", {{"D", width}, {"Dc", width}, {"S", 2}}, {}, {}, dtype});
  expectRight(device, {"paged_decode", {{"S", 0}}});
  expectRight(device, {"paged_decode", {{"Hq", 0}}});
  expectRight(device, {"paged_decode", {{"R", 0}}, {}, {"sinks"}});
  KernelCase none{"paged_decode", {{"max", 0}, {"blocks", 0}}};
  none.prepare = lengths({0});
  expectRight(device, none);
}

TEST_P(PagedDecode, OptionsHoldTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *cap : {"0", "1.5"})
    for (const char *left : {"-1", "0", "20"})
      for (int splits : {1, 4})
        for (bool sinks : {false, true}) {
          KernelCase test{"paged_decode",
                          {{"R", 3}, {"page", 5}, {"max", 14}, {"S", 4}},
                          {{"softcap", cap}, {"window_left", left}, {"scale", "0.4"}}};
          if (sinks)
            test.with = {"sinks"};
          test.config = {{"splits", splits}, {"n", 16}};
          test.prepare = lengths({0, 1, 38, 70});
          const auto outputs = expectRight(device, test);
          EXPECT_EQ(outputs[1].to_double()[0] == -inf, !sinks);
        }
}

// Scores that float16 cannot hold, before the cap; and infinite tanh by naive exponentials.
TEST_P(PagedDecode, HugeScoresAreNoTrouble) {
  for (const char *cap : {"0", "30"}) {
    KernelCase test{"paged_decode", {}, {{"softcap", cap}, {"scale", "40"}}, {"sinks"}, "bf16"};
    expectRight(device, test);
  }
}

TEST_P(PagedDecode, TakesAnyStrides) {
  expectRightWithStrides(device, {"paged_decode", {{"R", 2}}, {}, {"sinks"}});
  expectRightWithStrides(device,
                         {"paged_decode", {}, {}, {"k_scale", "v_scale"}, "f16,k_cache=i8"});
}

// What is read through a table beyond the pages needed, or in a page behind the last key, would be
// NaN here.
TEST_P(PagedDecode, NumbersBehindTheLastKeyAreNotUsed) {
  KernelCase test{"paged_decode", {{"S", 1}, {"page", 32}, {"max", 3}}};
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    lengths({37})(call, inputs);
    inputs[tablesAt].as<std::int32_t>()[0] = 7;
    inputs[tablesAt].as<std::int32_t>()[1] = 3;
    for (int at : {kAt, vAt}) {
      std::vector<double> values = inputs[static_cast<std::size_t>(at)].to_double();
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t block = i / (2 * 32 * 32), slot = i / 32 % 32;
        if (!(block == 7 || (block == 3 && slot < 5)))
          values[i] = NAN;
      }
      inputs[static_cast<std::size_t>(at)].assign(values);
    }
  };
  expectRight(device, test);
}

// One key: its value, whatever the score, bit for bit. Equal keys: the mean of whole numbers.
TEST_P(PagedDecode, WholeNumbersAreExact) {
  for (const char *dtype : {"f16", "bf16", "f32"}) {
    KernelCase test{"paged_decode", {{"S", 3}}, {}, {}, dtype};
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      lengths({1, 2, 64})(call, inputs);
      inputs[kAt].assign(std::vector<double>(static_cast<std::size_t>(inputs[kAt].count()), 1));
      fillIntegers(inputs[qAt], 3, 5);
      inputs[vAt].assign(sequence(
          inputs[vAt].count(), [&](std::int64_t i) { return static_cast<double>(i % 32 - 16); }));
    };
    const auto outputs = expectRight(device, test);
    const auto o = outputs[0].to_double();
    for (std::size_t i = 0; i < o.size(); ++i)
      ASSERT_EQ(o[i], static_cast<double>(i % 32) - 16);
  }
}

// Keys and values that float16 does not hold, of scores and results that it does.
TEST_P(PagedDecode, ScaledNumbersMayBeLargerThanTheirType) {
  KernelCase test{"paged_decode",   {}, {{"scale", "0.000001"}}, {"k_scale", "v_scale"},
                  "f16,k_cache=i8", {}};
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    for (const char *scales : {"k_scale", "v_scale"}) {
      HostArray &array = inputs[call.index(scales)];
      array.assign(sequence(array.count(), [](std::int64_t i) { return i % 3 ? 900.0 : 0.5; }));
    }
  };
  for (const HostArray &output : expectRight(device, test))
    for (const double value : output.to_double())
      EXPECT_TRUE(std::isfinite(value));
}

TEST_P(PagedDecode, QuantisedCachesWithScalesForEachBlock) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtypes : {"f16,k_cache=f8e4m3", "f16,k_cache=i8", "bf16,k_cache=f8e4m3",
                             "f32,k_cache=i8", "f16,k_cache=u8"})
    for (int page : {5, 16, 64}) {
      const bool pairs = std::string(dtypes).ends_with("u8");
      KernelCase test{"paged_decode",
                      {{"page", page}, {"D", 48}, {"Dc", pairs ? 24 : 48}},
                      {{"softcap", page == 5 ? "3" : "0"}},
                      {"k_scale", "v_scale"},
                      dtypes};
      test.config = {{"splits", page == 16 ? 2 : 1}};
      test.prepare = lengths({0, 2 * page + 1, 6 * page});
      expectRight(device, test);
    }
  for (const char *with : {"k_scale", "v_scale"})
    expectRight(device, {"paged_decode", {}, {{"scale", "0.002"}}, {with}, "f16,k_cache=i8"});
  expectRight(device, {"paged_decode", {}, {}, {}, "f16,k_cache=f8e4m3"});
}

TEST_P(PagedDecode, QuantisedCachesWithScalesForEachHead) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtypes : {"f16,k_cache=f8e4m3", "f16,k_cache=i8"}) {
    KernelCase test{"paged_decode", {}, {}, {"k_scale", "v_scale", "sinks"}, dtypes};
    test.single = {"k_scale", "sinks"};
    expectRight(device, test);
    test.single = {"k_scale", "v_scale"};
    expectRight(device, test);
  }
}

// As blocks of zeros have: the first ones, all others, or the only one.
TEST_P(PagedDecode, ScalesMayBeZero) {
  for (const int zeros : {1, 3, 0}) {
    KernelCase test{"paged_decode", {}, {}, {"k_scale", "v_scale"}, "f16,k_cache=i8"};
    if (!zeros)
      test.single = {"k_scale", "v_scale"};
    test.prepare = [zeros](const Invocation &call, std::vector<HostArray> &inputs) {
      for (const char *scales : {"k_scale", "v_scale"}) {
        HostArray &array = inputs[call.index(scales)];
        array.assign(sequence(array.count(), [zeros](std::int64_t i) {
          return zeros == 1 ? i % 2 : zeros && i % zeros == 0 ? 0.25 : 0.0;
        }));
      }
    };
    expectRight(device, test);
  }
}

/// The error that docs/kernels/serving.md states, of numbers quantised with a scale for each block
/// and head: against attention over the numbers as they were.
TEST(PagedDecodeReference, QuantisingCostsNoMoreThanIsStated) {
  struct Format {
    const char *dtypes;
    double largest;
  };
  for (const Format &format : {Format{"f16,k_cache=i8", 127}, Format{"f16,k_cache=f8e4m3", 448},
                               Format{"f16,k_cache=u8", 7}}) {
    SCOPED_TRACE(format.dtypes);
    const bool pairs = std::string(format.dtypes).ends_with("u8");
    const std::map<std::string, std::int64_t> extents{{"D", 32}};
    const KernelCase plain{"paged_decode", extents, {}, {}, "f32"};
    const Invocation exactCall = resolveCase(plain);
    std::vector<HostArray> inputs = sampleInputs(exactCall, 9);
    const auto exact = referenceOutputs(exactCall, inputs, Arithmetic::exact);
    const Invocation call = resolveCase({"paged_decode",
                                         {{"D", 32}, {"Dc", pairs ? 16 : 32}},
                                         {},
                                         {"k_scale", "v_scale"},
                                         format.dtypes});
    std::vector<HostArray> quantised = sampleInputs(call, 9);
    for (int at : {qAt, lengthsAt, tablesAt})
      quantised[static_cast<std::size_t>(at)] = inputs[static_cast<std::size_t>(at)];
    double errors[2] = {}, largestValue = 0; // of keys and values
    for (int at : {kAt, vAt}) {
      const std::vector<double> values = inputs[static_cast<std::size_t>(at)].to_double();
      const std::size_t perScale = 16 * 32; // a page of a head
      std::vector<double> numbers(values.size()), scales(values.size() / perScale);
      for (std::size_t s = 0; s < scales.size(); ++s) {
        for (std::size_t i = 0; i < perScale; ++i)
          scales[s] = std::max(scales[s], std::abs(values[s * perScale + i]) / format.largest);
        scales[s] = static_cast<double>(static_cast<float>(scales[s]));
        for (std::size_t i = s * perScale; i < (s + 1) * perScale; ++i) {
          numbers[i] = values[i] / scales[s];
          if (format.largest != 448)
            numbers[i] = std::clamp(std::rint(numbers[i]), -format.largest, format.largest);
          else
            numbers[i] = static_cast<double>(static_cast<float>(
                float8_e4m3(static_cast<float>(std::clamp(numbers[i], -448.0, 448.0)))));
          const double error = std::abs(values[i] - numbers[i] * scales[s]);
          double &worst = errors[at - kAt];
          worst = std::max(worst, error);
          // The step of the format: half a unit, or a sixteenth of the number.
          const double step = format.largest == 448
                                  ? std::max(std::abs(values[i]) / 16, scales[s] / 1024)
                                  : scales[s] / 2;
          EXPECT_LE(error, step * 1.001);
          if (at == vAt)
            largestValue = std::max(largestValue, std::abs(values[i]));
        }
      }
      HostArray &cache = quantised[static_cast<std::size_t>(at)];
      if (pairs)
        for (std::size_t i = 0; i < cache.data.size(); ++i)
          cache.data[i] = static_cast<std::byte>((static_cast<int>(numbers[2 * i]) & 15) |
                                                 (static_cast<int>(numbers[2 * i + 1]) & 15) << 4);
      else
        cache.assign(numbers);
      quantised[static_cast<std::size_t>(at + 5)].assign(scales); // k_scale, v_scale
    }
    const auto outputs = referenceOutputs(call, quantised, Arithmetic::exact);
    // A score is off by at most e = scale * |q|_1 * (error of k).
    const std::vector<double> q = inputs[qAt].to_double();
    const auto o = exact[0].to_double(), got = outputs[0].to_double(), log = exact[1].to_double(),
               gotLog = outputs[1].to_double();
    for (std::size_t row = 0; row < q.size() / 32; ++row) {
      double sum = 0;
      for (std::size_t d = 0; d < 32; ++d)
        sum += std::abs(q[row * 32 + d]);
      const double e = sum / std::sqrt(32.0) * errors[0];
      EXPECT_LE(std::abs(gotLog[row] - log[row]), e);
      double off = 0;
      for (std::size_t d = row * 32; d < (row + 1) * 32; ++d)
        off = std::max(off, std::abs(got[d] - o[d]));
      EXPECT_LE(off, errors[1] + std::expm1(2 * e) * largestValue);
      EXPECT_GT(off, 0);
    }
  }
}

// Two keys with scores 0 and log 3 times the scale, and a sink of log 4: weights 1/8, 3/8, 4/8.
TEST(PagedDecodeReference, AgreesWithWorkedValues) {
  const Invocation call = resolveTypical(findKernel("paged_decode"), "f32",
                                         {{"S", 2},
                                          {"Hq", 1},
                                          {"Hkv", 1},
                                          {"D", 16},
                                          {"Dc", 16},
                                          {"blocks", 3},
                                          {"page", 1},
                                          {"max", 2},
                                          {"R", 1}},
                                         {{"scale", "1"}}, {"sinks"});
  auto first = [](std::vector<double> heads, Shape shape) {
    std::vector<double> values(static_cast<std::size_t>(elementCount(shape)));
    for (std::size_t i = 0; i < heads.size(); ++i)
      values[i * 16] = heads[i];
    return HostArray(DType::float64, shape, values);
  };
  std::vector<HostArray> inputs(11);
  inputs[qAt] = first({1, 5}, {2, 1, 16});
  inputs[kAt] = first({std::log(3.0), 99, 0}, {3, 1, 1, 16});
  inputs[vAt] = first({8, 99, 16}, {3, 1, 1, 16});
  inputs[lengthsAt] = HostArray(DType::int32, {2}, std::vector<double>{2, 0});
  inputs[tablesAt] = HostArray(DType::int32, {2, 2}, std::vector<double>{2, 0, -1, 1 << 30});
  inputs[5] = HostArray(DType::float64, {1, 1}, std::vector{std::log(4.0)});
  const auto outputs = referenceOutputs(call, inputs, Arithmetic::exact);
  EXPECT_NEAR(outputs[0].to_double()[0], 16 / 8.0 + 8 * 3 / 8.0, 1e-12);
  EXPECT_NEAR(outputs[1].to_double()[0], std::log(8.0), 1e-12);
  EXPECT_EQ(outputs[0].to_double()[16], 0);
  EXPECT_NEAR(outputs[1].to_double()[1], std::log(4.0), 1e-12);
}

// A length of one key more or less, a window that is one off, a sink that counts for each part:
// none passes.
TEST(PagedDecodeReference, PlantedMistakesAreSeen) {
  const KernelCase test{"paged_decode", {}, {{"window_left", "50"}}, {"sinks"}};
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, 1);
  lengths({40, 70, 90})(call, inputs);
  auto results = [&](const Invocation &of, const std::vector<HostArray> &with) {
    auto outputs = referenceOutputs(of, with, Arithmetic::exact);
    return std::vector{HostArray(DType::float16, outputs[0].shape, outputs[0].to_double()),
                       HostArray(DType::float32, outputs[1].shape, outputs[1].to_double())};
  };
  auto expectSeen = [&](const std::vector<HostArray> &outputs, bool seen) {
    for (const Verdict &verdict : check(call, inputs, outputs))
      EXPECT_EQ(!verdict.accuracy.ok(), seen) << verdict.output;
  };
  expectSeen(results(call, inputs), false);
  auto wrong = inputs;
  wrong[lengthsAt].assign(std::vector<double>{39, 69, 89});
  expectSeen(results(call, wrong), true);
  KernelCase window = test;
  window.options = {{"window_left", "49"}};
  expectSeen(results(resolveCase(window), inputs), true);
  wrong = inputs;
  wrong[5].assign(sequence(wrong[5].count(), [&](std::int64_t i) {
    return inputs[5].to_double()[static_cast<std::size_t>(i)] + std::log(2.0);
  }));
  expectSeen(results(call, wrong), true);
}

// A cache of pages of one key; the sequence's two keys are in pages 2 and 0.
TEST(PagedDecodeExample, FromCpp) {
  const Device device = Device::open("virtual:sm_80");
  // [example]
  const int pages = 3, width = 16;
  const std::vector<float> query(width, 0.0f); // all scores are 0
  std::vector<float> values(pages * width);
  for (int i = 0; i < pages * width; ++i)
    values[i] = static_cast<float>(10 * (i / width)); // 0, 10 and 20
  const std::vector<std::int32_t> length{2}, table{2, 0, -1, -1};
  auto q = device.upload(query), cache = device.upload(values);
  auto lengths = device.upload(length), tables = device.upload(table);
  auto out = sectile::run_kernel(device.stream(), "paged_decode",
                                 {{"q", tensor(q, {1, 1, width})},
                                  {"k_cache", tensor(cache, {pages, 1, 1, width})},
                                  {"v_cache", tensor(cache, {pages, 1, 1, width})},
                                  {"context_lens", tensor(lengths, {1})},
                                  {"block_tables", tensor(tables, {1, 4})}},
                                 {{"window_left", "5"}});
  device.synchronize();
  auto o = out.at("o").as<float, 3>();     // the mean of 20 and 0
  auto lse = out.at("lse").as<float, 2>(); // log 2
  // [/example]
  EXPECT_EQ(Buffer<float>(o.memory()).download(), std::vector<float>(width, 10.0f));
  EXPECT_NEAR(Buffer<float>(lse.memory()).download()[0], std::log(2.0), 1e-6);
}

TEST(PagedDecodeErrors, SayWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(refusalOf({"paged_decode", {{"Hq", 3}}}), HasSubstr("multiple of Hkv"));
  EXPECT_THAT(refusalOf({"paged_decode", {{"D", 300}}}), HasSubstr("from 16 to 256"));
  EXPECT_THAT(refusalOf({"paged_decode", {{"page", 0}}}),
              HasSubstr("a page is 0 keys, but must be from 1 to 1073741823"));
  EXPECT_THAT(refusalOf({"paged_decode", {{"Dc", 16}}}), HasSubstr("last axis is 16"));
  EXPECT_THAT(refusalOf({"paged_decode", {}, {}, {}, "f16,k_cache=bf16"}), HasSubstr("dtype of q"));
  EXPECT_THAT(refusalOf({"paged_decode", {{"D", 32}, {"Dc", 32}}, {}, {}, "f16,k_cache=u8"}),
              HasSubstr("two numbers"));
  EXPECT_THAT(refusalOf({"paged_decode", {}, {{"window_left", "-2"}}}),
              HasSubstr("must be at least -1"));
  EXPECT_THAT(refusalOf({"paged_decode", {}, {{"softcap", "-1"}}}),
              HasSubstr("must be at least 0"));
}

} // namespace
