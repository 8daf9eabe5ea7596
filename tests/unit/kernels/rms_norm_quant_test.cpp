// rms_norm_quant: rows and groups, edges, long rows, and that it is rms_norm, then quantize.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class RmsNormQuant : public OnDevice {};
SECTILE_INSTANTIATE_ON(RmsNormQuant, "virtual:sm_80,virtual:sm_90a");

KernelCase quantised(std::int64_t rows, std::int64_t n, const Assignments &options = {},
                     const std::vector<std::string> &with = {"w"}, const char *dtype = "f16") {
  return {"rms_norm_quant", {{"...", rows}, {"N", n}}, options, with, dtype};
}

std::vector<HostArray> run(const Device &device, const FilledCall &filled) {
  return execute(device, filled.call, completeConfig(filled.call, device.target(), {}),
                 filled.inputs)
      .outputs;
}

} // namespace

TEST_P(RmsNormQuant, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : {"row", "group"}) {
    for (std::int64_t n : {1, 31, 32, 33, 96, 127, 128, 129, 1000, 4096, 7168})
      expectRight(device, quantised(3, n, {{"granularity", granularity}}));
    for (std::int64_t rows : {0, 1, 2, 65})
      expectRight(device, quantised(rows, 200, {{"granularity", granularity}}));
    expectRight(device, quantised(3, 0, {{"granularity", granularity}}));
    // Longer than a block.
    for (const std::vector<std::string> &with :
         std::vector<std::vector<std::string>>{{}, {"w", "residual"}}) {
      KernelCase test = quantised(3, 1100, {{"granularity", granularity}}, with);
      test.config = {{"block", 256}, {"rows", 2}};
      expectRight(device, test);
      expectRight(device, quantised(2, 20000, {{"granularity", granularity}}, with));
    }
  }
}

TEST_P(RmsNormQuant, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const std::vector<const char *> dtypes{"f16", "bf16", "f32"}, codes{"f8e4m3", "f8e5m2", "i8"},
      formats{"f32", "power_of_two", "e8m0"}, blocks{"32", "64", "128"};
  for (std::size_t dtype = 0; dtype < 3; ++dtype)
    for (std::size_t out = 0; out < 3; ++out)
      for (std::size_t format = 0; format < 3; ++format)
        for (std::size_t block = 0; block < 3; ++block)
          if (isAmongAThird(dtype + out + format + block))
            expectRight(device, quantised(5, 300,
                                          {{"granularity", "group"},
                                           {"block", blocks[block]},
                                           {"out", codes[out]},
                                           {"scale_format", formats[format]}},
                                          {"w", "residual"}, dtypes[dtype]));
  expectRight(device, quantised(5, 300, {{"weight_offset", "1"}, {"eps", "0.01"}}));
  expectRight(device, quantised(5, 300, {{"weight_offset", "1"}}, {}));
  expectRightWithStrides(device, quantised(5, 300, {{"granularity", "group"}}, {"residual"}));
}

// The scales and codes of what rms_norm gives in f32.
TEST_P(RmsNormQuant, IsNormThenQuantize) {
  for (const char *granularity : {"row", "group"}) {
    const FilledCall both =
        fill(quantised(7, 500, {{"granularity", granularity}}, {"w", "residual"}, "f32"));
    const auto outputs = run(device, both);
    FilledCall norm = fill({"rms_norm", {{"...", 7}, {"N", 500}}, {}, {"w", "residual"}, "f32"});
    norm.inputs.assign(both.inputs.begin(), both.inputs.begin() + 3);
    const auto normed = run(device, norm);
    FilledCall codes =
        fill({"quantize", {{"M", 7}, {"K", 500}}, {{"granularity", granularity}}, {}, "f32"});
    codes.inputs[0].assign(normed[0].to_double());
    const auto wanted = run(device, codes);
    EXPECT_EQ(outputs[2].data, normed[1].data); // h
    EXPECT_EQ(outputs[3].data, normed[2].data); // rstd
    const auto got = outputs[1].to_double(), scales = wanted[1].to_double();
    for (std::size_t i = 0; i < scales.size(); ++i)
      EXPECT_NEAR(got[i], scales[i], 1e-6 * scales[i]);
    const auto y = outputs[0].to_double(), z = wanted[0].to_double();
    int apart = 0; // a rounding of f32 may move a number across a tie
    for (std::size_t i = 0; i < z.size(); ++i) {
      EXPECT_NEAR(y[i], z[i], std::abs(z[i]) / 8 + 0x1p-9);
      apart += y[i] != z[i];
    }
    EXPECT_LE(apart, 3);
  }
}

// A NaN or an infinity stays in its row.
TEST_P(RmsNormQuant, NotANumberMakesItsRow) {
  for (const char *out : {"f8e4m3", "i8"})
    for (const double bad : {NAN, INFINITY})
      for (std::int64_t n : {200, 20000}) {
        FilledCall filled = fill(quantised(3, n, {{"out", out}}));
        filled.inputs[0].as<half>()[static_cast<std::size_t>(n + 5)] =
            half(static_cast<float>(bad));
        const auto outputs = run(device, filled);
        const auto scales = outputs[1].to_double();
        EXPECT_TRUE(std::isfinite(scales[0]) && std::isnan(scales[1]) && std::isfinite(scales[2]));
        const auto y = outputs[0].to_double();
        for (std::size_t i = 0; i < y.size(); ++i) {
          const bool isBad = i / static_cast<std::size_t>(n) == 1;
          if (std::string(out) == "i8" && isBad) {
            EXPECT_EQ(y[i], 0);
          } else {
            EXPECT_EQ(std::isnan(y[i]), isBad);
          }
        }
      }
}

TEST_P(RmsNormQuant, ZerosHaveTheLeastScale) {
  FilledCall filled = fill(quantised(2, 300, {{"granularity", "group"}}));
  filled.inputs[0].assign(std::vector<double>(600, 0.0));
  const auto outputs = run(device, filled);
  for (const double scale : outputs[1].to_double())
    EXPECT_EQ(scale, 0x1p-126);
  for (const double code : outputs[0].to_double())
    EXPECT_EQ(code, 0);
}

// A scale of the caller's, and magnitudes that scales are not made for.
TEST_P(RmsNormQuant, TakesScalesAndBounds) {
  for (const char *granularity : {"row", "group"})
    for (const char *out : {"f8e4m3", "i8"}) {
      for (const std::int64_t n : {300, 20000}) {
        expectRight(device, quantised(3, n, {{"granularity", granularity}, {"out", out}},
                                      {"w", "residual", "scale"}));
        expectRight(
            device,
            quantised(3, n, {{"granularity", granularity}, {"out", out}, {"scale_ub", "1.5"}}));
      }
      KernelCase test = quantised(3, 1100, {{"granularity", granularity}, {"out", out}}, {"scale"});
      test.config = {{"block", 256}, {"rows", 2}};
      expectRight(device, test);
    }
  FilledCall filled = fill(quantised(2, 200, {{"scale_ub", "1"}}, {}));
  for (std::size_t i = 0; i < 200; ++i)
    filled.inputs[0].as<half>()[i] = half(i % 2 ? 0.0f : 3.0f);
  const auto outputs = run(device, filled);
  EXPECT_EQ(outputs[1].to_double()[0], double(1 / 448.0f));
  EXPECT_EQ(outputs[0].to_double()[0], 448);
}

TEST(RmsNormQuantElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"})
    for (const char *granularity : {"row", "group"})
      for (const char *out : {"f8e4m3", "i8"})
        expectRight(
            Device::open(name),
            quantised(5, 300, {{"granularity", granularity}, {"out", out}}, {"w", "residual"}));
}

TEST(RmsNormQuantReference, PlantedMistakesAreSeen) {
  const FilledCall right = fill(quantised(5, 300));
  expectMistakeIsSeen(right, fill(quantised(5, 300, {{"weight_offset", "1"}})));
  expectMistakeIsSeen(right, fill(quantised(5, 300, {}, {})));
}

TEST(RmsNormQuantRefuses, WhatItCannotDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      resolveCase(test);
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expectRefused(quantised(2, 300, {{"eps", "-1"}}), "'eps' is -1, but must be at least 0");
  expectRefused(quantised(2, 300, {{"block", "48"}}), "'block' is 32, 64 or 128, not 48");
  expectRefused(quantised(2, 300, {{"scale_ub", "2"}}, {"scale"}), "scale_ub bounds only scales");
  expectRefused(quantised(2, 300, {{"scale_format", "e8m0"}}, {"scale"}),
                "scale_format must be f32, not e8m0");
  const FilledCall filled = fill(quantised(2, 300, {{"granularity", "group"}}));
  try {
    execute(Device::open("virtual:sm_80"), filled.call,
            completeConfig(filled.call, "sm_80", {{"block", 96}}), filled.inputs);
    ADD_FAILURE();
  } catch (const std::exception &error) {
    EXPECT_THAT(error.what(), HasSubstr("'block' is 96, which is no multiple of the groups' 128"));
  }
}
