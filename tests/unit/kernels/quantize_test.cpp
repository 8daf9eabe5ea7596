// quantize and silu_mul_quantize: codes and scales by hand, at the edges, and as scaled_matmul
// takes them.
#include "KernelTest.h"
#include "kernels/calls/Emit.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <limits>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class Quantize : public OnDevice {};
SECTILE_INSTANTIATE_ON(Quantize, "virtual:sm_80,virtual:sm_90a");
class QuantizeEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(QuantizeEverywhere, "interpreter,virtual:sm_90a,virtual:gfx942");

constexpr const char *granularities[] = {"tensor", "row", "group", "block"};
constexpr const char *formats[] = {"f32", "power_of_two", "e8m0"};
constexpr const char *codes[] = {"f8e4m3", "f8e5m2", "i8"};

KernelCase quantized(const char *kernel, std::int64_t m, std::int64_t k, const char *granularity,
                     const char *out = "f8e4m3", const char *dtype = "f16") {
  return {kernel, {{"M", m}, {"K", k}}, {{"granularity", granularity}, {"out", out}}, {}, dtype};
}

/// As numbers.
std::vector<double> scalesOf(const HostArray &scales) {
  std::vector<double> values = scales.to_double();
  if (scales.dtype == DType::uint8)
    for (double &value : values)
      value = value == 255 ? std::nan("") : std::exp2(value - 127);
  return values;
}

double largestCode(DType dtype) {
  return with_type(dtype, [](auto zero) {
    return static_cast<double>(std::numeric_limits<decltype(zero)>::max());
  });
}

/// The extents of the elements that share a scale.
std::pair<std::int64_t, std::int64_t> sharing(const Invocation &call) {
  const std::string &granularity = call.options.choice("granularity");
  const std::int64_t block = call.options.integer("block"), all = 1 << 20;
  if (granularity == "tensor")
    return {all, all};
  return {granularity == "block" ? block : 1, granularity == "row" ? all : block};
}

/// Each scale is the one that its elements ask for, and each code the nearest to its element over
/// the scale, except that a tie may go either way: the judge alone would let small elements be as
/// wrong as large ones may be.
void expectNearest(const FilledCall &filled, const std::vector<HostArray> &outputs) {
  const Invocation &call = filled.call;
  const auto x = filled.inputs[0].to_double(), y = outputs[0].to_double(),
             scales = scalesOf(outputs[1]);
  const std::int64_t m = call.extent("M"), k = call.extent("K"), across = call.extent("Sk");
  const auto [rows, columns] = sharing(call);
  std::vector<double> largest(scales.size());
  auto at = [&](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i / rows * across + j / columns);
  };
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < k; ++j)
      largest[at(i, j)] =
          std::max(largest[at(i, j)], std::abs(x[static_cast<std::size_t>(i * k + j)]));
  const DType code = outputs[0].dtype;
  for (std::size_t s = 0; s < scales.size(); ++s) {
    const double wanted = std::max(largest[s] / largestCode(code), 0x1p-126);
    if (call.options.choice("scale_format") != "f32")
      EXPECT_EQ(scales[s], std::exp2(std::ceil(std::log2(wanted))));
    else
      EXPECT_EQ(scales[s], static_cast<double>(static_cast<float>(wanted)));
  }
  // Twice: the scale's reciprocal and the product with it are rounded to f32.
  std::vector<double> low, high;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < k; ++j) {
      const double value = x[static_cast<std::size_t>(i * k + j)] / scales[at(i, j)];
      low.push_back(value * (1 - 0x1p-23));
      high.push_back(value * (1 + 0x1p-23));
    }
  const auto one = HostArray(code, {m, k}, low).to_double(),
             other = HostArray(code, {m, k}, high).to_double();
  for (std::size_t e = 0; e < y.size(); ++e)
    EXPECT_TRUE(y[e] == one[e] || y[e] == other[e])
        << e << ": " << y[e] << " for " << low[e] << " to " << high[e];
}

TEST_P(Quantize, AnyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : granularities)
    for (const auto &[m, k] : {std::pair{1, 1},
                               {1, 7},
                               {129, 127},
                               {5, 129},
                               {127, 131},
                               {130, 256},
                               {3, 700},
                               {300, 1},
                               {0, 128},
                               {3, 0}})
      for (const char *kernel : {"quantize", "silu_mul_quantize"})
        expectRight(device, quantized(kernel, m, k, granularity));
}

TEST_P(Quantize, EveryCodeIsTheNearest) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *dtype : {"f32", "f16", "bf16"})
        for (const char *format : formats) {
          KernelCase test = quantized("quantize", 67, 203, granularity, out, dtype);
          test.options.emplace_back("scale_format", format);
          test.options.emplace_back("block", "64");
          expectNearest(fill(test), expectRight(device, test));
        }
}

TEST_P(Quantize, GatedOfEveryDtype) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *dtype : {"f32", "f16", "bf16"}) {
        KernelCase test = quantized("silu_mul_quantize", 67, 203, granularity, out, dtype);
        test.options.emplace_back("block", "32");
        expectRight(device, test);
      }
}

TEST_P(Quantize, RowsBeyondATile) {
  for (const char *kernel : {"quantize", "silu_mul_quantize"}) {
    KernelCase test = quantized(kernel, 5, 300, "row");
    test.config = {{"columns", 128}, {"rows", 2}, {"warps", 4}};
    expectRight(device, test);
    expectRight(device, quantized(kernel, 2, 20001, "row", "i8", "bf16"));
  }
}

TEST_P(Quantize, FewProgramsSeeTheWholeTensor) {
  for (std::int64_t programs : {1, 3}) {
    KernelCase test = quantized("quantize", 70, 300, "tensor");
    test.config = {{"columns", 64}, {"rows", 8}, {"warps", 1}, {"programs", programs}};
    expectNearest(fill(test), expectRight(device, test));
  }
}

// A scale of the caller's, and magnitudes that scales are not made for.
TEST_P(Quantize, GivenScalesAndBounds) {
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *kernel : {"quantize", "silu_mul_quantize"}) {
        KernelCase test = quantized(kernel, 40, 150, granularity, out, "bf16");
        test.options.emplace_back("scale_ub", "0.5");
        expectRight(device, test);
        test.options.pop_back();
        test.with = {"scale"};
        expectRight(device, test);
      }
  KernelCase rows = quantized("quantize", 5, 300, "row");
  rows.config = {{"columns", 128}, {"rows", 2}, {"warps", 4}};
  rows.with = {"scale"};
  expectRight(device, rows);
  expectRight(device, [] {
    KernelCase none = quantized("quantize", 0, 128, "tensor");
    none.with = {"scale"};
    return none;
  }());
}

TEST_P(QuantizeEverywhere, Right) {
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *kernel : {"quantize", "silu_mul_quantize"})
        expectRight(device, quantized(kernel, 40, 150, granularity, out, "bf16"));
}

TEST_P(Quantize, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : granularities)
    for (Spread spread : {Spread::rows, Spread::everywhere})
      for (const char *kernel : {"quantize", "silu_mul_quantize"})
        expectRightWithStrides(device, quantized(kernel, 33, 200, granularity), spread);
}

// A scale of 1, and whole numbers that the codes hold.
TEST_P(Quantize, WholeNumbersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *format : formats) {
        KernelCase test = quantized("quantize", 64, 256, granularity, out, "f32");
        test.options.emplace_back("scale_format", format);
        test.prepare = [&](const Invocation &call, std::vector<HostArray> &inputs) {
          fillIntegers(inputs[0], 4, 1);
          auto values = inputs[0].as<float>();
          for (std::size_t i = 0; i < values.size(); i += 128)
            values[i] = static_cast<float>(largestCode(call.dtype("y")));
        };
        expectExact(device, test);
      }
}

TEST_P(Quantize, ZerosAndTheSmallestNumbers) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *format : formats)
        for (double value : {0.0, -0.0, 0x1p-149, -0x1p-126, 0x1p-120}) {
          KernelCase test = quantized("quantize", 5, 200, granularity, out, "f32");
          test.options.emplace_back("scale_format", format);
          test.prepare = [&](const Invocation &, std::vector<HostArray> &inputs) {
            inputs[0].assign(std::vector<double>(5 * 200, value));
          };
          const auto outputs = expectRight(device, test);
          expectNearest(fill(test), outputs);
          if (value == 0) {
            for (double code : outputs[0].to_double())
              EXPECT_EQ(code, 0);
          }
        }
}

TEST_P(Quantize, TheLargestNumbers) {
  for (const char *granularity : granularities)
    for (const char *out : codes) {
      KernelCase test = quantized("quantize", 5, 200, granularity, out, "f32");
      test.prepare = [&](const Invocation &, std::vector<HostArray> &inputs) {
        auto values = inputs[0].as<float>();
        values[3] = std::numeric_limits<float>::max();
        values[300] = std::numeric_limits<float>::lowest();
      };
      expectNearest(fill(test), expectRight(device, test));
    }
}

// One spoils the block that it is in, and no other.
TEST_P(Quantize, NanAndInfinities) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  constexpr double infinity = std::numeric_limits<double>::infinity(),
                   nan = std::numeric_limits<double>::quiet_NaN();
  for (const char *granularity : granularities)
    for (const char *out : codes)
      for (const char *format : formats)
        for (double special : {nan, infinity, -infinity}) {
          KernelCase test = quantized("quantize", 150, 300, granularity, out, "f16");
          test.options.emplace_back("scale_format", format);
          test.prepare = [&](const Invocation &, std::vector<HostArray> &inputs) {
            auto values = inputs[0].to_double();
            values[130 * 300 + 140] = special;
            inputs[0].assign(values);
          };
          const auto outputs = expectRight(device, test);
          const Invocation call = resolveCase(test);
          const auto [rows, columns] = sharing(call);
          const auto y = outputs[0].to_double(), scales = scalesOf(outputs[1]);
          for (std::int64_t i = 0; i < 150; ++i)
            for (std::int64_t j = 0; j < 300; ++j) {
              const bool spoiled = i / rows == 130 / rows && j / columns == 140 / columns;
              const double scale =
                  scales[static_cast<std::size_t>(i / rows * call.extent("Sk") + j / columns)];
              const double code = y[static_cast<std::size_t>(i * 300 + j)];
              ASSERT_EQ(std::isnan(scale), spoiled) << i << " " << j;
              if (outputs[0].dtype == DType::int8 && spoiled)
                ASSERT_EQ(code, 0);
              else
                ASSERT_EQ(std::isnan(code), spoiled) << i << " " << j;
            }
        }
}

/// A product by way of codes, against that of the numbers in float64. A code is off by at most half
/// of its last place, 2^-4 of its value or 2^-10 of its scale for e4m3, half a scale for int8.
struct Product {
  const char *left, *right;  // granularities
  std::int64_t depth, width; // block_k, block_n
  const char *out = "f8e4m3";
};

TEST_P(QuantizeEverywhere, ScaledMatmulTakesCodesAndScales) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  constexpr std::int64_t m = 40, n = 150, k = 200;
  auto numbers = [](std::int64_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values)
      value = normal(random) * std::exp(normal(random));
    return values;
  };
  const auto a = numbers(m * k, 1), b = numbers(n * k, 2); // b is [N, K], as weights are
  const Stream stream = device.stream();
  auto upload = [&](const std::vector<float> &values, std::int64_t rows) {
    auto all = device.upload(values);
    return Tensor<float, 2>(all.data(), {rows, k}, {k, 1}, all.memory());
  };
  const auto x = upload(a, m), w = upload(b, n);
  auto downloaded = [&](const AnyTensor &tensor) {
    return Buffer<float>(tensor.memory).download();
  };
  for (const Product &each : {Product{"group", "block", 128, 128},
                              {"group", "block", 64, 64},
                              {"group", "block", 128, 128, "i8"},
                              {"group", "group", 32, 1, "i8"},
                              {"group", "group", 128, 1, "f8e5m2"},
                              {"row", "row", 224, 1},
                              {"row", "row", 224, 1, "i8"},
                              {"row", "tensor", 224, 150},
                              {"tensor", "tensor", 224, 150}}) {
    SCOPED_TRACE(device.name() + " " + each.left + " " + each.right + " " + each.out + " " +
                 std::to_string(each.depth));
    auto quantizedBy = [&](const Tensor<float, 2> &of, const char *granularity) {
      const std::string block = std::to_string(each.depth == 224 ? 128 : each.depth);
      return run_kernel(stream, "quantize", {{"x", of}},
                        {{"granularity", granularity}, {"block", block}, {"out", each.out}});
    };
    const auto left = quantizedBy(x, each.left), right = quantizedBy(w, each.right);
    const auto c = run_kernel(stream, "scaled_matmul",
                              {{"a", left.at("y")},
                               {"b", right.at("y")},
                               {"a_scales", left.at("scales")},
                               {"b_scales", right.at("scales")}},
                              {{"block_k", std::to_string(each.depth)},
                               {"block_n", std::to_string(each.width)},
                               {"out", "f32"}});
    const auto result = downloaded(c.at("c"));
    const auto leftScales = downloaded(left.at("scales")),
               rightScales = downloaded(right.at("scales"));
    const bool integer = std::string_view(each.out) == "i8";
    const double relative = integer ? 0 : each.out[3] == '4' ? 0x1p-4 : 0x1p-3;
    const double absolute = integer ? 0.5 : each.out[3] == '4' ? 0x1p-10 : 0x1p-17;
    auto scaleOf = [&](const std::vector<float> &scales, const char *granularity, std::int64_t line,
                       std::int64_t p) {
      const std::int64_t shared = std::string_view(granularity) == "tensor"  ? 1 << 20
                                  : std::string_view(granularity) == "block" ? each.width
                                                                             : 1,
                         across = (k + each.depth - 1) / each.depth;
      return scales.at(static_cast<std::size_t>(line / shared * across + p / each.depth));
    };
    double squares = 0, expected = 0;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double exact = 0, bound = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          const double u = a[static_cast<std::size_t>(i * k + p)],
                       v = b[static_cast<std::size_t>(j * k + p)];
          const double du = std::max(relative * std::abs(u),
                                     absolute * scaleOf(leftScales, each.left, i, p)),
                       dv = std::max(relative * std::abs(v),
                                     absolute * scaleOf(rightScales, each.right, j, p));
          exact += u * v;
          // Sums of fp8 products keep 13 bits of the largest.
          bound += du * std::abs(v) + dv * std::abs(u) + du * dv + 135 * 0x1p-13 * std::abs(u * v);
          expected += du * du * v * v + dv * dv * u * u;
        }
        const double error = result[static_cast<std::size_t>(i * n + j)] - exact;
        ASSERT_LE(std::abs(error), bound) << i << " " << j;
        squares += error * error;
      }
    // Errors are independent, so that their squares add up.
    EXPECT_LE(squares, expected);
  }
}

TEST_P(QuantizeEverywhere, Example) {
  const std::vector<float> ones(2 * 256, 1), halves(3 * 256, 0.5f);
  auto left = device.upload(ones), right = device.upload(halves);
  const Stream stream = device.stream();
  const Tensor<float, 2> x(left.data(), {2, 256}, {256, 1}, left.memory()),
      w(right.data(), {3, 256}, {256, 1}, right.memory());
  // [example]
  auto activations = run_kernel(stream, "quantize", {{"x", x}});
  auto weights = run_kernel(stream, "quantize", {{"x", w}}, {{"granularity", "block"}});
  auto out = run_kernel(stream, "scaled_matmul",
                        {{"a", activations.at("y")},
                         {"b", weights.at("y")},
                         {"a_scales", activations.at("scales")},
                         {"b_scales", weights.at("scales")}},
                        {{"out", "f32"}});
  auto c = out.at("c").as<float, 2>(); // x wᵀ
  // [/example]
  for (float each : Buffer<float>(c.memory()).download())
    EXPECT_NEAR(each, 128, 128 * 0x1p-13);
}

// A code of e4m3 is off by 2^-4 of its value at most, and errors are independent.
TEST_P(QuantizeEverywhere, MxMatmulTakesCodesAndScales) {
  constexpr std::int64_t m = 40, n = 70, k = 200;
  auto numbers = [](std::int64_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values)
      value = normal(random) * std::exp(normal(random));
    return values;
  };
  const auto a = numbers(m * k, 1), b = numbers(n * k, 2);
  const Stream stream = device.stream();
  auto quantizedRows = [&](const std::vector<float> &values, std::int64_t rows) {
    auto all = device.upload(values);
    return run_kernel(stream, "quantize",
                      {{"x", Tensor<float, 2>(all.data(), {rows, k}, {k, 1}, all.memory())}},
                      {{"block", "32"}, {"scale_format", "e8m0"}});
  };
  const auto left = quantizedRows(a, m), right = quantizedRows(b, n);
  const auto c = run_kernel(stream, "mx_matmul",
                            {{"a", left.at("y")},
                             {"b", right.at("y")},
                             {"a_scales", left.at("scales")},
                             {"b_scales", right.at("scales")}},
                            {{"out", "f32"}});
  const auto result = Buffer<float>(c.at("c").memory).download();
  double squares = 0, expected = 0;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double exact = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        const double product =
            double(a[static_cast<std::size_t>(i * k + p)]) * b[static_cast<std::size_t>(j * k + p)];
        exact += product;
        expected += 2 * 0x1p-8 * product * product;
      }
      squares += std::pow(result[static_cast<std::size_t>(i * n + j)] - exact, 2);
    }
  EXPECT_LE(squares, expected);
}

TEST(QuantizeReference, ByHand) {
  KernelCase test = quantized("quantize", 2, 130, "group", "i8", "f32");
  const Invocation call = resolveCase(test);
  std::vector<double> x(260);
  x[0] = 254;
  x[1] = -3; // a tie between codes -1 and -2
  x[128] = 12.7;
  x[130 + 5] = -127;
  const auto outputs = referenceOutputs(
      call, std::vector{HostArray(DType::float32, {2, 130}, x), HostArray()}, Arithmetic::own);
  const auto y = outputs[0].to_double(), scales = outputs[1].to_double();
  EXPECT_EQ(outputs[1].shape, (Shape{2, 2}));
  EXPECT_EQ(scales[0], 2);
  EXPECT_FLOAT_EQ(static_cast<float>(scales[1]), 0.1f);
  EXPECT_EQ(scales[2], 1);
  EXPECT_EQ(scales[3], 0x1p-126);
  EXPECT_EQ(y[0], 127);
  EXPECT_EQ(y[1], -2);
  EXPECT_EQ(y[128], 127);
  EXPECT_EQ(y[130 + 5], -127);
}

TEST(QuantizeReference, ShapesOfScales) {
  for (const auto &[granularity, shape] : {std::pair{"tensor", Shape{1, 1}},
                                           {"row", Shape{130, 1}},
                                           {"group", Shape{130, 3}},
                                           {"block", Shape{2, 3}}})
    EXPECT_EQ(resolveCase(quantized("quantize", 130, 257, granularity)).tensor("scales").shape,
              shape);
}

TEST(QuantizeHarness, CatchesTheNextGroupsScale) {
  const FilledCall right = fill(quantized("quantize", 33, 200, "group", "f8e4m3", "f32"));
  FilledCall wrong = right;
  auto values = wrong.inputs[0].as<float>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 200 < 128)
      values[i] *= 2;
  // Twice the values have the same codes with twice the scales.
  const auto outputs = referenceOutputs(wrong.call, wrong.inputs, Arithmetic::own);
  const auto verdicts = check(right.call, right.inputs, outputs);
  EXPECT_TRUE(verdicts[0].accuracy.ok());
  EXPECT_FALSE(verdicts[1].accuracy.ok());
}

std::string refusal(KernelCase test) {
  try {
    const Invocation call = resolveCase(test);
    emitKernel(call, completeConfig(call, "sm_90a", test.config), "sm_90a", "tile");
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

TEST(QuantizeErrors, SaySo) {
  KernelCase test = quantized("quantize", 33, 200, "group");
  test.options.emplace_back("block", "48");
  EXPECT_THAT(refusal(test), HasSubstr("option 'block' is 32, 64 or 128, not 48"));
  test = quantized("silu_mul_quantize", 33, 200, "group");
  test.config = {{"columns", 64}};
  EXPECT_THAT(refusal(test), HasSubstr("'columns' is 64, which is no multiple of block, 128"));
  test = quantized("quantize", 33, 200, "block");
  test.config = {{"rows", 8}};
  EXPECT_THAT(refusal(test), HasSubstr("are 8 and 128, but a block is 128 of each"));
}

} // namespace
