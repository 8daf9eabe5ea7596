// ring_attention by one process: slices of all lengths, and its arithmetic against attention's.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

class RingAttention : public OnDevice {};
SECTILE_INSTANTIATE_ON(RingAttention, "interpreter,virtual:sm_80,virtual:sm_90a");

Assignments slices(int count, bool causal) {
  return {{"slices", std::to_string(count)}, {"causal", causal ? "true" : "false"}};
}

TEST_P(RingAttention, OfAnySlices) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"ring_attention", "ring_attention_backward"})
    for (bool causal : {false, true}) {
      for (int count : {1, 3})
        expectRight(device, {kernel, {}, slices(count, causal)});
      // Some processes have one key, or none.
      expectRight(device, {kernel, {{"Sq", 5}, {"Sk", 5}}, slices(4, causal), {}, "bf16"});
      expectRight(device,
                  {kernel, {{"Sq", 1}, {"Sk", 1}, {"D", 17}}, slices(2, causal), {}, "f32"});
    }
  expectRight(device, {"ring_attention", {{"Sq", 3}, {"Sk", 70}, {"Dv", 48}}, slices(5, false)});
}

TEST_P(RingAttention, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"ring_attention", "ring_attention_backward"})
    expectRightWithStrides(device, {kernel, {}, slices(3, true)});
}

TEST(RingAttentionReference, GradientsAreDerivatives) {
  for (bool causal : {false, true})
    expectGradients({"ring_attention", {}, slices(3, causal)}, "ring_attention_backward");
}

// As a ring does that forgets whose keys it holds: what lies ahead in the sequence is seen.
TEST(RingAttentionJudge, PlantedMistakesAreSeen) {
  for (const char *kernel : {"ring_attention", "ring_attention_backward"}) {
    FilledCall right = fill({kernel, {}, slices(3, true)}),
               wrong = fill({kernel, {}, slices(3, false)});
    wrong.inputs = right.inputs;
    expectMistakeIsSeen(right, wrong);
  }
}

TEST(RingAttentionErrors, SayWhatIsWrong) {
  EXPECT_THROW(resolveCase({"ring_attention", {}, {{"slices", "0"}}}), InputError);
  EXPECT_THROW(resolveCase({"ring_attention", {{"Sq", 4}, {"Sk", 5}}, {{"causal", "true"}}}),
               InputError);
  EXPECT_THROW(resolveCase({"ring_attention", {{"D", 8}}}), InputError);
}

} // namespace
