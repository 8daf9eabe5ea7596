// Programs that run in clusters and share what they load: products of all trip counts, where code
// for clusters is made, and what a launch refuses.
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"
#include <gmock/gmock.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

constexpr int tile = 64, step = 32;

/// c = a b, where the programs of a cluster share the columns of b. `partitioned`: warps of their
/// own make the copies.
auto product(int cluster, bool transposed = false, bool partitioned = false) {
  return Kernel{"product",
                [=](View<const half, 2> a, View<const half, 2> b, View<half, 2> c) {
                  program_clusters(cluster);
                  auto i = program_id(0), j = program_id(1);
                  auto acc = zeros<float>(tile, 2 * tile);
                  LoopOptions options;
                  if (partitioned)
                    options.warp_specialize = true;
                  for (auto k : range(0, cdiv(a.extent(1), step), options)) {
                    auto right = transposed ? trans(b.tile(2 * tile, step).load(j, k))
                                            : b.tile(step, 2 * tile).load(k, j);
                    acc = dot(a.tile(tile, step).load(i, k), right, acc);
                  }
                  c.tile(tile, 2 * tile).store(i, j, cast<half>(acc));
                },
                {.warps = 4, .stages = 3}};
}

float elementOf(int number) { return float(number * 7 % 5 - 2); }

std::vector<half> operandOf(int count) {
  std::vector<half> values;
  for (int i = 0; i < count; ++i)
    values.emplace_back(elementOf(i));
  return values;
}

class Clusters : public test::OnDevice {};
SECTILE_INSTANTIATE_ON(Clusters,
                       "virtual:sm_90a,virtual:sm_90,virtual:sm_100a,virtual:sm_80,virtual:gfx942,"
                       "interpreter");

// Of no steps, of fewer than the ring has slots, and of several turns of it, with a tail.
TEST_P(Clusters, ProductsOfAllTripCounts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  constexpr int columns = 136;
  for (auto [transposed, partitioned] :
       {std::pair(false, false), {true, false}, {false, true}, {true, true}})
    for (int depth : {8, 32, 72, 136, 328})
      for (int rows : {64, 200, 256}) {
        auto a = device.upload(operandOf(rows * depth));
        auto b = device.upload(operandOf(depth * columns));
        auto c = device.allocate<half>(size_t(rows * columns));
        const std::int64_t stride = transposed ? depth : columns;
        product(2, transposed, partitioned)
            .launch(device.stream(), {(rows + 2 * tile - 1) / (2 * tile) * 2, 2},
                    Tensor<const half, 2>(a.data(), {rows, depth}, {depth, 1}),
                    Tensor<const half, 2>(
                        b.data(), {transposed ? columns : depth, transposed ? depth : columns},
                        {stride, 1}),
                    Tensor<half, 2>(c.data(), {rows, columns}, {columns, 1}));
        const std::vector<half> got = c.download();
        for (int row = 0; row < rows; ++row)
          for (int column = 0; column < columns; ++column) {
            float expected = 0;
            for (int k = 0; k < depth; ++k)
              expected += elementOf(row * depth + k) *
                          elementOf(transposed ? column * depth + k : k * columns + column);
            ASSERT_EQ(float(got[size_t(row * columns + column)]), float(half(expected)))
                << rows << " rows, depth " << depth << ", at [" << row << ", " << column << "]";
          }
      }
}

std::string codeOf(const char *target, int cluster, bool partitioned = false) {
  half *memory = nullptr;
  const Tensor<const half, 2> operand(memory, {256, 256}, {256, 1});
  return product(cluster, false, partitioned)
      .emit(target, "ptx", operand, operand, Tensor<half, 2>(memory, {256, 256}, {256, 1}));
}

TEST(Cluster, IsThereWhereTheTargetHasTheEngine) {
  EXPECT_THAT(codeOf("sm_90a", 2), HasSubstr(".reqnctapercluster 2, 1, 1"));
  for (bool partitioned : {false, true})
    EXPECT_THAT(codeOf("sm_90a", 2, partitioned), HasSubstr(".multicast::cluster"));
  for (const std::string &code : {codeOf("sm_90a", 1), codeOf("sm_90", 2), codeOf("sm_80", 2)}) {
    EXPECT_THAT(code, testing::Not(HasSubstr("cluster 2")));
    EXPECT_THAT(code, testing::Not(HasSubstr("multicast")));
  }
}

TEST(Cluster, GridsAreWholeClusters) {
  Device device = Device::open("virtual:sm_90a");
  auto memory = device.upload(operandOf(256 * 256));
  auto result = device.allocate<half>(256 * 256);
  const Tensor<const half, 2> operand(memory.data(), {256, 256}, {256, 1});
  const Tensor<half, 2> c(result.data(), {256, 256}, {256, 1});
  try {
    product(2).launch(device.stream(), {3, 2}, operand, operand, c);
    FAIL() << "a grid of one and a half clusters";
  } catch (const LaunchError &error) {
    EXPECT_THAT(error.what(), HasSubstr("a grid of 3 blocks along its first axis, which are no "
                                        "whole clusters of 2 (sc::program_clusters)"));
  }
}

} // namespace
