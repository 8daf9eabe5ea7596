// rms_norm_gated and its gradients: edges, long rows, either order of norm and gate, NaN.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class RmsNormGated : public OnDevice {};
SECTILE_INSTANTIATE_ON(RmsNormGated, "virtual:sm_80,virtual:sm_90a");
class RmsNormGatedElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(RmsNormGatedElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

const char *const forward = "rms_norm_gated", *const backward = "rms_norm_gated_backward";

// Calls function(case) of both kernels, gates and orders.
template <class Function>
void forAll(std::int64_t rows, std::int64_t n, const std::string &dtype, Function &&function) {
  for (const char *kernel : {forward, backward})
    for (const char *activation : {"silu", "sigmoid"})
      for (const char *first : {"true", "false"})
        function(KernelCase{kernel,
                            {{"...", rows}, {"N", n}},
                            {{"activation", activation}, {"norm_before_gate", first}},
                            {"w"},
                            dtype});
}

} // namespace

TEST_P(RmsNormGated, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t n : {0, 1, 31, 128, 1000})
    for (std::int64_t rows : {0, 1, 7})
      forAll(rows, n, "bf16", [&](const KernelCase &test) { expectRight(device, test); });
}

TEST_P(RmsNormGated, TakesEveryType) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f32", "f16", "bf16"})
    for (const std::vector<std::string> &with :
         {std::vector<std::string>{}, std::vector<std::string>{"w"}})
      forAll(9, 300, dtype, [&](KernelCase test) {
        test.with = with;
        expectRight(device, test);
      });
}

TEST_P(RmsNormGated, OfLongRows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  forAll(2, 20001, "f16", [&](const KernelCase &test) { expectRight(device, test); });
  forAll(3, 700, "f32", [&](KernelCase test) {
    test.config = {{"block", 128}, {"rows", 2}, {"warps", 2}};
    expectRight(device, test);
  });
}

TEST_P(RmsNormGated, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  forAll(4, 130, "f16", [&](const KernelCase &test) { expectRightWithStrides(device, test); });
}

TEST_P(RmsNormGatedElsewhere, Works) {
  forAll(5, 300, "f16", [&](const KernelCase &test) { expectRight(device, test); });
}

// Of powers of two nothing is rounded but the root and the gate.
TEST_P(RmsNormGated, IsTheNormTimesTheGate) {
  FilledCall filled =
      fill({forward, {{"...", 4}, {"N", 64}}, {{"activation", "sigmoid"}}, {"w"}, "f32"});
  filled.inputs[1].assign(std::vector<double>(256, 0)); // the gate is 1/2
  const auto gated = expectRight(device, filled);
  FilledCall plain = fill({"rms_norm", {{"...", 4}, {"N", 64}}, {}, {"w"}, "f32"});
  plain.inputs[0] = filled.inputs[0];
  plain.inputs[1] = filled.inputs[2];
  const auto normed = expectRight(device, plain);
  const auto half = gated[0].to_double(), whole = normed[0].to_double();
  for (std::size_t i = 0; i < half.size(); ++i)
    EXPECT_NEAR(2 * half[i], whole[i], 1e-6) << i;
}

// One in z reaches its own element, or where the gate comes first its row; one in x its row.
TEST_P(RmsNormGated, KeepsNanToItself) {
  for (const char *first : {"true", "false"})
    for (std::size_t input : {0u, 1u}) {
      FilledCall filled =
          fill({forward, {{"...", 3}, {"N", 40}}, {{"norm_before_gate", first}}, {"w"}, "f32"});
      filled.inputs[input].as<float>()[47] = NAN;
      const auto outputs = expectRight(device, filled);
      const auto y = outputs[0].as<float>();
      const bool own = input == 1 && std::string(first) == "true";
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_EQ(std::isnan(y[i]), own ? i == 47 : i / 40 == 1) << i;
    }
}

TEST_P(RmsNormGated, HasGradients) {
  for (const char *activation : {"silu", "sigmoid"})
    for (const char *first : {"true", "false"})
      for (const std::vector<std::string> &with :
           {std::vector<std::string>{}, std::vector<std::string>{"w"}})
        expectGradients({forward,
                         {{"...", 3}, {"N", 9}},
                         {{"activation", activation}, {"norm_before_gate", first}},
                         with},
                        backward);
}

TEST(RmsNormGatedOnTheHost, Refusals) {
  try {
    fill({forward, {}, {{"eps", "-1"}}});
    FAIL() << "not refused";
  } catch (const InputError &error) {
    EXPECT_THAT(error.what(), HasSubstr("'eps' is -1, but must be at least 0"));
  }
}
