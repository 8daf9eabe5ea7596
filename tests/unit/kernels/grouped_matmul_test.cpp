// grouped_matmul and its gradients: empty groups, partial tiles, many groups.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <numeric>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

class GroupedMatmul : public OnDevice {};
SECTILE_INSTANTIATE_ON(GroupedMatmul, "virtual:sm_80,virtual:sm_90,virtual:sm_90a");
class GroupedMatmulEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(GroupedMatmulEverywhere, "interpreter,virtual:gfx942,virtual:gfx1100");

std::int64_t total(const std::vector<int> &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

KernelCase withSizes(const char *kernel, const std::vector<int> &sizes, const char *dtype,
                     const Assignments &options = {}) {
  return {kernel,
          {{"M", total(sizes)}, {"G", static_cast<std::int64_t>(sizes.size())}},
          options,
          {},
          dtype,
          {},
          1,
          [sizes](const Invocation &call, std::vector<HostArray> &inputs) {
            inputs[call.index("group_sizes")].assign(
                std::vector<double>(sizes.begin(), sizes.end()));
          }};
}

const std::vector<std::vector<int>> lengths{
    {1},         {0, 0, 5},       {5, 0, 0},   {0, 0},          {64, 64},
    {63, 1, 65}, {128, 0, 3, 70}, {0, 130, 0}, {1, 1, 1, 1, 1},
};

TEST_P(GroupedMatmul, EmptyGroupsAndPartialTiles) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const auto &sizes : lengths) {
    expectRight(device, withSizes("grouped_matmul", sizes, "f16"));
    expectRight(device, withSizes("grouped_matmul_drhs", sizes, "f16"));
  }
}

TEST_P(GroupedMatmul, MoreGroupsThanAreLookedAtAtOnce) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  std::vector<int> sizes(300, 0);
  for (std::size_t i = 0; i < sizes.size(); i += 7)
    sizes[i] = static_cast<int>(i % 5);
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    KernelCase test = withSizes(kernel, sizes, "bf16");
    test.extents["K"] = 17;
    test.extents["N"] = 9;
    expectRight(device, test);
  }
}

// Programs that go through the groups, as many as these.
Config persistent(std::int64_t programs, const Config &rest = {}) {
  Config config{{"persistent", 1}, {"programs", programs}, {"m", 64},    {"n", 64},
                {"k", 64},         {"warps", 4},           {"stages", 3}};
  for (const auto &[name, value] : rest)
    config[name] = value;
  return config;
}

// Fewer programs than tiles, and more; rows and columns that end within a tile, and steps, too.
TEST_P(GroupedMatmul, PersistentPrograms) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    for (const auto &[programs, dtype] :
         {std::pair{1, "f16"}, {3, "f16"}, {64, "bf16"}, {3, "f32"}})
      for (const auto &sizes : lengths) {
        KernelCase test = withSizes(kernel, sizes, dtype);
        test.extents["K"] = 136;
        test.extents["N"] = 88;
        test.config = persistent(programs);
        expectRight(device, test);
      }
}

// So that many programs have no tile of most groups, and several of one. Rings outlive many tiles.
TEST_P(GroupedMatmul, PersistentProgramsOfManyGroups) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  std::vector<int> sizes(256, 0);
  for (std::size_t i = 0; i < sizes.size(); i += 3)
    sizes[i] = i == 129 ? 300 : static_cast<int>(i % 5);
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    KernelCase test = withSizes(kernel, sizes, "f16");
    test.extents["K"] = 72;
    test.extents["N"] = 72;
    test.config = persistent(5);
    expectRight(device, test);
  }
}

// The tiles that large products take, some of them stored in pieces.
TEST_P(GroupedMatmul, PersistentProgramsOfLargeTiles) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90");
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    for (const auto &[trans, n] : {std::pair{"false", 256}, {"true", 128}}) {
      KernelCase test = withSizes(kernel, {200, 0, 90}, "f16", {{"trans_rhs", trans}});
      test.extents["K"] = 200;
      test.extents["N"] = 328;
      test.config = persistent(2, {{"m", 128}, {"n", n}, {"warps", 8}, {"stages", 3}});
      expectRight(device, test);
    }
}

TEST_P(GroupedMatmul, PersistentProgramsTakeStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    KernelCase test{kernel, {}, {}, {}, "f16"};
    test.config = persistent(2);
    expectRightWithStrides(device, test);
  }
}

TEST_P(GroupedMatmul, DtypesAndTransposition) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    for (const char *dtype : {"f16", "bf16", "f32"})
      for (const char *trans : {"false", "true"})
        expectRight(device, {kernel, {}, {{"trans_rhs", trans}}, {}, dtype});
  expectRight(device, {"grouped_matmul", {}, {{"precision", "exact"}}, {}, "f32"});
}

TEST_P(GroupedMatmulEverywhere, Right) {
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    for (const std::int64_t isPersistent : {0, 1})
      expectRight(device,
                  {kernel, {}, {}, {}, "f16", {{"persistent", isPersistent}, {"programs", 2}}});
}

TEST_P(GroupedMatmul, Extents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const auto &[k, n] : {std::pair{1, 1}, {0, 5}, {33, 65}, {64, 0}}) {
    expectRight(device, {"grouped_matmul", {{"K", k}, {"N", n}}, {}, {}, "f16"});
    expectRight(device, {"grouped_matmul_drhs", {{"K", k}, {"N", n}}, {}, {}, "f16"});
  }
}

TEST_P(GroupedMatmul, WholeNumbersAreExact) {
  auto integers = [](const Invocation &, std::vector<HostArray> &inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (is_floating(inputs[i].dtype))
        fillIntegers(inputs[i], 3, i + 1);
  };
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    expectExact(device, {kernel, {}, {}, {}, "f32", {}, 1, integers});
}

TEST_P(GroupedMatmul, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:sm_90a");
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"})
    for (const char *trans : {"false", "true"})
      expectRightWithStrides(device, {kernel, {}, {{"trans_rhs", trans}}, {}, "f16"});
}

// Lengths that are wrong must not reach beyond the rows there are; the virtual device watches.
TEST_P(GroupedMatmul, WrongLengthsStayInMemory) {
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    KernelCase test{kernel, {{"M", 100}, {"G", 3}}, {}, {}, "f16"};
    const Invocation call = resolveCase(test);
    std::vector<HostArray> inputs = sampleInputs(call, 1);
    inputs[call.index("group_sizes")].assign(std::vector<double>{90, -20, 1000});
    for (const Config &config : {Config{}, persistent(2)})
      EXPECT_NO_THROW(execute(device, call, completeConfig(call, device.target(), config), inputs));
    EXPECT_THROW(checkContents(call, inputs), InputError);
    inputs[call.index("group_sizes")].assign(std::vector<double>{90, 0, 9});
    EXPECT_THROW(checkContents(call, inputs), InputError);
  }
}

TEST(GroupedGradients, OfTheMatrices) {
  for (const auto &sizes : lengths)
    if (total(sizes))
      for (const char *trans : {"false", "true"}) {
        KernelCase test = withSizes("grouped_matmul", sizes, "f32", {{"trans_rhs", trans}});
        test.extents["K"] = 3;
        test.extents["N"] = 4;
        expectGradients(test, "grouped_matmul_drhs");
      }
}

// dlhs is grouped_matmul of dc with the matrices the other way round: <dc, f(x + t)> - <dc, f(x)>
// = <dlhs, t>, exactly as f is linear.
TEST(GroupedGradients, OfTheRows) {
  const Invocation forward =
      resolveCase({"grouped_matmul", {{"M", 20}, {"K", 3}, {"N", 4}, {"G", 4}}, {}, {}, "f32"});
  const Invocation backward = resolveCase({"grouped_matmul",
                                           {{"M", 20}, {"K", 4}, {"N", 3}, {"G", 4}},
                                           {{"trans_rhs", "true"}},
                                           {},
                                           "f32"});
  const auto x = sampleInputs(forward, 1);
  auto shifted = sampleInputs(forward, 2);
  shifted[1] = x[1];
  shifted[2] = x[2];
  const auto gradient = sampleInputs(backward, 3);
  const auto y = referenceOutputs(forward, shifted, Arithmetic::exact)[0].to_double();
  const auto dlhs =
      referenceOutputs(backward, std::vector{gradient[0], x[1], x[2]}, Arithmetic::exact)[0]
          .to_double();
  const auto dc = gradient[0].to_double(), t = shifted[0].to_double();
  double left = 0, right = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    left += dc[i] * y[i];
  for (std::size_t i = 0; i < t.size(); ++i)
    right += dlhs[i] * t[i];
  EXPECT_NEAR(left, right, 1e-9);
}

TEST(GroupedReference, ByHand) {
  const Invocation call =
      resolveCase({"grouped_matmul", {{"M", 3}, {"K", 1}, {"N", 1}, {"G", 3}}, {}, {}, "f32"});
  const std::vector<HostArray> inputs{
      HostArray(DType::float32, {3, 1}, std::vector<double>{1, 2, 3}),
      HostArray(DType::float32, {3, 1, 1}, std::vector<double>{10, 100, 1000}),
      HostArray(DType::int32, {3}, std::vector<double>{2, 0, 1})};
  EXPECT_EQ(referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double(),
            (std::vector<double>{10, 20, 3000}));
}

// A row of the wrong group is seen.
TEST(GroupedHarness, CatchesAWrongGroup) {
  const Invocation call = resolveCase(withSizes("grouped_matmul", {63, 1, 65}, "f16"));
  auto inputs = sampleInputs(call, 1);
  inputs[2].assign(std::vector<double>{63, 1, 65});
  auto other = inputs;
  other[2].assign(std::vector<double>{64, 0, 65});
  EXPECT_FALSE(
      check(call, inputs, referenceOutputs(call, other, Arithmetic::own))[0].accuracy.ok());
}

} // namespace
