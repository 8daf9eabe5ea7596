// rope and rope_backward: rotations, both styles, positions, layouts, and how good angles are.
#include "../VirtualTest.h"
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include "kernels/position/References.h"
#include "tests/unit/Processes.h"
#include "vgpu/VirtualDevice.h"
#include <algorithm>
#include <cmath>
#include <numbers>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class Rope : public OnDevice {};
SECTILE_INSTANTIATE_ON(Rope, "virtual:sm_80,virtual:sm_90a");

namespace {

std::vector<HostArray> run(const Device &device, const KernelCase &test,
                           std::vector<HostArray> *given = nullptr) {
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  if (test.prepare)
    test.prepare(call, inputs);
  if (given)
    *given = inputs;
  return execute(device, call, completeConfig(call, device.target(), {}), inputs).outputs;
}

// Every scheme, with numbers that leave, blend and slow down frequencies of few dims. theta 10 and
// few positions: errors of an angle in floats are small, so that tolerances are.
std::vector<Assignments> scalings() {
  return {{{"scaling", "linear"}, {"factor", "2.5"}},
          {{"scaling", "dynamic"}, {"factor", "3"}, {"original_length", "8"}},
          {{"scaling", "dynamic"}, {"original_length", "64"}, {"length", "500"}},
          {{"scaling", "dynamic"}, {"original_length", "64"}, {"length", "64"}},
          {{"scaling", "llama3"}, {"original_length", "100"}},
          {{"scaling", "llama3"}, {"original_length", "40"}, {"low_freq", "2"}},
          {{"scaling", "yarn"}, {"original_length", "300"}, {"factor", "4"}},
          {{"scaling", "yarn"}, {"original_length", "300"}, {"yarn_round", "false"}},
          {{"scaling", "yarn"}, {"original_length", "300"}, {"attention_factor", "1"}},
          {{"scaling", "yarn"}, {"original_length", "1"}}};
}

// cos and sin of each pair at `position`, by rows whose pairs are (1, 0), which half-split rows
// turn into (cos, sin).
std::vector<float> angles(const Device &device, std::int64_t position, std::int64_t dims,
                          Assignments options) {
  options.push_back({"offset", std::to_string(position)});
  const auto outputs = run(device, {"rope",
                                    {{"B", 1}, {"H", 1}, {"S", 1}, {"D", dims}},
                                    options,
                                    {},
                                    "f32",
                                    {},
                                    1,
                                    [](const Invocation &, std::vector<HostArray> &inputs) {
                                      auto x = inputs[0].as<float>();
                                      for (std::size_t i = 0; i < x.size(); ++i)
                                        x[i] = i < x.size() / 2 ? 1 : 0;
                                    }});
  const auto y = outputs[0].as<float>();
  return {y.begin(), y.end()};
}

} // namespace

TEST_P(Rope, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"rope", "rope_backward"})
    for (std::int64_t length : {0, 1, 31, 32, 33, 65})
      expectRight(device, {kernel, {{"S", length}}});
  for (std::int64_t dims : {2, 16, 30, 64, 66, 128, 256})
    for (const char *style : {"half", "interleaved"})
      expectRight(device, {"rope", {{"D", dims}}, {{"style", style}}});
  for (std::int64_t heads : {0, 1, 5, 9})
    expectRight(device, {"rope", {{"H", heads}}});
}

TEST_P(Rope, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"rope", "rope_backward"})
    for (const char *style : {"half", "interleaved"})
      for (const char *dtype : {"f16", "bf16", "f32"}) {
        const Assignments options{{"style", style}, {"rotary", "18"}, {"theta", "500"}};
        expectRight(device, {kernel, {}, options, {"positions"}, dtype});
        expectRight(device, {kernel, {}, {{"layout", "bshd"}, {"style", style}}, {}, dtype});
        expectRight(device, {kernel, {}, {{"offset", "-7"}, {"rotary", "2"}}, {}, dtype});
      }
  expectRight(device, {"rope", {{"S", 17}}, {}, {}, "f32", {{"m", 4}, {"heads", 2}}});
}

TEST_P(Rope, TakesAnyStrides) {
  for (const char *layout : {"bhsd", "bshd"})
    for (const char *style : {"half", "interleaved"})
      expectRightWithStrides(
          device, {"rope", {}, {{"layout", layout}, {"style", style}}, {"positions"}, "f32"});
  expectRightWithStrides(device, {"rope_backward", {}, {{"rotary", "20"}}});
}

// At position 0, and beyond the dims that are turned, nothing changes, to the bit.
TEST_P(Rope, LeavesWhatItDoesNotTurn) {
  for (const char *kernel : {"rope", "rope_backward"})
    for (const char *style : {"half", "interleaved"})
      for (const char *dtype : {"bf16", "f32"}) {
        std::vector<HostArray> inputs;
        const auto outputs = run(device,
                                 {kernel,
                                  {{"B", 1}, {"H", 3}, {"S", 9}, {"D", 32}},
                                  {{"style", style}, {"rotary", "20"}},
                                  {},
                                  dtype},
                                 &inputs);
        const auto x = inputs[0].to_double(), y = outputs[0].to_double();
        for (std::size_t i = 0; i < x.size(); ++i)
          if (i / 32 % 9 == 0 || i % 32 >= 20) {
            EXPECT_EQ(y[i], x[i]) << kernel << " " << style << " " << i;
          }
      }
}

// A row's pairs keep their norms and a row its scalar product with another at the same distance.
TEST_P(Rope, IsARotation) {
  for (const char *style : {"half", "interleaved"}) {
    std::vector<HostArray> inputs;
    const auto outputs = run(
        device, {"rope", {{"B", 1}, {"H", 1}, {"S", 64}, {"D", 32}}, {{"style", style}}, {}, "f32"},
        &inputs);
    const auto x = inputs[0].to_double(), y = outputs[0].to_double();
    const bool interleaved = std::string(style) == "interleaved";
    for (std::size_t row = 0; row < 64; ++row)
      for (std::size_t pair = 0; pair < 16; ++pair) {
        const std::size_t a = row * 32 + (interleaved ? 2 * pair : pair),
                          b = interleaved ? a + 1 : a + 16;
        EXPECT_NEAR(std::hypot(y[a], y[b]), std::hypot(x[a], x[b]), 2e-6) << style << a;
      }
  }
}

// x_even (cos + sin), x_odd (cos - sin), from copies of the even and the odd dims, is no rotation.
TEST_P(Rope, IsNotTheFormulaOfEvenAndOddCopies) {
  std::vector<HostArray> inputs;
  const auto outputs = run(
      device,
      {"rope", {{"B", 1}, {"H", 1}, {"S", 8}, {"D", 16}}, {{"style", "interleaved"}}, {}, "f32"},
      &inputs);
  const auto x = inputs[0].to_double(), y = outputs[0].to_double();
  double difference = 0, stretched = 0;
  for (std::size_t i = 0; i < x.size(); i += 2) {
    const double angle = static_cast<double>(i / 16) * std::pow(10000.0, -double(i % 16) / 16);
    const double even = x[i] * (std::cos(angle) + std::sin(angle)),
                 odd = x[i + 1] * (std::cos(angle) - std::sin(angle));
    difference = std::max(difference, std::hypot(y[i] - even, y[i + 1] - odd));
    stretched =
        std::max(stretched, std::abs(std::hypot(even, odd) / std::hypot(x[i], x[i + 1]) - 1));
  }
  EXPECT_GT(difference, 0.5);
  EXPECT_GT(stretched, 0.1);
}

// Against angles of twice the digits: reduced in floats they would be good for nothing here.
TEST_P(Rope, AnglesOfLargePositionsAreGood) {
  for (std::int64_t position : {1'000'000, 16'777'217, 2'147'483'600}) {
    const auto outputs = run(device, {"rope",
                                      {{"B", 1}, {"H", 1}, {"S", 16}, {"D", 64}},
                                      {{"offset", std::to_string(position)}},
                                      {},
                                      "f32",
                                      {},
                                      1,
                                      [](const Invocation &, std::vector<HostArray> &inputs) {
                                        auto x = inputs[0].as<float>();
                                        for (std::size_t i = 0; i < x.size(); ++i)
                                          x[i] = i % 64 < 32 ? 1 : 0;
                                      }});
    const auto y = outputs[0].as<float>();
    // The frequency's own rounding counts position times; sine and cosine are within 2e-7.
    const double bound = 2e-7 + static_cast<double>(position) * 0x1p-51;
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t pair = 0; pair < 32; ++pair) {
        const long double angle =
            static_cast<long double>(position + static_cast<std::int64_t>(i)) *
            std::pow(10000.0L, -static_cast<long double>(pair) / 32);
        EXPECT_NEAR(y[i * 64 + pair], static_cast<double>(std::cos(angle)), bound);
        EXPECT_NEAR(y[i * 64 + 32 + pair], static_cast<double>(std::sin(angle)), bound);
      }
  }
}

TEST_P(Rope, ScalesFrequencies) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"rope", "rope_backward"})
    for (Assignments options : scalings()) {
      options.push_back({"theta", "10"});
      expectRight(device, {kernel, {}, options, {}, "f32"});
      options.push_back({"rotary", "18"});
      options.push_back({"style", "interleaved"});
      expectRight(device, {kernel, {}, options, {}, "f16"});
    }
  expectRight(device, {"rope", {}, {{"scaling", "dynamic"}, {"length", "9000"}}, {"positions"}});
  expectRight(device, {"rope", {}, {{"scaling", "dynamic"}, {"rotary", "2"}, {"length", "9000"}}});
}

// Llama 3.1's and gpt-oss's own numbers, at positions at which angles in floats are useless.
TEST_P(Rope, ScaledAnglesOfLargePositionsAreGood) {
  constexpr long double pi = std::numbers::pi_v<long double>;
  for (const std::int64_t position : {131'071, 1'048'576}) {
    const auto expectAngles = [&](const std::vector<float> &y, std::size_t pairs, double magnitude,
                                  const auto &frequency) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const long double angle =
            static_cast<long double>(position) * frequency(static_cast<long double>(i));
        EXPECT_NEAR(y[i], static_cast<double>(std::cos(angle)) * magnitude, 1e-6) << i;
        EXPECT_NEAR(y[pairs + i], static_cast<double>(std::sin(angle)) * magnitude, 1e-6) << i;
      }
    };
    expectAngles(angles(device, position, 128, {{"theta", "500000"}, {"scaling", "llama3"}}), 64, 1,
                 [&](long double i) {
                   const long double f = std::pow(500000.0L, -i / 64), wave = 2 * pi / f;
                   if (wave < 8192.0L / 4)
                     return f;
                   if (wave > 8192.0L)
                     return f / 8;
                   const long double s = (8192.0L / wave - 1) / 3;
                   return (1 - s) * f / 8 + s * f;
                 });
    expectAngles(angles(device, position, 64,
                        {{"theta", "150000"},
                         {"scaling", "yarn"},
                         {"factor", "32"},
                         {"original_length", "4096"},
                         {"yarn_round", "false"}}),
                 32, 0.1 * std::log(32.0) + 1, [&](long double i) {
                   const auto pairOf = [](long double beta) {
                     return 64 * std::log(4096 / (beta * 2 * pi)) / (2 * std::log(150000.0L));
                   };
                   const long double f = std::pow(150000.0L, -i / 32), first = pairOf(32),
                                     ramp =
                                         std::clamp((i - first) / (pairOf(1) - first), 0.0L, 1.0L);
                   return f * (1 - ramp) + f / 32 * ramp;
                 });
  }
}

TEST_P(Rope, BackwardUndoesIt) {
  for (const char *style : {"half", "interleaved"}) {
    std::vector<HostArray> inputs;
    const KernelCase test{"rope", {}, {{"style", style}, {"rotary", "24"}}, {"positions"}, "f32"};
    const auto turned = run(device, test, &inputs);
    KernelCase back = test;
    back.kernel = "rope_backward";
    back.prepare = [&](const Invocation &, std::vector<HostArray> &arrays) {
      arrays = {turned[0], inputs[1]};
    };
    const auto again = run(device, back)[0].to_double(), x = inputs[0].to_double();
    for (std::size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(again[i], x[i], 2e-6);
  }
}

TEST(RopeElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"})
    for (const char *style : {"half", "interleaved"}) {
      expectRight(Device::open(name), {"rope", {}, {{"style", style}}, {"positions"}});
      for (Assignments options : scalings()) {
        options.push_back({"style", style});
        expectRight(Device::open(name), {"rope", {}, options});
      }
    }
}

TEST(RopeReference, ByHand) {
  const std::vector<double> x{1, 0, 0, 1};
  const HostArray rows(DType::float64, {1, 1, 1, 4}, x);
  const double c = std::cos(3.0), s = std::sin(3.0), c1 = std::cos(0.3), s1 = std::sin(0.3);
  RotationOptions options{false, 100, 4, 3, false};
  // Half: pairs (0, 2) by 3 and (1, 3) by 3 / sqrt(100).
  EXPECT_THAT(ropeReference(rows, {}, options, Arithmetic::exact).to_double(),
              testing::Pointwise(testing::DoubleNear(1e-12), {c, -s1, s, c1}));
  options.interleaved = true;
  EXPECT_THAT(ropeReference(rows, {}, options, Arithmetic::exact).to_double(),
              testing::Pointwise(testing::DoubleNear(1e-12), {c, s, -s1, c1}));
}

TEST(RopeReference, Gradients) {
  for (const char *style : {"half", "interleaved"})
    for (const Assignments &more :
         {Assignments{}, {{"rotary", "8"}}, {{"theta", "50"}, {"layout", "bshd"}}}) {
      Assignments options{{"style", style}};
      options.insert(options.end(), more.begin(), more.end());
      expectGradients({"rope", {}, options, {}}, "rope_backward");
      expectGradients({"rope", {}, options, {"positions"}}, "rope_backward");
    }
}

// Ramps of yarn begin and end with whole pairs, which both formulas must find: by hand.
TEST(RopeReference, RampsOfYarn) {
  const FrequencyScaling scaling{.kind = FrequencyScaling::yarn, .factor = 4, .original = 4096};
  // 128 ln(4096 / (2 pi beta)) / (2 ln 10000), by a calculator.
  EXPECT_NEAR(scaling.pairOf(32, 10000, 128), 20.9445, 1e-4);
  EXPECT_NEAR(scaling.pairOf(1, 10000, 128), 45.0269, 1e-4);
  EXPECT_NEAR(scaling.magnitude(), 1.138629, 1e-6);
  std::vector<double> x(128, 0.0);
  std::fill_n(x.begin(), 64, 1.0);
  const RotationOptions options{.rotary = 128, .offset = 1, .scaling = scaling};
  const auto y =
      ropeReference(HostArray(DType::float64, {1, 1, 1, 128}, x), {}, options, Arithmetic::exact)
          .to_double();
  const auto angle = [&](std::size_t pair) { return std::atan2(y[64 + pair], y[pair]); };
  const auto f = [](double pair) { return std::pow(10000.0, -pair / 64); };
  EXPECT_NEAR(angle(20), f(20), 1e-12);
  EXPECT_NEAR(angle(21), f(21) * (1 - 0.75 / 26), 1e-12);
  EXPECT_NEAR(angle(45), f(45) * (1 - 0.75 * 25 / 26), 1e-12);
  EXPECT_NEAR(angle(46), f(46) / 4, 1e-12);
}

// The harness sees a style that is not the one asked for, and positions that are one off.
TEST(RopeReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  const auto outputs = run(device, {"rope", {}, {{"style", "half"}}});
  for (const Assignments &wrong : {Assignments{{"style", "interleaved"}},
                                   {{"offset", "1"}},
                                   {{"scaling", "linear"}, {"factor", "1.1"}},
                                   {{"scaling", "yarn"}, {"factor", "1.2"}}}) {
    const Invocation call = resolveCase({"rope", {}, wrong});
    EXPECT_FALSE(check(call, sampleInputs(call, 1), outputs)[0].accuracy.ok());
  }
}

TEST(RopeReference, RefusesWhatItCannotDo) {
  for (const Assignments &options :
       {Assignments{{"rotary", "7"}}, {{"rotary", "42"}}, {{"rotary", "0"}}, {{"theta", "0.5"}}})
    EXPECT_THROW(resolveCase({"rope", {}, options}), InputError);
  const auto expectRefused = [](const Assignments &options, const char *text) {
    try {
      resolveCase({"rope", {}, options, {"positions"}});
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expectRefused({{"scaling", "linear"}, {"factor", "0.5"}}, "'factor' must be at least 1");
  expectRefused({{"scaling", "llama3"}, {"original_length", "0"}}, "'original_length' must be at");
  expectRefused({{"scaling", "llama3"}, {"low_freq", "4"}}, "'low_freq' must be below 'high_freq'");
  expectRefused({{"scaling", "yarn"}, {"beta_slow", "0"}}, "'beta_slow' must be above 0");
  expectRefused({{"scaling", "yarn"}, {"beta_fast", "1"}}, "below 'beta_fast'");
  expectRefused({{"scaling", "yarn"}, {"theta", "1"}}, "'theta' must be above 1");
  expectRefused({{"scaling", "dynamic"}}, "give it as option 'length'");
}

TEST(RopeCounters, EachElementMovesOnce) {
  for (const char *target : {"virtual:sm_80", "virtual:sm_90a"})
    for (const char *style : {"half", "interleaved"}) {
      const Device device = Device::open(target);
      auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
      machine.countAccesses();
      run(device, {"rope", {{"B", 1}, {"H", 4}, {"S", 128}, {"D", 64}}, {{"style", style}}});
      const auto &counters = machine.lastCounters();
      constexpr std::uint64_t bytes = 4 * 128 * 64 * 2;
      EXPECT_EQ(counters.globalLoad.bytes + counters.asyncCopy.bytes, bytes);
      EXPECT_EQ(counters.globalStore.bytes, bytes);
      EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
      EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
    }
}

TEST(RopeExample, TurnsQueriesOfALaterChunk) {
  const Device device = Device::open("virtual:sm_80");
  const auto q =
      tensor(device.upload(std::vector<half>(2 * 4 * 8 * 64, half(1.0f))), {2, 4, 8, 64});
  // [rope]
  auto out = run_kernel(device.stream(), "rope", {{"x", q}},
                        {{"style", "interleaved"}, {"offset", "4096"}});
  auto turned = out.at("y").as<half, 4>();
  // [/rope]
  device.synchronize();
  EXPECT_EQ(turned.extents(), q.extents());
}
