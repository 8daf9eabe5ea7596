// vector_add.
#include "KernelTest.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(VectorAdd);

TEST_P(VectorAdd, EveryType) {
  for (const char *dtype : {"f32", "f16", "bf16", "f64"})
    expectRight(device, {"vector_add", {{"...", 3000}}, {}, {}, dtype});
}

TEST_P(VectorAdd, AnyLength) {
  for (std::int64_t n : {0, 1, 2, 127, 128, 129, 1023, 1024, 1025})
    expectRight(device, {"vector_add", {{"...", n}}, {}, {}, "f16"});
  for (std::int64_t n : {127, 128, 129})
    expectRight(device, {"vector_add", {{"...", n}}, {}, {}, "", {{"size", 128}}});
}

TEST_P(VectorAdd, IntegersAreExact) {
  for (const char *dtype : {"f32", "f16", "bf16", "f64"})
    expectExact(
        device,
        {.kernel = "vector_add", .dtype = dtype, .prepare = [](const Invocation &, auto &in) {
           fillIntegers(in[0], 100, 1);
           fillIntegers(in[1], 100, 2);
         }});
}

TEST_P(VectorAdd, InfinitiesAndNan) {
  expectRight(device, {.kernel = "vector_add",
                       .extents = {{"...", 6}},
                       .prepare = [](const Invocation &, auto &in) {
                         constexpr double inf = INFINITY;
                         in[0].assign(std::vector<double>{inf, -inf, inf, NAN, 3e38, 1});
                         in[1].assign(std::vector<double>{1, -inf, -inf, 1, 3e38, NAN});
                       }});
}

TEST_P(VectorAdd, TakesAnyStrides) {
  for (const Spread spread : {Spread::rows, Spread::everywhere})
    expectRightWithStrides(device, {"vector_add", {{"...", 200}}, {}, {}, "f16"}, spread);
}

// The last element left out, as by a mask that is one short; and x added to itself.
TEST(VectorAddJudge, PlantedMistakesAreSeen) {
  const Invocation call = resolveCase({"vector_add"});
  const auto in = sampleInputs(call, 1);
  auto out = referenceOutputs(call, in, Arithmetic::own);
  EXPECT_TRUE(check(call, in, out)[0].accuracy.ok());
  out[0].as<float>().back() = 0;
  EXPECT_FALSE(check(call, in, out)[0].accuracy.ok());
  out = referenceOutputs(call, std::vector{in[0], in[0]}, Arithmetic::own);
  EXPECT_FALSE(check(call, in, out)[0].accuracy.ok());
}
