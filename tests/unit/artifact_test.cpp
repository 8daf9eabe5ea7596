// Artifacts survive the way through bytes, and no damage to the bytes goes unseen.
#include "codegen/Artifact.h"
#include <gtest/gtest.h>

using namespace sectile;

static Artifact example() {
  Artifact artifact;
  artifact.target = "sm_90a";
  artifact.kind = "ptx";
  artifact.entry = "matmul";
  artifact.bytes = std::string("code\0with a zero", 16);
  artifact.threads = 256;
  artifact.sharedBytes = 98304;
  return artifact;
}

TEST(Artifact, SurvivesTheWayThroughBytes) {
  std::optional<Artifact> back = deserialize(serialize(example()));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->bytes, example().bytes);
  EXPECT_EQ(back->entry, "matmul");
  EXPECT_EQ(back->threads, 256u);
  EXPECT_EQ(back->sharedBytes, 98304u);
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
