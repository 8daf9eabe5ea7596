// Generated code computes the right numbers: small kernels in tile IR, compiled through the whole
// pipeline and run on virtual GPUs of several kinds, against the host.
#include "codegen/Compiler.h"
#include "mlir/Parser/Parser.h"
#include "vgpu/VirtualDevice.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <sectile/buffer.h>

using namespace sectile;

namespace {

/// A kernel on a device; arguments are buffers' addresses and scalars.
class Program {
public:
  Program(const std::string &target, const std::string &text, CompileOptions options = {})
      : device(Device::open("virtual:" + target)) {
    ContextLease context;
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
    EXPECT_TRUE(static_cast<bool>(module));
    auto known = llvm::cantFail(Target::get(target));
    auto artifact = compile(*module, known, options, CodeFor::VirtualDevice);
    if (!artifact) {
      ADD_FAILURE() << target << ": " << llvm::toString(artifact.takeError());
      return;
    }
    kernel = device.impl()->load(*artifact);
  }

  template <class... Arguments>
  void run(std::array<unsigned, 3> grid, const Arguments &...arguments) {
    if (!kernel)
      return;
    uint64_t words[] = {word(arguments)...};
    std::vector<void *> pointers;
    for (uint64_t &word : words)
      pointers.push_back(&word);
    try {
      device.impl()->launch(*kernel, {grid[0], grid[1], grid[2]}, pointers.data(),
                            device.stream().native());
    } catch (const std::exception &error) {
      ADD_FAILURE() << error.what();
    }
  }

  Device device;

private:
  template <class T> static uint64_t word(const Buffer<T> &buffer) {
    return buffer.memory().address();
  }
  static uint64_t word(int value) { return uint32_t(value); }
  std::shared_ptr<runtime::LoadedKernel> kernel;
};

/// Replaces every `$name` by its value.
std::string with(std::string text,
                 std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto &[name, value] : values)
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  return text;
}

std::vector<float> randomNumbers(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> small(-8, 8);
  std::vector<float> values(count);
  for (float &value : values)
    value = small(generator);
  return values;
}

class CodegenRun : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, CodegenRun,
                         testing::Values("sm_80", "sm_89", "sm_90a", "gfx942", "gfx1100"),
                         [](const auto &info) { return info.param; });

//===-- Elementwise ---------------------------------------------------------------------------===//

// y = op(x) for 256 numbers.
const char unary[] = R"(
func.func @unary(%x: !tile.ptr<f32>, %y: !tile.ptr<f32>) attributes {tile.kernel} {
  %i = tile.arange 0 : tensor<256xi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<256x!tile.ptr<f32>>
  %xp = tile.addptr %xs, %i : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %yp = tile.addptr %ys, %i : tensor<256x!tile.ptr<f32>>, tensor<256xi32>
  %v = tile.load %xp : tensor<256x!tile.ptr<f32>> -> tensor<256xf32>
  %r = $op %v : tensor<256xf32>
  tile.store %yp, %r : tensor<256x!tile.ptr<f32>>, tensor<256xf32>
  return
})";

struct Function {
  const char *op;
  double (*reference)(double);
  double from, to;
  double units;         ///< allowed, in the last place
  double wideUnits = 4; ///< the same for f64
};

const Function functions[] = {
    {"math.exp", std::exp, -90, 88, 3},
    {"math.exp2", std::exp2, -127, 127, 3},
    {"math.log", std::log, 1e-3, 3, 3},
    {"math.log2", std::log2, 1e-3, 1e3, 3},
    {"math.log10", std::log10, 1e-3, 1e3, 4},
    {"math.log1p", std::log1p, -0.9, 2, 4},
    {"math.expm1", std::expm1, -3, 3, 4},
    {"math.sin", std::sin, -100, 100, 3},
    {"math.cos", std::cos, -100, 100, 3},
    {"math.sin", std::sin, 5e4, 1e9, 3},
    {"math.tanh", std::tanh, -4, 4, 4},
    {"math.erf", std::erf, -4.5, 4.5, 4, 8},
    {"math.sqrt", std::sqrt, 0, 1e6, 1},
    {"math.rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1e-3, 1e6, 2},
};

template <class T> double worstUnits(const Function &function, const std::string &target) {
  std::string text = with(unary, {{"op", function.op}});
  if (sizeof(T) == 8)
    for (size_t at; (at = text.find("f32")) != std::string::npos;)
      text.replace(at, 3, "f64");
  Program program(target, text);
  std::mt19937 generator(1);
  std::uniform_real_distribution<double> any(function.from, function.to);
  std::vector<T> x(256);
  for (T &value : x)
    value = static_cast<T>(any(generator));
  auto in = program.device.upload(x), out = program.device.allocate<T>(256);
  program.run({1, 1, 1}, in, out);
  std::vector<T> y = out.download();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = function.reference(double(x[i]));
    double unit = std::ldexp(1.0, std::ilogb(expected) - (sizeof(T) == 8 ? 52 : 23));
    worst = std::max(worst, std::abs(double(y[i]) - expected) / std::max(unit, 0x1p-149));
  }
  return worst;
}

TEST(CodegenFunctions, AreCloseEverywhere) {
  for (const Function &function : functions) {
    SCOPED_TRACE(function.op);
    EXPECT_LE(worstUnits<float>(function, "sm_80"), function.units);
    EXPECT_LE(worstUnits<double>(function, "sm_80"), function.wideUnits);
  }
}

TEST(CodegenFunctions, SpecialNumbers) {
  const float inf = INFINITY, nan = NAN;
  struct {
    const char *op;
    std::vector<float> x, expected;
  } cases[] = {
      {"math.exp", {inf, -inf, nan, 0, 1000, -1000}, {inf, 0, nan, 1, inf, 0}},
      {"math.log", {inf, -1, nan, 0, 1, 1e-40f}, {inf, nan, nan, -inf, 0, std::log(1e-40f)}},
      {"math.log1p", {inf, -2, nan, -1, 0}, {inf, nan, nan, -inf, 0}},
      {"math.expm1", {inf, -inf, nan, 0, 1e-20f}, {inf, -1, nan, 0, 1e-20f}},
      {"math.tanh", {inf, -inf, nan, 0, 1e-20f}, {1, -1, nan, 0, 1e-20f}},
      {"math.erf", {inf, -inf, nan, 0}, {1, -1, nan, 0}},
      {"math.sin", {nan, 0}, {nan, 0}},
      {"math.rsqrt", {inf, 0, 4}, {0, inf, 0.5f}},
  };
  for (const auto &c : cases) {
    SCOPED_TRACE(c.op);
    Program program("sm_80", with(unary, {{"op", c.op}}));
    std::vector<float> x = c.x;
    x.resize(256, 1);
    auto in = program.device.upload(x), out = program.device.allocate<float>(256);
    program.run({1, 1, 1}, in, out);
    std::vector<float> y = out.download();
    for (size_t i = 0; i < c.expected.size(); ++i)
      if (std::isnan(c.expected[i]))
        EXPECT_TRUE(std::isnan(y[i])) << "of " << c.x[i] << " is " << y[i];
      else
        EXPECT_FLOAT_EQ(y[i], c.expected[i]) << "of " << c.x[i];
  }
}

//===-- Reductions and layouts ----------------------------------------------------------------===//

// Sums (and finds the largest of) the rows or columns of a matrix, and writes the matrix minus
// them.
const char normalize[] = R"(
func.func @normalize(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64}, %s: !tile.ptr<f32>)
    attributes {tile.kernel} {
  %i = tile.arange 0 : tensor<$mxi32>
  %j = tile.arange 0 : tensor<$nxi32>
  %i1 = tile.expand_dims %i 1 : tensor<$mxi32> -> tensor<$mx1xi32>
  %j1 = tile.expand_dims %j 0 : tensor<$nxi32> -> tensor<1x$nxi32>
  %w = arith.constant dense<$n> : tensor<$mx1xi32>
  %i2 = arith.muli %i1, %w : tensor<$mx1xi32>
  %i3 = tile.broadcast %i2 : tensor<$mx1xi32> -> tensor<$mx$nxi32>
  %j3 = tile.broadcast %j1 : tensor<1x$nxi32> -> tensor<$mx$nxi32>
  %o = arith.addi %i3, %j3 : tensor<$mx$nxi32>
  %xs = tile.splat %x : !tile.ptr<f32> -> tensor<$mx$nx!tile.ptr<f32>>
  %ys = tile.splat %y : !tile.ptr<f32> -> tensor<$mx$nx!tile.ptr<f32>>
  %xp = tile.addptr %xs, %o : tensor<$mx$nx!tile.ptr<f32>>, tensor<$mx$nxi32>
  %yp = tile.addptr %ys, %o : tensor<$mx$nx!tile.ptr<f32>>, tensor<$mx$nxi32>
  %v = tile.load %xp : tensor<$mx$nx!tile.ptr<f32>> -> tensor<$mx$nxf32>
  %sum:2 = tile.reduce %v, %j3 $axis : (tensor<$mx$nxf32>, tensor<$mx$nxi32>) -> (tensor<$rxf32>, tensor<$rxi32>) {
  ^bb0(%a: f32, %ai: i32, %b: f32, %bi: i32):
    %c = arith.addf %a, %b : f32
    %ci = arith.maxsi %ai, %bi : i32
    tile.yield %c, %ci : f32, i32
  }
  %si = arith.sitofp %sum#1 : tensor<$rxi32> to tensor<$rxf32>
  %t = arith.addf %sum#0, %si : tensor<$rxf32>
  %k = tile.arange 0 : tensor<$rxi32>
  %ss = tile.splat %s : !tile.ptr<f32> -> tensor<$rx!tile.ptr<f32>>
  %sp = tile.addptr %ss, %k : tensor<$rx!tile.ptr<f32>>, tensor<$rxi32>
  tile.store %sp, %t : tensor<$rx!tile.ptr<f32>>, tensor<$rxf32>
  %e = tile.expand_dims %sum#0 $axis : tensor<$rxf32> -> tensor<$kept1xf32>
  %f = tile.broadcast %e : tensor<$kept1xf32> -> tensor<$mx$nxf32>
  %d = arith.subf %v, %f : tensor<$mx$nxf32>
  tile.store %yp, %d : tensor<$mx$nx!tile.ptr<f32>>, tensor<$mx$nxf32>
  return
})";

TEST_P(CodegenRun, ReducesRowsAndColumns) {
  struct {
    int m, n, axis;
    unsigned warps;
  } cases[] = {{16, 64, 1, 4}, {16, 64, 0, 4}, {64, 4, 1, 2},  {4, 256, 0, 8},
               {8, 512, 1, 8}, {24, 48, 0, 4}, {24, 96, 1, 4}, {1, 32, 1, 1}};
  for (auto [m, n, axis, warps] : cases) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + " axis " + std::to_string(axis));
    auto text = [](int number) { return std::to_string(number); };
    int rest = axis ? m : n;
    std::string kept = axis ? text(m) + "x1x" : "1x" + text(n) + "x";
    kept.resize(kept.size() - 1);
    std::string source = normalize;
    source = with(
        source,
        {{"kept1", kept}, {"axis", text(axis)}, {"m", text(m)}, {"n", text(n)}, {"r", text(rest)}});
    Program program(GetParam(), source, {.warps = warps});
    std::vector<float> x = randomNumbers(m * n, 7);
    auto in = program.device.upload(x), out = program.device.allocate<float>(m * n),
         sums = program.device.allocate<float>(rest);
    program.run({1, 1, 1}, in, out, sums);
    std::vector<float> y = out.download(), s = sums.download();
    for (int r = 0; r < rest; ++r) {
      float sum = 0;
      for (int q = 0; q < (axis ? n : m); ++q)
        sum += axis ? x[r * n + q] : x[q * n + r];
      ASSERT_EQ(s[r], sum + (axis ? n - 1 : r)) << "sum " << r;
      for (int q = 0; q < (axis ? n : m); ++q) {
        int at = axis ? r * n + q : q * n + r;
        ASSERT_EQ(y[at], x[at] - sum) << "element " << at;
      }
    }
  }
}

//===-- Dots ----------------------------------------------------------------------------------===//

// c = a · b for whole tiles, with a loop over the inner dimension.
const char matmul[] = R"(
func.func @matmul(%a: !tile.ptr<$T> {tile.divisible = 16 : i64}, %b: !tile.ptr<$T> {tile.divisible = 16 : i64}, %c: !tile.ptr<$S> {tile.divisible = 16 : i64},
    %m: i32, %n: i32, %k: i32) attributes {tile.kernel$attributes} {
  %i = tile.program_id 0
  %j = tile.program_id 1
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %bm = arith.constant $BM : i32
  %bn = arith.constant $BN : i32
  %bk = arith.constant $BK : i32
  %i0 = arith.muli %i, %bm : i32
  %j0 = arith.muli %j, %bn : i32
  %va = tile.make_view %a, [%m, %k], [%k, %c1] : !tile.ptr<$T>, [i32, i32], [i32, i32] -> !tile.view<2x$T>
  %vb = tile.make_view %b, [%k, %n], [%n, %c1] : !tile.ptr<$T>, [i32, i32], [i32, i32] -> !tile.view<2x$T>
  %vc = tile.make_view %c, [%m, %n], [%n, %c1] : !tile.ptr<$S>, [i32, i32], [i32, i32] -> !tile.view<2x$S>
  %zero = arith.constant dense<$zero> : tensor<$BMx$BNx$S>
  %r = scf.for %kk = %c0 to %k step %bk iter_args(%acc = %zero) -> tensor<$BMx$BNx$S> : i32 {
    %x = tile.load_block %va[%i0, %kk] : !tile.view<2x$T>, [i32, i32] -> tensor<$BMx$BKx$T>
    %y = tile.load_block %vb[%kk, %j0] : !tile.view<2x$T>, [i32, i32] -> tensor<$BKx$BNx$T>
    %d = tile.dot %x, %y, %acc $precision : tensor<$BMx$BKx$T>, tensor<$BKx$BNx$T>, tensor<$BMx$BNx$S>
    scf.yield %d : tensor<$BMx$BNx$S>
  }
  tile.store_block %vc[%i0, %j0], %r : !tile.view<2x$S>, [i32, i32], tensor<$BMx$BNx$S>
  return
})";

struct DotCase {
  int bm, bn, bk, m, n, k;
  unsigned warps, stages;
  int instructions = 0; ///< of dots, from which on they loop over K; 0: as usual
};

std::string matmulText(const DotCase &c, const std::string &type, const std::string &sum,
                       const std::string &precision = "") {
  auto text = [](int number) { return std::to_string(number); };
  return with(
      matmul,
      {{"BM", text(c.bm)},
       {"BN", text(c.bn)},
       {"BK", text(c.bk)},
       {"T", type},
       {"S", sum},
       {"zero", sum == "i32" ? "0" : "0.0"},
       {"attributes",
        c.instructions ? ", cta.dot_instructions = " + text(c.instructions) + " : i32" : ""},
       {"precision", precision}});
}

template <class T, class S>
void checkMatmul(const std::string &target, const DotCase &c, const std::string &type,
                 const std::string &sum, const std::string &precision = "") {
  SCOPED_TRACE(type + " tile " + std::to_string(c.bm) + "x" + std::to_string(c.bn) + "x" +
               std::to_string(c.bk) + " of " + std::to_string(c.m) + "x" + std::to_string(c.n) +
               "x" + std::to_string(c.k));
  Program program(target, matmulText(c, type, sum, precision),
                  {.warps = c.warps, .stages = c.stages});
  std::vector<float> a = randomNumbers(c.m * c.k, 1), b = randomNumbers(c.k * c.n, 2);
  std::vector<T> ta, tb;
  for (float value : a)
    ta.push_back(T(value));
  for (float value : b)
    tb.push_back(T(value));
  auto da = program.device.upload(ta), db = program.device.upload(tb);
  auto dc = program.device.allocate<S>(c.m * c.n);
  program.run({unsigned(c.m + c.bm - 1) / c.bm, unsigned(c.n + c.bn - 1) / c.bn, 1}, da, db, dc,
              c.m, c.n, c.k);
  std::vector<S> result = dc.download();
  for (int i = 0; i < c.m; ++i)
    for (int j = 0; j < c.n; ++j) {
      float expected = 0;
      for (int k = 0; k < c.k; ++k)
        expected += a[i * c.k + k] * b[k * c.n + j];
      ASSERT_EQ(float(result[i * c.n + j]), expected) << "at " << i << ", " << j;
    }
}

TEST_P(CodegenRun, MultipliesF16) {
  for (const DotCase &c : {DotCase{32, 32, 32, 32, 32, 32, 4, 1},
                           {64, 64, 32, 64, 64, 96, 4, 3},
                           {64, 32, 32, 100, 50, 70, 2, 2},
                           {32, 48, 16, 32, 96, 48, 4, 3}})
    checkMatmul<half, float>(GetParam(), c, "f16", "f32");
}

TEST_P(CodegenRun, MultipliesOtherTypes) {
  DotCase c{32, 32, 32, 64, 32, 64, 4, 2};
  checkMatmul<bfloat16, float>(GetParam(), c, "bf16", "f32");
  checkMatmul<float, float>(GetParam(), c, "f32", "f32");
  checkMatmul<float, float>(GetParam(), c, "f32", "f32", "{precision = 1 : i32}");
  checkMatmul<int8_t, int32_t>(GetParam(), c, "i8", "i32");
  checkMatmul<double, double>(GetParam(), c, "f64", "f64");
  checkMatmul<float8_e4m3, float>(GetParam(), c, "f8E4M3FN", "f32");
  checkMatmul<float8_e5m2, float>(GetParam(), c, "f8E5M2", "f32");
}

// The shortest steps that operands allow, and longer ones.
TEST_P(CodegenRun, MultipliesInSteps) {
  for (const DotCase &c : {DotCase{32, 32, 64, 64, 64, 128, 4, 2, 1},
                           {64, 32, 128, 100, 50, 170, 2, 1, 40},
                           {32, 48, 64, 32, 96, 128, 4, 3, 30}}) {
    checkMatmul<half, float>(GetParam(), c, "f16", "f32");
    checkMatmul<float, float>(GetParam(), c, "f32", "f32");
  }
  DotCase c{32, 64, 128, 64, 64, 200, 4, 2, 1};
  checkMatmul<int8_t, int32_t>(GetParam(), c, "i8", "i32");
  checkMatmul<float8_e4m3, float>(GetParam(), c, "f8E4M3FN", "f32");
  c.bk = 32;
  checkMatmul<double, double>(GetParam(), c, "f64", "f64");
  for (int precision : {2, 3, 4})
    checkMatmul<float, float>(GetParam(), c, "f32", "f32",
                              "{precision = " + std::to_string(precision) + " : i32}");
}

} // namespace
