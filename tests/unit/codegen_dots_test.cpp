// What the assembler makes of matrix products: they fit into registers.
#include "codegen/nvidia/Ptxas.h"
#include "tests/unit/LoopPlans.h"
#include <gmock/gmock.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

/// A loop over K of tiles of the given extents.
template <class T> auto product(int m, int n, int k, Precision precision) {
  return [=](View<const T, 2> a, View<const T, 2> b, View<float, 2> c) {
    auto acc = zeros<float>(m, n);
    auto i = program_id(0), j = program_id(1);
    for (auto step : range(cdiv(a.extent(1), k)))
      acc = dot(a.tile(m, k).load(i, step), b.tile(k, n).load(step, j), acc, precision);
    c.tile(m, n).store(i, j, acc);
  };
}
template <class T> auto products(int batch, int m, int n, int k, Precision precision) {
  return [=](View<const T, 3> a, View<const T, 3> b, View<float, 3> c) {
    auto acc = zeros<float>(batch, m, n);
    auto i = program_id(0), j = program_id(1), p = program_id(2);
    for (auto step : range(cdiv(a.extent(2), k)))
      acc = dot(a.tile(batch, m, k).load(p, i, step), b.tile(batch, k, n).load(p, step, j), acc,
                precision);
    c.tile(batch, m, n).store(p, i, j, acc);
  };
}

template <class T>
void expectNoSpills(std::string_view target, int batch, int m, int n, int k, unsigned warps,
                    const char *instruction, Precision precision = Precision::tf32) {
  SCOPED_TRACE(std::string(target) + " " + std::to_string(batch) + "x" + std::to_string(m) + "x" +
               std::to_string(n) + "x" + std::to_string(k));
  T *null = nullptr;
  float *sums = nullptr;
  const Tensor<T, 2> matrix(null, {1024, 1024}, {1024, 1});
  const Tensor<T, 3> matrices(null, {16, 1024, 1024}, {1 << 20, 1024, 1});
  Kernel one{"product", product<T>(m, n, k, precision), {.warps = warps}};
  Kernel several{"products", products<T>(batch, m, n, k, precision), {.warps = warps}};
  const std::string ptx =
      batch ? several.emit(target, "ptx", matrices, matrices,
                           Tensor<float, 3>(sums, matrices.extents(), matrices.strides()))
            : one.emit(target, "ptx", matrix, matrix,
                       Tensor<float, 2>(sums, matrix.extents(), matrix.strides()));
  EXPECT_THAT(ptx, HasSubstr(instruction));
  auto result = assemble(ptx, llvm::cantFail(Target::get(target)), 0);
  ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
  EXPECT_EQ(result->spillStoreBytes, 0u) << result->log;
  EXPECT_EQ(result->spillLoadBytes, 0u);
}

/// A loop over K that warpgroups multiply, of operands that lie along K in memory.
template <class T, class C>
void expectWarpgroups(int m, int n, int k, unsigned warps, const char *instruction) {
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
  Kernel kernel{"along_k",
                [=](View<const T, 2> a, View<const T, 2> b, View<C, 2> c) {
                  auto acc = zeros<C>(m, n);
                  auto i = program_id(0), j = program_id(1);
                  for (auto step : range(cdiv(a.extent(1), k)))
                    acc = dot(a.tile(m, k).load(i, step), trans(b.tile(n, k).load(j, step)), acc);
                  c.tile(m, n).store(i, j, acc);
                },
                {.warps = warps}};
  T *null = nullptr;
  C *sums = nullptr;
  const Tensor<T, 2> matrix(null, {4096, 4096}, {4096, 1});
  const std::string ptx =
      kernel.emit("sm_90a", "ptx", matrix, matrix, Tensor<C, 2>(sums, {4096, 4096}, {4096, 1}));
  EXPECT_THAT(ptx, HasSubstr(instruction));
  EXPECT_THAT(ptx, testing::Not(HasSubstr("mma.sync")));
  auto result = assemble(ptx, llvm::cantFail(Target::get("sm_90a")), 0);
  ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
  EXPECT_EQ(result->spillStoreBytes, 0u) << result->log;
  EXPECT_EQ(result->spillLoadBytes, 0u);
  EXPECT_FALSE(result->serializedWgmma) << result->log;
  EXPECT_THAT(result->log, testing::Not(HasSubstr("C75")));
}

TEST(Dots, OfBytesAreDoneByWarpgroups) {
  auto expect = [](int m, int n, int k, unsigned warps) {
    const std::string instruction =
        "wgmma.mma_async.sync.aligned.m64n" + std::to_string(n) + "k32.s32.s8.s8 ";
    expectWarpgroups<std::int8_t, std::int32_t>(m, n, k, warps, instruction.c_str());
  };
  for (int n : {96, 128, 160, 176, 192, 208, 256})
    expect(128, n, 128, 8);
  expect(64, 128, 64, 4);
  expect(128, 128, 32, 4);
}

// The sums in f32 and those of the instruction fit into registers together.
TEST(Dots, OfSmallFloatsArePromotedByWarpgroups) {
  auto expect = [](int m, int n, int k, unsigned warps, int width) {
    const std::string instruction =
        "wgmma.mma_async.sync.aligned.m64n" + std::to_string(width) + "k32.f32.e4m3.e4m3 ";
    expectWarpgroups<float8_e4m3, float>(m, n, k, warps, instruction.c_str());
  };
  for (auto [n, width] :
       {std::pair{96, 96}, {128, 128}, {160, 160}, {176, 88}, {192, 96}, {208, 104}, {256, 128}})
    expect(128, n, 128, 8, width);
  expect(64, 128, 64, 4, 128);
  expect(64, 128, 256, 4, 128);
  expectWarpgroups<float8_e5m2, float>(64, 128, 256, 4,
                                       "wgmma.mma_async.sync.aligned.m64n128k32.f32.e5m2.e5m2 ");
}

TEST(Dots, OfRankThreeFitIntoRegisters) {
  for (const char *target : {"sm_80", "sm_90a"}) {
    expectNoSpills<half>(target, 4, 64, 64, 32, 4, "mma.sync.aligned.m16n8k16");
    expectNoSpills<half>(target, 8, 16, 64, 32, 4, "mma.sync.aligned.m16n8k16");
    expectNoSpills<float>(target, 2, 32, 64, 32, 4, "mma.sync.aligned.m16n8k8");
  }
}

TEST(Dots, OfOddExtentsFitIntoRegisters) {
  for (const char *target : {"sm_80", "sm_90a"}) {
    expectNoSpills<half>(target, 0, 48, 80, 48, 4, "mma.sync.aligned.m16n8k16");
    expectNoSpills<half>(target, 0, 96, 96, 32, 4, "mma.sync.aligned.m16n8k16");
    expectNoSpills<half>(target, 0, 160, 48, 32, 2, "mma.sync.aligned.m16n8k16");
    expectNoSpills<half>(target, 3, 48, 32, 16, 4, "mma.sync.aligned.m16n8k16");
  }
}

TEST(Dots, OfSplitOperandsFitIntoRegisters) {
  const char *tf32 = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32";
  const char *bf16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
  for (const char *target : {"sm_80", "sm_90a"}) {
    expectNoSpills<float>(target, 0, 128, 128, 32, 8, tf32, Precision::tf32x3);
    expectNoSpills<float>(target, 0, 64, 128, 32, 4, tf32, Precision::tf32x3);
    expectNoSpills<float>(target, 0, 128, 128, 32, 8, bf16, Precision::bf16x3);
    expectNoSpills<float>(target, 0, 64, 128, 32, 4, bf16, Precision::bf16x6);
    expectNoSpills<float>(target, 4, 32, 32, 32, 4, bf16, Precision::bf16x6);
  }
}

template <class W> void expectFetchedWeights(std::string_view target) {
  Kernel kernel{"weights",
                [](View<const half, 2> a, View<const W, 2> w, View<float, 2> c) {
                  auto acc = zeros<float>(64, 128);
                  auto i = program_id(0), j = program_id(1);
                  for (auto k : range(cdiv(a.extent(1), 64)))
                    acc =
                        dot(a.tile(64, 64).load(i, k), cast<half>(w.tile(64, 128).load(k, j)), acc);
                  c.tile(64, 128).store(i, j, acc);
                },
                {.warps = 4}};
  half *a = nullptr;
  W *w = nullptr;
  float *c = nullptr;
  const Tensor<half, 2> left(a, {1024, 1024}, {1024, 1});
  const Tensor<W, 2> right(w, {1024, 1024}, {1024, 1});
  const Tensor<float, 2> sums(c, {1024, 1024}, {1024, 1});
  const std::string cta = kernel.emit(target, "cta", left, right, sums);
  EXPECT_THAT(cta, testing::ContainsRegex("cta.channel .*64x64xf16"));
  EXPECT_THAT(cta, testing::ContainsRegex("cta.channel .*64x128x(i8|f8E4M3FN)"));
  auto result = assemble(kernel.emit(target, "ptx", left, right, sums),
                         llvm::cantFail(Target::get(target)), 0);
  ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
  EXPECT_EQ(result->spillStoreBytes, 0u) << result->log;
}

TEST(Dots, OfQuantisedWeightsFetchThem) {
  SECTILE_NEEDS_LOOP_PLANS();
  for (const char *target : {"sm_80", "sm_90a"}) {
    expectFetchedWeights<std::int8_t>(target);
    expectFetchedWeights<float8_e4m3>(target);
  }
}

/// Matrix instructions in the code of a sum of `count` products of 64x64x64.
std::size_t instructionsOf(const char *target, int count, Precision precision) {
  Kernel kernel{"several", [=](View<const float, 3> a, View<const float, 3> b, View<float, 2> c) {
                  auto sums = zeros<float>(64, 64);
                  auto matrix = [](View<const float, 3> x, int i) {
                    return reshape(x.tile(1, 64, 64).load(i, 0, 0), 64, 64);
                  };
                  for (int i = 0; i < count; ++i)
                    sums = dot(matrix(a, i), matrix(b, i), sums, precision);
                  c.tile(64, 64).store(0, 0, sums);
                }};
  const Tensor<float, 3> operand(nullptr, {64, 64, 64}, {64 * 64, 64, 1});
  const bool isAmd = std::string_view(target).starts_with("gfx");
  const std::string text = kernel.emit(target, isAmd ? "amdgcn" : "ptx", operand, operand,
                                       Tensor<float, 2>(nullptr, {64, 64}, {64, 1}));
  const std::string name = isAmd ? "v_mfma" : "mma.sync";
  std::size_t found = 0;
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    ++found;
  return found;
}

// Few dots are unrolled. The code of many has a bound, until each dot has come down to one
// instruction of K.
TEST(Dots, OfLargeKernelsLoopOverK) {
  for (const char *target : {"sm_80", "sm_90a"}) {
    SCOPED_TRACE(target);
    const std::size_t one = 8 * 8 * 3;
    EXPECT_EQ(instructionsOf(target, 1, Precision::tf32x3), one);
    EXPECT_EQ(instructionsOf(target, 2, Precision::tf32), 2 * one / 3);
    EXPECT_LT(instructionsOf(target, 8, Precision::tf32x3), 4 * one);
    EXPECT_LT(instructionsOf(target, 16, Precision::tf32x3), 4 * one);
  }
  const std::size_t one = instructionsOf("gfx942", 1, Precision::bf16x6);
  EXPECT_GT(one, 0u);
  EXPECT_LT(instructionsOf("gfx942", 16, Precision::bf16x6), 8 * one);
}

} // namespace
