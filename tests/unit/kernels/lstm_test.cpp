// rnn, gru and lstm, and their gradients.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

// What sm_90 does is done by sm_80 or by sm_90a as well: with SECTILE_TEST_ALL=1 only.
class Cells : public OnDevice {
  void SetUp() override {
    if (GetParam() == "virtual:sm_90" && count(0, 1) == 0)
      GTEST_SKIP() << "sm_80 and sm_90a do what it does; it runs with SECTILE_TEST_ALL=1";
  }
};
SECTILE_INSTANTIATE_ON(Cells, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
class CellsElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(CellsElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

using Names = std::vector<std::string>;

struct Shapes {
  std::int64_t t = 4, b = 3, i = 12, h = 20, directions = 2;
};

// All optional inputs, but those named.
KernelCase cellCase(const std::string &kernel, const Shapes &shapes, const Names &without = {}) {
  const bool lstm = kernel.starts_with("lstm"), backward = kernel.ends_with("_backward");
  KernelCase test{kernel};
  test.extents = {{"T", shapes.t},
                  {"B", shapes.b},
                  {"I", shapes.i},
                  {"H", shapes.h},
                  {"...", shapes.directions}};
  Names with{"b_ih", "b_hh", "h0"};
  if (lstm)
    with.push_back("c0");
  if (backward)
    with.push_back("dh_n");
  if (backward && lstm)
    with.push_back("dc_n");
  for (const std::string &name : with)
    if (std::find(without.begin(), without.end(), name) == without.end())
      test.with.push_back(name);
  return test;
}

const char *const kernels[] = {"rnn",          "rnn_backward", "gru",
                               "gru_backward", "lstm",         "lstm_backward"};

} // namespace

TEST_P(Cells, OfAllDtypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels)
    for (const char *dtype : {"f32", "f16", "bf16"}) {
      KernelCase test = cellCase(kernel, {});
      test.dtype = dtype;
      expectRight(device, test);
    }
}

TEST_P(Cells, OfAllSizes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : kernels) {
    for (const auto &[b, h] : {std::pair{1, 1}, {17, 16}, {1, 33}, {1, 16}, {17, 33}})
      if (isAmongAThird(place++))
        expectRight(device, cellCase(kernel, {.t = 2, .b = b, .i = 33, .h = h, .directions = 1}));
    // w_hh is one number, and its gradient the sum of 34 others.
    expectRightAnywhere(
        device, fill(cellCase(kernel, {.t = 2, .b = 17, .i = 33, .h = 1, .directions = 1})));
    for (std::int64_t t : {0, 1})
      expectRight(device, cellCase(kernel, {.t = t}));
    expectRight(device, cellCase(kernel, {.i = 1, .directions = 1}));
    expectRight(device, cellCase(kernel, {.b = 0}));
  }
}

// More columns than a program has: a launch for each step.
TEST_P(Cells, OfManyColumns) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : kernels) {
    KernelCase test = cellCase(kernel, {.t = 3, .h = 40});
    test.dtype = "f16";
    test.config = {{"h", 16}};
    expectRight(device, test);
  }
}

TEST_P(Cells, OptionsAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels) {
    KernelCase test = cellCase(kernel, {.t = 7});
    test.options = {{"batch_first", "true"}};
    expectRight(device, test);
    expectRightWithStrides(device, test);
    expectRightWithStrides(device, cellCase(kernel, {}));
    expectRight(device, cellCase(kernel, {}, {"b_ih", "h0", "dh_n"}));
    expectRight(device, cellCase(kernel, {}, {"b_hh", "c0", "dc_n"}));
    if (std::string_view(kernel).starts_with("rnn")) {
      test.options = {{"nonlinearity", "relu"}};
      expectRight(device, test);
    }
  }
}

TEST_P(CellsElsewhere, Works) {
  for (const char *kernel : kernels) {
    KernelCase test = cellCase(kernel, {.t = 3});
    test.dtype = "f16";
    expectRight(device, test);
  }
}

// Sums of whole numbers through relu.
TEST_P(Cells, IntegersAreExact) {
  KernelCase test = cellCase("rnn", {.t = 3, .h = 17});
  test.options = {{"nonlinearity", "relu"}};
  test.dtype = "f32";
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      fillIntegers(inputs[i], 2, i);
  };
  expectExact(device, test);
}

TEST_P(Cells, BothDirectionsByHand) {
  // [example]
  // relu(x + h) adds up: forward 1, 3, 6, backward 6, 5, 3.
  const std::vector<float> values{1, 2, 3}, ones{1, 1};
  auto x = device.upload(values), one = device.upload(ones);
  auto w = tensor(one, {2, 1, 1});
  auto out = sectile::run_kernel(device.stream(), "rnn",
                                 {{"x", tensor(x, {3, 1, 1})}, {"w_ih", w}, {"w_hh", w}},
                                 {{"nonlinearity", "relu"}});
  device.synchronize();
  auto y = out.at("y").as<float, 3>(); // 1 6, 3 5, 6 3
  // [/example]
  EXPECT_EQ(Buffer<float>(y.memory()).download(), (std::vector<float>{1, 6, 3, 5, 6, 3}));
  EXPECT_EQ(Buffer<float>(out.at("h_n").memory).download(), (std::vector<float>{6, 6}));
}

TEST(CellsReference, OneStepOfEachByHand) {
  auto run = [](const char *kernel, std::vector<std::vector<double>> values) {
    KernelCase test = cellCase(kernel, {.t = 1, .b = 1, .i = 1, .h = 1, .directions = 1});
    const Invocation call = resolveCase(test);
    auto inputs = sampleInputs(call, 1);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i].assign(values[i]);
    return referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double()[0];
  };
  auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // x, w_ih, w_hh, b_ih, b_hh, h0 (, c0)
  EXPECT_DOUBLE_EQ(run("rnn", {{2}, {3}, {5}, {0.5}, {0.25}, {-1}}), std::tanh(6 - 5 + 0.75));
  const double r = sigmoid(1 - 1), z = sigmoid(2 - 2 + 1), n = std::tanh(3 + r * (-3 + 0.5));
  EXPECT_DOUBLE_EQ(run("gru", {{1}, {1, 2, 3}, {1, 2, 3}, {0, 1, 0}, {0, 0, 0.5}, {-1}}),
                   (1 - z) * n - z);
  const double c = sigmoid(3) * 0.5 + sigmoid(2) * std::tanh(4);
  EXPECT_DOUBLE_EQ(
      run("lstm", {{1}, {1, 2, 3, 4}, {1, 1, 1, 1}, {0, 0, 0, 0}, {0, 0, 0, 0}, {1}, {0.5}}),
      sigmoid(5) * std::tanh(c));
}

TEST(CellsReference, GradientsAreThoseOfTheOutputs) {
  for (const char *kernel : {"rnn", "gru", "lstm"})
    for (const char *batchFirst : {"false", "true"})
      for (const Names &without : {Names{}, {"b_ih", "h0"}, {"b_hh", "c0"}}) {
        KernelCase test =
            cellCase(kernel, {.t = 3, .b = 2, .i = 3, .h = 2, .directions = 2}, without);
        test.options = {{"batch_first", batchFirst}};
        expectGradients(test, (std::string(kernel) + "_backward").c_str());
        test.extents["..."] = 1;
        expectGradients(test, (std::string(kernel) + "_backward").c_str());
      }
  KernelCase relu = cellCase("rnn", {.t = 3, .b = 2, .i = 3, .h = 2});
  relu.options = {{"nonlinearity", "relu"}};
  expectGradients(relu, "rnn_backward");
}

// Gates in another order, a direction the wrong way round: the harness must see it.
TEST(CellsReference, PlantedBugsAreCaught) {
  const Invocation call = resolveCase(cellCase("lstm", {.directions = 1}));
  const auto inputs = sampleInputs(call, 1);
  auto swapped = inputs;
  auto weights = swapped[1].as<float>();
  for (std::size_t i = 0; i < 20 * 12; ++i)
    std::swap(weights[i], weights[20 * 12 + i]);
  auto reversed = inputs;
  auto x = reversed[0].as<float>();
  for (std::size_t i = 0; i < 36; ++i)
    std::swap(x[i], x[3 * 36 + i]);
  for (const auto &wrong : {swapped, reversed})
    EXPECT_FALSE(
        check(call, inputs, referenceOutputs(call, wrong, Arithmetic::own))[0].accuracy.ok());
}

TEST(CellsErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({"lstm", {{"G", 79}}}), testing::HasSubstr("79 rows, but 4 H are 80"));
  EXPECT_THAT(refusalOf({"gru", {{"...", 3}}}), testing::HasSubstr("1 or 2 directions"));
  EXPECT_THAT(refusalOf({"gru_backward", {{"R", 3}}}), testing::HasSubstr("reserve has 3 columns"));
  EXPECT_THAT(refusalOf({"rnn_backward", {{"Y", 20}}}), testing::HasSubstr("y has 20 columns"));
}
