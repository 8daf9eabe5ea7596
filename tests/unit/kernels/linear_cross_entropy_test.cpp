// linear_cross_entropy: chunks, options, targets that are ignored, the same as its parts, gradients
// against differences, and refusals.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

class LinearCrossEntropy : public OnDevice {};
SECTILE_INSTANTIATE_ON(LinearCrossEntropy, "virtual:sm_80,virtual:sm_90a");
class LinearCrossEntropyElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(LinearCrossEntropyElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

KernelCase lossOf(std::int64_t n, std::int64_t v, std::int64_t h, Assignments options = {},
                  std::vector<std::string> with = {}, const char *dtype = "f16") {
  return {"linear_cross_entropy",
          {{"N", n}, {"V", v}, {"H", h}},
          std::move(options),
          std::move(with),
          dtype};
}
KernelCase inChunks(KernelCase test, std::int64_t chunk) {
  test.config = {{"chunk", chunk}, {"block", 128}, {"warps", 1}};
  return test;
}
std::vector<HostArray> run(const Device &device, const FilledCall &filled) {
  return execute(device, filled.call, completeConfig(filled.call, device.target(), {}),
                 filled.inputs)
      .outputs;
}
/// All targets are ignored.
void ignoreAll(const Invocation &call, std::vector<HostArray> &inputs) {
  inputs[2].assign(std::vector<double>(static_cast<std::size_t>(inputs[2].count()),
                                       static_cast<double>(call.options.integer("ignore_index"))));
}

} // namespace

TEST_P(LinearCrossEntropy, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (std::int64_t v : {1, 2, 33, 128, 129, 400})
    expectRight(device, inChunks(lossOf(9, v, 24), 4));
  for (std::int64_t h : {0, 1, 33, 200})
    expectRight(device, lossOf(9, 50, h));
  for (std::int64_t n : {1, 7, 8, 9, 40})
    expectRight(device, inChunks(lossOf(n, 70, 24), 8));
  expectRight(device, lossOf(0, 50, 16, {{"gradients", "false"}}));
}

TEST_P(LinearCrossEntropy, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *dtype : {"f16", "bf16", "f32"})
    for (const char *reduction : {"mean", "sum", "none"})
      for (const char *accumulate : {"f32", "same"})
        expectRight(device, inChunks(lossOf(11, 90, 40,
                                            {{"reduction", reduction},
                                             {"accumulate", accumulate},
                                             {"label_smoothing", "0.1"},
                                             {"lse_square", "0.01"},
                                             {"softcap", "2"},
                                             {"scale", "0.5"}},
                                            {}, dtype),
                                     4));
  for (const char *dtype : {"f16", "f32"})
    for (const char *accumulate : {"f32", "same"})
      expectRight(device, inChunks(lossOf(11, 90, 40,
                                          {{"accumulate", accumulate},
                                           {"label_smoothing", "0.1"},
                                           {"softcap", "2"},
                                           {"scale", "0.5"}},
                                          {"bias"}, dtype),
                                   4));
  expectRight(device, lossOf(11, 90, 40, {{"gradients", "false"}}, {"bias"}));
  expectRight(device, lossOf(40, 90, 40, {{"reduction", "none"}}, {"dloss", "bias"}));
  for (const char *smoothing : {"0", "0.1"})
    for (const char *reduction : {"mean", "sum", "none"})
      expectRight(device, inChunks(lossOf(11, 90, 40,
                                          {{"reduction", reduction},
                                           {"label_smoothing", smoothing},
                                           {"lse_square", "0.01"},
                                           {"softcap", "2"},
                                           {"argmax", "true"}},
                                          {"bias", "class_weights"}),
                                   4));
  for (const char *targets : {"f16,targets=i32", "f16,targets=i64"})
    for (const char *reduction : {"none", "mean"})
      expectRight(device, lossOf(11, 90, 40, {{"reduction", reduction}}, {"dloss"}, targets));
  expectRight(device, lossOf(11, 90, 40, {{"precision", "exact"}}, {}, "f32"));
  expectRight(device, lossOf(11, 90, 40, {{"gradients", "false"}}));
  expectRightWithStrides(device, inChunks(lossOf(11, 90, 40), 4));
}

TEST_P(LinearCrossEntropy, MeanOverNoTargets) {
  for (const auto &[empty, with] :
       std::initializer_list<std::pair<const char *, std::vector<std::string>>>{
           {"zero", {}}, {"nan", {}}, {"zero", {"class_weights"}}, {"nan", {"class_weights"}}}) {
    KernelCase test = lossOf(5, 40, 16, {{"empty", empty}}, with);
    test.prepare = ignoreAll;
    const auto outputs = expectRight(device, test);
    const double loss = outputs[0].to_double()[0];
    EXPECT_TRUE(std::string(empty) == "nan" ? std::isnan(loss) : loss == 0);
    for (const std::size_t gradient : {3, 4})
      for (const double value : outputs[gradient].to_double())
        EXPECT_EQ(value, 0);
  }
}

// Of equal operands the loss is that of cross_entropy on the product's logits, in f32.
TEST_P(LinearCrossEntropy, IsItsParts) {
  const FilledCall whole = fill(lossOf(9, 50, 16, {{"precision", "exact"}}, {}, "f32,targets=i64"));
  const auto outputs = run(device, whole);
  FilledCall product = fill({"matmul",
                             {{"M", 9}, {"N", 50}, {"K", 16}},
                             {{"trans_b", "true"}, {"precision", "exact"}},
                             {},
                             "f32"});
  product.inputs[0] = whole.inputs[0];
  product.inputs[1] = whole.inputs[1];
  FilledCall loss = fill({"cross_entropy", {{"...", 9}, {"V", 50}}, {}, {}, "f32,targets=i64"});
  loss.inputs[0] = run(device, product)[0];
  loss.inputs[1] = whole.inputs[2];
  const auto wanted = run(device, loss);
  EXPECT_NEAR(outputs[0].to_double()[0], wanted[0].to_double()[0], 1e-5);
  const auto lse = outputs[1].to_double(), wantedLse = wanted[1].to_double();
  for (std::size_t i = 0; i < lse.size(); ++i)
    EXPECT_NEAR(lse[i], wantedLse[i], 1e-5);
}

// The reference's gradients against central differences of its loss.
TEST(LinearCrossEntropyReference, HasTheGradientsOfItsLoss) {
  for (const Assignments &options : std::vector<Assignments>{
           {},
           {{"reduction", "sum"}, {"label_smoothing", "0.1"}, {"lse_square", "0.01"}},
           {{"softcap", "2"}, {"scale", "0.5"}}}) {
    const FilledCall filled = fill(lossOf(4, 7, 5, options, {"bias", "class_weights"}, "f32"));
    const auto exact = referenceOutputs(filled.call, filled.inputs, Arithmetic::exact);
    for (const auto &[input, output] : {std::pair(0, 3), {1, 4}, {4, 5}}) {
      const auto gradient = exact[static_cast<std::size_t>(output)].to_double();
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const auto lossAt = [&](double step) {
          auto inputs = filled.inputs;
          HostArray &changed = inputs[static_cast<std::size_t>(input)];
          auto values = changed.to_double();
          values[i] += step;
          changed = HostArray(DType::float64, changed.shape, values);
          return referenceOutputs(filled.call, inputs, Arithmetic::exact)[0].to_double()[0];
        };
        EXPECT_NEAR((lossAt(1e-5) - lossAt(-1e-5)) / 2e-5, gradient[i], 1e-7);
      }
    }
  }
}

TEST_P(LinearCrossEntropyElsewhere, IsRight) {
  expectRight(
      device,
      inChunks(lossOf(11, 90, 40, {{"softcap", "2"}, {"argmax", "true"}}, {"class_weights"}), 4));
  expectRight(device, lossOf(11, 90, 40, {{"reduction", "none"}}, {"dloss", "bias"}, "f32"));
}

TEST(LinearCrossEntropyErrors, SayWhatWouldDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      resolveCase(test);
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expectRefused(lossOf(3, 0, 4), "there are targets, but w has no classes");
  expectRefused(lossOf(0, 5, 4), "there are no rows, so that dw would not be written");
  expectRefused(lossOf(3, 5, 4, {{"label_smoothing", "1.5"}}), "'label_smoothing' is 1.5");
  expectRefused(lossOf(3, 5, 4, {{"softcap", "-1"}}), "'softcap' is -1, but must be at least 0");
}
