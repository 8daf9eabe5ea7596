// causal_conv1d, its gradients, and causal_conv1d_update with states in a pool: lengths about the
// taps, packed sequences, what comes before them, rows that are skipped, refusals.
#include "../VirtualTest.h"
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;

class CausalConv : public OnDevice {};
SECTILE_INSTANTIATE_ON(CausalConv, "virtual:sm_80,virtual:sm_90a");
class CausalConvElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(CausalConvElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

using Names = std::vector<std::string>;
const char *const forward = "causal_conv1d", *const backward = "causal_conv1d_backward",
                  *const update = "causal_conv1d_update";
const char *const kernels[] = {forward, backward, update};

Names allOf(const std::string &kernel) {
  if (kernel == update)
    return {"b", "indices"};
  if (kernel == backward)
    return {"b", "initial_state", "dfinal_state"};
  return {"b", "initial_state"};
}

// Of these boundaries.
KernelCase packed(const std::string &kernel, const std::vector<double> &bounds, Names with,
                  const std::string &dtype = "f16") {
  with.push_back("cu_seqlens");
  KernelCase test{kernel,
                  {{"T", static_cast<std::int64_t>(bounds.back())},
                   {"ends", static_cast<std::int64_t>(bounds.size())},
                   {"D", 9}},
                  {},
                  with,
                  dtype};
  if (kernel == update)
    test.extents["P"] = test.extents["ends"] + 3;
  test.prepare = [bounds](const Invocation &call, std::vector<HostArray> &inputs) {
    inputs[call.index("cu_seqlens")].assign(bounds);
  };
  return test;
}

} // namespace

TEST_P(CausalConv, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : kernels) {
    ++place;
    for (std::int64_t taps : {2, 3, 4}) {
      ++place;
      for (std::int64_t length : {0, 1, 2, 3, 4, 31, 32, 33})
        if (isAmongAThird(place++))
          expectRight(device,
                      {kernel, {{"B", 2}, {"T", length}, {"W", taps}}, {}, allOf(kernel), "bf16"});
      for (std::int64_t channels : {0, 1, 16, 129})
        if (isAmongAThird(place++))
          expectRight(device,
                      {kernel, {{"D", channels}, {"W", taps}, {"T", 5}}, {}, allOf(kernel)});
    }
  }
}

TEST_P(CausalConv, TakesEveryType) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels)
    for (const char *dtype : {"f16", "bf16", "f32"})
      for (const char *activation : {"silu", "none"})
        for (const Names &with : {Names{}, allOf(kernel)})
          expectRight(device, {kernel, {{"B", 2}}, {{"activation", activation}}, with, dtype});
}

// Sequences of no step, of fewer than a state has, that end with a tile, and many.
TEST_P(CausalConv, OfPackedSequences) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::vector<double> many{0};
  for (int s = 0; s < 200; ++s)
    many.push_back(many.back() + s % 3);
  std::size_t place = 0;
  for (const char *kernel : kernels)
    for (const std::vector<double> &bounds :
         std::vector<std::vector<double>>{{0}, {0, 0}, {0, 40}, {0, 1, 1, 3, 32, 64, 67}, many})
      for (const Names &with : {Names{}, allOf(kernel)})
        if (isAmongAThird(place++))
          expectRight(device, packed(kernel, bounds, with));
}

// Some programs have steps of one sequence alone, others the end of one.
TEST_P(CausalConv, OfAllConfigurations) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : kernels) {
    ++place;
    for (const auto &[steps, run, channels] : std::vector<std::array<std::int64_t, 3>>{
             {1, 1, 64}, {4, 1, 16}, {4, 4, 64}, {16, 4, 16}, {16, 8, 64}, {64, 16, 16}}) {
      if (!isAmongAThird(place++))
        continue;
      Config config{{"t", steps}, {"run", run}, {"d", channels}, {"warps", 2}};
      if (std::string(kernel) == backward)
        config["programs"] = 3;
      KernelCase test = packed(kernel, {0, 3, 20, 70}, allOf(kernel), "f32");
      test.extents["D"] = 70;
      test.config = config;
      expectRight(device, test);
      expectRight(device, {kernel, {{"B", 2}, {"T", 9}}, {}, allOf(kernel), "f32", config});
    }
  }
}

TEST_P(CausalConv, Strides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : kernels) {
    expectRightWithStrides(device, {kernel, {{"B", 2}}, {}, allOf(kernel)});
    expectRightWithStrides(device, packed(kernel, {0, 2, 9}, allOf(kernel)));
    expectRightWithStrides(device, {kernel, {}, {}, allOf(kernel), "f32"}, Spread::everywhere);
  }
}

TEST_P(CausalConvElsewhere, Works) {
  for (const char *kernel : kernels) {
    expectRight(device, {kernel, {{"B", 2}}, {}, allOf(kernel)});
    expectRight(device, packed(kernel, {0, 1, 9, 40}, allOf(kernel)));
  }
}

TEST_P(CausalConv, SumsOfIntegersAreExact) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {forward, backward}) {
    KernelCase test{kernel, {{"T", 70}}, {{"activation", "none"}}, allOf(kernel), "f16"};
    test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (!inputs[i].data.empty())
          fillIntegers(inputs[i], 2, i);
    };
    expectExact(device, test);
  }
}

// A NaN before or in a sequence reaches its next W - 1 steps, and no other sequence.
TEST_P(CausalConv, KeepsSequencesApart) {
  KernelCase test = packed(forward, {0, 6, 12}, {"initial_state"}, "f32");
  test.extents["D"] = 1;
  const auto bounds = test.prepare;
  test.prepare = [&](const Invocation &call, std::vector<HostArray> &inputs) {
    bounds(call, inputs);
    inputs[0].as<float>()[5] = NAN;
    inputs[call.index("initial_state")].as<float>()[2] = NAN; // the latest of the first sequence
  };
  const auto outputs = expectRight(device, test);
  const auto y = outputs[0].as<float>();
  for (std::size_t t = 0; t < y.size(); ++t)
    EXPECT_EQ(std::isnan(y[t]), t < 3 || t == 5) << t;
}

// Steps of one token, of several and of packed ones are those of a single call, bit for bit.
TEST_P(CausalConv, StepsAreThoseOfOneCall) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const std::int64_t length = 11, channels = 20;
  FilledCall whole = fill({forward, {{"T", length}, {"D", channels}}, {}, {"b"}, "f16"});
  const auto launched = [&](const FilledCall &filled) {
    return execute(device, filled.call, completeConfig(filled.call, device.target(), {}),
                   filled.inputs)
        .outputs;
  };
  const auto wanted = launched(whole);
  for (const std::vector<std::int64_t> &steps :
       std::vector<std::vector<std::int64_t>>{std::vector<std::int64_t>(11, 1), {2, 1, 4, 4}, {11}})
    for (bool isPacked : {false, true}) {
      HostArray state(DType::float16, {3, channels, 3});
      const auto row = static_cast<std::size_t>(channels) * 3;
      std::ranges::fill(state.as<half>(), half(7));
      std::fill_n(state.as<half>().begin() + static_cast<std::ptrdiff_t>(row), row, half(0));
      std::int64_t first = 0;
      for (const std::int64_t step : steps) {
        Names with{"b", "indices"};
        if (isPacked)
          with.push_back("cu_seqlens");
        FilledCall part =
            fill({update, {{"T", step}, {"D", channels}, {"P", 3}, {"ends", 2}}, {}, with, "f16"});
        const auto take = [&](const HostArray &from) {
          return from.as<half>().subspan(static_cast<std::size_t>(first * channels),
                                         static_cast<std::size_t>(step * channels));
        };
        std::ranges::copy(take(whole.inputs[0]), part.inputs[0].as<half>().begin());
        part.inputs[1] = whole.inputs[1];
        part.inputs[2] = whole.inputs[2];
        part.inputs[part.call.index("state")] = state;
        part.inputs[part.call.index("indices")].assign(std::vector<double>{1});
        if (isPacked)
          part.inputs[part.call.index("cu_seqlens")].assign(
              std::vector<double>{0, static_cast<double>(step)});
        const auto outputs = launched(part);
        const auto own = take(wanted[0]), got = outputs[0].as<half>();
        EXPECT_TRUE(std::ranges::equal(
            own, got, {}, [](half x) { return float(x); }, [](half x) { return float(x); }))
            << first;
        state = outputs[1];
        first += step;
      }
      const auto numbers = state.to_double(), last = wanted[1].to_double();
      for (std::size_t i = 0; i < numbers.size(); ++i)
        EXPECT_EQ(numbers[i], i / row == 1 ? last[i - row] : 7) << i;
    }
}

TEST_P(CausalConv, SkipsSequencesWithoutARow) {
  FilledCall filled = fill({update, {{"B", 3}, {"T", 2}, {"P", 4}}, {}, {"indices"}, "f32"});
  filled.inputs[filled.call.index("indices")].assign(std::vector<double>{-1, 3, -7});
  const auto outputs = expectRight(device, filled);
  const auto before = filled.inputs[filled.call.index("state")].to_double(),
             after = outputs[1].to_double(), y = outputs[0].to_double();
  for (std::size_t i = 0; i < 3 * 60; ++i) // three rows of the pool
    EXPECT_EQ(before[i], after[i]) << i;
  for (std::size_t i = 0; i < 40; ++i) {
    EXPECT_EQ(y[i], 0) << i;
    EXPECT_EQ(y[80 + i], 0) << i;
  }
}

TEST_P(CausalConv, HasGradients) {
  for (const char *activation : {"silu", "none"})
    for (std::int64_t taps : {2, 3, 4}) {
      expectGradients({forward,
                       {{"B", 2}, {"T", 5}, {"D", 3}, {"W", taps}},
                       {{"activation", activation}},
                       {"b", "initial_state"}},
                      backward);
      KernelCase test = packed(forward, {0, 1, 1, 3, 9}, {"b", "initial_state"}, "f32");
      test.extents["D"] = 2;
      test.extents["W"] = taps;
      expectGradients(test, backward);
    }
}

TEST_P(CausalConv, AnExample) {
  // [example]
  // Sums of each number and the one before it.
  const std::vector<float> numbers{1, 2, 3, 4}, ones{1, 1};
  auto x = device.upload(numbers), w = device.upload(ones);
  auto out = sectile::run_kernel(device.stream(), "causal_conv1d",
                                 {{"x", tensor(x, {1, 4, 1})}, {"w", tensor(w, {1, 2})}},
                                 {{"activation", "none"}});
  device.synchronize();
  auto y = out.at("y").as<float, 3>();              // 1, 3, 5, 7
  auto last = out.at("final_state").as<float, 3>(); // 4
  // [/example]
  EXPECT_THAT(y.download(), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(last.download(), ElementsAre(4));
}

TEST(CausalConvOnTheHost, Refusals) {
  const auto expectRefused = [](const KernelCase &test, const char *why) {
    try {
      fill(test);
      FAIL() << "not refused: " << why;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  for (const char *kernel : kernels) {
    expectRefused({kernel, {{"W", 1}}}, "must have 2, 3 or 4");
    expectRefused({kernel, {{"W", 5}}}, "w has 5 taps");
    expectRefused({kernel, {{"B", 2}}, {}, {"cu_seqlens"}}, "B must be 1, but is 2");
    expectRefused({kernel, {{"ends", 0}}, {}, {"cu_seqlens"}}, "has none");
    expectRefused({kernel, {{"ends", 1}}, {}, {"cu_seqlens"}}, "there is no sequence");
  }
  expectRefused({forward, {{"C", 2}}, {}, {"initial_state"}}, "a state has 2 inputs");
  expectRefused({forward, {{"N", 3}}, {}, {"initial_state"}}, "states of 3");
  expectRefused({update, {{"P", 2}, {"B", 3}}}, "2 rows for 3 sequences");

  const auto expectContents = [](const KernelCase &test, const char *input,
                                 const std::vector<double> &numbers, const char *why) {
    FilledCall filled = fill(test);
    filled.inputs[filled.call.index(input)].assign(numbers);
    try {
      filled.call.kernel->contents(filled.call, filled.inputs);
      FAIL() << "not refused: " << why;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  for (const char *kernel : kernels)
    expectContents({kernel, {{"ends", 3}, {"T", 5}}, {}, {"cu_seqlens"}}, "cu_seqlens", {0, 3, 4},
                   "end with 5");
  const KernelCase pool{update, {{"B", 3}, {"P", 4}}, {}, {"indices"}};
  expectContents(pool, "indices", {0, 4, -1}, "indices[1] is 4, but there are 4 rows");
  expectContents(pool, "indices", {2, 0, 2}, "indices[2] is 2, and so is that of sequence 0");
}
