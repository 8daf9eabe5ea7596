// matmul and batched_matmul: extents beside tile edges, dtypes, the epilogue, sums that several
// programs share.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class Matmul : public OnDevice {};
SECTILE_INSTANTIATE_ON(Matmul, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
class MatmulEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(MatmulEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

using Extents = std::map<std::string, std::int64_t>;

Extents matrix(std::int64_t m, std::int64_t n, std::int64_t k) {
  return {{"M", m}, {"N", n}, {"K", k}};
}

const std::vector<std::string> everything{"bias", "residual", "row_scale", "column_scale"};

void integers(const Invocation &, std::vector<HostArray> &inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].data.empty())
      fillIntegers(inputs[i], 3, i + 1);
}

TEST_P(Matmul, AnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const Extents &extents :
       {matrix(1, 1, 1), matrix(1, 65, 33), matrix(65, 1, 31), matrix(63, 64, 65),
        matrix(64, 65, 32), matrix(7, 5, 0), matrix(0, 5, 7), matrix(5, 0, 7), matrix(1, 1, 100)}) {
    expectRight(device, {"matmul", extents, {}, {}, "f16"});
    expectRight(device, {"matmul", extents, {{"activation", "silu"}}, everything, "f16"});
  }
}

TEST_P(Matmul, NoInnerExtentLeavesTheEpilogue) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  const KernelCase test{"matmul", matrix(3, 4, 0), {{"beta", "2"}}, {"bias", "residual"}, "f32", {},
                        1,        integers};
  expectExact(device, test);
  KernelCase shared = test;
  shared.config = {{"splits", 3}};
  expectExact(device, shared);
  shared.options.emplace_back("schedule", "stream_k");
  expectExact(device, shared);
}

TEST_P(MatmulEverywhere, DtypesAndResults) {
  for (const char *dtype : {"f16", "bf16", "f32", "f8e4m3", "f8e5m2", "i8"})
    for (const char *out : {"same", "f32", "f16", "bf16"}) {
      if (dtype == std::string("i8") && out == std::string("same"))
        expectExact(device, {"matmul", matrix(33, 20, 200), {}, {}, dtype});
      else
        expectRight(device, {"matmul", matrix(33, 20, 70), {{"out", out}}, {}, dtype});
      expectRight(device, {"matmul",
                           matrix(33, 20, 70),
                           {{"out", out}, {"alpha", "0.01"}, {"activation", "gelu"}},
                           everything,
                           dtype});
    }
}

TEST_P(Matmul, TransposedOperands) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const char *a : {"true", "false"})
    for (const char *b : {"true", "false"})
      for (const char *dtype : {"bf16", "f32", "f8e4m3", "i8"})
        expectRight(device, {"matmul",
                             matrix(70, 50, 40),
                             {{"trans_a", a}, {"trans_b", b}, {"alpha", "1"}},
                             {},
                             dtype});
}

// Long sums of fp8: promoted where the precision allows it, in f32 where it is exact.
TEST_P(Matmul, SumsOfFp8) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *dtype : {"f8e4m3", "f8e5m2"})
    for (const char *precision : {"tf32", "exact"})
      for (const Config &config :
           {Config{}, Config{{"k", 256}, {"stages", 2}}, Config{{"splits", 3}}})
        expectRight(device, {"matmul",
                             matrix(70, 130, 1000),
                             {{"trans_b", "true"}, {"out", "f32"}, {"precision", precision}},
                             {},
                             dtype,
                             config});
}

// Half of the terms are small. Within a group 13 bits cut some of them, which f32 does not; without
// groups the sum would not pass 2^14, as the units of its 13 bits would be larger than any term.
TEST(MatmulReference, SumsOfFp8AreHeldToTheirPrecision) {
  auto filled = [](const char *precision, std::int64_t depth) {
    return fill({"matmul",
                 matrix(1, 1, depth),
                 {{"out", "f32"}, {"precision", precision}},
                 {},
                 "f8e4m3",
                 {},
                 1,
                 [](const Invocation &, std::vector<HostArray> &inputs) {
                   for (std::size_t i = 0; i < 2; ++i) {
                     std::vector<double> values(static_cast<std::size_t>(inputs[i].count()), 1.125);
                     for (std::size_t k = 0; k < values.size(); k += 2)
                       values[k] = i ? 0x1.8p-7 : 1.125;
                     inputs[i].assign(values);
                   }
                 }});
  };
  expectMistakeIsSeen(filled("exact", 1000), filled("tf32", 1000));
  const FilledCall call = filled("tf32", 40000);
  const std::vector<HostArray> stuck{HostArray(DType::float32, {1, 1}, std::vector<double>{16384})};
  EXPECT_FALSE(check(call.call, call.inputs, stuck)[0].accuracy.ok());
}

TEST_P(Matmul, EachPartOfTheEpilogueAlone) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const std::string &part : everything)
    expectRight(device, {"matmul", matrix(66, 34, 20), {}, {part}, "f16"});
  for (const char *activation : {"relu", "gelu", "silu"})
    expectRight(device, {"matmul", matrix(66, 34, 20), {{"activation", activation}}, {}, "bf16"});
  for (const char *beta : {"0", "-0.5", "1"})
    expectRight(device, {"matmul", matrix(66, 34, 20), {{"beta", beta}}, {"residual"}, "f32"});
}

// With beta 0 the residual may hold anything.
TEST_P(Matmul, ResidualIsNotReadWithBetaZero) {
  auto poison = [](const Invocation &call, std::vector<HostArray> &inputs) {
    std::fill(inputs[call.index("residual")].data.begin(),
              inputs[call.index("residual")].data.end(), std::byte{0xff});
  };
  for (const char *dtype : {"f16", "i8"})
    expectRight(device, {"matmul", {}, {{"beta", "0"}}, {"residual"}, dtype, {}, 1, poison});
}

TEST_P(Matmul, ReluKeepsNan) {
  auto nan = [](const Invocation &, std::vector<HostArray> &inputs) {
    inputs[0].as<half>()[3] = half(std::numeric_limits<float>::quiet_NaN());
  };
  expectRight(device, {"matmul", {}, {{"activation", "relu"}}, {}, "f16", {}, 1, nan});
}

TEST_P(Matmul, WholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *dtype : {"f16", "bf16", "f32", "f8e4m3", "i8"})
    expectExact(device, {"matmul",
                         matrix(70, 66, 40),
                         {{"out", dtype == std::string("i8") ? "same" : "f32"}},
                         {},
                         dtype,
                         {},
                         1,
                         integers});
  for (const Config &config : {Config{}, Config{{"splits", 3}}})
    expectExact(device, {"matmul",
                         matrix(70, 66, 130),
                         {{"activation", "relu"}, {"alpha", "2"}, {"beta", "-1"}},
                         everything,
                         "f32",
                         config,
                         1,
                         integers});
}

// Fewer programs than tiles, and more.
TEST_P(Matmul, PersistentPrograms) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const char *dtype : {"f16", "bf16", "f32"})
    for (const std::int64_t programs : {1, 2, 64})
      for (const char *transposed : {"false", "true"})
        expectRight(device, {"matmul",
                             matrix(200, 144, 104),
                             {{"trans_b", transposed}},
                             {},
                             dtype,
                             {{"persistent", 1},
                              {"programs", programs},
                              {"m", 64},
                              {"n", 64},
                              {"k", 32},
                              {"warps", 4},
                              {"stages", 3}}});
}

// Clusters that do several tiles, with rows of tiles that are no multiple of their programs.
TEST_P(Matmul, PersistentClusters) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const std::int64_t programs : {1, 4, 7, 64})
    for (const char *activation : {"none", "relu"})
      expectRight(device, {"matmul",
                           matrix(150, 144, 104),
                           {{"activation", activation}},
                           {},
                           "f16",
                           {{"persistent", 1},
                            {"cluster", 2},
                            {"programs", programs},
                            {"m", 64},
                            {"n", 64},
                            {"k", 32},
                            {"warps", 4},
                            {"stages", 3}}});
}

// Tiles that fill their waves, and not; programs with less than a tile, and more; clusters.
TEST_P(Matmul, StreamedSteps) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  const Config small{{"m", 64}, {"n", 64}, {"k", 32}, {"warps", 4}, {"stages", 3}};
  for (const Extents &extents : {matrix(200, 144, 104), matrix(64, 60, 300), matrix(130, 70, 20)})
    for (const std::int64_t programs : {1, 3, 5, 12, 64})
      for (const Config &way :
           {Config{{"persistent", 0}, {"cluster", 1}}, Config{{"persistent", 1}, {"cluster", 1}},
            Config{{"persistent", 1}, {"cluster", 2}}}) {
        Config config = way;
        config["programs"] = programs;
        config.insert(small.begin(), small.end());
        expectRight(device, {"matmul", extents, {{"schedule", "stream_k"}}, {}, "f16", config});
      }
  for (const char *dtype : {"bf16", "f32", "f8e4m3", "i8"}) {
    Config config = small;
    config["programs"] = 5;
    config["persistent"] = 1;
    expectRight(device, {"matmul",
                         matrix(200, 144, 104),
                         {{"schedule", "stream_k"}, {"trans_b", "true"}, {"activation", "relu"}},
                         {"bias"},
                         dtype,
                         config});
  }
}

// Tiles whose extents are no powers of two, in each form that a product has.
TEST_P(Matmul, TilesBetween128And256Columns) {
  if (!hasWarpgroupUnits(device.target(), DType::float16))
    return; // nothing chooses them there
  const auto right = [&](std::int64_t n, const Extents &extents, const Assignments &options,
                         const std::vector<std::string> &with, const char *dtype, Config config) {
    config.merge(Config{{"m", 128}, {"n", n}, {"k", 64}, {"warps", 8}, {"stages", 3}});
    expectRight(device, {"matmul", extents, options, with, dtype, config});
  };
  const Assignments transposed{{"trans_a", "true"}, {"trans_b", "true"}};
  for (const std::int64_t n : {160, 192, 224})
    for (const Config &form :
         {Config{{"persistent", 0}}, Config{{"persistent", 1}, {"programs", 2}},
          Config{{"persistent", 1}, {"programs", 4}, {"cluster", 2}}, Config{{"splits", 3}}}) {
      right(n, matrix(200, 400, 200), {}, {}, "f16", form);
      if (n == 192 || form.contains("cluster"))
        right(n, matrix(200, 400, 200), transposed, {}, "bf16", form);
      if (n == 192 || form.contains("programs"))
        right(n, matrix(136, 197, 72), {{"activation", "gelu"}}, everything, "f16", form);
    }
  right(192, matrix(200, 400, 200), {{"schedule", "stream_k"}}, {}, "f16", {{"programs", 3}});
}

// Bits must not depend on who arrives last: expectRight compares two runs.
TEST_P(MatmulEverywhere, SharedSums) {
  std::size_t place = 0;
  for (const char *dtype : {"f16", "f32", "i8"}) {
    ++place;
    for (const std::int64_t splits : {2, 3, 7, 16})
      if (isAmongAThird(place++))
        expectRight(device, {"matmul", matrix(70, 66, 200), {}, {}, dtype, {{"splits", splits}}});
    for (const std::int64_t programs : {1, 3, 5, 16, 100})
      if (isAmongAThird(place++))
        expectRight(device, {"matmul",
                             matrix(150, 70, 200),
                             {{"schedule", "stream_k"}},
                             {},
                             dtype,
                             {{"programs", programs}}});
  }
  expectRight(device, {"matmul",
                       matrix(70, 66, 200),
                       {{"activation", "gelu"}},
                       everything,
                       "bf16",
                       {{"splits", 4}}});
  expectRight(device, {"matmul",
                       matrix(70, 66, 200),
                       {{"activation", "gelu"}, {"schedule", "stream_k"}},
                       everything,
                       "bf16",
                       {{"programs", 7}}});
}

TEST(MatmulDefaults, LongSumsOfFewTilesAreShared) {
  const KernelSpec &kernel = findKernel("matmul");
  auto splits = [&](const Extents &extents) {
    return kernel.defaults(resolveTypical(kernel, "", extents, {}), "sm_90a").at("splits");
  };
  EXPECT_GT(splits(matrix(64, 64, 8192)), 4);
  EXPECT_EQ(splits(matrix(4096, 4096, 8192)), 1);
  EXPECT_EQ(splits(matrix(64, 64, 256)), 1);
}

TEST_P(Matmul, StridesAndUnalignedMemory) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  expectRightWithStrides(device, {"matmul", matrix(33, 70, 41), {}, {}, "f16"});
  for (const char *dtype : {"f16", "f32", "f8e4m3"})
    expectRightWithStrides(device, {"matmul",
                                    matrix(33, 70, 41),
                                    {{"activation", "silu"}, {"trans_b", "true"}, {"out", "f32"}},
                                    everything,
                                    dtype});
  expectRightWithStrides(device, {"batched_matmul", {}, {{"trans_a", "true"}}, everything, "bf16"});
  for (const char *transposed : {"trans_a", "trans_b"})
    if (canSpread(device, Spread::far))
      expectRightWithStrides(
          device, {"matmul", matrix(5, 24, 40), {{transposed, "true"}}, {"residual"}, "f16"},
          Spread::far);
}

TEST_P(MatmulEverywhere, Batches) {
  auto batch = [](std::int64_t count) {
    return Extents{{"B", count}, {"M", 33}, {"N", 20}, {"K", 40}};
  };
  for (const std::int64_t count : {0, 1, 5})
    expectRight(device, {"batched_matmul", batch(count), {}, {}, "f16"});
  for (const char *dtype : {"bf16", "f32", "i8"})
    expectRight(device, {"batched_matmul",
                         batch(3),
                         {{"activation", "relu"}, {"out", "f32"}, {"alpha", "0.125"}},
                         everything,
                         dtype});
  expectRight(device, {"batched_matmul", batch(3), {}, {}, "f16", {{"splits", 2}}});
  expectRight(device, {"batched_matmul",
                       batch(3),
                       {{"schedule", "stream_k"}},
                       {"bias"},
                       "f16",
                       {{"programs", 4}, {"k", 16}}});
}

// One matrix b, one bias, for all of a batch.
TEST_P(Matmul, OneForAllOfABatch) {
  const KernelSpec &kernel = findKernel("batched_matmul");
  auto tensor = [](const Shape &shape) { return GivenTensor{{DType::float16, shape}, ""}; };
  const Invocation call = resolve(
      kernel, {{"a", tensor({4, 17, 30})}, {"b", tensor({1, 30, 9})}, {"bias", tensor({1, 9})}},
      {});
  const auto inputs = sampleInputs(call, 5);
  const auto outputs =
      execute(device, call, completeConfig(call, device.target(), {}), inputs).outputs;
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.accuracy.describe();
}

std::string refusal(const std::function<void()> &body) {
  try {
    body();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

TEST(MatmulDtypes, SumsOfIntegersStayIntegersWithoutAnEpilogue) {
  const KernelSpec &kernel = findKernel("matmul");
  EXPECT_EQ(resolveTypical(kernel, "i8", {}, {}).dtype("c"), DType::int32);
  EXPECT_EQ(resolveTypical(kernel, "i8", {}, {}, {"row_scale"}).dtype("c"), DType::float32);
  EXPECT_EQ(resolveTypical(kernel, "i8", {}, {{"out", "f16"}}, {"bias"}).dtype("bias"),
            DType::float16);
}

// Matrix units multiply 8 bits along K alone, and weights are stored that way.
TEST(MatmulDtypes, BOf8BitsIsStoredAlongK) {
  auto tensor = [](DType dtype, const Shape &shape) { return GivenTensor{{dtype, shape}, ""}; };
  for (const DType dtype : {DType::float16, DType::float32, DType::bfloat16, DType::float8_e4m3,
                            DType::float8_e5m2, DType::int8}) {
    const bool alongK = size_of(dtype) == 1;
    const Shape b = alongK ? Shape{4, 3} : Shape{3, 4}, other{b[1], b[0]};
    const KernelSpec &kernel = findKernel("matmul");
    const Invocation call =
        resolve(kernel, {{"a", tensor(dtype, {2, 3})}, {"b", tensor(dtype, b)}}, {});
    EXPECT_EQ(call.options.flag("trans_b"), alongK);
    EXPECT_EQ(call.extent("N"), 4);
    EXPECT_EQ(refusal([&] {
                resolve(kernel, {{"a", tensor(dtype, {2, 3})}, {"b", tensor(dtype, other)}}, {});
              }),
              alongK ? "matmul: K is 4 in b [3, 4], but 3 in a [2, 3]; b is [N, K], or [K, N] with "
                       "trans_b=false"
                     : "matmul: K is 4 in b [4, 3], but 3 in a [2, 3]; b is [K, N], or [N, K] with "
                       "trans_b=true");
    for (const char *given : {"true", "false"})
      EXPECT_EQ(
          resolve(kernel,
                  {{"a", tensor(dtype, {2, 3})},
                   {"b", tensor(dtype, given == std::string("true") ? Shape{4, 3} : Shape{3, 4})}},
                  {{"trans_b", given}})
              .extent("N"),
          4);
    Shape batch = b;
    batch.insert(batch.begin(), 5);
    EXPECT_EQ(resolve(findKernel("batched_matmul"),
                      {{"a", tensor(dtype, {5, 2, 3})}, {"b", tensor(dtype, batch)}}, {})
                  .extent("N"),
              4);
    const Invocation typical = resolveTypical(kernel, name_of(dtype), {{"N", 40}, {"K", 50}}, {});
    EXPECT_EQ(typical.tensor("b").shape, (alongK ? Shape{40, 50} : Shape{50, 40}));
  }
  const auto scales = [&](const Shape &shape) { return tensor(DType::float32, shape); };
  const auto scaled = [&](const Shape &b, const Shape &bScales) {
    return resolve(findKernel("scaled_matmul"),
                   {{"a", tensor(DType::int8, {2, 300})},
                    {"b", tensor(DType::int8, b)},
                    {"a_scales", scales({2, 3})},
                    {"b_scales", scales(bScales)}},
                   {});
  };
  EXPECT_EQ(scaled({200, 300}, {2, 3}).extent("N"), 200);
  EXPECT_THAT(refusal([&] { scaled({300, 200}, {3, 2}); }),
              HasSubstr("b is [N, K], or [K, N] with trans_b=false"));
}

TEST(MatmulErrors, SaySo) {
  const KernelSpec &kernel = findKernel("matmul");
  auto tensor = [](const Shape &shape, DType dtype) { return GivenTensor{{dtype, shape}, ""}; };
  EXPECT_THAT(refusal([&] {
                resolve(kernel,
                        {{"a", tensor({2, 3}, DType::float16)},
                         {"b", tensor({3, 4}, DType::float16)},
                         {"bias", tensor({4}, DType::float16)}},
                        {{"out", "f32"}});
              }),
              HasSubstr("bias is f16, but must be f32 with these options"));
}

double first(const Assignments &options, const std::vector<double> &inputs,
             const std::vector<std::string> &with) {
  const KernelSpec &kernel = findKernel("matmul");
  const Invocation call =
      resolveTypical(kernel, "f32", {{"M", 1}, {"N", 1}, {"K", 1}}, options, with);
  std::vector<HostArray> arrays;
  for (std::size_t i = 0, next = 0; i < 6; ++i)
    arrays.push_back(call.tensors[i].present ? HostArray(DType::float32, call.tensors[i].shape,
                                                         std::vector{inputs[next++]})
                                             : HostArray());
  return referenceOutputs(call, arrays, Arithmetic::exact)[0].to_double()[0];
}

// What docs/kernels/matmul.md shows.
TEST_P(Matmul, Example) {
  const auto x = tensor(device.upload(std::vector<half>(4 * 32, half(1.0f))), {4, 32});
  const auto w = tensor(device.upload(std::vector<half>(32 * 8, half(0.5f))), {32, 8});
  const auto bias = tensor(device.upload(std::vector<half>(8, half(-2.0f))), {8});
  // [epilogue]
  auto out = run_kernel(device.stream(), "matmul", {{"a", x}, {"b", w}, {"bias", bias}},
                        {{"activation", "relu"}, {"alpha", "0.5"}});
  auto y = out.at("c").as<half, 2>();
  // [/epilogue]
  device.synchronize();
  for (const half value : Buffer<half>(y.memory()).download())
    EXPECT_EQ(static_cast<float>(value), 6);
}

// The formula by hand: act(alpha * row * column * a b + beta * residual + bias).
TEST(MatmulReference, ByHand) {
  EXPECT_EQ(first({}, {3, 5}, {}), 15);
  EXPECT_EQ(first({{"alpha", "2"}, {"beta", "3"}}, {3, 5, 7, 11, 0.5, 4}, everything),
            2 * 0.5 * 4 * 15 + 3 * 11 + 7);
  EXPECT_EQ(first({{"activation", "relu"}}, {-3, 5}, {}), 0);
  EXPECT_NEAR(first({{"activation", "gelu"}}, {1, 1}, {}), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(first({{"activation", "silu"}}, {1, 1}, {}), 0.7310585786300049, 1e-15);
}

// The harness sees what is wrong: a bias left out, and a column beyond a mask.
TEST(MatmulHarness, CatchesPlantedErrors) {
  const KernelCase test{"matmul", {}, {}, {"bias"}, "f16"};
  const Invocation call = resolveCase(test);
  const auto inputs = sampleInputs(call, 1);
  auto right = referenceOutputs(call, inputs, Arithmetic::own);
  EXPECT_TRUE(check(call, inputs, right)[0].accuracy.ok());
  auto without = inputs;
  std::fill(without[2].data.begin(), without[2].data.end(), std::byte{0});
  EXPECT_FALSE(
      check(call, inputs, referenceOutputs(call, without, Arithmetic::own))[0].accuracy.ok());
  right[0].as<half>().back() = half(0.0f);
  EXPECT_FALSE(check(call, inputs, right)[0].accuracy.ok());
}

} // namespace
