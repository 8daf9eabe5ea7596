// That the language's fuzzer finds mistakes of the kinds that it looks for.
#include "tests/fuzz/language/Cases.h"
#include <gtest/gtest.h>

namespace sectile::fuzz {
namespace {

/// How many of the first schedules are found wrong.
unsigned found(Mistake mistake, const std::string &device = "virtual:sm_90a") {
  unsigned result = 0;
  for (uint64_t seed = 0; seed < 16; ++seed)
    result += explicitSchedule(seed, device, mistake).has_value();
  return result;
}

TEST(FuzzLanguage, SchedulesAreRight) { EXPECT_EQ(found(Mistake::None), 0u); }

TEST(FuzzLanguage, FindsSlotsHandedBackEarly) { EXPECT_GE(found(Mistake::ReleasesEarly), 2u); }

TEST(FuzzLanguage, FindsSlotsThatAreKept) { EXPECT_GE(found(Mistake::KeepsSlots), 2u); }

TEST(FuzzLanguage, FindsSlotsThatAreFilledTwice) {
  for (const char *device : {"virtual:sm_90a", "virtual:sm_80", "virtual:gfx942"})
    EXPECT_EQ(found(Mistake::FillsTwice, device), 16u) << device;
}

TEST(FuzzLanguage, CombinationsAreInOrder) {
  for (uint64_t seed = 0; seed < 24; ++seed)
    EXPECT_EQ(combiners(seed, seed % 2 ? "virtual:sm_90a" : "virtual:gfx942"), std::nullopt);
}

TEST(FuzzLanguage, ViewsAreReadAsWritten) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    EXPECT_EQ(views(seed, seed % 2 ? "virtual:sm_90a" : "virtual:gfx942"), std::nullopt);
}

TEST(FuzzLanguage, ControlFlowIsTheHosts) {
  for (uint64_t seed = 0; seed < 12; ++seed)
    EXPECT_EQ(controlFlow(seed, seed % 2 ? "virtual:sm_90a" : "virtual:gfx942"), std::nullopt);
}

TEST(FuzzLanguage, FindsOtherControlFlow) {
  for (int slip = 1; slip <= int(HostSlip::OtherBranchSkipped); ++slip) {
    unsigned wrong = 0;
    for (uint64_t seed = 0; seed < 30; ++seed)
      wrong += controlFlow(seed, "interpreter", HostSlip(slip)).has_value();
    EXPECT_GE(wrong, 2u) << "of slip " << slip;
  }
}

TEST(FuzzLanguage, FindsNamesThatAreNoSymbols) {
  unsigned wrong = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Draw draw(seed);
    wrong += faultOfEntry(".visible .entry " + someName(draw) + "(").has_value();
  }
  EXPECT_GE(wrong, 25u);
  EXPECT_FALSE(faultOfEntry(".visible .entry add_2d$1("));
}

} // namespace
} // namespace sectile::fuzz
