// Loops whose loads are made by a producer partition: products of all trip counts, in loops over
// tiles and without, where code for such warps is made, and mistakes planted in it that the virtual
// GPU must find.
#include "VirtualTest.h"
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include "vgpu/TensorMap.h"
#include <gmock/gmock.h>
#include <regex>
#include <sectile/sectile.h>

using namespace sectile;
using namespace sectile::vgpu;
using testing::HasSubstr;
using testing::Not;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, float>;

/// c = a bᵀ in tiles of m × n, one after the other in each program. With a scale each step has sums
/// of its own, which are scaled and added up, as those of fp8 with scales for blocks are; or all
/// sums so far are rescaled.
template <class T, class Out>
auto product(int m, int n, int step, int warps, bool specialized, float scale = 1,
             bool rescales = false) {
  return Kernel{"product",
                [=](View<const T, 2> a, View<const T, 2> b, View<Out, 2> c) {
                  const auto tiles = c.tiles(m, n);
                  for (auto tile : range(program_id(0), tiles[0] * tiles[1], num_programs(0))) {
                    auto i = tile / tiles[1], j = tile % tiles[1];
                    auto acc = zeros<SumOf<T>>(m, n);
                    for (auto k :
                         range(0, cdiv(a.extent(1), step), {.warp_specialize = specialized})) {
                      auto left = a.tile(m, step).load(i, k);
                      auto right = trans(b.tile(n, step).load(j, k));
                      if constexpr (std::is_same_v<SumOf<T>, float>) {
                        if (rescales) {
                          acc *= scale;
                        } else if (scale != 1) {
                          acc += dot(left, right, zeros<float>(m, n)) * scale;
                          continue;
                        }
                      }
                      acc = dot(left, right, acc);
                    }
                    c.tile(m, n).store(i, j, cast<Out>(acc));
                  }
                },
                {.warps = unsigned(warps), .stages = 3}};
}

float elementOf(int number) { return float(number * 7 % 5 - 2); }

class Partitions : public test::OnDevice {
protected:
  template <class T> auto operand(int count) {
    std::vector<T> values;
    for (int i = 0; i < count; ++i)
      values.push_back(T(elementOf(i)));
    return device.upload(values);
  }

  /// Of no steps and up to several turns of the ring, with tails; of fewer tiles than programs and
  /// several for each.
  template <class T, class Out>
  void expectProducts(int m, int n, int step, int warps, float scale = 1, bool rescales = false) {
    auto kernel = product<T, Out>(m, n, step, warps, /*specialized=*/true, scale, rescales);
    for (int depth : {step, 3 * step, 5 * step - 16, 11 * step})
      for (int rows : {m, 2 * m + 8})
        for (int columns : {n, 2 * n + 16}) {
          auto a = operand<T>(rows * depth), b = operand<T>(columns * depth);
          auto c = device.allocate<Out>(size_t(rows * columns));
          kernel.launch(device.stream(), 2, Tensor<const T, 2>(a.data(), {rows, depth}, {depth, 1}),
                        Tensor<const T, 2>(b.data(), {columns, depth}, {depth, 1}),
                        Tensor<Out, 2>(c.data(), {rows, columns}, {columns, 1}));
          const std::vector<Out> got = c.download();
          for (int row = 0; row < rows; row += row % 8 == 7 ? 25 : 1)
            for (int column = 0; column < columns; ++column) {
              float expected = 0;
              for (int k = 0; k < depth; ++k) {
                if (rescales && k % step == 0)
                  expected *= scale;
                expected += elementOf(row * depth + k) * elementOf(column * depth + k);
              }
              ASSERT_EQ(float(got[size_t(row * columns + column)]),
                        float(Out(rescales ? expected : scale * expected)))
                  << rows << " x " << columns << ", depth " << depth << ", at [" << row << ", "
                  << column << "]";
            }
        }
  }
};
SECTILE_INSTANTIATE_ON(Partitions,
                       "virtual:sm_90a,virtual:sm_90,virtual:sm_100a,virtual:sm_120a,interpreter");

TEST_P(Partitions, TwoWarpgroups) { expectProducts<half, half>(128, 64, 64, 8); }
TEST_P(Partitions, OneWarpgroup) { expectProducts<half, half>(64, 32, 32, 4); }
// No dot of theirs is in flight: sums are promoted.
TEST_P(Partitions, PromotedSums) { expectProducts<float8_e4m3, half>(64, 32, 128, 4); }
TEST_P(Partitions, ScaledSums) { expectProducts<half, half>(128, 32, 64, 8, 0.5f); }
TEST_P(Partitions, RescaledSums) { expectProducts<half, half>(128, 32, 64, 8, 0.5f, true); }
TEST_P(Partitions, Integers) { expectProducts<std::int8_t, std::int32_t>(64, 32, 64, 4); }
TEST_P(Partitions, BFloats) { expectProducts<bfloat16, bfloat16>(64, 64, 32, 4); }
TEST_P(Partitions, Words) { expectProducts<float, float>(64, 32, 32, 4); }

// A is empty along K: nothing is copied, and each tile is stored.
TEST_P(Partitions, NoSteps) {
  auto a = operand<half>(8), b = operand<half>(8);
  auto c = device.allocate<half>(200 * 64);
  c.fill(half(5.0f));
  product<half, half>(64, 64, 32, 4, true)
      .launch(device.stream(), 2, Tensor<const half, 2>(a.data(), {200, 0}, {8, 1}),
              Tensor<const half, 2>(b.data(), {64, 0}, {8, 1}),
              Tensor<half, 2>(c.data(), {200, 64}, {64, 1}));
  for (half value : c.download())
    ASSERT_EQ(float(value), 0);
}

std::string codeOf(bool specialized, const char *target, const char *form, int warps = 8,
                   int columns = 64) {
  half *memory = nullptr;
  const Tensor<const half, 2> operand(memory, {256, 256}, {256, 1});
  return product<half, half>(128, columns, 64, warps, specialized)
      .emit(target, form, operand, operand, Tensor<half, 2>(memory, {256, 256}, {256, 1}));
}

TEST(Partition, IsThereWhereTheLoopAsksForItAndTheEngineCopies) {
  EXPECT_THAT(codeOf(true, "sm_90a", "ptx"), HasSubstr("setmaxnreg"));
  EXPECT_THAT(codeOf(true, "sm_90a", "ptx"), HasSubstr(".reqntid 384"));
  EXPECT_THAT(codeOf(false, "sm_90a", "ptx"), Not(HasSubstr("setmaxnreg")));
  // Where threads keep their registers, one warp more is enough.
  EXPECT_THAT(codeOf(true, "sm_90", "ptx"), Not(HasSubstr("setmaxnreg")));
  for (const char *target : {"sm_90", "sm_100", "sm_120"})
    EXPECT_THAT(codeOf(true, target, "ptx"), HasSubstr(".reqntid 288"));
  for (const char *target : {"sm_100a", "sm_103a", "sm_120a"})
    EXPECT_THAT(codeOf(true, target, "ptx"),
                testing::AllOf(HasSubstr("setmaxnreg"), HasSubstr(".reqntid 384"),
                               HasSubstr("cp.async.bulk.tensor"), HasSubstr("ldmatrix")));
  EXPECT_THAT(codeOf(true, "sm_80", "ptx"), HasSubstr(".reqntid 256"));
  // A block has 1024 threads at most.
  EXPECT_THAT(codeOf(true, "sm_90a", "ptx", 32, 256), HasSubstr(".reqntid 1024"));
}

template <class T, class Out> std::string codeOfAll(const char *target) {
  T *memory = nullptr;
  Out *results = nullptr;
  const Tensor<const T, 2> operand(memory, {256, 256}, {256, 1});
  return product<T, Out>(64, 64, 64, 4, /*specialized=*/false)
      .emit(target, "ptx", operand, operand, Tensor<Out, 2>(results, {256, 256}, {256, 1}));
}

// Where both operands lie along K, `ldmatrix` reads elements of any width from the engine's
// swizzle.
TEST(Partition, HasCopiesOfTheEngineForElementsOfAllWidths) {
  for (const char *target : {"sm_90", "sm_100a", "sm_120"})
    for (const std::string &code :
         {codeOfAll<half, half>(target), codeOfAll<bfloat16, bfloat16>(target),
          codeOfAll<std::int8_t, std::int32_t>(target), codeOfAll<float8_e4m3, half>(target),
          codeOfAll<float, float>(target)})
      EXPECT_THAT(code, testing::AllOf(HasSubstr("cp.async.bulk.tensor"), HasSubstr("ldmatrix"),
                                       Not(HasSubstr("cp.async.cg"))))
          << target;
}

// A tile that has no room beside a ring of full depth is stored in pieces, by two buffers in turn.
TEST(Partition, StoresTilesInPiecesWhereRoomIsShort) {
  const std::string large = codeOf(true, "sm_90a", "cta", 8, 256);
  EXPECT_THAT(large, HasSubstr("!cta.channel<4,"));
  EXPECT_THAT(large, HasSubstr("[3 of 4] along 1"));
  EXPECT_THAT(large, HasSubstr("{later = 1 : i32}"));
  const std::string odd = codeOf(true, "sm_90a", "cta", 8, 224);
  EXPECT_THAT(odd, HasSubstr("!cta.channel<4,"));
  EXPECT_THAT(odd, HasSubstr("[6 of 7] along 1"));
  const std::string small = codeOf(true, "sm_90a", "cta", 8, 64);
  EXPECT_THAT(small, HasSubstr("!cta.channel<4,"));
  EXPECT_THAT(small, HasSubstr("cta.tensor_store "));
  EXPECT_THAT(small, Not(HasSubstr("extract_slice")));
}

// The registers of sums are taken in the loop over tiles: none are kept beside them.
TEST(Partition, BeginsSumsInEachTile) {
  const std::string code = codeOf(true, "sm_90a", "cta");
  const size_t others = code.find("scf.for", code.find("cta.alloc"));
  EXPECT_LT(others, code.find("cta.dot_begin"));
}

/// Two tiles, each of more steps than the ring has slots.
class PlantedInPartitions : public testing::Test {
protected:
  static constexpr int step = 64, depth = 6 * step;
  const int tileRows, columns, warps, rows = 2 * tileRows;

  explicit PlantedInPartitions(int tileRows = 64, int columns = 64, int warps = 4)
      : tileRows(tileRows), columns(columns), warps(warps) {}

  void SetUp() override {
    half *memory = nullptr;
    text = product<half, half>(tileRows, columns, step, warps, /*specialized=*/true)
               .emit("sm_90a", "llvm", Tensor<const half, 2>(memory, {rows, depth}, {depth, 1}),
                     Tensor<const half, 2>(memory, {columns, depth}, {depth, 1}),
                     Tensor<half, 2>(memory, {rows, columns}, {columns, 1}));
  }

  static TensorMap mapOf(const half *memory, int height, int width, int boxHeight) {
    TensorMap map;
    map.address = reinterpret_cast<uint64_t>(memory);
    map.type = TensorType::U16;
    map.rank = 2;
    map.extents[0] = uint64_t(width);
    map.extents[1] = uint64_t(height);
    map.box[0] = step;
    map.box[1] = uint32_t(boxHeight);
    map.strides[0] = uint64_t(width) * sizeof(half);
    map.swizzle = 128;
    return TensorMap::encode(map);
  }

  LaunchResult run(uint64_t seed) {
    Runner runner(text);
    runner.shape.block[0] = uint32_t(32 * (warps + 4));
    runner.shape.sharedBytes = 227 * 1024;
    runner.options.seed = seed;
    auto operandOf = [&](int count) {
      std::vector<half> values;
      for (int i = 0; i < count; ++i)
        values.emplace_back(elementOf(i));
      return runner.upload(values);
    };
    const half *a = operandOf(rows * depth), *b = operandOf(columns * depth);
    half *c = runner.allocate<half>(size_t(rows * columns));
    LaunchResult done =
        runner.run(a, int32_t(rows), int32_t(depth), int32_t(depth), int32_t(1), b,
                   int32_t(columns), int32_t(depth), int32_t(depth), int32_t(1), c, int32_t(rows),
                   int32_t(columns), int32_t(columns), int32_t(1), mapOf(a, rows, depth, tileRows),
                   mapOf(b, columns, depth, columns), mapOf(c, rows, columns, tileRows));
    for (int i = 0; i < rows * columns && !done.finding; ++i) {
      float expected = 0;
      for (int k = 0; k < depth; ++k)
        expected += elementOf(i / columns * depth + k) * elementOf(i % columns * depth + k);
      EXPECT_EQ(float(c[i]), float(half(expected))) << "element " << i;
    }
    return done;
  }

  void edit(const std::string &from, const std::string &to, bool onlyFirst) {
    const std::string edited = std::regex_replace(
        text, std::regex(from), to,
        onlyFirst ? std::regex_constants::format_first_only : std::regex_constants::match_default);
    ASSERT_NE(edited, text) << from << "\n" << text;
    text = edited;
  }
  // A regular expression that begins with the rest of the line takes seconds where lines are long.
  void removeLines(const std::string &with, bool onlyFirst) {
    std::size_t at = text.find(with);
    ASSERT_NE(at, std::string::npos) << with << "\n" << text;
    do {
      const std::size_t begin = text.rfind('\n', at) + 1;
      text.erase(begin, text.find('\n', at) + 1 - begin);
      at = text.find(with, begin);
    } while (!onlyFirst && at != std::string::npos);
  }
  void expectOneOf(std::vector<FindingKind> kinds) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto finding = run(seed).finding;
      ASSERT_TRUE(finding) << "seed " << seed;
      EXPECT_THAT(kinds, testing::Contains(finding->kind)) << finding->text();
    }
  }

  std::string text;
};

TEST_F(PlantedInPartitions, TheKernelIsCleanWithoutThem) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const LaunchResult result = run(seed);
    ASSERT_FALSE(result.finding) << result.finding->text();
  }
}

TEST_F(PlantedInPartitions, SlotsAreNeverHandedBack) {
  removeLines("call i64 @llvm.nvvm.mbarrier.arrive.scope", /*onlyFirst=*/false);
  expectOneOf({FindingKind::Deadlock});
}

// The partition comes first in the text. Its phases run away from those that are waited for.
TEST_F(PlantedInPartitions, TheProducerDoesNotWait) {
  removeLines("call void @sectile.nv.mbarrier_wait", /*onlyFirst=*/true);
  expectOneOf({FindingKind::BadOperand});
}

TEST_F(PlantedInPartitions, SlotsAreHandedBackWhileADotReadsThem) {
  edit("(wgmma.wait.group.sync.aligned\\(i64 )1\\)", "$012)", /*onlyFirst=*/false);
  expectOneOf({FindingKind::SharedRace});
}

class PlantedInPieces : public PlantedInPartitions {
protected:
  PlantedInPieces() : PlantedInPartitions(128, 256, 8) {}
};

TEST_F(PlantedInPieces, TheKernelIsCleanWithoutThem) {
  const LaunchResult result = run(0);
  ASSERT_FALSE(result.finding) << result.finding->text();
}

TEST_F(PlantedInPieces, ABufferIsOverwrittenBeforeItIsRead) {
  edit("(cp.async.bulk.wait.group.read\\(i32 )1\\)", "$012)", /*onlyFirst=*/false);
  expectOneOf({FindingKind::SharedRace});
}

TEST_F(PlantedInPieces, TheTileBeforeIsOverwrittenBeforeItIsRead) {
  removeLines("cp.async.bulk.wait.group(i32 0)", /*onlyFirst=*/false);
  expectOneOf({FindingKind::SharedRace});
}

} // namespace
