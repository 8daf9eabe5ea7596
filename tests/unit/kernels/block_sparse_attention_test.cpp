// block_sparse_attention and its gradients: masks of all kinds, blocks beside their edges, and that
// what is absent is not read.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr std::size_t maskAt = 3;

/// Lengths in blocks of these sizes.
KernelCase sized(const char *kernel, std::int64_t queries, std::int64_t keys, int blockQ,
                 int blockK, bool causal = false, const char *dtype = "") {
  return {kernel,
          {{"Sq", queries},
           {"Sk", keys},
           {"Mq", (queries + blockQ - 1) / blockQ},
           {"Mk", (keys + blockK - 1) / blockK}},
          {{"block_q", std::to_string(blockQ)},
           {"block_k", std::to_string(blockK)},
           {"causal", causal ? "true" : "false"}},
          {},
          dtype};
}

/// present(row, column) of each head's blocks.
auto masked(std::function<bool(std::size_t, std::size_t)> present) {
  return [present](const Invocation &call, std::vector<HostArray> &inputs) {
    const auto rows = static_cast<std::size_t>(call.extent("Mq")),
               columns = static_cast<std::size_t>(call.extent("Mk"));
    auto mask = inputs[maskAt].as<bool>();
    for (std::size_t i = 0; i < mask.size(); ++i)
      mask[i] = present(i / columns % rows, i % columns);
  };
}

constexpr const char *forward = "block_sparse_attention",
                     *backward = "block_sparse_attention_backward";

/// The case; of the backward kernel on what the forward one leaves.
void expectRightOf(const Device &device, KernelCase test) {
  if (std::string(test.kernel) == backward)
    test.prepare = [before = test.prepare](const Invocation &call, std::vector<HostArray> &inputs) {
      if (before)
        before(call, inputs);
      std::map<std::string, GivenTensor> types;
      std::vector<HostArray> given;
      for (const ArgumentSpec &argument : findKernel(forward).arguments) {
        if (argument.output)
          continue;
        const std::size_t i = call.index(argument.name);
        given.push_back(inputs[i]);
        if (call.tensors[i].present)
          types[argument.name] = {call.tensors[i], ""};
      }
      Assignments options;
      for (const auto &[name, value] : call.options.values)
        if (!value.empty() && name != "unordered")
          options.emplace_back(name, value);
      const auto outputs =
          referenceOutputs(resolve(findKernel(forward), types, options), given, Arithmetic::exact);
      inputs[4].assign(outputs[0].to_double());
      inputs[5].assign(outputs[1].to_double());
    };
  expectRight(device, test);
}

class BlockSparse : public OnDevice {};
SECTILE_INSTANTIATE_ON(BlockSparse, "virtual:sm_80,virtual:sm_90a");
class BlockSparseEverywhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(BlockSparseEverywhere,
                       "interpreter,virtual:sm_80,virtual:gfx942,virtual:gfx1100");

TEST_P(BlockSparseEverywhere, IsRight) {
  for (const char *kernel : {forward, backward}) {
    expectRightOf(device, {kernel});
    expectRightOf(device, sized(kernel, 50, 90, 32, 16, true, "bf16"));
  }
}

TEST_P(BlockSparse, TakesAnyLengthsAndBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward}) {
    ++place;
    for (auto [queries, keys] : {std::pair{1, 1}, {63, 65}, {64, 64}, {65, 63}, {130, 1}, {1, 130}})
      for (bool causal : {false, true})
        if (isAmongAThird(place++))
          expectRightOf(device, sized(kernel, queries, keys, 64, 64, causal));
    expectRightOf(device, sized(kernel, 100, 120, 16, 48, true));
    expectRightOf(device, sized(kernel, 300, 260, 128, 256, false));
    expectRightOf(device, sized(kernel, 100, 90, 80, 32, true, "bf16"));
    expectRightOf(device, sized(kernel, 70, 50, 32, 16, false, "f32"));
    expectRightOf(device, sized(kernel, 0, 50, 32, 16));
    expectRightOf(device, sized(kernel, 50, 0, 32, 16));
  }
}

TEST_P(BlockSparse, MasksOfAllKinds) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward})
    for (bool causal : {false, true}) {
      KernelCase test = sized(kernel, 130, 150, 32, 32, causal);
      test.extents["Hq"] = 4;
      test.extents["Hkv"] = 2;
      test.prepare = masked([](auto, auto) { return true; });
      expectRightOf(device, test);
      test.prepare = masked([](std::size_t i, std::size_t j) { return i == j; });
      expectRightOf(device, test);
      // A row of blocks that sees none, a column that none sees.
      test.prepare = masked([](std::size_t i, std::size_t j) { return i != 1 && j != 2; });
      expectRightOf(device, test);
      test.prepare = nullptr;
      test.single = {"block_mask"};
      expectRightOf(device, test);
      test.options.emplace_back("layout", "bshd");
      test.options.emplace_back("scale", "0.5");
      expectRightOf(device, test);
    }
}

TEST_P(BlockSparse, RowsWithoutBlocksAreZero) {
  KernelCase test = sized("block_sparse_attention", 48, 48, 16, 16);
  test.prepare = masked([](std::size_t i, std::size_t) { return i == 1; });
  const auto outputs = expectRight(device, test);
  const auto o = outputs[0].to_double(), lse = outputs[1].to_double();
  for (std::size_t row = 0; row < lse.size(); ++row) {
    const bool sees = row % 48 / 16 == 1;
    EXPECT_EQ(lse[row] == -inf, !sees);
    if (!sees) {
      EXPECT_TRUE(std::all_of(o.begin() + static_cast<std::ptrdiff_t>(row * 32),
                              o.begin() + static_cast<std::ptrdiff_t>(row * 32 + 32),
                              [](double x) { return x == 0; }));
    }
  }
  // Of nothing at all there are gradients, of zeros.
  KernelCase none = sized("block_sparse_attention_backward", 48, 48, 16, 16);
  none.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    masked([](auto, auto) { return false; })(call, inputs);
    inputs[5].assign(std::vector<double>(static_cast<std::size_t>(inputs[5].count()), -inf));
  };
  for (const HostArray &gradient : expectRight(device, none))
    for (double value : gradient.to_double())
      ASSERT_EQ(value, 0);
}

// Attention's options inside the blocks of the mask, in any combination.
TEST_P(BlockSparse, OptionsHoldTogether) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::mt19937_64 random(11);
  auto pick = [&](std::vector<const char *> from) { return from[random() % from.size()]; };
  for (const char *kernel : {forward, backward})
    for (unsigned i = 0; i < count(6, 16); ++i) {
      const auto [queries, keys] =
          std::vector<std::pair<int, int>>{{70, 130}, {130, 70}, {97, 97}, {1, 200}}[random() % 4];
      const int blockQ = std::vector{16, 48, 64, 128}[random() % 4],
                blockK = std::vector{16, 32, 64, 128}[random() % 4];
      KernelCase test = sized(kernel, queries, keys, blockQ, blockK, random() % 2 == 0,
                              pick({"f16", "bf16", "f32"}));
      for (auto &&option : Assignments{{"window_left", pick({"-1", "0", "40"})},
                                       {"window_right", pick({"-1", "5", "90"})},
                                       {"softcap", pick({"0", "0", "1.5"})},
                                       {"dropout", pick({"0", "0", "0.3"})},
                                       {"seed", "7"},
                                       {"layout", pick({"bhsd", "bshd"})},
                                       {"precision", pick({"exact", "tf32"})}})
        test.options.push_back(option);
      test.extents.insert(
          {{"Hq", 4}, {"Hkv", 2}, {"D", 32}, {"Dv", random() % 2 ? 48 : 32}, {"R", 2}});
      for (const char *input : {"bias", "mask", "sinks"})
        if (random() % 2) {
          test.with.push_back(input);
          if (random() % 2)
            test.single.push_back(input);
        }
      if (random() % 2)
        test.single.push_back("block_mask");
      test.seed = 50 + i;
      std::string options;
      for (const auto &[name, value] : test.options)
        options += name + "=" + value + " ";
      SCOPED_TRACE(std::string(kernel) + " " + test.dtype + " " + options);
      expectRightOf(device, test);
    }
}

// Wide heads have tiles of their own, which blocks cut.
TEST_P(BlockSparse, TilesOfWideHeadsFitBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward})
    for (int width : {128, 192, 256})
      for (auto [blockQ, blockK] : {std::pair{128, 128}, {64, 64}, {32, 128}}) {
        KernelCase test = sized(kernel, 256, 300, blockQ, blockK, true, "f16");
        test.extents.insert({{"B", 1}, {"Hq", 1}, {"D", width}, {"Dv", width}});
        expectRightOf(device, test);
      }
}

// Sinks are there for rows that see no block.
TEST_P(BlockSparse, SinksOfRowsWithoutBlocks) {
  KernelCase test = sized(forward, 48, 48, 16, 16);
  test.extents["R"] = 1;
  test.with = {"sinks"};
  test.prepare = masked([](std::size_t i, std::size_t) { return i == 1; });
  for (const double lse : expectRight(device, test)[1].to_double())
    EXPECT_TRUE(std::isfinite(lse));
}

// All that a mask leaves out may be NaN.
TEST_P(BlockSparse, AbsentBlocksAreNotUsed) {
  KernelCase test = sized("block_sparse_attention", 64, 64, 32, 32);
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    masked([](std::size_t, std::size_t j) { return j == 1; })(call, inputs);
    for (std::size_t at : {1, 2}) {
      auto values = inputs[at].to_double();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (i / 32 % 64 < 32)
          values[i] = NAN;
      inputs[at].assign(values);
    }
  };
  for (double value : expectRight(device, test)[0].to_double())
    ASSERT_FALSE(std::isnan(value));
}

TEST_P(BlockSparse, TakesAnyWidthAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward}) {
    for (auto [width, dtype] : {std::pair{16, "f32"}, {17, "f16"}, {80, "bf16"}, {128, "f16"}}) {
      KernelCase test = sized(kernel, 70, 50, 32, 32, true, dtype);
      test.extents["D"] = test.extents["Dv"] = width;
      expectRightOf(device, test);
    }
    expectRightWithStrides(device, {kernel});
  }
  expectRightOf(device, {"block_sparse_attention", {{"D", 256}, {"Dv", 256}}, {}, {}, "bf16"});
}

// Scores of 0 over 64 keys: means of whole numbers, exact.
TEST_P(BlockSparse, WholeNumbersAreExact) {
  KernelCase test = sized("block_sparse_attention", 64, 128, 32, 32);
  test.prepare = [](const Invocation &call, std::vector<HostArray> &inputs) {
    masked([](std::size_t i, std::size_t j) { return (i + j) % 2 == 0; })(call, inputs);
    inputs[0].assign(std::vector<double>(static_cast<std::size_t>(inputs[0].count())));
    fillIntegers(inputs[2], 4, 3);
  };
  const Invocation call = resolveCase(test);
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  test.prepare(call, inputs);
  EXPECT_EQ(expectRight(device, test)[0].to_double(),
            referenceOutputs(call, inputs, Arithmetic::exact)[0].to_double());
}

TEST(BlockSparseGradients, AgreeWithDifferences) {
  for (bool causal : {false, true})
    for (const char *layout : {"bhsd", "bshd"})
      for (bool single : {false, true}) {
        KernelCase test = sized("block_sparse_attention", 40, 50, 16, 32, causal);
        test.options.insert(test.options.end(), {{"layout", layout}, {"scale", "0.3"}});
        if (single)
          test.single = {"block_mask"};
        expectGradients(test, "block_sparse_attention_backward");
      }
  KernelCase all = sized("block_sparse_attention", 40, 50, 16, 32, false);
  all.options.insert(all.options.end(), {{"softcap", "1.5"}, {"window_left", "30"}});
  all.extents.insert({{"Dv", 48}, {"R", 2}});
  all.with = {"bias", "mask", "sinks"};
  expectGradients(all, "block_sparse_attention_backward");
}

// A mask of blocks is a mask of elements, and attention with one has tests of its own.
TEST(BlockSparseReference, AgreesWithAttention) {
  for (bool causal : {false, true}) {
    const Invocation call = resolveCase(sized("block_sparse_attention", 70, 90, 16, 32, causal));
    const std::vector<HostArray> inputs = sampleInputs(call, 4);
    const auto sparse = referenceOutputs(call, inputs, Arithmetic::exact);
    HostArray mask(DType::boolean, {2, 2, 70, 90});
    for (std::size_t i = 0; i < 2 * 2 * 70 * 90; ++i)
      mask.as<bool>()[i] =
          inputs[maskAt].as<bool>()[(i / 6300 * 5 + i / 90 % 70 / 16) * 3 + i % 90 / 32];
    const auto whole = attentionReference(inputs[0], inputs[1], inputs[2],
                                          {.causal = causal, .mask = &mask}, Arithmetic::exact);
    const auto o = sparse[0].to_double(), lse = sparse[1].to_double(), wholeO = whole.o.to_double(),
               wholeLse = whole.lse.to_double();
    for (std::size_t i = 0; i < o.size(); ++i)
      ASSERT_NEAR(o[i], wholeO[i], 1e-12);
    for (std::size_t i = 0; i < lse.size(); ++i)
      if (std::isfinite(wholeLse[i])) {
        ASSERT_NEAR(lse[i], wholeLse[i], 1e-12);
      } else {
        ASSERT_EQ(lse[i], -inf);
      }
  }
}

// One block too many, one too few, the mask of another head: none passes.
TEST(BlockSparseReference, PlantedMistakesAreSeen) {
  const Invocation call = resolveCase(sized("block_sparse_attention", 64, 64, 16, 16));
  const std::vector<HostArray> inputs = sampleInputs(call, 1);
  auto expectSeen = [&](const std::vector<HostArray> &with, bool seen) {
    auto outputs = referenceOutputs(call, with, Arithmetic::exact);
    outputs = {HostArray(DType::float16, outputs[0].shape, outputs[0].to_double()),
               HostArray(DType::float32, outputs[1].shape, outputs[1].to_double())};
    for (const Verdict &verdict : check(call, inputs, outputs))
      EXPECT_EQ(!verdict.accuracy.ok(), seen) << verdict.output;
  };
  expectSeen(inputs, false);
  for (std::size_t block : {0, 5, 63}) {
    auto wrong = inputs;
    bool &present = wrong[maskAt].as<bool>()[block];
    present = !present;
    expectSeen(wrong, true);
  }
  auto wrong = inputs;
  std::rotate(wrong[maskAt].data.begin(), wrong[maskAt].data.begin() + 16,
              wrong[maskAt].data.end());
  expectSeen(wrong, true);
}

TEST(BlockSparseErrors, SayWhatIsWrong) {
  using testing::HasSubstr;
  EXPECT_THAT(refusalOf({"block_sparse_attention", {{"Mq", 2}}}),
              HasSubstr("150 of them in blocks of 64 are 3"));
  EXPECT_THAT(refusalOf({"block_sparse_attention", {}, {{"block_k", "40"}}}),
              HasSubstr("a multiple of 16 up to 1024"));
  EXPECT_THAT(refusalOf({"block_sparse_attention", {}, {{"block_q", "0"}}}),
              HasSubstr("a multiple of 16 up to 1024"));
}

TEST(BlockSparseErrors, TilesMustDivideBlocks) {
  const Device device = Device::open("virtual:sm_80");
  KernelCase test = sized("block_sparse_attention", 64, 64, 16, 48);
  for (const char *field : {"m", "n"}) {
    test.config = {{field, 32}};
    try {
      expectRight(device, test);
      ADD_FAILURE() << "accepted";
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("(32) must divide block_"));
    }
  }
}

} // namespace
