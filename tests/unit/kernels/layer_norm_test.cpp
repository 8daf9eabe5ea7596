// layer_norm and layer_norm_backward.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(LayerNorm);
class LayerNormOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(LayerNormOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {

const std::vector<std::string> both{"w", "b"};
const std::vector<std::vector<std::string>> weights{both, {}, {"w"}, {"b"}};

/// All values of the argument moved by this much.
void shift(HostArray &array, double distance) {
  std::vector<double> values = array.to_double();
  for (double &value : values)
    value += distance;
  array.assign(values);
}

/// mean and rstd as layer_norm gives them for this x.
void takeStatistics(std::vector<HostArray> &in, double eps) {
  const std::int64_t n = in[0].shape.back();
  const HostArray one(in[0].dtype, {n});
  const LayerNormResult result = layerNormReference(in[0], one, one, eps, Arithmetic::exact);
  in[2].assign(result.mean.to_double());
  in[3].assign(result.rstd.to_double());
}

} // namespace

TEST_P(LayerNorm, ForwardAndBackward) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f32", "f16", "bf16"})
    for (const auto &with : weights)
      for (const char *kernel : {"layer_norm", "layer_norm_backward"})
        expectRight(device, {kernel, {{"...", 19}, {"N", 300}}, {}, with, dtype});
}

TEST_P(LayerNormOnChips, RowsOfEveryLength) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (std::int64_t n : {1, 2, 31, 32, 33, 127, 128, 1025}) {
    expectRight(device, {"layer_norm", {{"...", 3}, {"N", n}}, {}, weights[n % 4]});
    expectRight(device, {"layer_norm_backward", {{"...", 3}, {"N", n}}, {}, weights[n % 4]});
  }
}

TEST_P(LayerNormOnChips, AnyNumberOfRows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (std::int64_t rows : {0, 1, 2, 7, 65, 257}) { // more than 256 share sums
    expectRight(device, {"layer_norm", {{"...", rows}, {"N", 40}}, {}, both});
    expectRight(device, {"layer_norm_backward", {{"...", rows}, {"N", 40}}, {}, both});
  }
  for (const char *kernel : {"layer_norm", "layer_norm_backward"})
    expectRight(device, {kernel, {{"...", 5}, {"N", 0}}, {}, both});
}

TEST_P(LayerNormOnChips, RowsBeyondABlock) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const auto &with : weights) {
    expectRight(
        device,
        {"layer_norm", {{"...", 5}, {"N", 700}}, {}, with, "", {{"block", 256}, {"rows", 2}}});
    expectRight(device, {"layer_norm_backward",
                         {{"...", 9}, {"N", 700}},
                         {},
                         with,
                         "",
                         {{"block", 128}, {"rows", 2}, {"warps", 2}, {"programs", 3}}});
  }
  for (const char *dtype : {"f32", "f16"})
    for (const char *kernel : {"layer_norm", "layer_norm_backward"})
      expectRight(device, {kernel, {{"...", 3}, {"N", 8193}}, {}, both, dtype});
}

TEST_P(LayerNormOnChips, Strides) {
  for (const char *kernel : {"layer_norm", "layer_norm_backward"})
    for (std::int64_t n : {33, 256})
      expectRightWithStrides(device, {kernel, {{"...", 6}, {"N", n}}, {}, both});
}

// E[x^2] - mean^2 would have no digit left, and x that is not read but counts as 0 would be ten
// thousand from the mean.
TEST_P(LayerNormOnChips, LargeMeanBesideMaskedLanes) {
  for (std::int64_t n : {33, 1000, 5001}) {
    expectRight(device, {.kernel = "layer_norm",
                         .extents = {{"...", 2}, {"N", n}},
                         .with = both,
                         .prepare = [](const Invocation &, auto &in) { shift(in[0], 1e4); }});
    expectRight(device, {.kernel = "layer_norm_backward",
                         .extents = {{"...", 2}, {"N", n}},
                         .with = both,
                         .prepare = [](const Invocation &, auto &in) {
                           shift(in[0], 1e4);
                           takeStatistics(in, 1e-5);
                         }});
  }
}

TEST_P(LayerNormOnChips, IntegerGradientsAreExact) {
  expectExact(device, {.kernel = "layer_norm_backward",
                       .extents = {{"...", 50}, {"N", 64}},
                       .with = both,
                       .prepare = [](const Invocation &, auto &in) {
                         for (std::size_t i : {0, 1, 2, 4})
                           fillIntegers(in[i], 2, i);
                         in[3].assign(std::vector<double>(50, 1.0));
                       }});
}

TEST_P(LayerNormOnChips, NanStaysInItsRow) {
  expectRight(device, {.kernel = "layer_norm", .prepare = [](const Invocation &, auto &in) {
                         in[0].template as<float>()[7] = NAN;
                       }});
  expectRight(device, {.kernel = "layer_norm",
                       .config = {{"block", 128}},
                       .prepare = [](const Invocation &, auto &in) {
                         in[0].template as<float>()[7] = INFINITY;
                         in[0].template as<float>()[900] = NAN;
                       }});
  const auto outputs = expectRight(
      device, {.kernel = "layer_norm_backward", .prepare = [](const Invocation &, auto &in) {
                 in[4].template as<float>()[300 + 7] = INFINITY;
               }});
  for (std::int64_t i = 0; i < 300; ++i)
    EXPECT_TRUE(std::isfinite(outputs[0].as<float>()[static_cast<std::size_t>(i)]));
}

// What a kernel would give that counts masked lanes as 0 in the variance, or one that forgets a row
// in dw.
TEST(LayerNormJudge, CatchesPlantedMistakes) {
  const auto first = [](const HostArray &array) { return array.as<float>(); };
  const Invocation forward = resolveCase({"layer_norm", {{"...", 4}, {"N", 33}}, {}, both});
  std::vector<HostArray> in = sampleInputs(forward, 1);
  shift(in[0], 0.5);
  std::vector<HostArray> out = referenceOutputs(forward, in, Arithmetic::own);
  EXPECT_TRUE(check(forward, in, out)[0].accuracy.ok());
  for (std::size_t row = 0; row < 4; ++row) {
    const float mean = first(out[1])[row], rstd = first(out[2])[row];
    const float masked = 1 / std::sqrt(1 / (rstd * rstd) + 31 * mean * mean / 33);
    for (std::size_t i = row * 33; i < row * 33 + 33; ++i)
      out[0].as<float>()[i] = (first(in[0])[i] - mean) * masked * first(in[1])[i - row * 33] +
                              first(in[2])[i - row * 33];
  }
  EXPECT_FALSE(check(forward, in, out)[0].accuracy.ok());

  const Invocation backward =
      resolveCase({"layer_norm_backward", {{"...", 4}, {"N", 33}}, {}, both});
  in = sampleInputs(backward, 1);
  out = referenceOutputs(backward, in, Arithmetic::own);
  EXPECT_TRUE(check(backward, in, out)[1].accuracy.ok());
  for (std::size_t i = 0; i < 33; ++i)
    out[1].as<float>()[i] -=
        first(in[4])[99 + i] * (first(in[0])[99 + i] - first(in[2])[3]) * first(in[3])[3];
  EXPECT_FALSE(check(backward, in, out)[1].accuracy.ok());
}

TEST(LayerNormGradients, AgainstCentralDifferences) {
  for (const char *eps : {"1e-5", "0.5"})
    for (const auto &with : weights)
      for (std::int64_t n : {1, 2, 30})
        expectGradients({"layer_norm", {{"...", 4}, {"N", n}}, {{"eps", eps}}, with},
                        "layer_norm_backward");
}

// One row, x = -1, 1: mean 0, rstd 1. dy = 3, 5, w = 1, 2: g = 3, 10; mean(g) = 6.5, mean(g n) =
// 3.5; dx = 3 - 6.5 + 3.5, 10 - 6.5 - 3.5.
TEST(LayerNormReference, BackwardByHand) {
  const auto numbers = [](const Shape &shape, const std::vector<double> &values) {
    return HostArray(DType::float64, shape, values);
  };
  const std::vector<HostArray> in{numbers({1, 2}, {-1, 1}), numbers({2}, {1, 2}),
                                  numbers({1}, {0}),        numbers({1}, {1}),
                                  numbers({1, 2}, {3, 5}),  numbers({2}, {0, 0})};
  const Invocation call = resolveCase({"layer_norm_backward", {{"...", 1}, {"N", 2}}, {}, both});
  const auto out = referenceOutputs(call, in, Arithmetic::exact);
  EXPECT_EQ(out[0].to_double(), (std::vector<double>{0, 0}));
  EXPECT_EQ(out[1].to_double(), (std::vector<double>{-3, 5}));
  EXPECT_EQ(out[2].to_double(), (std::vector<double>{3, 5}));
}
