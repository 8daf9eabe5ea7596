// embedding and embedding_backward.
#include "KernelTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(Embedding);
class EmbeddingOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(EmbeddingOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {
constexpr const char *kernels[] = {"embedding", "embedding_backward"};
} // namespace

TEST_P(Embedding, EveryType) {
  for (const char *kernel : kernels)
    for (const char *dtype : {"f32", "f16", "bf16"})
      expectRight(device, {kernel, {}, {}, {}, dtype});
}

TEST_P(Embedding, Scale) {
  for (const char *kernel : kernels)
    for (const char *dtype : {"f32", "f16", "bf16"})
      expectRight(device, {kernel, {}, {{"scale", "25.25"}}, {}, dtype});
}

TEST_P(EmbeddingOnChips, AnyShape) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels) {
    for (std::int64_t count : {0, 1, 33, 1025})
      expectRight(device, {kernel, {{"...", count}, {"V", 20}, {"H", 5}}});
    for (std::int64_t width : {0, 1, 31, 33})
      expectRight(device, {kernel, {{"...", 9}, {"H", width}}});
    for (std::int64_t rows : {1, 2, 255, 256, 257})
      expectRight(device, {kernel, {{"...", 40}, {"V", rows}, {"H", 4}}});
    expectRightWithStrides(device, {kernel, {{"...", 9}, {"H", 33}}});
  }
}

// Three digits of an index, and chunks of which each has some of every digit.
TEST_P(EmbeddingOnChips, ManyRowsAndIndices) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  expectRight(device, {"embedding_backward", {{"...", 2500}, {"V", 70000}, {"H", 1}}});
  expectRight(device, {"embedding_backward", {{"...", 2500}, {"V", 3}, {"H", 4}}, {}, {}, "f16"});
}

TEST_P(EmbeddingOnChips, IntegersAreExact) {
  for (const char *dtype : {"f32", "bf16"})
    expectExact(device,
                {.kernel = "embedding_backward",
                 .extents = {{"...", 100}, {"V", 30}, {"H", 20}},
                 .dtype = dtype,
                 .prepare = [](const Invocation &, auto &in) { fillIntegers(in[2], 3, 5); }});
}

TEST_P(EmbeddingOnChips, RowsThatAreNotThereAreReported) {
  for (const char *kernel : kernels)
    for (double index : {50.0, -1.0}) {
      const Invocation call = resolveCase({kernel, {{"...", 3}}});
      auto inputs = sampleInputs(call, 1);
      inputs[1].assign(std::vector<double>{0, index, 2});
      EXPECT_THROW(execute(device, call, completeConfig(call, device.target(), {}), inputs),
                   AssertionError);
    }
}

TEST(EmbeddingGradients, AgainstCentralDifferences) {
  for (const char *scale : {"1", "-3"})
    expectGradients({"embedding", {{"...", 12}, {"V", 5}, {"H", 3}}, {{"scale", scale}}},
                    "embedding_backward");
}

TEST(EmbeddingReference, ByHand) {
  const HostArray table(DType::float64, {3, 2}, std::vector<double>{1, 2, 3, 4, 5, 6});
  const HostArray indices(DType::int64, {3}, std::vector<double>{2, 0, 2});
  const HostArray dy(DType::float64, {3, 2}, std::vector<double>{1, 10, 2, 20, 4, 40});
  const std::map<std::string, std::int64_t> extents{{"...", 3}, {"V", 3}, {"H", 2}};
  EXPECT_EQ(referenceOutputs(resolveCase({"embedding", extents}), std::vector{table, indices},
                             Arithmetic::exact)[0]
                .to_double(),
            (std::vector<double>{5, 6, 1, 2, 5, 6}));
  EXPECT_EQ(referenceOutputs(resolveCase({"embedding_backward", extents}),
                             std::vector{table, indices, dy}, Arithmetic::exact)[0]
                .to_double(),
            (std::vector<double>{2, 20, 0, 0, 5, 50}));
  EXPECT_EQ(referenceOutputs(resolveCase({"embedding", extents, {{"scale", "3"}}}),
                             std::vector{table, indices}, Arithmetic::exact)[0]
                .to_double(),
            (std::vector<double>{15, 18, 3, 6, 15, 18}));
  EXPECT_EQ(referenceOutputs(resolveCase({"embedding_backward", extents, {{"scale", "3"}}}),
                             std::vector{table, indices, dy}, Arithmetic::exact)[0]
                .to_double(),
            (std::vector<double>{6, 60, 0, 0, 15, 150}));
}

// One row beside the right one; of places with one index the last alone.
TEST(EmbeddingJudge, PlantedMistakesAreSeen) {
  FilledCall right = fill({"embedding"}), wrong = right;
  const auto rows = right.call.extent("V");
  auto &index = wrong.inputs[1].as<std::int64_t>()[3];
  index = (index + 1) % rows;
  expectMistakeIsSeen(right, wrong);

  right = wrong = fill({"embedding_backward", {{"...", 40}, {"V", 5}}});
  const auto places = right.inputs[1].as<std::int64_t>();
  auto gradients = wrong.inputs[2].to_double();
  const std::size_t width = gradients.size() / places.size();
  for (std::size_t i = 0; i < places.size(); ++i)
    if (std::find(places.begin() + static_cast<std::ptrdiff_t>(i) + 1, places.end(), places[i]) !=
        places.end())
      std::fill_n(gradients.begin() + static_cast<std::ptrdiff_t>(i * width), width, 0.0);
  wrong.inputs[2].assign(gradients);
  expectMistakeIsSeen(right, wrong);
}
