// add_positions and sinusoidal with their gradients: tables, positions, layer norm after them.
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include "kernels/position/References.h"
#include "tests/unit/Message.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

class AddPositions : public OnDevice {};
SECTILE_INSTANTIATE_ON(AddPositions, "virtual:sm_80,virtual:sm_90a");

namespace {

const std::vector<std::string> norm{"w", "b"}, normBack{"x", "w", "mean", "rstd"};

std::vector<std::string> with(std::vector<std::string> names, const char *more) {
  names.emplace_back(more);
  return names;
}

// Statistics that belong to the sums, as the forward kernel gives them.
void statistics(const Invocation &call, std::vector<HostArray> &inputs) {
  const bool table = call.kernel->name == "add_positions_backward";
  const HostArray ones(DType::float32, {call.extent("H")});
  const auto sums = addPositionsReference(
      inputs[call.index("x")], table ? inputs[1] : HostArray(), inputs[call.index("positions")],
      ones, ones, {.scale = call.options.number("scale"), .offset = call.options.integer("offset")},
      Arithmetic::exact);
  for (const auto &[name, values] : {std::pair{"mean", sums.mean}, {"rstd", sums.rstd}})
    inputs[call.index(name)].assign(values.to_double());
}

} // namespace

TEST_P(AddPositions, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"add_positions", "sinusoidal"}) {
    for (std::int64_t length : {0, 1, 15, 17})
      expectRight(device, {kernel, {{"S", length}}});
    for (std::int64_t width : {1, 63, 65, 128})
      expectRight(device, {kernel, {{"H", width}}, {}, norm});
    // Rows longer than a block.
    expectRight(device, {kernel, {{"H", 200}}, {}, norm, "f32", {{"block", 64}, {"m", 2}}});
    expectRight(device, {kernel, {{"H", 200}}, {}, {}, "f32", {{"block", 64}, {"m", 2}}});
  }
}

TEST_P(AddPositions, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"add_positions", "sinusoidal"})
    for (const char *dtype : {"f16", "bf16", "f32"}) {
      expectRight(device, {kernel, {}, {{"scale", "3"}, {"offset", "3"}}, {}, dtype});
      expectRight(device, {kernel, {}, {{"eps", "0.1"}}, with(norm, "positions"), dtype});
    }
  expectRight(device, {"sinusoidal", {}, {{"theta", "50"}, {"offset", "-5"}}, {}, "f32"});
}

TEST_P(AddPositions, GradientsAreRight) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"add_positions_backward", "sinusoidal_backward"})
    for (const char *dtype : {"f16", "bf16", "f32"}) {
      expectRight(device, {kernel, {}, {{"scale", "0.5"}, {"offset", "2"}}, {}, dtype});
      expectRight(device, {kernel, {}, {}, {"positions"}, dtype});
      expectRight(device, {kernel, {}, {}, with(normBack, "positions"), dtype, {}, 1, statistics});
    }
  for (const char *kernel : {"add_positions_backward", "sinusoidal_backward"})
    expectRight(device, {kernel, {{"S", 0}}});
  for (std::int64_t length : {0, 1, 33})
    expectRight(device, {"add_positions_backward",
                         {{"S", length}, {"P", 33}},
                         {},
                         normBack,
                         "f32",
                         {},
                         2,
                         statistics});
  expectRight(
      device,
      {"add_positions_backward", {{"S", 130}, {"P", 50}, {"H", 70}}, {}, {"positions"}, "f16"});
  expectRight(device, {"sinusoidal_backward",
                       {{"H", 200}},
                       {{"scale", "2"}},
                       normBack,
                       "f32",
                       {{"block", 64}, {"m", 2}},
                       3,
                       statistics});
}

TEST_P(AddPositions, TakesAnyStrides) {
  for (const char *kernel : {"add_positions", "sinusoidal"})
    expectRightWithStrides(device, {kernel, {}, {}, with(norm, "positions")});
  for (const char *kernel : {"add_positions_backward", "sinusoidal_backward"}) {
    expectRightWithStrides(device, {kernel});
    expectRightWithStrides(device,
                           {kernel, {}, {}, with(normBack, "positions"), "f32", {}, 1, statistics});
  }
}

// Many tokens of one position, and whole numbers: any order of sums would do, and all must be
// there.
TEST_P(AddPositions, TableGradientCountsEveryToken) {
  auto same = [](const Invocation &call, std::vector<HostArray> &inputs) {
    for (HostArray &array : inputs)
      if (is_floating(array.dtype) && !array.data.empty())
        fillIntegers(array, 4, 3);
    for (std::int32_t &p : inputs[call.index("positions")].as<std::int32_t>())
      p = p % 3 + 5;
  };
  expectExact(device,
              {"add_positions_backward", {{"S", 100}}, {}, {"positions"}, "f32", {}, 1, same});
  expectExact(device,
              {"add_positions_backward", {{"S", 100}}, {}, {"positions"}, "f16", {}, 1, same});
}

// Positions that the table does not have add nothing, and get no gradient.
TEST_P(AddPositions, PositionsBeyondTheTable) {
  auto beyond = [](const Invocation &call, std::vector<HostArray> &inputs) {
    auto positions = inputs[call.index("positions")].as<std::int32_t>();
    positions[0] = -1;
    positions[1] = static_cast<std::int32_t>(call.extent("P"));
    positions[2] = 2147483647;
  };
  for (const char *kernel : {"add_positions", "add_positions_backward"}) {
    expectRight(device, {kernel, {}, {}, {"positions"}, "f32", {}, 1, beyond});
    expectRight(device, {kernel, {}, {{"offset", "9"}}, {}, "f32"});
    expectRight(device, {kernel, {}, {{"offset", "-3"}}, {}, "f32"});
  }
}

// The mean is taken away before anything is squared.
TEST_P(AddPositions, LargeMeans) {
  expectRight(device, {"add_positions",
                       {},
                       {},
                       norm,
                       "f32",
                       {},
                       1,
                       [](const Invocation &, std::vector<HostArray> &inputs) {
                         for (float &value : inputs[0].as<float>())
                           value += 10000;
                       }});
}

TEST_P(AddPositions, SinesOfLargePositionsAreGood) {
  const KernelCase test{"sinusoidal",
                        {{"B", 1}, {"S", 4}, {"H", 64}},
                        {{"scale", "0"}, {"offset", "1000000"}},
                        {},
                        "f32"};
  const Invocation call = resolveCase(test);
  const auto outputs =
      execute(device, call, completeConfig(call, device.target(), {}), sampleInputs(call, 1))
          .outputs;
  const auto y = outputs[0].as<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const long double angle = static_cast<long double>(1000000 + i / 64) *
                              std::pow(10000.0L, -static_cast<long double>(i % 64 / 2 * 2) / 64);
    EXPECT_NEAR(y[i], static_cast<double>(i % 2 ? std::cos(angle) : std::sin(angle)), 2.1e-7);
  }
}

TEST(AddPositionsElsewhere, OnTheInterpreterAndOtherChips) {
  for (const char *name : {"interpreter", "virtual:gfx942", "virtual:gfx1100"}) {
    const Device device = Device::open(name);
    expectRight(device, {"add_positions", {}, {}, norm});
    expectRight(device, {"sinusoidal", {}, {}, {"positions"}});
    expectRight(
        device,
        {"add_positions_backward", {}, {}, with(normBack, "positions"), "f16", {}, 1, statistics});
  }
}

TEST(AddPositionsReference, ByHand) {
  const HostArray x(DType::float64, {1, 2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  const HostArray table(DType::float64, {2, 3}, std::vector<double>{10, 20, 30, 40, 50, 60});
  HostArray positions(DType::int32, {1, 2});
  positions.as<std::int32_t>()[0] = 1;
  const auto sum =
      addPositionsReference(x, table, positions, {}, {}, {.scale = 2}, Arithmetic::exact);
  EXPECT_EQ(sum.y.to_double(), (std::vector<double>{42, 54, 66, 18, 30, 42}));
  const auto pe =
      addPositionsReference(x, {}, {}, {}, {}, {.scale = 0, .offset = 1}, Arithmetic::exact);
  const double low = std::pow(10000, -2.0 / 3);
  EXPECT_THAT(pe.y.to_double(), testing::Pointwise(testing::DoubleNear(1e-12),
                                                   {std::sin(1), std::cos(1), std::sin(low),
                                                    std::sin(2), std::cos(2), std::sin(2 * low)}));
}

TEST(AddPositionsReference, Gradients) {
  for (const auto &[forward, backward] : {std::pair{"add_positions", "add_positions_backward"},
                                          {"sinusoidal", "sinusoidal_backward"}})
    for (const auto &optional :
         {std::vector<std::string>{}, {"positions"}, norm, with(norm, "positions")})
      for (const Assignments &options :
           {Assignments{}, {{"scale", "1.5"}, {"offset", "2"}}, {{"eps", "0.3"}}})
        expectGradients({forward, {}, options, optional}, backward);
}

// The harness sees a table that is one row off, and a gradient that misses a token.
TEST(AddPositionsReference, PlantedMistakesAreSeen) {
  const Device device = Device::open("virtual:sm_80");
  for (const char *kernel : {"add_positions", "add_positions_backward"}) {
    const Invocation call = resolveCase({kernel}),
                     wrong = resolveCase({kernel, {}, {{"offset", "1"}}});
    const auto inputs = sampleInputs(call, 1);
    const auto outputs =
        execute(device, wrong, completeConfig(call, device.target(), {}), inputs).outputs;
    // Of the gradients that of the table is wrong.
    EXPECT_FALSE(check(call, inputs, outputs)[outputs.size() > 3 ? 1 : 0].accuracy.ok());
  }
}

TEST(AddPositionsReference, RefusesWhatItCannotDo) {
  EXPECT_THROW(resolveCase({"add_positions", {}, {}, {"w"}}), InputError);
  EXPECT_THROW(resolveCase({"add_positions_backward", {}, {}, {"w", "x"}}), InputError);
  EXPECT_THROW(resolveCase({"sinusoidal", {}, {{"theta", "0"}}}), InputError);
}

// A program adds the same rows to all its batches.
TEST(AddPositionsConfig, GivenPositionsAreThoseOfOneBatch) {
  for (const char *kernel : {"add_positions", "sinusoidal"})
    for (const bool given : {false, true}) {
      const Invocation call = resolveTypical(findKernel(kernel), "", {}, {},
                                             given ? std::vector<std::string>{"positions"}
                                                   : std::vector<std::string>());
      const Config config = completeConfig(call, "sm_90a", {{"batches", 2}});
      EXPECT_EQ(message<InputError>([&] { bindKernel(call, config); }),
                given ? kernel + std::string(": configuration field 'batches' is 2, but with "
                                             "positions each batch has rows of its own")
                      : "nothing was thrown");
    }
}
