// mean_pool and chunk_mean_pool, forward and backward.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include "vgpu/VirtualDevice.h"
#include <cmath>
#include <limits>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class Pooling : public OnDevice {};
SECTILE_INSTANTIATE_ON(Pooling, "virtual:sm_80,virtual:sm_90a");
class PoolingElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(PoolingElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

const char *const floats[] = {"f32", "f16", "bf16"};
constexpr std::string_view backwardOfChunks = "chunk_mean_pool_backward";

// The backward kernel is told the number of chunks, the forward one works it out.
KernelCase chunkCase(const char *kernel, std::int64_t length, std::int64_t chunk) {
  KernelCase test{kernel, {{"T", length}}, {{"chunk", std::to_string(chunk)}}};
  if (kernel == backwardOfChunks)
    test.extents["C"] = (length + chunk - 1) / chunk;
  return test;
}

KernelCase packedCase(const char *kernel, std::vector<std::int32_t> bounds, std::int64_t chunk) {
  const std::int64_t count = static_cast<std::int64_t>(bounds.size()), length = bounds.back();
  KernelCase test{
      kernel, {{"T", length}, {"N", count}}, {{"chunk", std::to_string(chunk)}}, {"cu_seqlens"}};
  if (kernel == backwardOfChunks)
    test.extents["C"] = length / chunk + count - 1;
  test.prepare = [bounds](const Invocation &, std::vector<HostArray> &inputs) {
    inputs[1].assign(std::vector<double>(bounds.begin(), bounds.end()));
  };
  return test;
}

void withoutPositions(const Invocation &, std::vector<HostArray> &inputs) {
  for (bool &kept : inputs[1].as<bool>())
    kept = false;
}

} // namespace

TEST_P(Pooling, MeansOfAllShapes) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"mean_pool", "mean_pool_backward"})
    for (const auto &with : {std::vector<std::string>{}, std::vector<std::string>{"mask"}}) {
      for (const char *dtype : floats)
        expectRight(device, {kernel, {}, {}, with, dtype});
      // Default tiles are 32 positions of 64 columns.
      for (std::int64_t length : {0, 1, 31, 32, 33, 200})
        expectRight(device, {kernel, {{"B", 2}, {"T", length}, {"D", 65}}, {}, with, "f16"});
      for (std::int64_t width : {0, 1, 15, 16, 63, 64, 130})
        expectRight(device, {kernel, {{"B", 1}, {"T", 5}, {"D", width}}, {}, with});
      expectRight(device, {kernel, {{"B", 0}}, {}, with});
      expectRightWithStrides(device, {kernel, {}, {}, with});
      expectRight(
          device,
          {kernel, {{"T", 70}, {"D", 100}}, {}, with, "bf16", {{"t", 8}, {"d", 32}, {"warps", 1}}});
    }
}

TEST_P(PoolingElsewhere, Works) {
  for (const char *kernel : {"mean_pool", "mean_pool_backward"})
    expectRight(device, {kernel, {}, {}, {"mask"}, "f16"});
  for (const char *kernel : {"chunk_mean_pool", "chunk_mean_pool_backward"}) {
    expectRight(device, chunkCase(kernel, 40, 16));
    expectRight(device, packedCase(kernel, {0, 17, 17, 40}, 16));
  }
}

TEST_P(Pooling, SumsOfIntegersAreExact) {
  KernelCase test{"mean_pool", {{"B", 3}, {"T", 64}, {"D", 33}}, {}, {"mask"}, "f16"};
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    fillIntegers(inputs[0], 8, 1);
    // 64, 16 and 4 positions: means are exact.
    const auto mask = inputs[1].as<bool>();
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask[i] = i % 64 < (64u >> (2 * (i / 64)));
  };
  expectExact(device, test);
}

TEST_P(Pooling, EmptyMasksGiveZero) {
  KernelCase test{"mean_pool", {}, {}, {"mask"}};
  test.prepare = withoutPositions;
  for (double value : expectRight(device, test)[0].to_double())
    EXPECT_EQ(value, 0);
  KernelCase backward{"mean_pool_backward", {}, {}, {"mask"}};
  backward.prepare = withoutPositions;
  for (double value : expectRight(device, backward)[0].to_double())
    EXPECT_EQ(value, 0);
}

TEST_P(Pooling, HiddenPositionsAreNotLookedAt) {
  KernelCase test{"mean_pool", {{"B", 1}, {"T", 40}, {"D", 7}}, {}, {"mask"}};
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    for (std::size_t t = 0; t < 40; t += 3) {
      inputs[1].as<bool>()[t] = false;
      for (std::size_t d = 0; d < 7; ++d)
        inputs[0].as<float>()[t * 7 + d] = t % 2 ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
    }
  };
  for (double value : expectRight(device, test)[0].to_double())
    EXPECT_TRUE(std::isfinite(value));
  // One that is seen passes through.
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    inputs[1].as<bool>()[4] = true;
    inputs[0].as<float>()[4 * 7 + 2] = std::numeric_limits<float>::quiet_NaN();
  };
  EXPECT_TRUE(std::isnan(expectRight(device, test)[0].to_double()[2]));
}

TEST_P(Pooling, ChunksOfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"chunk_mean_pool", "chunk_mean_pool_backward"}) {
    for (const char *dtype : floats) {
      KernelCase test = chunkCase(kernel, 150, 64);
      test.dtype = dtype;
      test.extents["B"] = 2;
      expectRight(device, test);
    }
    for (std::int64_t length : {0, 1, 15, 16, 17, 100})
      for (std::int64_t chunk : {1, 16, 37})
        expectRight(device, chunkCase(kernel, length, chunk));
    expectRight(device, chunkCase(kernel, 40, 1000));
    for (std::int64_t width : {0, 1, 130}) {
      KernelCase test = chunkCase(kernel, 20, 8);
      test.extents["D"] = width;
      expectRight(device, test);
    }
    KernelCase strided = chunkCase(kernel, 50, 16);
    strided.extents["B"] = 2;
    expectRightWithStrides(device, strided);
  }
}

TEST_P(Pooling, ChunksOfPackedSequences) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"chunk_mean_pool", "chunk_mean_pool_backward"})
    for (std::int64_t chunk : {1, 4, 16, 50})
      for (const auto &bounds :
           {std::vector<std::int32_t>{0, 40}, {0, 0, 16, 17, 50, 50}, {0, 5, 5, 5, 37}, {0, 0, 0}})
        expectRight(device, packedCase(kernel, bounds, chunk));
  // More sequences than are looked at at once.
  std::vector<std::int32_t> bounds{0};
  for (int s = 0; s < 300; ++s)
    bounds.push_back(bounds.back() + s % 5);
  expectRight(device, packedCase("chunk_mean_pool", bounds, 3));
  expectRight(device, packedCase("chunk_mean_pool_backward", bounds, 3));
}

TEST_P(Pooling, PackedChunksAsWorkedOutByHand) {
  // [example]
  // Two sequences, of 3 and 1 positions, in chunks of 2: {1, 2}, {3} and {10}.
  const std::vector<float> values{1, 2, 3, 10};
  const std::vector<std::int32_t> ends{0, 3, 4};
  auto x = device.upload(values);
  auto bounds = device.upload(ends);
  auto out =
      sectile::run_kernel(device.stream(), "chunk_mean_pool",
                          {{"x", tensor(x, {1, 4, 1, 1})}, {"cu_seqlens", tensor(bounds, {3})}},
                          {{"chunk", "2"}, {"chunks", "3"}});
  device.synchronize();
  auto y = out.at("y").as<float, 4>(); // 1.5, 3, 10
  // [/example]
  EXPECT_EQ(Buffer<float>(y.memory()).download(), (std::vector<float>{1.5f, 3, 10}));
}

// Each element moves once, in whole sectors.
TEST(PoolingCounters, EachElementMovesOnce) {
  for (const char *target : {"virtual:sm_80", "virtual:sm_90a"})
    for (const char *kernel : {"mean_pool", "mean_pool_backward", "chunk_mean_pool"}) {
      SCOPED_TRACE(std::string(kernel) + " on " + target);
      const Device device = Device::open(target);
      const KernelCase test{kernel, {{"B", 1}, {"T", 256}, {"H", 2}, {"D", 128}}};
      KernelCase own = test;
      if (std::string_view(kernel) != "chunk_mean_pool")
        own.extents.erase("H");
      const Invocation call = resolveCase(own);
      auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
      machine.countAccesses();
      execute(device, call, completeConfig(call, device.target(), {}), sampleInputs(call, 1));
      const auto &counters = machine.lastCounters();
      const bool backward = std::string_view(kernel).ends_with("backward");
      const auto &large = backward ? counters.globalStore : counters.globalLoad;
      EXPECT_EQ(large.bytes, 256 * 128 * 4 * (own.extents.contains("H") ? 2u : 1u));
      EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
      EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
    }
}

TEST(PoolingReference, MeansByHand) {
  const Invocation call = resolveCase({"mean_pool", {{"B", 1}, {"T", 3}, {"D", 2}}, {}, {"mask"}});
  HostArray x(DType::float32, {1, 3, 2}, std::vector<double>{1, 2, 3, 4, 8, 9});
  HostArray mask(DType::boolean, {1, 3}, std::vector<double>{1, 0, 1});
  const std::vector<HostArray> inputs{x, mask};
  EXPECT_EQ(referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double(),
            (std::vector<double>{4.5, 5.5}));
}

TEST(PoolingReference, GradientsAreThoseOfTheMeans) {
  for (const auto &with : {std::vector<std::string>{}, std::vector<std::string>{"mask"}})
    expectGradients({"mean_pool", {{"T", 5}, {"D", 3}}, {}, with}, "mean_pool_backward");
  for (const char *chunk : {"1", "3", "64"})
    for (const auto &with : {std::vector<std::string>{}, std::vector<std::string>{"cu_seqlens"}})
      expectGradients({"chunk_mean_pool", {{"T", 10}, {"D", 3}}, {{"chunk", chunk}}, with},
                      "chunk_mean_pool_backward");
}

// A mask that is forgotten, a chunk that ends late: the harness must see it.
TEST(PoolingReference, PlantedBugsAreCaught) {
  const Invocation call = resolveCase({"mean_pool", {}, {}, {"mask"}});
  auto inputs = sampleInputs(call, 1);
  auto wrong = inputs;
  for (bool &kept : wrong[1].as<bool>())
    kept = true;
  HostArray output = referenceOutputs(call, wrong, Arithmetic::own)[0];
  EXPECT_FALSE(check(call, inputs, std::vector{output})[0].accuracy.ok());

  const Invocation packed = resolveCase({"chunk_mean_pool", {}, {{"chunk", "16"}}, {"cu_seqlens"}});
  inputs = sampleInputs(packed, 1);
  wrong = inputs;
  wrong[1].as<std::int32_t>()[1] += 1;
  output = referenceOutputs(packed, wrong, Arithmetic::own)[0];
  EXPECT_FALSE(check(packed, inputs, std::vector{output})[0].accuracy.ok());
}

TEST(PoolingErrors, SayWhatIsWrong) {
  EXPECT_THAT(refusalOf({"chunk_mean_pool", {}, {{"chunk", "0"}}}),
              testing::HasSubstr("at least 1"));
  EXPECT_THAT(refusalOf({"chunk_mean_pool", {{"B", 2}}, {}, {"cu_seqlens"}}),
              testing::HasSubstr("B must be 1"));
  EXPECT_THAT(refusalOf({"chunk_mean_pool", {}, {{"chunks", "3"}}}),
              testing::HasSubstr("goes with cu_seqlens"));
  EXPECT_THAT(refusalOf({"chunk_mean_pool_backward", {{"C", 7}}}),
              testing::HasSubstr("dy has 7 chunks, but x has 3"));

  const FilledCall packed = fill({"chunk_mean_pool",
                                  {{"T", 10}, {"N", 3}},
                                  {{"chunk", "4"}, {"chunks", "3"}},
                                  {"cu_seqlens"}});
  auto contents = [&](std::vector<double> bounds) -> std::string {
    auto inputs = packed.inputs;
    inputs[1].assign(bounds);
    try {
      checkContents(packed.call, inputs);
    } catch (const InputError &error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(contents({0, 4, 10}), "accepted");
  EXPECT_THAT(contents({0, 5, 10}), testing::HasSubstr("4 chunks, but there is room for 3"));
  EXPECT_THAT(contents({0, 4, 9}), testing::HasSubstr("must begin with 0 and end with 10"));
}
