// rope and rope_backward: rotations, both styles, positions, layouts, and how good angles are.
#include "../VirtualTest.h"
#include "KernelTest.h"
#include "jit/virtual/VirtualDevice.h"
#include "kernels/Use.h"
#include "kernels/position/References.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

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

} // namespace

TEST_P(Rope, IsRightAtEveryEdge) {
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
    for (const char *style : {"half", "interleaved"})
      expectRight(Device::open(name), {"rope", {}, {{"style", style}}, {"positions"}});
}

TEST(RopeReference, ByHand) {
  const std::vector<double> x{1, 0, 0, 1};
  const HostArray rows(DType::float64, {1, 1, 1, 4}, x);
  const double c = std::cos(3.0), s = std::sin(3.0), c1 = std::cos(0.3), s1 = std::sin(0.3);
  RopeOptions options{false, 100, 4, 3, false};
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

// The harness sees a style that is not the one asked for, and positions that are one off.
TEST(RopeReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  const auto outputs = run(device, {"rope", {}, {{"style", "half"}}});
  for (const Assignments &wrong : {Assignments{{"style", "interleaved"}}, {{"offset", "1"}}}) {
    const Invocation call = resolveCase({"rope", {}, wrong});
    EXPECT_FALSE(check(call, sampleInputs(call, 1), outputs)[0].accuracy.ok());
  }
}

TEST(RopeReference, RefusesWhatItCannotDo) {
  for (const Assignments &options :
       {Assignments{{"rotary", "7"}}, {{"rotary", "42"}}, {{"rotary", "0"}}, {{"theta", "0.5"}}})
    EXPECT_THROW(resolveCase({"rope", {}, options}), InputError);
}

TEST(RopeCounters, EachElementMovesOnce) {
  for (const char *target : {"virtual:sm_80", "virtual:sm_90a"})
    for (const char *style : {"half", "interleaved"}) {
      const Device device = Device::open(target);
      run(device, {"rope", {{"B", 1}, {"H", 4}, {"S", 128}, {"D", 64}}, {{"style", style}}});
      const auto &counters = static_cast<runtime::VirtualDevice &>(*device.impl()).lastCounters();
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
