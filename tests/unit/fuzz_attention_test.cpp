// That attention's fuzzer finds a device that computes another score, or sees other keys, than the
// reference.
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/attention/Case.h"
#include "tests/fuzz/attention/Terms.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace sectile::fuzz {
namespace {

/// How many of the first calls are found wrong.
unsigned found(Spoilt spoilt) {
  ::setenv("SECTILE_CACHE_DIR", "", 1);
  Limits limits;
  limits.bytes = RLIM_INFINITY; // devices reserve addresses
  unsigned result = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    if (const auto finding =
            runOnce([&] { return attentionCase(seed, "virtual:sm_80", spoilt); }, limits)) {
      ++result;
      EXPECT_EQ(finding->what.find("wrong:"), 0u) << finding->what;
    }
  return result;
}

TEST(FuzzAttention, CallsAreRight) { EXPECT_EQ(found(Spoilt::Nothing), 0u); }

TEST(FuzzAttention, FindsScoresOfWhichANodeIsAnother) { EXPECT_GE(found(Spoilt::Score), 5u); }

TEST(FuzzAttention, FindsVisibilitiesOfWhichANodeIsAnother) { EXPECT_GE(found(Spoilt::Sight), 4u); }

// What one order of operations cancels out, another does not: by the magnitude of the summands, of
// which the exact result tells nothing.
TEST(FuzzAttention, RoundsEachStepOfATerm) {
  const ScoreTerm difference{
      {.op = ScoreOp::Score}, {.op = ScoreOp::Score}, {.op = ScoreOp::Minus, .a = 0, .b = 1}};
  const Pair pair{0, 0, 3, 5, -2};
  const auto slope = [&](std::optional<uint64_t> rounding) {
    return double(evaluate<float>(difference, {}, 3.0f, pair, rounding).slopes[0]);
  };
  EXPECT_EQ(slope({}), 0);
  double largest = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    largest = std::max(largest, std::fabs(slope(seed)));
  EXPECT_GT(largest, 0x1p-23);
  EXPECT_LE(largest, 0x1p-21);
}

} // namespace
} // namespace sectile::fuzz
