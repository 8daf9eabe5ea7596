// group_norm and group_norm_backward.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <limits>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(GroupNorm);
class GroupNormOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(GroupNormOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {

struct Size {
  std::int64_t images, channels, positions, groups;
};

void expectBothRight(const Device &device, const Size &size, const char *dtype = "",
                     const Config &config = {}) {
  std::map<std::string, std::int64_t> extents{
      {"B", size.images}, {"C", size.channels}, {"...", size.positions}};
  expectRight(
      device,
      {"group_norm", extents, {{"groups", std::to_string(size.groups)}}, {}, dtype, config});
  extents["G"] = size.groups;
  expectRight(device, {"group_norm_backward", extents, {}, {}, dtype, config});
}

} // namespace

TEST_P(GroupNorm, EveryType) {
  for (const char *dtype : {"f32", "f16", "bf16"})
    expectBothRight(device, {2, 12, 50, 3}, dtype);
}

TEST_P(GroupNormOnChips, AnyShape) {
  for (const Size &size : {Size{1, 1, 1, 1},
                           {2, 6, 1, 6},
                           {2, 6, 1, 1},
                           {3, 5, 33, 1},
                           {3, 5, 31, 5},
                           {1, 64, 7, 2},
                           {0, 4, 3, 2},
                           {33, 4, 3, 2}})
    expectBothRight(device, size);
}

// The statistics of nothing are NaN; sums over no positions are 0 all the same.
TEST_P(GroupNormOnChips, NoPositions) {
  KernelCase test{"group_norm_backward", {{"B", 2}, {"C", 6}, {"G", 2}, {"...", 0}}};
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    for (const char *name : {"mean", "rstd"})
      inputs[call.index(name)].assign(
          std::vector<double>(4, std::numeric_limits<double>::quiet_NaN()));
  };
  expectRight(device, test);
}

TEST_P(GroupNormOnChips, GroupsBeyondAProgram) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  expectBothRight(device, {2, 6, 5001, 2}, "f16");
  expectBothRight(device, {2, 10, 150, 2}, "", {{"channels", 4}, {"block", 64}, {"warps", 2}});
  expectBothRight(device, {2, 10, 64, 1}, "", {{"channels", 2}, {"block", 64}, {"warps", 1}});
}

// Parts of no block, and of blocks that the group does not fill.
TEST_P(GroupNormOnChips, GroupsInParts) {
  for (const int parts : {2, 3, 5, 64})
    expectRight(device, {"group_norm",
                         {{"B", 2}, {"C", 10}, {"...", 150}},
                         {{"groups", "2"}},
                         {},
                         parts == 3 ? "f16" : "f32",
                         {{"channels", 4}, {"block", 64}, {"warps", 2}, {"parts", parts}}});
}

TEST(GroupNorm, SharesFewGroups) {
  const auto parts = [](std::int64_t images, std::int64_t channels, std::int64_t positions) {
    const KernelCase test{"group_norm", {{"B", images}, {"C", channels}, {"...", positions}}};
    return completeConfig(resolveCase(test), "sm_90a", {}).at("parts");
  };
  EXPECT_EQ(parts(1, 320, 4096), 10); // as many as there are blocks
  EXPECT_EQ(parts(2, 320, 16384), 8);
  EXPECT_EQ(parts(2, 1280, 256), 1); // fits a program
  EXPECT_EQ(parts(16, 320, 4096), 1);
}

TEST_P(GroupNormOnChips, Strides) {
  expectRightWithStrides(device,
                         {"group_norm", {{"B", 2}, {"C", 6}, {"...", 33}}, {{"groups", "2"}}});
  expectRightWithStrides(device,
                         {"group_norm_backward", {{"B", 2}, {"C", 6}, {"G", 1}, {"...", 33}}});
}

// Channels-last: axes of positions that lie evenly, with a step.
TEST_P(GroupNormOnChips, ChannelsLast) {
  constexpr std::int64_t channels = 6, positions = 35;
  std::vector<float> last(channels * positions), first(last.size());
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t p = 0; p < positions; ++p)
      last[static_cast<std::size_t>(p * channels + c)] =
          first[static_cast<std::size_t>(c * positions + p)] =
              static_cast<float>((c * 7 + p * 5) % 11);
  const auto w = tensor(device.upload(std::vector<float>(channels, 1.0f)), {channels});
  const KernelOptions options{{"groups", "3"}};
  auto run = [&](const std::vector<float> &values, const std::array<std::int64_t, 4> &strides) {
    const auto x = device.upload(values);
    const Tensor<float, 4> image(x.data(), {1, channels, 7, 5}, strides, x.memory());
    const auto y =
        run_kernel(device.stream(), "group_norm", {{"x", image}, {"w", w}, {"b", w}}, options)
            .at("y");
    return Buffer<float>(y.memory).download();
  };
  const auto expected = run(first, {210, 35, 5, 1}), got = run(last, {210, 1, 30, 6});
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

TEST_P(GroupNormOnChips, LargeMean) {
  const Config inParts{{"channels", 2}, {"block", 64}, {"warps", 1}, {"parts", 4}};
  for (const auto &[positions, config] :
       {std::pair<int, Config>{33, {}}, {1500, {}}, {300, inParts}})
    expectRight(device, {.kernel = "group_norm",
                         .extents = {{"B", 1}, {"C", 12}, {"...", positions}},
                         .options = {{"groups", "2"}},
                         .config = config,
                         .prepare = [](const Invocation &, auto &in) {
                           std::vector<double> values = in[0].to_double();
                           for (double &value : values)
                             value += 1e4;
                           in[0].assign(values);
                         }});
}

TEST_P(GroupNormOnChips, NanStaysInItsGroup) {
  for (const float value : {NAN, INFINITY})
    for (const Config &config :
         {Config{}, {{"channels", 8}, {"block", 64}, {"warps", 2}, {"parts", 4}}}) {
      const auto out = expectRight(device, {.kernel = "group_norm",
                                            .options = {{"groups", "2"}},
                                            .config = config,
                                            .prepare = [&](const Invocation &, auto &in) {
                                              in[0].template as<float>()[7] = value;
                                            }});
      const auto y = out[0].as<float>();
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(std::isnan(y[i]), i < 48 * 70) << i;
    }
}

TEST(GroupNormGradients, AgainstCentralDifferences) {
  for (const char *groups : {"1", "2", "6"})
    for (const char *eps : {"1e-5", "0.5"})
      expectGradients(
          {"group_norm", {{"B", 2}, {"C", 6}, {"...", 5}}, {{"groups", groups}, {"eps", eps}}},
          "group_norm_backward");
}

// Two groups of two channels with one position: -1, 1 and 3, 7.
TEST(GroupNormReference, ByHand) {
  const auto numbers = [](const Shape &shape, const std::vector<double> &values) {
    return HostArray(DType::float64, shape, values);
  };
  const std::vector<HostArray> in{numbers({1, 4, 1}, {-1, 1, 3, 7}), numbers({4}, {1, 2, 3, 4}),
                                  numbers({4}, {0, 10, 0, 0})};
  const Invocation call = resolveCase(
      {"group_norm", {{"B", 1}, {"C", 4}, {"...", 1}}, {{"groups", "2"}, {"eps", "0"}}});
  const auto out = referenceOutputs(call, in, Arithmetic::exact);
  EXPECT_EQ(out[0].to_double(), (std::vector<double>{-1, 12, -3, 4}));
  EXPECT_EQ(out[1].to_double(), (std::vector<double>{0, 5}));
  EXPECT_EQ(out[2].to_double(), (std::vector<double>{1, 0.5}));
}

TEST(GroupNormErrors, GroupsMustDivideTheChannels) {
  for (const char *groups : {"5", "0", "-1"})
    EXPECT_THROW(resolveCase({"group_norm", {}, {{"groups", groups}}}), std::exception) << groups;
  EXPECT_THROW(resolveCase({"group_norm_backward", {{"G", 5}}}), std::exception);
}

// An unbiased variance; the weight and the bias the other way round.
TEST(GroupNormJudge, PlantedMistakesAreSeen) {
  const KernelCase test{"group_norm", {{"B", 2}, {"C", 6}, {"...", 5}}, {{"groups", "2"}}};
  const FilledCall right = fill(test);
  FilledCall wrong = right;
  auto outputs = referenceOutputs(right.call, right.inputs, Arithmetic::own);
  std::vector<double> y = outputs[0].to_double();
  const std::vector<double> b = right.inputs[2].to_double();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double shift = b[i / 5 % 6];
    y[i] = (y[i] - shift) * std::sqrt(14.0 / 15) + shift;
  }
  outputs[0].assign(y);
  EXPECT_FALSE(check(right.call, right.inputs, outputs)[0].accuracy.ok());
  std::swap(wrong.inputs[1], wrong.inputs[2]); // weight and bias
  expectMistakeIsSeen(right, wrong);
}
