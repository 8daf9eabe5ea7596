// Mixtures of experts in few bits: fp8 with scales for blocks, matrices of mxfp4, what of these is
// refused, and the instructions that multiply them.
#include "ExpertCases.h"
#include "kernels/calls/Emit.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"
#include <array>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class ExpertCodes : public OnDevice {};
SECTILE_INSTANTIATE_ON(ExpertCodes, "virtual:sm_80,virtual:sm_90a");
class ExpertCodesElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(ExpertCodesElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

using Names = std::vector<std::string>;
const char *const fp8 = "f8e4m3", *const mxOfHalves = "bf16,w=u8", *const mxOfCodes = "f8e4m3,w=u8";
const Assignments gptOss{
    {"gate", "interleaved"}, {"alpha", "1.702"}, {"limit", "7"}, {"up_offset", "1"}};

KernelCase up(std::int64_t k, std::int64_t n, const char *dtype, Names with,
              Assignments options = {}) {
  return {"moe_up", {{"K", k}, {"N", n}, {"M", 40}}, std::move(options), std::move(with), dtype};
}
KernelCase down(std::int64_t k, std::int64_t n, const char *dtype, Names with,
                Assignments options = {}) {
  return {"moe_down", {{"K", k}, {"N", n}, {"M", 40}}, std::move(options), std::move(with), dtype};
}

const std::vector<std::vector<double>> lengths{{1}, {0, 0, 5}, {0, 0}, {63, 1, 65}, {0, 130, 0}};

Config persistent(std::int64_t n) {
  return {{"persistent", 1}, {"programs", 3}, {"m", 64},    {"n", n},
          {"k", 128},        {"warps", 4},    {"stages", 3}};
}

} // namespace

TEST_P(ExpertCodes, ScaledRowsAndMatrices) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::array gates{"none", "interleaved", "concatenated"};
  for (std::size_t i = 0; i < lengths.size(); ++i)
    for (std::size_t gate = 0; gate < gates.size(); ++gate)
      if (gate == i % gates.size() || count(0, 1))
        expectRight(device,
                    withCounts(up(256, 260, fp8, {"x_scales", "w_scales"}, {{"gate", gates[gate]}}),
                               lengths[i]));
  // Blocks of which the last is not full, in either direction; halves that begin within one.
  std::size_t place = 0;
  for (const auto &[k, n] :
       {std::pair<std::int64_t, std::int64_t>{1, 2}, {129, 130}, {300, 384}, {128, 516}, {0, 4}}) {
    ++place;
    for (const char *gate : {"none", "interleaved", "concatenated"})
      if (isAmongAThird(place++))
        expectRight(device, up(k, n, fp8, {"bias", "x_scales", "w_scales"}, {{"gate", gate}}));
  }
  for (const bool hasRows : {false, true})
    for (const bool hasMatrices : {false, true})
      for (const char *trans : {"false", "true"}) {
        const auto with = [&](const char *rows) {
          Names names;
          if (hasRows)
            names.emplace_back(rows);
          if (hasMatrices)
            names.emplace_back("w_scales");
          return names;
        };
        expectRight(device, up(264, 264, fp8, with("x_scales"), {{"trans_w", trans}}));
        expectRight(device, down(264, 264, fp8, with("h_scales"), {{"trans_w", trans}}));
      }
  for (const auto &counts : lengths)
    expectRight(device, withCounts(down(256, 260, fp8, {"bias", "addend", "h_scales", "w_scales"}),
                                   counts));
}

TEST_P(ExpertCodes, ScaledByPersistentPrograms) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const std::int64_t n : {32, 128, 256}) {
    ++place;
    for (const char *gate : {"none", "interleaved", "concatenated"}) {
      ++place;
      for (const Names &with : {Names{"x_scales"}, {"w_scales"}, {"x_scales", "w_scales"}}) {
        if (!isAmongAThird(place++))
          continue;
        KernelCase test = withCounts(up(300, 272, fp8, with, {{"gate", gate}}), {63, 0, 65, 1});
        test.config = persistent(n);
        expectRight(device, test);
      }
    }
  }
  KernelCase test = withCounts(down(300, 272, fp8, {"h_scales", "w_scales"}), {63, 0, 65, 1});
  test.config = persistent(128);
  expectRight(device, test);
}

// Scales are of any numbers, not of codes alone.
TEST_P(ExpertCodes, ScalesOfOtherTypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f16", "bf16", "f32"})
    for (const char *precision : {"tf32", "exact"}) {
      expectRight(device,
                  up(264, 264, dtype, {"x_scales", "w_scales"}, {{"precision", precision}}));
      expectRight(device,
                  down(264, 264, dtype, {"h_scales", "w_scales"}, {{"precision", precision}}));
    }
  expectRight(device, up(264, 264, fp8, {"x_scales", "w_scales"}, {{"precision", "exact"}}));
}

TEST_P(ExpertCodes, ConfigurationsOfScaledBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const std::int64_t k : {32, 64, 128})
    for (const std::int64_t m : {32, 64}) {
      KernelCase test = up(300, 264, fp8, {"x_scales", "w_scales"});
      test.config = {{"k", k}, {"m", m}, {"n", 64}};
      expectRight(device, test);
    }
}

TEST_P(ExpertCodes, MatricesOfMxfp4) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const auto &counts : lengths) {
    expectRight(device, withCounts(up(96, 130, mxOfHalves, {"bias", "w_scales"}, gptOss), counts));
    expectRight(device,
                withCounts(down(96, 130, mxOfHalves, {"bias", "addend", "w_scales"}), counts));
  }
  std::size_t place = 0;
  for (const auto &[k, n] :
       {std::pair<std::int64_t, std::int64_t>{2, 2}, {34, 130}, {160, 64}, {258, 260}, {0, 4}})
    for (const char *dtype : {mxOfHalves, mxOfCodes}) {
      ++place;
      for (const char *gate : {"none", "interleaved", "concatenated"})
        if (isAmongAThird(place++))
          expectRight(device, up(k, n, dtype, {"w_scales"}, {{"gate", gate}}));
    }
  // Activations with scales of their own.
  expectRight(device, up(300, 264, mxOfCodes, {"x_scales", "w_scales"}, gptOss));
  expectRight(device, down(300, 264, mxOfCodes, {"h_scales", "w_scales"}));
  for (const std::int64_t k : {32, 64, 128}) {
    KernelCase test = withCounts(up(300, 272, mxOfHalves, {"w_scales"}, gptOss), {63, 0, 65, 1});
    test.config = persistent(64);
    test.config["k"] = k;
    expectRight(device, test);
    test.config["persistent"] = 0;
    expectRight(device, test);
  }
}

// As with many rows for each expert.
TEST_P(ExpertCodes, DecodedApart) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto decoded = [](KernelCase test) {
    test.config = {{"decode_first", 1}, {"m", 64}, {"n", 64}, {"k", 16}, {"warps", 4}};
    return test;
  };
  for (const auto &counts : lengths) {
    expectRight(device,
                decoded(withCounts(up(96, 130, mxOfHalves, {"bias", "w_scales"}, gptOss), counts)));
    expectRight(device, decoded(withCounts(
                            down(96, 130, mxOfHalves, {"bias", "addend", "w_scales"}), counts)));
  }
  for (const auto &[k, n] :
       {std::pair<std::int64_t, std::int64_t>{2, 2}, {34, 130}, {258, 260}, {0, 4}})
    expectRight(device, decoded(up(k, n, mxOfHalves, {"w_scales"}, {{"gate", "concatenated"}})));
  expectRightWithStrides(device, decoded(up(96, 132, mxOfHalves, {"bias", "w_scales"}, gptOss)));
  const auto byDefault = [](const char *dtype, std::int64_t rows, std::int64_t experts) {
    KernelCase test = up(2880, 5760, dtype, {"w_scales"});
    test.extents.insert({{"T", rows}, {"G", experts}});
    test.extents["M"] = rows;
    return completeConfig(resolveCase(test), "sm_90a", {}).at("decode_first");
  };
  EXPECT_EQ(byDefault(mxOfHalves, 65536, 32), 1);
  EXPECT_EQ(byDefault(mxOfHalves, 8192, 32), 0);
  EXPECT_EQ(byDefault(mxOfHalves, 131072, 128), 0); // 4 GiB
  EXPECT_EQ(byDefault(mxOfCodes, 65536, 32), 0);
}

TEST_P(ExpertCodes, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  expectRightWithStrides(device, up(264, 132, fp8, {"bias", "x_scales", "w_scales"}));
  expectRightWithStrides(device, down(264, 132, fp8, {"h_scales", "w_scales"}));
  expectRightWithStrides(device, up(96, 132, mxOfHalves, {"bias", "w_scales"}, gptOss));
  expectRightWithStrides(device, down(96, 132, mxOfHalves, {"w_scales"}));
}

TEST_P(ExpertCodesElsewhere, IsRight) {
  for (const char *gate : {"none", "interleaved", "concatenated"}) {
    expectRight(device, up(200, 264, fp8, {"bias", "x_scales", "w_scales"}, {{"gate", gate}}));
    expectRight(device, up(96, 132, mxOfHalves, {"bias", "w_scales"}, {{"gate", gate}}));
  }
  expectRight(device, down(200, 264, fp8, {"addend", "h_scales", "w_scales"}));
  expectRight(device, down(96, 132, mxOfHalves, {"addend", "w_scales"}));
  expectRight(device, down(96, 132, mxOfCodes, {"h_scales", "w_scales"}));
}

// Whole numbers and powers of two: nothing is rounded.
TEST_P(ExpertCodes, WholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtype : {fp8, mxOfHalves, mxOfCodes}) {
    KernelCase test = up(200, 264, dtype, {"w_scales"}, {{"gate", "none"}, {"activation", "none"}});
    if (dtype != mxOfHalves)
      test.with.emplace_back("x_scales");
    test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
      const auto input = [&](const char *name) -> HostArray & { return inputs[call.index(name)]; };
      // Two numbers of each row and column are not 0, so that sums are short.
      for (const char *name : {"x", "w"}) {
        HostArray &array = input(name);
        std::vector<double> values(static_cast<std::size_t>(array.count()));
        for (std::size_t i = 0; i < values.size(); i += 67)
          values[i] = array.dtype == DType::uint8 ? 0x42 : static_cast<double>(i % 5) - 2;
        array.assign(values);
      }
      for (const char *name : {"x_scales", "w_scales"})
        if (call.has(name)) {
          HostArray &array = input(name);
          std::vector<double> values(static_cast<std::size_t>(array.count()));
          for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = array.dtype == DType::uint8 ? 126 + static_cast<double>(i % 3)
                                                    : std::ldexp(1.0, static_cast<int>(i % 3) - 1);
          array.assign(values);
        }
    };
    expectExact(device, test);
  }
}

// The e8m0 scale 255 makes its column of its expert NaN, and nothing else.
TEST_P(ExpertCodes, NanScales) {
  KernelCase test = withCounts(up(96, 8, mxOfHalves, {"w_scales"}, {{"gate", "none"}}), {2, 3});
  const auto counts = test.prepare;
  test.prepare = [counts](const Invocation &call, std::vector<HostArray> &inputs) {
    counts(call, inputs);
    // [G, N, K / 32], as stored
    inputs[call.index("w_scales")].as<std::uint8_t>()[(1 * 8 + 5) * 3 + 2] = 255;
  };
  const auto h = expectRight(device, test)[0].to_double();
  for (std::size_t i = 0; i < h.size(); ++i)
    EXPECT_EQ(std::isnan(h[i]), i / 8 >= 2 && i % 8 == 5) << i;
}

TEST(ExpertCodesHarness, CatchesAScaleOfTheNextBlock) {
  for (const auto &[dtype, name] : {std::pair{fp8, "x_scales"}, {fp8, "w_scales"}}) {
    const FilledCall right = fill(up(264, 264, dtype, {"x_scales", "w_scales"}));
    FilledCall wrong = right;
    auto scales = wrong.inputs[right.call.index(name)].as<float>();
    std::rotate(scales.begin(), scales.begin() + 1, scales.end());
    expectMistakeIsSeen(right, wrong);
  }
  const FilledCall right = fill(up(96, 132, mxOfHalves, {"w_scales"}));
  FilledCall wrong = right;
  auto scales = wrong.inputs[right.call.index("w_scales")].as<std::uint8_t>();
  std::rotate(scales.begin(), scales.begin() + 1, scales.end());
  expectMistakeIsSeen(right, wrong);
}

// Both of a chain's products of 8 bits are by warpgroups, and rows that lie one after another are
// copied by the engine.
TEST(ExpertCodesOnHopper, AreMultipliedByWarpgroups) {
  SECTILE_NEEDS_LOOP_PLANS();
  const auto codeOf = [](const KernelCase &test) {
    const Invocation call = resolveCase(test);
    return emitKernel(call, completeConfig(call, "sm_90a", {}), "sm_90a", "ptx").front().code;
  };
  const std::map<std::string, std::int64_t> few{{"M", 128}, {"G", 128}, {"T", 16}},
      many{{"M", 131072}, {"G", 128}, {"T", 16384}};
  for (const auto &rows : {few, many}) {
    KernelCase first = up(2048, 1536, fp8, {"x_scales", "w_scales"}),
               second = down(768, 2048, fp8, {"h_scales", "w_scales"});
    for (KernelCase *test : {&first, &second})
      test->extents.insert(rows.begin(), rows.end());
    second.extents["C"] = 8;
    EXPECT_THAT(codeOf(first), AllOf(HasSubstr("wgmma.mma_async"), HasSubstr(".f32.e4m3.e4m3"),
                                     Not(HasSubstr("mma.sync"))));
    EXPECT_THAT(codeOf(second), AllOf(HasSubstr(".f32.e4m3.e4m3"), HasSubstr("wgmma.mma_async"),
                                      HasSubstr("cp.async.bulk.tensor"), Not(HasSubstr("mma.sync")),
                                      Not(HasSubstr("cp.async.cg.shared"))));
  }
}

TEST(ExpertCodeErrors, SayWhatWouldDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      const Invocation call = resolveCase(test);
      emitKernel(call, completeConfig(call, "sm_90a", test.config), "sm_90a", "tile");
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  KernelCase test = up(256, 264, fp8, {"x_scales", "w_scales"});
  test.extents["Sk"] = 3;
  expectRefused(test, "x_scales has 3 along Sk, but K has 2 blocks of 128");
  test = up(256, 264, fp8, {"x_scales", "w_scales"});
  test.extents["Sw"] = 1;
  expectRefused(test, "w_scales has 1 along Sw, but K has 2 blocks of 128");
  test = up(256, 264, fp8, {"x_scales", "w_scales"});
  test.extents["Sn"] = 2;
  expectRefused(test, "w_scales has 2 along Sn, but N has 3 blocks of 128");
  test = down(96, 40, mxOfHalves, {"w_scales"});
  test.extents["Sw"] = 2;
  expectRefused(test, "w_scales has 2 along Sw, but K has 3 blocks of 32");
  test = down(96, 40, mxOfHalves, {"w_scales"});
  test.extents["Sn"] = 20;
  expectRefused(test, "w_scales has 20 along Sn, but N has 40 columns");
  expectRefused(up(33, 40, mxOfHalves, {"w_scales"}), "K is 33, but a byte of mxfp4 holds two");
  expectRefused(up(96, 40, mxOfHalves, {}), "w of mxfp4 needs w_scales");
  expectRefused(up(96, 40, mxOfHalves, {"w_scales"}, {{"trans_w", "false"}}),
                "w of mxfp4 is [G, N, K / 2]");
  expectRefused(up(96, 40, "f16,w=u8", {"w_scales"}),
                "x is f16, but w of mxfp4 goes with bf16 or f8e4m3");
  test = up(96, 40, "bf16", {});
  test.extents["Kw"] = 48;
  expectRefused(test, "K is 96 in x, but 48 in w; w is [G, K, N], or [G, N, K] with trans_w=true");
  test = up(96, 40, mxOfHalves, {"w_scales"});
  test.extents["Kw"] = 96;
  expectRefused(test, "K is 96 in x, but 192 in w of mxfp4, which has two in each byte");
  test = down(96, 40, fp8, {});
  test.extents["Kw"] = 40;
  expectRefused(test, "K is 96 in h, but 40 in w; w is [G, N, K], or [G, K, N] with trans_w=false");
  expectRefused(up(96, 40, "bf16,w=f16", {}), "w is f16, but must be bf16");
  expectRefused(up(96, 40, "bf16,w=u8", {"w_scales"}, {{"w_format", "same"}}), "w is u8, but must");
  test = up(256, 264, fp8, {"x_scales"});
  test.config = {{"k", 256}};
  expectRefused(test, "'k' is 256, which does not divide a block of 128");
  test = up(96, 40, mxOfHalves, {"w_scales"});
  test.config = {{"k", 16}};
  expectRefused(test, "'k' is 16, which is no multiple of a block of 32");
  for (const char *dtype : {mxOfCodes, fp8}) {
    test = up(96, 40, dtype, {"w_scales"});
    test.config = {{"decode_first", 1}};
    expectRefused(test, "only w of mxfp4 beside bf16 is decoded first");
  }
}
