// Products whose operands lie as matrix units cannot take them: copied first, or as they are.
#include "KernelTest.h"
#include <gtest/gtest.h>

using namespace sectile;
using namespace sectile::test;

namespace {

class ProductOperands : public OnDevice {};
SECTILE_INSTANTIATE_ON(ProductOperands, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

constexpr const char *orders[][2] = {
    {"false", "false"}, {"false", "true"}, {"true", "false"}, {"true", "true"}};

Config copied(Config config = {}) {
  config["copy_first"] = 1;
  return config;
}

TEST_P(ProductOperands, CopiedInEveryOrderAndDtype) {
  for (const char *dtype : {"f16", "f32", "f8e4m3", "i8"})
    for (const auto &[left, right] : orders)
      expectRight(device, {"matmul",
                           {{"M", 70}, {"N", 131}, {"K", 77}},
                           {{"trans_a", left}, {"trans_b", right}},
                           {},
                           dtype,
                           copied({{"m", 64}, {"n", 64}, {"k", 32}})});
}

TEST_P(ProductOperands, CopiedForEpiloguesSplitsAndBatches) {
  const Config split = copied({{"m", 64}, {"n", 64}, {"k", 32}, {"splits", 3}});
  expectRight(
      device,
      {"matmul", {{"M", 65}, {"N", 67}, {"K", 300}}, {}, {"bias", "residual"}, "f32", split});
  KernelCase batches{"batched_matmul",
                     {{"B", 3}, {"M", 65}, {"N", 67}, {"K", 100}},
                     {},
                     {},
                     "f32",
                     copied({{"m", 64}, {"n", 64}, {"k", 32}})};
  expectRight(device, batches);
  // One b for all of them.
  batches.single = {"b"};
  expectRight(device, batches);
  batches.dtype = "f16";
  expectRightWithStrides(device, batches);
}

TEST_P(ProductOperands, CopiedWithScalesOfBlocks) {
  for (const char *dtype : {"f8e4m3", "f8e5m2", "i8"})
    expectRight(device, {"scaled_matmul",
                         {{"M", 70}, {"N", 131}, {"K", 300}, {"Sk", 3}, {"Sn", 2}},
                         {{"trans_b", "false"}},
                         {"bias"},
                         dtype,
                         copied({{"m", 64}, {"n", 64}, {"k", 128}})});
}

TEST_P(ProductOperands, WithoutElements) {
  for (const auto &[m, n, k] : {std::tuple{0, 5, 7}, {5, 0, 7}, {5, 7, 0}})
    expectRight(device, {"matmul", {{"M", m}, {"N", n}, {"K", k}}, {}, {}, "f32", copied()});
}

// Large products of operands that lie otherwise are worth two copies, small ones are not.
TEST(ProductOperandsDefaults, CopyWhereThatPays) {
  const auto copies = [](const char *kernel, std::int64_t size, const char *dtype,
                         const Assignments &options, std::int64_t columns = 0,
                         std::int64_t rows = 0) {
    KernelCase test{kernel,
                    {{"M", rows ? rows : size}, {"N", columns ? columns : size}, {"K", size}},
                    options,
                    {},
                    dtype};
    if (test.kernel == "scaled_matmul") {
      test.extents["Sk"] = (size + 127) / 128;
      test.extents["Sn"] = (test.extents["N"] + 127) / 128;
    }
    const Invocation call = resolveCase(test);
    return call.kernel->defaults(call, "sm_90a").at("copy_first") == 1;
  };
  const Assignments across{{"trans_b", "false"}}, along{{"trans_b", "true"}};
  EXPECT_TRUE(copies("scaled_matmul", 8192, "f8e4m3", across));
  EXPECT_FALSE(copies("scaled_matmul", 8192, "f8e4m3", along));
  EXPECT_FALSE(copies("scaled_matmul", 8192, "f8e4m3", across, 8192, 8));
  // Words and bytes are read into registers as they lie, unless threads have to copy them.
  EXPECT_FALSE(copies("matmul", 4096, "f32", across));
  EXPECT_TRUE(copies("matmul", 4095, "f32", across));
  EXPECT_TRUE(copies("matmul", 4096, "f32", {{"trans_a", "true"}, {"trans_b", "false"}}));
  EXPECT_FALSE(copies("matmul", 4096, "f32", along));
  EXPECT_FALSE(copies("matmul", 4096, "i8", across));
  EXPECT_TRUE(copies("matmul", 4100, "i8", across));
  // Where threads wait for sums, a copy is worth it for large products.
  EXPECT_TRUE(copies("matmul", 8192, "f8e4m3", across));
  EXPECT_FALSE(copies("matmul", 4096, "f32", {{"trans_b", "false"}, {"precision", "exact"}}));
  EXPECT_FALSE(copies("matmul", 4096, "f16", across));
  EXPECT_TRUE(copies("matmul", 4096, "f16", across, 50257));
  // Chips whose matrix units do not read shared memory take every order alike.
  const Invocation call =
      resolveCase({"matmul", {{"M", 4096}, {"N", 4096}, {"K", 4096}}, {}, {}, "f32"});
  EXPECT_EQ(call.kernel->defaults(call, "sm_80").at("copy_first"), 0);
}

} // namespace
