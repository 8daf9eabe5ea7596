// Artifacts survive the way through bytes, and no damage to the bytes goes unseen.
#include "runtime/Artifact.h"
#include <gtest/gtest.h>

using namespace sectile;

static Artifact example() {
  Artifact artifact;
  artifact.target = "sm_90a";
  artifact.kind = "ptx";
  artifact.entry = "matmul";
  artifact.bytes = std::string("code\0with a zero", 16);
  artifact.plan.threads = 256;
  artifact.plan.sharedBytes = 98304;
  artifact.plan.arguments = {{16}, {1, 0, 1023}, {1, 1, 1}, {.distinct = 2}};
  artifact.plan.firstTensorMap = 4;
  artifact.plan.cluster = 2;
  artifact.plan.wait = WaitPoint::ByHand;
  TensorMapPlan map;
  map.elementBytes = 2;
  map.swizzle = 128;
  map.extents = {{-1, 64, 40}, {1, 32}};
  map.strides = {{2, 64}};
  map.box = {64, 128};
  TensorMapPlan added = map;
  added.number = TensorNumber::BFloat;
  added.isWritten = true;
  added.strides = {{2, 64, 5, -1}};
  artifact.plan.tensorMaps = {map, added};
  artifact.remarks = {{"matmul.cpp", 12, "a hint has no effect: flatten", 3}, {"", 0, "slow", -1}};
  return artifact;
}

TEST(Artifact, SurvivesTheWayThroughBytes) {
  std::optional<Artifact> back = deserialize(serialize(example()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bytes, example().bytes);
  EXPECT_EQ(back->entry, "matmul");
  EXPECT_EQ(back->plan.threads, 256u);
  EXPECT_EQ(back->plan.sharedBytes, 98304u);
  EXPECT_EQ(back->plan, example().plan);
  EXPECT_EQ(back->remarks, example().remarks);
  EXPECT_EQ(serialize(*back), serialize(example()));
}

TEST(Artifact, EveryCutAndEveryFlippedBitIsSeen) {
  const std::string bytes = serialize(example());
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(deserialize(std::string_view(bytes).substr(0, size))) << size;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(deserialize(damaged)) << bit;
  }
  EXPECT_FALSE(deserialize(bytes + "more"));
}

TEST(Artifact, AnUnknownWaitIsNone) {
  Artifact unknown = example();
  unknown.plan.wait = static_cast<WaitPoint>(3);
  EXPECT_FALSE(deserialize(serialize(unknown)));
}

TEST(TensorMapPlan, TakesItsNumbersFromArguments) {
  const TensorMapPlan plan = example().plan.tensorMaps.front();
  auto values = [&](uint64_t address, uint64_t rows, uint64_t stride) {
    void *arguments[] = {&address, &rows, &stride};
    return valuesOf(plan, arguments);
  };
  // The rows have 32 bits; what the word has beyond them is nobody's.
  const TensorMapValues map = values(0x1000, 0xdead00000007, 48);
  EXPECT_EQ(map.address, 0x1000u);
  EXPECT_EQ(map.rank, 2u);
  EXPECT_EQ(map.elementBytes, 2u);
  EXPECT_EQ(map.swizzle, 128u);
  EXPECT_EQ(map.extents[0], 40u);
  EXPECT_EQ(map.extents[1], 7u);
  EXPECT_EQ(map.strides[0], 96u);
  EXPECT_EQ(map.box[0], 64u);
  EXPECT_EQ(map.box[1], 128u);
  EXPECT_FALSE(map.isEmpty());
  EXPECT_TRUE(values(0x1000, 0, 48).isEmpty());
  EXPECT_TRUE(values(0x1000, 0xffffffff, 48).isEmpty()) << "less than none";
}

TEST(TensorMapPlan, TakesMultiplesFromConstants) {
  TensorMapPlan plan = example().plan.tensorMaps.front();
  plan.strides = {{2, 32, 1000, -3}};
  uint64_t address = 0x1000, rows = 7, stride = 48;
  void *arguments[] = {&address, &rows, &stride};
  EXPECT_EQ(valuesOf(plan, arguments).strides[0], 2u * (1000 - 3 * 48));
}

TEST(LaunchPlan, SaysWhichFactDoesNotHold) {
  const LaunchPlan plan = example().plan;
  auto broken = [&](std::vector<uint64_t> arguments) { return brokenFact(plan, arguments); };
  EXPECT_EQ(broken({32, 1023, 1, 7, 4, 8, 8, 1}), "");
  EXPECT_EQ(broken({32, 1023, 1, 7, 4, 8, 7, 1}), "elements of the view at argument 3 overlap");
  EXPECT_EQ(broken({17, 0, 1, 7}), "argument 0 is 17, no multiple of 16");
  EXPECT_EQ(broken({0, 1024, 1, 7}), "argument 1 is 1024, not from 0 to 1023");
  EXPECT_EQ(broken({0, ~uint64_t(0), 1, 7}), "argument 1 is -1, not from 0 to 1023");
  EXPECT_EQ(broken({0, 0, 2, 7}), "argument 2 is 2, not from 1 to 1");
  EXPECT_EQ(broken({0, 0, 1}), "argument 3 is missing");
  EXPECT_EQ(brokenFact({}, {}), "");
}
