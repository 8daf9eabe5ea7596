// mx_matmul: products of operands in the microscaling formats (OCP Microscaling Formats 1.0, arXiv
// 2310.10537): fp8 or pairs of e2m1, of which 32 neighbours along K share a power of two as e8m0
// code. c[i, j] = act(sum over p of a[i, p] 2^(a_scales[i, p / 32] - 127) *
// b[j, p] 2^(b_scales[j, p / 32] - 127) + bias[j]); the code 255 is NaN. Refused: operands whose
// lengths along K differ.
#include "kernels/calls/Use.h"
#include "kernels/matmul/Epilogue.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/MxNumbers.h"
#include "kernels/matmul/Operands.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/matmul/TileOrder.h"
#include "kernels/references/Sample.h"
#include <sectile/dot_scaled.h>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct MxConfig {
  int m = 64, n = 128, k = 64, order = 8, warps = 4, stages = 3;
  bool persistent = false;
  Activation activation = Activation::none;
  bool bias = false;
};

template <class A, class B, class Out> struct MxArguments {
  View<const A, 2> a;
  View<const B, 2> b;
  View<const std::uint8_t, 2> a_scales, b_scales;
  View<const Out, 1> bias;
  View<Out, 2> c;
};

std::int64_t packingOf(DType dtype) { return dtype == DType::uint8 ? 2 : 1; }
std::int64_t depthOf(const Invocation &call) {
  return call.extent("Ka") * packingOf(call.dtype("a"));
}

// A and B are of one of the formats, or bfloat16 where they have been decoded.
template <class A, class B, class Out>
Kernel mxMatmul{"mx_matmul", [](const MxArguments<A, B, Out> &arguments, const MxConfig &config) {
                  const auto &[a, b, aScales, bScales, bias, c] = arguments;
                  const int m = config.m, n = config.n, k = config.k;
                  const auto [rows, columns] = c.tiles(m, n);
                  const TileOrder order(rows, columns, config.order, /*cluster=*/1);
                  order.forTiles(config.persistent, [&](const Int &tile) {
                    auto [i, j] = order.at(tile);
                    auto left = a.tile(m, k / mxPacking<A>);
                    auto right = b.tile(n, k / mxPacking<B>);
                    auto leftScales = aScales.tile(m, k / mxBlock),
                         rightScales = bScales.tile(n, k / mxBlock);
                    auto sums = zeros<float>(m, n);
                    const Int steps = cdiv(a.extent(1), k / mxPacking<A>);
                    for (auto step : range(0, steps, copiedApart(config.persistent)))
                      if constexpr (std::is_same_v<A, bfloat16>)
                        sums = dot(left.load(i, step), trans(right.load(j, step)), sums);
                      else
                        sums =
                            dot_scaled(left.load(i, step), leftScales.load(i, step),
                                       trans(right.load(j, step)), rightScales.load(j, step), sums);
                    storeActivated(c, bias, i, j, sums, config);
                  });
                }};

void check(const Invocation &call) {
  auto fail = [](const std::string &what) { throw InputError("mx_matmul: " + what); };
  const std::int64_t k = depthOf(call), other = call.extent("Kb") * packingOf(call.dtype("b"));
  if (k != other)
    fail("K is " + std::to_string(k) + " in a, but " + std::to_string(other) +
         " in b; u8 holds two numbers");
  if (const std::int64_t blocks = ceilDiv(k, mxBlock); call.extent("Sk") != blocks)
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
  spec.config = productFieldSpecs(
      "order", "depth of one step; a multiple of 32, but with decode_first",
      {persistentField, {"programs", "programs where they are persistent"}, decodeFirstField});
  spec.neutral = {"order", "stages", "persistent", "programs"};
  spec.typical = {{"M", 4096}, {"N", 4096}, {"Ka", 4096}};
  spec.small = {{"M", 33}, {"N", 70}, {"Ka", 100}};
  spec.follow = [](Invocation &call) {
    const std::int64_t k = depthOf(call);
    call.extents["Kb"] = k / packingOf(call.dtype("b"));
    call.extents["Sk"] = ceilDiv(k, mxBlock);
  };
  spec.check = check;
  spec.reference = mxMatmulReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t rows = call.extent("M"), columns = call.extent("N");
    const auto fields = [&](const ProductConfig &config, bool decodeFirst) {
      Config result = productFields(call, config, target);
      result["decode_first"] = decodeFirst;
      return result;
    };
    // Each tile of rows would decode all of b again, each of columns all of a.
    constexpr std::int64_t leastDecoded = 256;
    if (std::min(rows, columns) >= leastDecoded &&
        hasWarpgroupUnits(target, DType::bfloat16, /*alongK=*/true))
      return fields(
          fastestProduct(productTiles,
                         {.batches = 1, .rows = rows, .columns = columns, .inner = depthOf(call)},
                         {.persistent = ProductForms::maybe}, target),
          true);
    const bool units = hasMatrixUnits(target, DType::bfloat16);
    return fields({.m = rows <= 16 ? 16 : 64,
                   .n = units && columns > 64 ? 128 : 64,
                   .k = 64,
                   .warps = 4,
                   .stages = 3},
                  false);
  };
  spec.spaces = {{.part = "mx_matmul",
                  .axes = {{"m", {16, 32, 64, 128}},
                           {"n", {32, 64, 128, 256}},
                           {"k", {32, 64, 128}},
                           {"warps", {4, 8}},
                           {"stages", {2, 3, 4}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    const std::int64_t sums = sumsOfThread(config, target);
                    return sums >= 4 && sums <= 128;
                  }}};
  spec.apply = [](Use &use) {
    const auto config = use.config_as<MxConfig>();
    const bool decodeFirst = use.field("decode_first");
    if (!decodeFirst && config.k % mxBlock)
      throw InputError("mx_matmul: configuration field 'k' is " + std::to_string(config.k) +
                       ", which is no multiple of 32");
    const std::int64_t programs =
        programsFor(use, ceilDiv(use.extent("M"), config.m) * ceilDiv(use.extent("N"), config.n));
    for_dtype<float8_e4m3, float8_e5m2, std::uint8_t>(use.call.dtype("a"), [&]<class A>(A) {
      for_dtype<float8_e4m3, float8_e5m2, std::uint8_t>(use.call.dtype("b"), [&]<class B>(B) {
        for_dtype<bfloat16, half, float>(use.call.dtype("c"), [&]<class Out>(Out) {
          if (!decodeFirst) {
            use(mxMatmul<A, B, Out>, programs, config);
            return;
          }
          const auto decoded = [&]<class T>(const char *codes, const char *scales, T) {
            return matrixOf(decodedMx<T>(use, asOnePart(use.tensor<T, 2>(codes)),
                                         asOnePart(use.tensor<std::uint8_t, 2>(scales))));
          };
          const auto a = decoded("a", "a_scales", A()), b = decoded("b", "b_scales", B());
          use(mxMatmul<bfloat16, bfloat16, Out>, programs, config, {{"a", a}, {"b", b}});
        });
      });
    });
  };
  return spec;
}
