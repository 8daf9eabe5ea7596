// conv2d and its gradients: nothing square, every option, channels and taps beside the tiles'
// edges.
#include "KernelTest.h"
#include "kernels/conv/Shape.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class Conv2d : public OnDevice {
  void SetUp() override { SECTILE_LEAVE_SM_90_TO_OTHERS(); }
};
SECTILE_INSTANTIATE_ON(Conv2d, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
class Conv2dEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(Conv2dEverywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

using Extents = std::map<std::string, std::int64_t>;

KernelCase conv(const char *kernel, Extents extents, const Assignments &options = {},
                const char *dtype = "f16", const std::vector<std::string> &with = {"b"}) {
  extents.emplace("C", 5); // odd: the least aligned
  return {kernel, std::move(extents), options, with, dtype};
}

const std::vector<Assignments> optionSets{
    {},
    {{"stride_h", "2"}},
    {{"stride_w", "3"}},
    {{"pad_h", "2"}, {"pad_w", "1"}},
    {{"dilation_h", "2"}, {"dilation_w", "3"}},
    {{"groups", "3"}},
    {{"layout", "nhwc"}, {"pad_w", "2"}},
    {{"layout", "nhwc"}, {"groups", "6"}, {"stride_h", "2"}, {"stride_w", "2"}},
    {{"stride_h", "3"}, {"stride_w", "2"}, {"pad_h", "1"}, {"pad_w", "2"}, {"dilation_w", "2"}},
};

// The small extents with six channels, so that three groups can share them.
const Extents even{{"C", 6}, {"K", 6}};

const char *const both[] = {"conv2d", "conv2d_backward"};

TEST_P(Conv2d, Options) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : both)
    for (const Assignments &options : optionSets)
      expectRight(device, conv(kernel, even, options));
}

TEST_P(Conv2dEverywhere, Right) {
  for (const char *kernel : both)
    expectRight(device, conv(kernel, even, optionSets.back(), "bf16"));
}

TEST_P(Conv2d, Dtypes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : both)
    for (const char *dtype : {"bf16", "f32"})
      expectRight(device, conv(kernel, {}, {{"pad_h", "1"}}, dtype, {}));
  expectRight(device, conv("conv2d", {}, {{"precision", "exact"}}, "f32"));
}

TEST_P(Conv2d, Extents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : both)
    for (const Extents &extents :
         {Extents{{"N", 1}, {"C", 1}, {"H", 1}, {"W", 1}, {"K", 1}, {"R", 1}, {"S", 1}},
          Extents{{"H", 3}, {"W", 64}, {"R", 3}, {"S", 1}}, // one row of places
          Extents{{"H", 70}, {"W", 2}, {"R", 1}, {"S", 2}}, // one column
          Extents{{"C", 33}, {"K", 65}, {"H", 5}, {"W", 4}, {"R", 1}, {"S", 2}},
          Extents{{"C", 64}, {"K", 31}, {"H", 4}, {"W", 5}, {"R", 2}, {"S", 1}}, Extents{{"N", 0}},
          Extents{{"H", 2}}}) // fewer rows than taps: no place
      expectRight(device, conv(kernel, extents));
}

// A width that is not the height, and an output of another shape than the input's.
TEST_P(Conv2d, OutputExtentsAreTheirOwn) {
  const Invocation call = resolveCase(
      conv("conv2d", {{"H", 11}, {"W", 30}, {"R", 4}, {"S", 3}},
           {{"stride_h", "2"}, {"stride_w", "5"}, {"pad_h", "3"}, {"dilation_w", "4"}}));
  EXPECT_EQ(call.tensor("y").shape, (Shape{2, 6, (11 + 6 - 4) / 2 + 1, (30 - 9) / 5 + 1}));
  const Invocation last = resolveCase(conv("conv2d", {{"H", 11}, {"W", 30}}, {{"layout", "nhwc"}}));
  EXPECT_EQ(last.tensor("y").shape, (Shape{2, 9, 29, 6}));
  EXPECT_EQ(last.tensor("w").shape, (Shape{6, 3, 2, 5}));
}

TEST_P(Conv2d, WholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"}) {
      KernelCase test = conv(kernel, {{"C", 37}, {"K", 35}}, {{"layout", layout}}, "f32");
      test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
          fillIntegers(inputs[i], 3, i + 1);
      };
      expectExact(device, test);
    }
}

const Extents boxes{{"C", 64}, {"K", 64}, {"N", 2}, {"H", 8}, {"W", 12}, {"R", 3}, {"S", 3}};

// Channels last, no stride: the copy engine reads boxes of pixels, in gradients of filters where
// these are whole.
TEST_P(Conv2d, BoxesOfPixels) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  struct Boxes {
    Extents extents;
    Assignments options;
  };
  for (const auto &[extents, options] :
       {Boxes{{}, {{"pad_h", "1"}, {"pad_w", "1"}}}, Boxes{{{"R", 1}, {"S", 1}}, {}},
        Boxes{{{"C", 40}, {"K", 72}, {"W", 13}, {"S", 2}}, {{"pad_h", "2"}, {"dilation_w", "3"}}},
        Boxes{{{"N", 1}, {"H", 3}, {"W", 71}, {"C", 136}, {"K", 32}}, {{"pad_w", "3"}}},
        Boxes{{{"N", 64}, {"H", 3}, {"W", 3}}, {}},
        Boxes{{{"H", 2}, {"W", 2}}, {{"pad_h", "4"}, {"pad_w", "5"}, {"dilation_h", "2"}}}}) {
    Assignments all = options;
    all.emplace_back("layout", "nhwc");
    Extents given = extents;
    given.insert(boxes.begin(), boxes.end());
    for (const char *kernel : both)
      for (const char *dtype : {"f16", "bf16"})
        expectRight(device, conv(kernel, given, all, dtype));
  }
}

// A stride makes classes of the image's pixels, which boxes have an axis for; odd images have none.
TEST_P(Conv2d, BoxesWithAStride) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  struct Strided {
    Extents extents;
    Assignments options;
  };
  for (const auto &[extents, options] :
       {Strided{{}, {{"stride_h", "2"}, {"stride_w", "2"}, {"pad_h", "1"}, {"pad_w", "1"}}},
        Strided{{{"R", 1}, {"S", 1}}, {{"stride_h", "2"}, {"stride_w", "2"}}},
        Strided{{{"H", 13}, {"W", 11}}, {{"stride_h", "2"}, {"stride_w", "2"}, {"pad_h", "1"}}},
        Strided{{{"H", 12}, {"W", 6}, {"R", 5}, {"S", 2}},
                {{"stride_h", "3"}, {"stride_w", "2"}, {"pad_h", "4"}}},
        Strided{{{"H", 10}, {"W", 9}, {"C", 40}},
                {{"stride_h", "2"}, {"pad_w", "3"}, {"dilation_w", "2"}}},
        Strided{{{"H", 8}, {"W", 8}, {"C", 192}, {"K", 40}},
                {{"stride_w", "4"}, {"stride_h", "4"}, {"pad_h", "3"}, {"pad_w", "5"}}},
        Strided{{{"H", 8}, {"W", 8}},
                {{"stride_h", "2"}, {"stride_w", "2"}, {"dilation_h", "3"}, {"pad_h", "2"}}}}) {
    Assignments all = options;
    all.emplace_back("layout", "nhwc");
    Extents given = extents;
    given.insert({{"N", 3}, {"C", 64}, {"K", 64}, {"H", 8}, {"W", 12}, {"R", 3}, {"S", 3}});
    for (const char *kernel : both)
      expectRight(device, conv(kernel, given, all, "f16"));
  }
}

// Sums of y and of dx that programs share, of images in boxes and not, with taps of every stride.
TEST_P(Conv2d, SplitSums) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *stride : {"1", "2"})
    for (const std::int64_t channels : {24, 64})
      for (const char *kernel : both) {
        KernelCase test = conv(
            kernel, {{"N", 3}, {"C", channels}, {"K", 64}, {"H", 8}, {"W", 8}, {"R", 3}, {"S", 3}},
            {{"layout", channels == 64 ? "nhwc" : "nchw"},
             {"stride_h", stride},
             {"stride_w", stride},
             {"pad_h", "1"}});
        test.config = {{"splits", 5}};
        expectRight(device, test);
      }
}

// Few programs, which do one tile after another, and sums that programs share.
TEST_P(Conv2d, BoxesInTurn) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Assignments options{{"layout", "nhwc"}, {"pad_h", "1"}, {"pad_w", "1"}};
  Extents given = boxes;
  given["N"] = 8;
  for (const std::int64_t m : {64, 128}) {
    KernelCase test = conv("conv2d", given, options);
    test.config = {{"programs", 3}, {"m", m}};
    expectRight(device, test);
    test.kernel = "conv2d_backward";
    test.config.insert({{"wgrad_splits", m / 32}, {"wgrad_boxes", 1}, {"wgrad_k", 64}});
    expectRight(device, test);
  }
}

// Few channels: a program of dx has the pixels between two of a stride as columns, or some of them.
TEST_P(Conv2d, FewChannelsOfAnyStride) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *stride : {"2", "5", "9", "35", "100"})
    for (const char *layout : {"nchw", "nhwc"})
      expectRight(
          device,
          conv("conv2d_backward", {{"W", 71}, {"H", 6}, {"S", 4}},
               {{"layout", layout}, {"stride_w", stride}, {"pad_w", "4"}, {"dilation_w", "3"}}));
}

// Few channels or filters in a group, whose images are copied with their pixels last; one and many
// beside few.
TEST_P(Conv2d, FewChannelsInAGroup) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  struct Few {
    std::int64_t channels, filters;
    const char *groups;
  };
  for (const auto &[channels, filters, groups] :
       {Few{18, 18, "18"}, Few{18, 6, "6"}, Few{6, 72, "2"}, Few{72, 6, "2"}, Few{40, 40, "2"}})
    for (const bool last : {false, true})
      for (const char *kernel : both)
        expectRight(device, conv(kernel, {{"C", channels}, {"K", filters}},
                                 {{"layout", last ? "nhwc" : "nchw"},
                                  {"groups", groups},
                                  {"stride_w", last ? "1" : "3"},
                                  {"stride_h", "2"},
                                  {"pad_w", "1"}},
                                 last ? "f16" : "f32"));
}

// Each group has one channel, and one filter or a few of it; from eight on, or with a long stride
// or many rows of taps, some or all of it are products.
struct Depthwise {
  Extents extents;
  Assignments options;
};
const std::vector<Depthwise> depthwiseCalls{
    {{}, {}},
    {{{"W", 34}, {"H", 3}}, {{"pad_h", "1"}, {"pad_w", "1"}}},
    {{{"H", 14}}, {{"stride_h", "2"}, {"stride_w", "2"}, {"pad_h", "1"}, {"pad_w", "1"}}},
    {{}, {{"stride_h", "3"}, {"stride_w", "2"}, {"pad_h", "2"}, {"dilation_h", "2"}}},
    {{{"W", 20}}, {{"stride_w", "5"}, {"pad_w", "3"}, {"dilation_w", "4"}, {"dilation_h", "3"}}},
    {{{"R", 9}, {"S", 15}}, {{"pad_h", "5"}, {"pad_w", "9"}}},
    {{{"R", 1}, {"S", 1}}, {{"stride_h", "2"}}},
    {{{"H", 30}}, {{"stride_h", "9"}, {"pad_h", "1"}}},
};

// One, two or three filters to a group: in turn, or all with SECTILE_TEST_ALL=1.
TEST_P(Conv2d, OneChannelInAGroup) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  int number = 0;
  for (const auto &[extents, options] : depthwiseCalls)
    for (const char *layout : {"nchw", "nhwc"})
      for (const char *kernel : both)
        for (unsigned left = count(1, 3); left-- > 0; ++number) {
          KernelCase test = conv(kernel, extents, options, number % 4 ? "f16" : "bf16");
          test.extents["C"] = number / 2 % 2 ? 16 : 6;
          test.extents["K"] = (number % 3 + 1) * test.extents["C"];
          test.options.insert(test.options.end(),
                              {{"layout", layout}, {"groups", std::to_string(test.extents["C"])}});
          if (number % 5 == 0)
            test.with = {};
          expectRight(device, test);
        }
}

TEST_P(Conv2dEverywhere, OneChannelInAGroup) {
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"})
      for (const char *stride : {"1", "2"})
        expectRight(device, conv(kernel, {{"C", 16}, {"K", 32}},
                                 {{"layout", layout},
                                  {"groups", "16"},
                                  {"stride_w", stride},
                                  {"stride_h", stride},
                                  {"pad_w", "1"}}));
}

TEST_P(Conv2d, OneChannelInAGroupOfAnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"}) {
      ++place;
      const Assignments options{{"layout", layout}, {"groups", "6"}};
      for (const Extents &extents :
           {Extents{{"N", 0}}, Extents{{"H", 2}}, Extents{{"K", 0}}, Extents{{"K", 42}},
            Extents{{"K", 48}}, Extents{{"H", 67}, {"W", 3}, {"R", 65}}}) {
        if (!isAmongAThird(place++))
          continue;
        KernelCase test = conv(kernel, extents, options, "f32");
        test.extents["C"] = 6;
        test.extents.emplace("K", 6);
        expectRight(device, test);
      }
      const Assignments one{{"layout", layout}};
      expectRight(device, conv(kernel, {{"C", 1}, {"K", 3}}, one));
      KernelCase test = conv(kernel, {{"C", 21}, {"K", 21}},
                             {{"layout", layout}, {"groups", "21"}, {"pad_h", "1"}}, "f32");
      expectRightWithStrides(device, test);
      test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
        for (std::size_t i = 0; i < inputs.size(); ++i)
          fillIntegers(inputs[i], 3, i + 1);
      };
      expectExact(device, test);
    }
}

// Tiles have more rows than a call: what lies below the last place is nobody's operand.
TEST_P(Conv2d, RowsWithoutATapReachNothing) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"}) {
      KernelCase test = conv(kernel, {{"C", 6}, {"K", 6}, {"H", 8}, {"R", 3}},
                             {{"layout", layout}, {"groups", "6"}, {"stride_h", "2"}});
      test.prepare = [&](const Invocation &call, std::vector<HostArray> &inputs) {
        std::vector<double> x = inputs[0].to_double();
        const bool last = layout == std::string("nhwc");
        const auto row = static_cast<std::size_t>(call.extent("W") * (last ? call.extent("C") : 1));
        for (std::size_t i = 0; i < x.size(); ++i)
          if (i / row % 8 == 7)
            x[i] = INFINITY;
        inputs[0].assign(x);
      };
      for (const HostArray &output : expectRight(device, test))
        for (const double value : output.to_double())
          EXPECT_TRUE(std::isfinite(value));
    }
}

TEST_P(Conv2d, ConfigurationsOfOneChannelInAGroup) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"})
      for (const std::int64_t rows : {1, 3, 8}) {
        KernelCase test = conv(kernel, {{"C", 24}, {"K", 24}, {"H", 11}},
                               {{"layout", layout}, {"groups", "24"}, {"stride_h", "2"}});
        test.config = {{"m", 64}, {"n", 8}, {"k", rows}, {"warps", 2}};
        if (kernel == std::string("conv2d_backward")) {
          test.config.insert({{"wgrad_m", 32}, {"wgrad_n", 16}, {"wgrad_k", rows}});
          test.config["wgrad_splits"] = rows;
        }
        expectRight(device, test);
      }
}

// Bits must not depend on who arrives last.
TEST_P(Conv2d, SharedSums) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  KernelCase test = conv("conv2d_backward", {{"N", 5}});
  for (const std::int64_t splits : {1, 2, 7}) {
    test.config = {{"wgrad_splits", splits}};
    expectRight(device, test);
  }
  expectRight(device, conv("conv2d_backward", {{"N", 40}, {"H", 12}}));
}

TEST_P(Conv2d, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : both)
    for (const char *layout : {"nchw", "nhwc"})
      expectRightWithStrides(device, conv(kernel, {}, {{"layout", layout}, {"pad_h", "1"}}));
}

TEST(Conv2dGradients, EveryOption) {
  for (const Assignments &options : optionSets)
    expectGradients(conv("conv2d", even, options, "f32"), "conv2d_backward");
}

TEST(Conv2dGradients, OneChannelInAGroup) {
  for (const auto &[extents, options] : depthwiseCalls) {
    KernelCase test = conv("conv2d", extents, options, "f32");
    test.extents.insert({{"C", 3}, {"K", 6}});
    test.extents["C"] = 3;
    test.options.push_back({"groups", "3"});
    expectGradients(test, "conv2d_backward");
  }
}

TEST(Conv2dGradients, RandomOptions) {
  std::mt19937_64 random(20);
  auto pick = [&](int least, int most) {
    return std::to_string(std::uniform_int_distribution<int>(least, most)(random));
  };
  for (int i = 0; i < 20; ++i) {
    const Assignments options{{"layout", i % 2 ? "nchw" : "nhwc"},
                              {"stride_h", pick(1, 3)},
                              {"stride_w", pick(1, 3)},
                              {"pad_h", pick(0, 3)},
                              {"pad_w", pick(0, 3)},
                              {"dilation_h", pick(1, 3)},
                              {"dilation_w", pick(1, 3)},
                              {"groups", i % 3 ? "1" : "3"}};
    expectGradients(conv("conv2d", even, options, "f32"), "conv2d_backward");
  }
}

std::vector<double> reference(const KernelCase &test,
                              const std::vector<std::vector<double>> &values) {
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs;
  for (std::size_t i = 0; i < 3; ++i)
    inputs.push_back(call.tensors[i].present
                         ? HostArray(DType::float32, call.tensors[i].shape, values[i])
                         : HostArray());
  return referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double();
}

TEST(Conv2dReference, ByHand) {
  // Taps are not turned round; the padding is zeros; every place gets the bias.
  EXPECT_EQ(reference(conv("conv2d",
                           {{"N", 1}, {"C", 1}, {"H", 1}, {"W", 3}, {"K", 1}, {"R", 1}, {"S", 2}},
                           {{"pad_w", "1"}}, "f32"),
                      {{1, 2, 3}, {10, 1}, {100}}),
            (std::vector<double>{101, 112, 123, 130}));
  // Two groups; a dilation that skips the middle.
  EXPECT_EQ(reference(conv("conv2d",
                           {{"N", 1}, {"C", 2}, {"H", 3}, {"W", 1}, {"K", 2}, {"R", 2}, {"S", 1}},
                           {{"groups", "2"}, {"dilation_h", "2"}}, "f32", {}),
                      {{1, 2, 3, 4, 5, 6}, {1, 10, 1, 100}}),
            (std::vector<double>{31, 604}));
}

// What a kernel would do that takes the width for the height, or has no mask for channels.
TEST(Conv2dHarness, CatchesPlantedErrors) {
  const Invocation call = resolveCase(conv("conv2d", {}));
  const auto inputs = sampleInputs(call, 1);
  auto turned = referenceOutputs(call, inputs, Arithmetic::own);
  EXPECT_TRUE(check(call, inputs, turned)[0].accuracy.ok());
  auto values = turned[0].as<half>();
  std::rotate(values.begin(), values.begin() + 1, values.end());
  EXPECT_FALSE(check(call, inputs, turned)[0].accuracy.ok());
  auto more = inputs;
  more[1].as<half>().back() = half(static_cast<float>(more[1].as<half>().back()) + 1);
  EXPECT_FALSE(check(call, inputs, referenceOutputs(call, more, Arithmetic::own))[0].accuracy.ok());
}

std::string refusal(const KernelCase &test) {
  try {
    resolveCase(test);
  } catch (const InputError &error) {
    return error.what();
  }
  return "accepted";
}

TEST(Conv2dErrors, SaySo) {
  KernelCase test = conv("conv2d", even);
  test.extents["Cg"] = 4;
  EXPECT_THAT(refusal(test), HasSubstr("x has 6 channels, but w has 4 in each of 1 groups"));
  EXPECT_THAT(refusal(conv("conv2d", {{"C", 4}, {"K", 5}}, {{"groups", "2"}})),
              HasSubstr("w has 5 filters, which 2 groups cannot share evenly"));
  for (const char *option : {"stride_h", "stride_w", "dilation_h", "dilation_w"}) {
    KernelCase zero{"conv2d", {}, {{option, "0"}}};
    EXPECT_THAT(refusal(zero), HasSubstr("is 0, but must be at least 1"));
  }
  EXPECT_THAT(refusal({"conv2d", {}, {{"pad_w", "-1"}}}),
              HasSubstr("'pad_w' is -1, but must be at least 0"));
  EXPECT_THAT(refusal(conv("conv2d", {{"N", 1 << 14}, {"H", 512}, {"W", 256}, {"C", 1}})),
              HasSubstr("x has 2147483648 pixels, more than 2147418112"));
  KernelCase backward = conv("conv2d_backward", {});
  backward.extents["Q"] = 3;
  EXPECT_THAT(refusal(backward), HasSubstr("dy is 7 x 3, but y is 7 x 12"));
}

// Kernels keep options of the calls in fields of 32 bits.
TEST(Conv2dErrors, AnOptionThatNoFieldHolds) {
  const Device device = Device::open("virtual:sm_80");
  const auto image = tensor(device.upload(std::vector<float>(16, 1.0f)), {1, 1, 4, 4});
  const auto filter = tensor(device.upload(std::vector<float>(4, 1.0f)), {1, 1, 2, 2});
  try {
    run_kernel(device.stream(), "conv2d", {{"x", image}, {"w", filter}},
               {{"stride_h", "4294967297"}});
    ADD_FAILURE() << "accepted";
  } catch (const LaunchError &error) {
    EXPECT_THAT(error.what(), HasSubstr("stride_h is 4294967297"));
  }
}

// What docs/kernels/conv.md shows.
TEST_P(Conv2d, Example) {
  const auto image = tensor(device.upload(std::vector<half>(6 * 8, half(1.0f))), {1, 1, 6, 8});
  const auto filters = tensor(device.upload(std::vector<half>(2 * 9, half(1.0f))), {2, 1, 3, 3});
  // [conv]
  auto out = run_kernel(device.stream(), "conv2d", {{"x", image}, {"w", filters}},
                        {{"stride_w", "2"}, {"pad_h", "1"}, {"pad_w", "1"}});
  auto y = out.at("y").as<half, 4>();
  // [/conv]
  device.synchronize();
  EXPECT_EQ(y.extents(), (std::array<std::int64_t, 4>{1, 2, 6, 4}));
  const std::vector<half> values = Buffer<half>(y.memory()).download();
  EXPECT_EQ(static_cast<float>(values[0]), 4); // a corner
  EXPECT_EQ(static_cast<float>(values[5]), 9);
}

} // namespace
