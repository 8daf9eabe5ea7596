// That attention's fuzzer finds a device that computes another score, or sees other keys, than the
// reference.
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/attention/Case.h"
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

} // namespace
} // namespace sectile::fuzz
