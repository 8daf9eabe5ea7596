// Mixtures of experts: routes by every option, ties, permutations of few and many choices, gathered
// products through gates, sums in the order of the choices, and the chain against itself.
#include "ExpertCases.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;

class Experts : public OnDevice {};
SECTILE_INSTANTIATE_ON(Experts, "virtual:sm_80,virtual:sm_90a");
class ExpertsElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(ExpertsElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

std::vector<HostArray> run(const Device &device, const FilledCall &filled,
                           const Config &config = {}) {
  return execute(device, filled.call, completeConfig(filled.call, device.target(), config),
                 filled.inputs)
      .outputs;
}
template <class T = std::int32_t> std::vector<T> valuesOf(const HostArray &array) {
  const auto values = array.as<T>();
  return {values.begin(), values.end()};
}

KernelCase route(std::int64_t tokens, std::int64_t experts, Assignments options = {},
                 std::vector<std::string> with = {}, const char *dtype = "f32") {
  options.push_back({"statistics", "true"});
  return {"moe_route", {{"T", tokens}, {"E", experts}}, std::move(options), std::move(with), dtype};
}
KernelCase permute(std::int64_t tokens, std::int64_t k, const char *count,
                   const char *first = "0") {
  return {"moe_permute", {{"T", tokens}, {"k", k}}, {{"count", count}, {"first", first}}};
}

/// A product of experts with few columns.
KernelCase up(Assignments options, std::vector<std::string> with, const char *dtype,
              std::int64_t k = 40, std::int64_t n = 48) {
  return {"moe_up", {{"K", k}, {"N", n}}, std::move(options), std::move(with), dtype};
}
KernelCase down(Assignments options, std::vector<std::string> with, const char *dtype) {
  return {"moe_down", {{"K", 24}, {"N", 40}}, std::move(options), std::move(with), dtype};
}

const std::vector<std::vector<double>> lengths{{1},      {0, 0, 5},   {5, 0, 0},  {0, 0},
                                               {64, 64}, {63, 1, 65}, {0, 130, 0}};

} // namespace

TEST_P(Experts, RoutesByEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *dtype : {"f16", "f32"})
    for (const char *scoring : {"softmax", "sigmoid", "chosen"})
      for (const char *renormalize : {"false", "true"})
        for (const std::vector<std::string> &with :
             std::vector<std::vector<std::string>>{{}, {"bias"}})
          for (const auto &[groups, best] : {std::pair{"1", "1"}, {"6", "2"}, {"2", "1"}})
            // Four rows of three groups each: in the next four another of the three is tried.
            if (const std::size_t row = place++; isAmongAThird(row + row / 12))
              expectRight(device, route(19, 24,
                                        {{"k", "3"},
                                         {"scoring", scoring},
                                         {"renormalize", renormalize},
                                         {"n_group", groups},
                                         {"topk_group", best},
                                         {"scale", "2.5"}},
                                        with, dtype));
  for (std::int64_t experts : {1, 7, 31, 32, 33, 100, 256, 1024})
    for (std::int64_t tokens : {0, 1, 9, 65})
      expectRight(device, route(tokens, experts, {{"k", experts < 3 ? "1" : "3"}}));
  expectRight(device, route(5, 300, {{"k", "32"}}));
  expectRightWithStrides(device, route(9, 24, {{"k", "2"}}, {"bias"}));
}

TEST_P(Experts, TiesGoToTheLowerNumber) {
  FilledCall filled = fill(route(2, 8, {{"k", "4"}, {"n_group", "4"}, {"topk_group", "2"}}));
  filled.inputs[0].assign(std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 0, 2, 2, 2, 1, 2, 2, 1});
  EXPECT_THAT(valuesOf(run(device, filled)[1]), ElementsAre(0, 1, 2, 3, 1, 2, 3, 0));
}

TEST_P(Experts, GradientsOfRoutes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *scoring : {"softmax", "sigmoid", "chosen"})
    for (const char *renormalize : {"false", "true"})
      for (const std::vector<std::string> &with :
           std::vector<std::vector<std::string>>{{}, {"dmean_score"}})
        for (std::int64_t experts : {24, 100})
          expectRight(
              device,
              {"moe_route_backward",
               {{"T", 17}, {"E", experts}},
               {{"k", "5"}, {"scoring", scoring}, {"renormalize", renormalize}, {"scale", "2.5"}},
               with,
               "f32"});
}

TEST_P(Experts, PermutesFewAndMany) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const auto &[tokens, k] : {std::pair{0, 3}, {1, 1}, {5, 8}, {60, 3}, {1000, 2}, {3000, 3}})
    for (const auto &[count, first] : {std::pair{"1", "0"}, {"31", "0"}, {"32", "5"}, {"300", "2"}})
      expectRight(device, permute(tokens, k, count, first));
  KernelCase small = permute(3000, 3, "9");
  small.config = {{"block", 256}, {"warps", 2}};
  expectRight(device, small);
  small = permute(500, 3, "1024");
  small.config = {{"block", 64}, {"warps", 1}};
  expectRight(device, small);
  expectRightWithStrides(device, permute(40, 3, "8"));
}

TEST_P(Experts, LeavesOutExpertsThatAreElsewhere) {
  FilledCall filled = fill(permute(3, 2, "2", "4"));
  filled.inputs[0].assign(std::vector<double>{5, 3, 4, 5, 6, 4});
  const auto outputs = run(device, filled);
  EXPECT_THAT(valuesOf(outputs[0]), ElementsAre(2, 2));
  EXPECT_THAT(valuesOf(outputs[1]), ElementsAre(0, 2, 4));
  EXPECT_THAT(valuesOf(outputs[2]), ElementsAre(2, 5, 0, 3, -1, -1));
  EXPECT_THAT(valuesOf(outputs[3]), ElementsAre(1, 2, 0, 1, -1, -1));
  EXPECT_THAT(valuesOf(outputs[4]), ElementsAre(2, -1, 0, 3, -1, 1));
}

TEST_P(Experts, ProductsOfGatheredRows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const auto &counts : lengths)
    for (const char *gate : {"none", "interleaved", "concatenated"}) {
      expectRight(device, withCounts(up({{"gate", gate}}, {}, "f16", 40, 130), counts));
      KernelCase persistent = withCounts(up({{"gate", gate}}, {"bias"}, "bf16", 136, 176), counts);
      persistent.config = {{"persistent", 1}, {"programs", 3}, {"m", 64},    {"n", 64},
                           {"k", 64},         {"warps", 4},    {"stages", 3}};
      expectRight(device, persistent);
    }
  for (const char *dtype : {"f16", "bf16", "f32"})
    for (const char *gate : {"none", "interleaved", "concatenated"})
      for (const char *trans : {"false", "true"})
        expectRight(device, up({{"gate", gate}, {"trans_w", trans}}, {"bias"}, dtype));
  for (const char *activation : {"none", "relu_squared", "gelu", "gelu_tanh"})
    expectRight(device, up({{"activation", activation}}, {}, "f16"));
  // As gpt-oss has it.
  for (const char *dtype : {"f16", "f32"}) {
    expectRight(
        device,
        up({{"gate", "interleaved"}, {"alpha", "1.702"}, {"limit", "1"}, {"up_offset", "1"}},
           {"bias"}, dtype));
  }
  expectRight(device, {"moe_up", {{"K", 0}}, {}, {"bias"}, "f16"});
  expectRight(device, {"moe_up", {{"N", 0}}, {}, {}, "f16"});
  expectRightWithStrides(device, up({}, {"bias"}, "f16"));
}

TEST_P(Experts, DownAndTheSumOfChoices) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const auto &counts : lengths)
    for (const std::vector<std::string> &with :
         std::vector<std::vector<std::string>>{{}, {"bias", "addend"}})
      expectRight(device, withCounts(down({}, with, "f16"), counts));
  for (const char *dtype : {"f16", "bf16", "f32"})
    for (const char *trans : {"false", "true"})
      expectRight(device, down({{"trans_w", trans}}, {"bias", "addend"}, dtype));
  for (std::int64_t k : {0, 1, 2, 5, 9})
    for (std::int64_t n : {0, 1, 33, 300})
      expectRight(device, {"moe_combine", {{"C", k}, {"N", n}}, {}, {"weights"}, "f16"});
  expectRight(device, {"moe_combine", {}, {}, {"addend"}, "bf16"});
  expectRightWithStrides(device, down({}, {"addend"}, "f16"));
  expectRightWithStrides(device, {"moe_combine", {}, {}, {"weights"}, "f16"});
}

// Choices that are left out add nothing, whatever their weights; the order of sums is the choices'.
TEST_P(Experts, SumsInTheOrderOfChoices) {
  FilledCall filled =
      fill({"moe_combine", {{"T", 2}, {"C", 3}, {"M", 3}, {"N", 1}}, {}, {"weights"}, "f32"});
  filled.inputs[0].assign(std::vector<double>{0x1p60, -0x1p60, 1});
  filled.inputs[1].assign(std::vector<double>{0, 1, 2, 0, 2, -1});
  filled.inputs[2].assign(std::vector<double>{1, 1, 1, 0, 2, NAN});
  EXPECT_THAT(run(device, filled)[0].to_double(), ElementsAre(1, 2));
}

TEST_P(Experts, GradientsOfSums) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t choices : {0, 1, 3, 5})
    for (std::int64_t n : {1, 33, 300})
      for (const std::vector<std::string> &with :
           std::vector<std::vector<std::string>>{{}, {"weights"}})
        expectRight(device, {"moe_combine_backward",
                             {{"T", 21}, {"M", 70}, {"C", choices}, {"N", n}},
                             {},
                             with,
                             "f16"});
  expectRight(device, {"moe_combine_backward", {{"T", 0}}, {}, {"weights"}, "f32"});
  expectRightWithStrides(device, {"moe_combine_backward", {}, {}, {"weights"}, "bf16"});
}

// From logits to tokens' sums: the same as each token's experts one by one, on the host.
TEST_P(Experts, TheChainIsEachTokensExperts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::int64_t tokens = 37, experts = 6, k = 2, width = 24, inner = 32;
  const FilledCall routed = fill(route(tokens, experts, {{"k", "2"}, {"renormalize", "true"}}));
  const auto chosen = run(device, routed);
  FilledCall placed = fill(permute(tokens, k, "6"));
  placed.inputs[0] = chosen[1];
  const auto places = run(device, placed);
  FilledCall up =
      fill({"moe_up",
            {{"T", tokens}, {"M", tokens * k}, {"K", width}, {"N", 2 * inner}, {"G", experts}},
            {},
            {},
            "f32"});
  up.inputs[2] = places[0];
  up.inputs[3] = places[3];
  up.call.options.values["precision"] = "exact";
  FilledCall down = fill(
      {"moe_down",
       {{"T", tokens}, {"C", k}, {"M", tokens * k}, {"K", inner}, {"N", width}, {"G", experts}},
       {{"precision", "exact"}},
       {},
       "f32"});
  down.inputs[0] = run(device, up)[0];
  down.inputs[2] = places[0];
  down.inputs[3] = places[4];
  down.inputs[4] = chosen[0];
  const auto y = run(device, down)[0].to_double();

  const auto x = up.inputs[0].to_double(), w = up.inputs[1].to_double(),
             back = down.inputs[1].to_double(), weights = chosen[0].to_double();
  const auto numbers = chosen[1].as<std::int32_t>();
  const auto at = [](const std::vector<double> &values, std::int64_t place) {
    return values[static_cast<std::size_t>(place)];
  };
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t expert = numbers[static_cast<std::size_t>(t * k + j)];
        for (std::int64_t i = 0; i < inner; ++i) {
          double gate = 0, value = 0;
          for (std::int64_t p = 0; p < width; ++p) {
            const std::int64_t row = (expert * width + p) * 2 * inner;
            gate += at(x, t * width + p) * at(w, row + i);
            value += at(x, t * width + p) * at(w, row + inner + i);
          }
          sum += at(weights, t * k + j) * gate / (1 + std::exp(-gate)) * value *
                 at(back, (expert * inner + i) * width + c);
        }
      }
      ASSERT_NEAR(at(y, t * width + c), sum, 1e-4 * (1 + std::abs(sum))) << t << " " << c;
    }
}

TEST_P(ExpertsElsewhere, IsRight) {
  expectRight(device,
              route(9, 24,
                    {{"k", "3"}, {"scoring", "sigmoid"}, {"n_group", "4"}, {"topk_group", "2"}},
                    {"bias"}, "f16"));
  expectRight(device, {"moe_route_backward", {}, {{"renormalize", "true"}}, {"dmean_score"}});
  expectRight(device, permute(60, 3, "9", "1"));
  expectRight(device, permute(3000, 3, "9", "1"));
  for (const char *gate : {"none", "interleaved", "concatenated"})
    expectRight(device, up({{"gate", gate}}, {"bias"}, "f16"));
  expectRight(device, down({}, {"bias", "addend"}, "f16"));
  expectRight(device, {"moe_combine", {}, {}, {"weights"}, "bf16"});
}

// A NaN row is NaN, of experts that there are.
TEST_P(Experts, NotANumberStaysInItsRow) {
  FilledCall filled = fill(route(3, 8, {{"k", "2"}, {"renormalize", "true"}}));
  filled.inputs[0].as<float>()[11] = NAN;
  const auto outputs = run(device, filled);
  const auto weights = outputs[0].to_double();
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(std::isnan(weights[i]), i / 2 == 1);
  for (const std::int32_t expert : valuesOf(outputs[1]))
    EXPECT_TRUE(expert >= 0 && expert < 8);
}

TEST(ExpertErrors, SayWhatWouldDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      resolveCase(test);
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expectRefused(route(2, 1025), "there are 1025 experts, but at most 1024 are taken");
  expectRefused(route(2, 64, {{"k", "33"}}), "'k' is 33, but must be from 1 to 32");
  expectRefused(route(2, 24, {{"n_group", "5"}}),
                "'n_group' is 5, but must be from 1 to 16 and divide");
  expectRefused(route(2, 24, {{"topk_group", "0"}}), "'topk_group' is 0, but must be at least 1");
  expectRefused(route(2, 24, {{"k", "4"}, {"n_group", "8"}}),
                "there are only 3 experts to choose from");
  expectRefused({"moe_route_backward", {{"K", 3}}}, "experts has 3 in a row, but option 'k' is 2");
  expectRefused(permute(2, 2, "0"), "'count' is 0, but must be from 1 to 1024");
  expectRefused(permute(2, 2, "8", "-1"), "'first' is -1, but must be from 0");
  expectRefused({"moe_up", {{"N", 33}}}, "w has 33 columns, but a gate needs an even number");
  expectRefused({"moe_up", {}, {{"limit", "-1"}}}, "'limit' is -1, but must be at least 0");
  expectRefused({"moe_up", {}, {{"alpha", "2"}, {"activation", "gelu"}}},
                "'alpha' is of activation=silu alone, not of gelu");
  expectRefused({"moe_up", {}, {{"limit", "7"}, {"gate", "none"}}}, "are of a gate, but gate=none");
  expectRefused({"moe_up", {{"G", 0}}}, "there are rows, but there is no expert");
  FilledCall filled = fill({"moe_up"});
  filled.inputs[filled.call.index("rows")].as<std::int32_t>()[0] = 40;
  EXPECT_THROW(checkContents(filled.call, filled.inputs), InputError);
  filled = fill({"moe_combine_backward"});
  filled.inputs[1].as<std::int32_t>()[0] = filled.inputs[1].as<std::int32_t>()[1] = 7;
  EXPECT_THROW(checkContents(filled.call, filled.inputs), InputError);
  filled = fill({"moe_combine"});
  filled.inputs[1].as<std::int32_t>()[0] = 60;
  EXPECT_THROW(checkContents(filled.call, filled.inputs), InputError);
}
