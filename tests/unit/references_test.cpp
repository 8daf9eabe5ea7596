// The references against results worked out by hand, and the judge: what it lets pass and what not.
#include "kernels/references/Accuracy.h"
#include "kernels/references/Check.h"
#include "kernels/references/References.h"
#include "kernels/registry/Registry.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace sectile;
using testing::HasSubstr;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double notANumber = std::numeric_limits<double>::quiet_NaN();

HostArray array(Shape shape, std::vector<double> values, DType dtype = DType::float32) {
  return HostArray(dtype, std::move(shape), values);
}

HostArray random(Shape shape, DType dtype, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(elementCount(shape)));
  for (double &value : values)
    value = normal(engine);
  return HostArray(dtype, std::move(shape), values);
}

void expectNear(const HostArray &array, std::vector<double> expected, double tolerance = 1e-12) {
  auto values = array.to_double();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(values[i])) << i;
    else if (std::isinf(expected[i]))
      EXPECT_EQ(values[i], expected[i]) << i;
    else
      EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

} // namespace

TEST(References, VectorAdd) {
  auto x = array({3}, {1, 2, inf}, DType::float16), y = array({3}, {0.5, -2, 1}, DType::float16);
  expectNear(vectorAddReference(x, y, Arithmetic::exact), {1.5, 0, inf});
  EXPECT_EQ(vectorAddReference(x, y, Arithmetic::own).dtype, DType::float16);
  auto large = array({1}, {2048}, DType::float16), one = array({1}, {1}, DType::float16);
  expectNear(vectorAddReference(large, one, Arithmetic::exact), {2049});
  expectNear(vectorAddReference(large, one, Arithmetic::own), {2048});
}

TEST(References, Softmax) {
  auto x = array({3, 2}, {0, std::log(3.0), 1000, -inf, -inf, -inf}, DType::float64);
  expectNear(softmaxReference(x, Arithmetic::exact), {0.25, 0.75, 1, 0, notANumber, notANumber});
  expectNear(softmaxReference(array({1, 2}, {notANumber, 0}), Arithmetic::exact),
             {notANumber, notANumber});
  EXPECT_EQ(softmaxReference(array({3, 0}, {}), Arithmetic::exact).shape, (Shape{3, 0}));
  EXPECT_EQ(softmaxReference(array({0, 3}, {}), Arithmetic::own).shape, (Shape{0, 3}));
}

TEST(References, LayerNorm) {
  auto x = array({2, 4}, {1, 3, 1, 3, 10001, 9999, 10001, 9999});
  auto r = layerNormReference(x, array({4}, {1, 2, 3, 4}), array({4}, {0, 0, 0, 1}), 0,
                              Arithmetic::exact);
  expectNear(r.y, {-1, 2, -3, 5, 1, -2, 3, -3});
  expectNear(r.mean, {2, 10000});
  expectNear(r.rstd, {1, 1});
  EXPECT_EQ(r.mean.shape, Shape{2});
  auto ones = array({1}, {1});
  auto single = layerNormReference(array({1, 1}, {7}), ones, ones, 0.25, Arithmetic::exact);
  expectNear(single.y, {1});
  expectNear(single.rstd, {2});
  auto halves =
      layerNormReference(array({1, 2}, {1, 2}, DType::float16), array({2}, {1, 1}, DType::float16),
                         array({2}, {0, 0}, DType::float16), 1e-5, Arithmetic::own);
  EXPECT_EQ(halves.y.dtype, DType::float16);
  EXPECT_EQ(halves.mean.dtype, DType::float32);
}

TEST(References, Matmul) {
  auto a = array({2, 3}, {1, 2, 3, 4, 5, 6}), b = array({3, 2}, {1, 0, 0, 1, 2, 2});
  std::vector<double> expected{7, 8, 16, 17};
  expectNear(matmulReference(a, b, {}, Arithmetic::exact), expected);
  expectNear(matmulReference(array({2, 0}, {}), array({0, 1}, {}), {}, Arithmetic::exact), {0, 0});
  // 1 + 2^-12 does not fit tf32.
  auto fine = array({1, 1}, {1 + 1.0 / 4096}), one = array({1, 1}, {1});
  expectNear(matmulReference(fine, one, {.tf32 = true}, Arithmetic::own), {1});
  expectNear(matmulReference(fine, one, {.tf32 = true}, Arithmetic::exact), {1 + 1.0 / 4096});
}

TEST(References, AttentionCausalIsAlignedToTheEnd) {
  // Equal scores: each visible key weighs the same.
  auto q = array({1, 1, 3, 1}, {0, 0, 0});
  auto kv = [](std::vector<double> v) {
    return array({1, 1, static_cast<std::int64_t>(v.size()), 1}, v);
  };
  auto r = attentionReference(q, kv({0, 0}), kv({2, 4}), {.causal = true}, Arithmetic::exact);
  expectNear(r.o, {0, 2, 3});
  expectNear(r.lse, {-inf, 0, std::log(2.0)});
  r = attentionReference(q, kv({0, 0, 0, 0}), kv({2, 4, 6, 8}), {.causal = true},
                         Arithmetic::exact);
  expectNear(r.o, {3, 4, 5});
  r = attentionReference(q, kv({}), kv({}), {}, Arithmetic::own);
  expectNear(r.o, {0, 0, 0});
  expectNear(r.lse, {-inf, -inf, -inf});
  EXPECT_EQ(r.lse.dtype, DType::float32);
}

TEST(References, AttentionScaleHeadsAndSpecialValues) {
  // Two query heads per key head; q·k = 4 with D = 4: scale 1/2 gives 2, against 0.
  auto q = array({1, 4, 1, 4}, std::vector<double>(16, 1));
  auto k = array({1, 2, 2, 4}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
  auto v = array({1, 2, 2, 4}, {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0});
  double w = std::exp(2.0) / (std::exp(2.0) + 1);
  auto r = attentionReference(q, k, v, {}, Arithmetic::exact);
  std::vector<double> expected(8, w);
  expected.resize(16, 1 - w);
  expectNear(r.o, expected);
  expectNear(r.lse, std::vector<double>(4, std::log(std::exp(2.0) + 1)));
  w = std::exp(-4.0) / (std::exp(-4.0) + 1);
  EXPECT_NEAR(attentionReference(q, k, v, {.scale = -1.0}, Arithmetic::exact).o.to_double()[0], w,
              1e-12);

  auto one = array({1, 1, 1, 1}, {1}), pair = array({1, 1, 2, 1}, {1, 2});
  expectNear(
      attentionReference(one, array({1, 1, 2, 1}, {-inf, -inf}), pair, {}, Arithmetic::exact).o,
      {0});
  expectNear(
      attentionReference(one, array({1, 1, 2, 1}, {notANumber, 0}), pair, {}, Arithmetic::exact).o,
      {notANumber});
  expectNear(attentionReference(one, array({1, 1, 2, 1}, {-inf, 3}), pair, {}, Arithmetic::exact).o,
             {2});
}

TEST(Judge, ThePlainFormulaPassesInEveryDtype) {
  for (DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    auto x = random({20, 300}, dtype, 1);
    auto own = softmaxReference(x, Arithmetic::own);
    Accuracy verdict = judge(own, softmaxReference(x, Arithmetic::exact), own);
    EXPECT_TRUE(verdict.ok()) << verdict.describe();
    EXPECT_EQ(verdict.count, 6000);
    auto a = random({33, 65}, dtype, 2), b = random({65, 17}, dtype, 3);
    auto c = matmulReference(a, b, {}, Arithmetic::own);
    EXPECT_TRUE(judge(c, matmulReference(a, b, {}, Arithmetic::exact), c).ok());
  }
}

TEST(Judge, ErrorsFail) {
  auto a = random({16, 64}, DType::float16, 2), b = random({64, 16}, DType::float16, 3);
  auto exact = matmulReference(a, b, {}, Arithmetic::exact);
  auto own = matmulReference(a, b, {}, Arithmetic::own);
  auto values = own.to_double();

  auto spoilt = values; // one element a little off
  spoilt[37] += 0.1;
  Accuracy verdict = judge(HostArray(DType::float16, own.shape, spoilt), exact, own);
  EXPECT_FALSE(verdict.ok());
  EXPECT_EQ(verdict.worst, 37);
  EXPECT_THAT(verdict.describe(), HasSubstr("worst at element 37"));

  auto biased = values; // all of them off, each within the bound for a single one
  Accuracy good = judge(own, exact, own);
  for (double &value : biased)
    value += 0.8 * (good.maxBound - good.maxError) * (value > 0 ? 1 : -1);
  verdict = judge(HostArray(DType::float32, own.shape, biased), exact, own);
  EXPECT_GT(verdict.rmsError, verdict.rmsBound);
  EXPECT_FALSE(verdict.ok());
}

TEST(Judge, NanAndInfinityMustBeMet) {
  auto verdict = [](std::vector<double> output, std::vector<double> exact) {
    auto size = static_cast<std::int64_t>(output.size());
    HostArray ref(DType::float64, {size}, exact);
    return judge(HostArray(DType::float16, {size}, output), ref,
                 HostArray(DType::float16, {size}, exact));
  };
  EXPECT_TRUE(verdict({notANumber, inf, -inf, 1}, {notANumber, inf, -inf, 1}).ok());
  EXPECT_FALSE(verdict({0, 1}, {notANumber, 1}).ok());
  EXPECT_FALSE(verdict({notANumber, 1}, {0, 1}).ok());
  EXPECT_FALSE(verdict({-inf, 1}, {inf, 1}).ok());
  EXPECT_FALSE(verdict({65504, 1}, {inf, 1}).ok());
  EXPECT_FALSE(verdict({inf, 1}, {5, 1}).ok());
  EXPECT_TRUE(verdict({inf, 1}, {70000, 1}).ok()); // beyond fp16
  EXPECT_EQ(verdict({0, notANumber, 2}, {0, 0, notANumber}).mismatches, 2);
  EXPECT_EQ(verdict({0, notANumber, 2}, {0, 0, notANumber}).worst, 1);
  EXPECT_TRUE(verdict({}, {}).ok());
}

TEST(Judge, ABaseThatOverflowsDoesNotExcuseErrors) {
  HostArray exact(DType::float64, {2}, std::vector<double>{1, 2});
  HostArray base(DType::float16, {2}, std::vector<double>{inf, 2});
  EXPECT_FALSE(
      judge(HostArray(DType::float16, {2}, std::vector<double>{1.5, 2}), exact, base).ok());
  EXPECT_TRUE(judge(HostArray(DType::float16, {2}, std::vector<double>{1, 2}), exact, base).ok());
}

// 1 + 2 is exact in f16, which leaves the bound one unit in the last place, 2^-9; a unit beside
// them it is rounded by half a unit, which makes it two.
TEST(Judge, NeighboursMayDecideAndAreNamed) {
  const KernelSpec &kernel = findKernel("vector_add");
  const std::vector<HostArray> inputs{array({1}, {1}, DType::float16),
                                      array({1}, {2}, DType::float16)};
  const GivenTensor one{{DType::float16, {1}}, "a test"};
  const Invocation call = resolve(kernel, {{"x", one}, {"y", one}}, {});
  auto verdict = [&](double output) {
    const std::vector<HostArray> outputs{array({1}, {output}, DType::float16)};
    EXPECT_EQ(check(call, inputs, outputs).at(0).accuracy.ok(), output - 3 <= 0x1p-9);
    return checkNearby(call, inputs, outputs).at(0);
  };
  for (const double right : {3.0, 3 + 0x1p-9}) {
    EXPECT_TRUE(verdict(right).accuracy.ok());
    EXPECT_FALSE(verdict(right).nearby);
  }
  const Verdict near = verdict(3 + 0x1p-8);
  EXPECT_TRUE(near.accuracy.ok()) << near.accuracy.describe();
  EXPECT_TRUE(near.nearby);
  EXPECT_FALSE(verdict(3 + 0x1p-7).accuracy.ok());
}
