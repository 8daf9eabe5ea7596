// Tests and SECTILE_LOOP_PLANS=0, with which the whole suite may be run, too.
#pragma once
#include "runtime/Environment.h"
#include <cstdlib>
#include <gtest/gtest.h>

namespace sectile {

/// Whether loops are compiled with plans: without them there is nothing of theirs to see in the
/// code.
inline bool loopPlans() { return runtime::isSet("SECTILE_LOOP_PLANS", true); }

/// For a test that looks at them.
#define SECTILE_NEEDS_LOOP_PLANS()                                                                 \
  if (!sectile::loopPlans())                                                                       \
  GTEST_SKIP() << "is about what plans make of loops"

/// Has plans, whatever the environment says: for programs whose tests are about plans throughout.
/// The variable is read once, so it is set where constants of the program are.
inline bool alwaysWithLoopPlans() { return setenv("SECTILE_LOOP_PLANS", "1", 1) == 0; }

} // namespace sectile
