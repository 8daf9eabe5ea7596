// mx_matmul: products of operands in the microscaling formats (OCP Microscaling Formats 1.0, arXiv
// 2310.10537): fp8 or pairs of e2m1, of which 32 neighbours along K share a power of two as e8m0
// code. c[i, j] = act(sum over p of a[i, p] 2^(a_scales[i, p / 32] - 127) *
// b[j, p] 2^(b_scales[j, p / 32] - 127) + bias[j]); the code 255 is NaN. Refused: operands whose
// lengths along K differ.
#include "kernels/calls/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/references/Sample.h"
#include <sectile/dot_scaled.h>
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr int sharing = 32; // neighbours along K that have one scale

struct MxConfig {
  int m = 64, n = 128, k = 64, order = 8, warps = 4, stages = 3;
  Activation activation = Activation::none;
  bool bias = false;
};
SECTILE_CONFIG(MxConfig, m, n, k, order, warps, stages, activation, bias)

template <class A, class B, class Out> struct MxArguments {
  View<const A, 2> a;
  View<const B, 2> b;
  View<const std::uint8_t, 2> a_scales, b_scales;
  View<const Out, 1> bias;
  View<Out, 2> c;
};
template <class A, class B, class Out>
SECTILE_STRUCT((MxArguments<A, B, Out>), a, b, a_scales, b_scales, bias, c)

// Numbers in one element of memory.
template <class T>
constexpr int packing = std::is_same_v<T, std::uint8_t> ? 2 : 1;
std::int64_t packingOf(DType dtype) { return dtype == DType::uint8 ? 2 : 1; }
std::int64_t depthOf(const Invocation &call) {
  return call.extent("Ka") * packingOf(call.dtype("a"));
}

template <class A, class B, class Out>
Kernel mxMatmul{"mx_matmul", [](const MxArguments<A, B, Out> &arguments, const MxConfig &config) {
                  const auto &[a, b, aScales, bScales, bias, c] = arguments;
                  const int m = config.m, n = config.n, k = config.k;
                  auto [i, j] = grouped_order(program_id(0), c.tiles(m, n), config.order);
                  auto left = a.tile(m, k / packing<A>);
                  auto right = b.tile(n, k / packing<B>);
                  auto leftScales = aScales.tile(m, k / sharing),
                       rightScales = bScales.tile(n, k / sharing);
                  auto sums = zeros<float>(m, n);
                  for (auto step : range(0, cdiv(aScales.extent(1), k / sharing)))
                    sums = dot_scaled(left.load(i, step), leftScales.load(i, step),
                                      trans(right.load(j, step)), rightScales.load(j, step), sums);
                  storeActivated(c, bias, i, j, sums, config);
                }};

void check(const Invocation &call) {
  auto fail = [](const std::string &what) { throw InputError("mx_matmul: " + what); };
  const std::int64_t k = depthOf(call), other = call.extent("Kb") * packingOf(call.dtype("b"));
  if (k != other)
    fail("K is " + std::to_string(k) + " in a, but " + std::to_string(other) +
         " in b; u8 holds two numbers");
  if (const std::int64_t blocks = ceilDiv(k, sharing); call.extent("Sk") != blocks)
    fail("Sk is " + std::to_string(call.extent("Sk")) + ", but K has " + std::to_string(blocks) +
         " blocks of 32");
}

} // namespace

KernelSpec sectile::mxMatmulSpec() {
  KernelSpec spec;
  spec.name = "mx_matmul";
  spec.summary = "c = act(a b^T + bias), fp8 or fp4 with an e8m0 scale for 32 neighbours along K";
  const auto numbers = sampleNormal(16, 0, 255);
  const auto scales = sampleIntegers(120, 130);
  spec.add_arguments(
      {{"a: [M, Ka] f8e4m3|f8e5m2|u8",
        "u8: two e2m1 in a byte, neighbours along K, the first in the low half, Ka = K / 2; else "
        "Ka = K",
        {.sample = numbers}},
       {"b: [N, Kb] f8e4m3|f8e5m2|u8", "as a; its dtype may be another", {.sample = numbers}},
       {"a_scales: [M, Sk] u8",
        "e8m0: 2 to the code less 127, 255 is NaN; Sk = K / 32, rounded up",
        {.sample = scales}},
       {"b_scales: [N, Sk] u8", "the same", {.sample = scales}}});
  spec.add_arguments(scaledResult("accumulated in f32"));
  spec.add_options(scaledResultOptions());
  spec.flops = [](const Invocation &call) {
    return productFlops(call, {"M", "N"}) * double(depthOf(call));
  };
  spec.config = productFieldSpecs("order", "depth of one step; a multiple of 32");
  spec.neutral = {"order", "stages"};
  spec.typical = {{"M", 4096}, {"N", 4096}, {"Ka", 4096}};
  spec.small = {{"M", 33}, {"N", 70}, {"Ka", 100}};
  spec.follow = [](Invocation &call) {
    const std::int64_t k = depthOf(call);
    call.extents["Kb"] = k / packingOf(call.dtype("b"));
    call.extents["Sk"] = ceilDiv(k, sharing);
  };
  spec.check = check;
  spec.reference = mxMatmulReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const bool units = hasMatrixUnits(target, DType::bfloat16);
    return productFields(call,
                         {.m = call.extent("M") <= 16 ? 16 : 64,
                          .n = units && call.extent("N") > 64 ? 128 : 64,
                          .k = 64,
                          .warps = 4,
                          .stages = 3},
                         target);
  };
  spec.spaces = {{.axes = {{"m", {16, 32, 64, 128}},
                           {"n", {32, 64, 128}},
                           {"k", {32, 64, 128}},
                           {"warps", {4, 8}},
                           {"stages", {2, 3, 4}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    const std::int64_t sums = sumsOfThread(config, target);
                    return sums >= 4 && sums <= 128;
                  }}};
  spec.apply = [](Use &use) {
    const auto config = use.config_as<MxConfig>();
    if (config.k % sharing)
      throw InputError("mx_matmul: configuration field 'k' is " + std::to_string(config.k) +
                       ", which is no multiple of 32");
    const std::int64_t programs =
        ceilDiv(use.extent("M"), config.m) * ceilDiv(use.extent("N"), config.n);
    for_dtype<float8_e4m3, float8_e5m2, std::uint8_t>(use.call.dtype("a"), [&]<class A>(A) {
      for_dtype<float8_e4m3, float8_e5m2, std::uint8_t>(use.call.dtype("b"), [&]<class B>(B) {
        for_dtype<bfloat16, half, float>(use.call.dtype("c"), [&]<class Out>(Out) {
          use(mxMatmul<A, B, Out>, programs, config);
        });
      });
    });
  };
  return spec;
}
