// Blocks that the copy engine stores: what a product leaves in memory and around it, and mistakes
// planted in compiled stores, each of which the virtual GPU must find for its own reason.
#include "VirtualTest.h"
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include "vgpu/TensorMap.h"
#include <functional>
#include <regex>
#include <sectile/sectile.h>

using namespace sectile;
using namespace sectile::vgpu;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

constexpr int tile = 64, step = 32;

/// c = a b. The engine copies the operands, or threads, as it takes no hints for the cache.
auto product(Cache cache = Cache::normal) {
  return Kernel{"product",
                [cache](View<const half, 2> a, View<const half, 2> b, View<half, 2> c) {
                  auto i = program_id(0), j = program_id(1);
                  auto acc = zeros<float>(tile, tile);
                  for (auto k : range(cdiv(a.extent(1), step)))
                    acc = dot(a.tile(tile, step).access({.cache = cache}).load(i, k),
                              b.tile(step, tile).access({.cache = cache}).load(k, j), acc);
                  c.tile(tile, tile).store(i, j, cast<half>(acc));
                },
                {.warps = 4, .stages = 3}};
}

/// A number of the operands; `number` says which element it is.
float elementOf(int number) { return float(number * 7 % 5 - 2); }

std::vector<half> operandOf(int count) {
  std::vector<half> values;
  for (int i = 0; i < count; ++i)
    values.emplace_back(elementOf(i));
  return values;
}

class TensorStores : public test::OnDevice {};
SECTILE_INSTANTIATE_ON(TensorStores, "virtual:sm_90a,virtual:sm_90,virtual:sm_120");

// c is a part of a larger matrix, none of whose other elements may change. The engine stores the
// widths that are multiples of 8 elements, threads the others.
TEST_P(TensorStores, OnlyWhatTheViewHas) {
  constexpr int depth = 40, pitch = 208;
  const half untouched(77.0f);
  auto kernel = product();
  for (int rows : {1, 63, 64, 65, 130})
    for (int columns : {8, 64, 72, 96, 136, 30}) {
      auto a = device.upload(operandOf(rows * depth));
      auto b = device.upload(operandOf(depth * columns));
      auto all = device.allocate<half>(size_t((rows + 2) * pitch));
      all.fill(untouched);
      kernel.launch(device.stream(), {(rows + tile - 1) / tile, (columns + tile - 1) / tile},
                    Tensor<const half, 2>(a.data(), {rows, depth}, {depth, 1}),
                    Tensor<const half, 2>(b.data(), {depth, columns}, {columns, 1}),
                    Tensor<half, 2>(all.data() + pitch, {rows, columns}, {pitch, 1}));
      const std::vector<half> got = all.download();
      for (int row = -1; row <= rows; ++row)
        for (int column = 0; column < pitch; ++column) {
          float expected = float(untouched);
          if (row >= 0 && row < rows && column < columns) {
            expected = 0;
            for (int k = 0; k < depth; ++k)
              expected += elementOf(row * depth + k) * elementOf(k * columns + column);
          }
          ASSERT_EQ(float(got[size_t((row + 1) * pitch + column)]), expected)
              << rows << " x " << columns << " at [" << row << ", " << column << "]";
        }
    }
}

template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, std::int8_t>, std::int32_t, float>;

/// Combines c with a b, of which each program of the third axis does two steps, by `combine`.
template <class In, class Out, class Combine> auto sharedProduct(Combine combine) {
  return Kernel{"shared_product",
                [combine](View<const In, 2> a, View<const In, 2> b, View<Out, 2> c) {
                  auto i = program_id(0), j = program_id(1), part = program_id(2);
                  auto acc = zeros<SumOf<In>>(tile, tile);
                  for (auto k : range(2 * part, 2 * part + 2))
                    acc = dot(a.tile(tile, step).load(i, k), trans(b.tile(tile, step).load(j, k)),
                              acc);
                  combine(c.tile(tile, tile), i, j, cast<Out>(acc));
                },
                {.warps = 4, .stages = 3}};
}

constexpr auto added = [](const auto &to, const Int &i, const Int &j, const auto &sums) {
  to.atomic_add(i, j, sums, {.order = MemoryOrder::relaxed});
};
constexpr auto largest = [](const auto &to, const Int &i, const Int &j, const auto &sums) {
  to.atomic_max(i, j, sums, {.order = MemoryOrder::relaxed});
};

class TensorReductions : public test::OnDevice {
protected:
  /// For all extents: what c has, of `before` and the parts' sums, inside the view and around it.
  template <class In, class Out, class Combine>
  void expectCombined(Combine combine, const std::function<float(float, float)> &combined) {
    constexpr int depth = 80, parts = 2, pitch = 208;
    const float before = 3;
    auto kernel = sharedProduct<In, Out>(combine);
    auto operand = [&](int count) {
      std::vector<In> values;
      for (int i = 0; i < count; ++i)
        values.push_back(In(elementOf(i)));
      return device.upload(values);
    };
    for (int rows : {1, 64, 130})
      for (int columns : {8, 72, 136, 30}) {
        auto a = operand(rows * depth), b = operand(columns * depth);
        auto all = device.template allocate<Out>(size_t((rows + 2) * pitch));
        all.fill(Out(before));
        kernel.launch(device.stream(),
                      {(rows + tile - 1) / tile, (columns + tile - 1) / tile, parts},
                      Tensor<const In, 2>(a.data(), {rows, depth}, {depth, 1}),
                      Tensor<const In, 2>(b.data(), {columns, depth}, {depth, 1}),
                      Tensor<Out, 2>(all.data() + pitch, {rows, columns}, {pitch, 1}));
        const std::vector<Out> got = all.download();
        for (int row = -1; row <= rows; ++row)
          for (int column = 0; column < pitch; ++column) {
            float expected = before;
            if (row >= 0 && row < rows && column < columns)
              for (int part = 0; part < parts; ++part) {
                float sum = 0;
                for (int k = part * 2 * step; k < std::min(depth, (part + 1) * 2 * step); ++k)
                  sum += elementOf(row * depth + k) * elementOf(column * depth + k);
                expected = combined(expected, sum);
              }
            ASSERT_EQ(float(got[size_t((row + 1) * pitch + column)]), expected)
                << rows << " x " << columns << " at [" << row << ", " << column << "]";
          }
      }
  }
};
SECTILE_INSTANTIATE_ON(TensorReductions, "virtual:sm_90a,virtual:sm_90,interpreter");

const auto sum = [](float a, float b) { return a + b; };

TEST_P(TensorReductions, AddFloats) { expectCombined<half, float>(added, sum); }
TEST_P(TensorReductions, AddHalves) { expectCombined<half, half>(added, sum); }
TEST_P(TensorReductions, AddBFloats) { expectCombined<bfloat16, bfloat16>(added, sum); }
TEST_P(TensorReductions, AddIntegers) { expectCombined<std::int8_t, std::int32_t>(added, sum); }
TEST_P(TensorReductions, TakeTheLargest) {
  expectCombined<std::int8_t, std::int32_t>(largest,
                                            [](float a, float b) { return std::max(a, b); });
}

TEST(TensorReduction, IsTheEnginesWhereNothingAsksForItsResult) {
  half *memory = nullptr;
  const Tensor<const half, 2> operand(memory, {64, 64}, {64, 1});
  const Tensor<half, 2> c(memory, {64, 64}, {64, 1});
  auto codeOf = [&](auto combine, const char *target) {
    return sharedProduct<half, half>(combine).emit(target, "ptx", operand, operand, c);
  };
  const std::string reduction =
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";
  for (const char *target : {"sm_90a", "sm_90", "sm_120"})
    EXPECT_NE(codeOf(added, target).find(reduction), std::string::npos) << target;
  EXPECT_EQ(codeOf(added, "sm_89").find(reduction), std::string::npos);
  auto ordered = [](const auto &to, const Int &i, const Int &j, const auto &tile) {
    to.atomic_add(i, j, tile);
  };
  EXPECT_EQ(codeOf(ordered, "sm_90a").find(reduction), std::string::npos);
}

/// c = a b where the kernel reads from memory which rows of c there are; its first program's block
/// lies below all of them.
auto segmentProduct() {
  return Kernel{"product",
                [](View<const half, 2> a, View<const half, 2> b, View<half, 2> c,
                   Ptr<const std::int32_t> place) {
                  auto i = program_id(0) - 1;
                  auto begin = clamp(load(place), 0, c.extent(0));
                  auto length = clamp(load(place + 1), 0, c.extent(0) - begin);
                  auto acc = zeros<float>(tile, tile);
                  for (auto k : range(cdiv(a.extent(1), step)))
                    acc = dot(a.tile(tile, step).load(i, k), b.tile(step, tile).load(k, 0), acc);
                  c.slice(0, begin, length).tile(tile, tile).store(i, 0, cast<half>(acc));
                },
                {.warps = 4, .stages = 3}};
}

TEST_P(TensorStores, OnlyTheRowsOfASegment) {
  constexpr int depth = 40, most = 150;
  const half untouched(77.0f);
  auto kernel = segmentProduct();
  auto a = device.upload(operandOf(most * depth));
  auto b = device.upload(operandOf(depth * tile));
  for (int begin : {0, 5, 149})
    for (int length : {0, 1, 63, 64, 65, 145, -3}) {
      auto place = device.upload(std::vector<std::int32_t>{begin, length});
      auto c = device.allocate<half>(size_t(most * tile));
      c.fill(untouched);
      kernel.launch(device.stream(), {4},
                    Tensor<const half, 2>(a.data(), {most, depth}, {depth, 1}),
                    Tensor<const half, 2>(b.data(), {depth, tile}, {tile, 1}),
                    Tensor<half, 2>(c.data(), {most, tile}, {tile, 1}), place.data());
      const std::vector<half> got = c.download();
      for (int row = 0; row < most; ++row)
        for (int column = 0; column < tile; ++column) {
          float expected = float(untouched);
          if (row >= begin && row < std::min(begin + length, most)) {
            expected = 0;
            for (int k = 0; k < depth; ++k)
              expected += elementOf((row - begin) * depth + k) * elementOf(k * tile + column);
          }
          ASSERT_EQ(float(got[size_t(row * tile + column)]), expected)
              << length << " rows from " << begin << " on, at [" << row << ", " << column << "]";
        }
    }
}

/// The kernel's code for matrices of these extents.
std::string codeFor(int rows, int columns, const std::string &form) {
  half *memory = nullptr;
  const Tensor<const half, 2> a(memory, {rows, 64}, {64, 1}),
      b(memory, {64, columns}, {columns, 1});
  return product().emit("sm_90a", form, a, b,
                        Tensor<half, 2>(memory, {rows, columns}, {columns, 1}));
}

TEST(TensorStore, IsTheEnginesWhereRowsEndAtWholePiecesAndAtASegmentsEnd) {
  const std::string store = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
  half *memory = nullptr;
  std::int32_t *place = nullptr;
  const Tensor<const half, 2> operand(memory, {64, 64}, {64, 1});
  EXPECT_NE(segmentProduct()
                .emit("sm_90a", "ptx", operand, operand, Tensor<half, 2>(memory, {64, 64}, {64, 1}),
                      place)
                .find("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group"),
            std::string::npos);
  EXPECT_NE(codeFor(64, 64, "ptx").find(store), std::string::npos);
  EXPECT_EQ(codeFor(64, 60, "ptx").find(store), std::string::npos);
}

/// A 64 × 64 product whose operands threads copy: the one tensor map is that of the result.
class PlantedInStores : public testing::Test {
protected:
  void SetUp() override {
    half *memory = nullptr;
    const Tensor<const half, 2> matrix(memory, {tile, tile}, {tile, 1});
    text = product(Cache::global)
               .emit("sm_90a", "llvm", matrix, matrix,
                     Tensor<half, 2>(memory, {tile, tile}, {tile, 1}));
  }

  LaunchResult run(uint64_t seed) {
    Runner runner(text);
    runner.shape.block[0] = 128;
    runner.shape.sharedBytes = 65536;
    runner.options.seed = seed;
    const half *operand = runner.upload(operandOf(tile * tile));
    half *result = runner.allocate<half>(size_t(tile * tile));
    TensorMap map;
    map.address = reinterpret_cast<uint64_t>(result);
    map.type = TensorType::U16;
    map.rank = 2;
    map.extents[0] = map.extents[1] = map.box[0] = map.box[1] = tile;
    map.strides[0] = tile * sizeof(half);
    map.swizzle = 128;
    map = TensorMap::encode(map);
    LaunchResult done =
        runner.run(operand, int32_t(tile), int32_t(tile), int32_t(tile), int32_t(1), operand,
                   int32_t(tile), int32_t(tile), int32_t(tile), int32_t(1), result, int32_t(tile),
                   int32_t(tile), int32_t(tile), int32_t(1), map);
    for (int i = 0; i < tile * tile && !done.finding; ++i) {
      float expected = 0;
      for (int k = 0; k < tile; ++k)
        expected += elementOf(i / tile * tile + k) * elementOf(k * tile + i % tile);
      EXPECT_EQ(float(result[i]), expected) << "element " << i;
    }
    return done;
  }

  /// Replaces the last match of an expression.
  void edit(const std::string &from, const std::string &to) {
    const std::regex expression(from);
    size_t position = std::string::npos, length = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), expression), end; at != end; ++at) {
      position = size_t(at->position());
      length = size_t(at->length());
    }
    ASSERT_NE(position, std::string::npos) << from << "\n" << text;
    text.replace(position, length, to);
  }
  void expectFinding(FindingKind kind) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      const auto finding = run(seed).finding;
      ASSERT_TRUE(finding) << "seed " << seed << ": expected a " << kindName(kind);
      EXPECT_EQ(kindName(finding->kind), std::string(kindName(kind))) << finding->text();
    }
  }

  std::string text;
};

TEST_F(PlantedInStores, TheKernelIsCleanWithoutThem) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const LaunchResult result = run(seed);
    ASSERT_FALSE(result.finding) << result.finding->text();
  }
}

TEST_F(PlantedInStores, MissingProxyFence) {
  edit("[^\n]*call void @llvm.nvvm.fence.proxy.async[^\n]*\n", "");
  expectFinding(FindingKind::MissingProxyFence);
}

TEST_F(PlantedInStores, MissingBarrier) {
  edit("[^\n]*call void @llvm.nvvm.barrier.cta.sync[^\n]*\n", "");
  expectFinding(FindingKind::SharedRace);
}

TEST_F(PlantedInStores, MissingWait) {
  edit("[^\n]*call void @llvm.nvvm.cp.async.bulk.wait.group.read[^\n]*\n", "");
  expectFinding(FindingKind::MissingWait);
}

TEST_F(PlantedInStores, WaitForAllButTheLatest) {
  edit("wait.group.read\\(i32 0\\)", "wait.group.read(i32 1)");
  expectFinding(FindingKind::MissingWait);
}

} // namespace
