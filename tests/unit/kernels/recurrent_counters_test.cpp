// What the recurrent kernels move, by the virtual GPU's counters.
#include "CountersTest.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class RecurrentCounters : public CountersTest {};
SECTILE_INSTANTIATE_ON(RecurrentCounters, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

// Two programs with half of the batch each; all of H in one of them.
constexpr std::uint64_t steps = 6, batch = 32, inputs = 64, h = 64, programs = 2, half16 = 2,
                        single = 4;

struct Network {
  const char *name;
  std::uint64_t gates, slots, memory;
};
constexpr Network networks[] = {{"rnn", 1, 1, 0}, {"gru", 3, 4, 0}, {"lstm", 4, 5, 1}};

KernelCase caseOf(const Network &network, const char *suffix = "") {
  KernelCase test{network.name + std::string(suffix),
                  {{"T", steps}, {"B", batch}, {"I", inputs}, {"H", h}, {"...", 1}}};
  test.dtype = "f16";
  return test;
}

} // namespace

// The product over all steps: x once for each tile of columns, w_ih once for each of rows.
TEST_P(RecurrentCounters, InputsEnterAllGatesAtOnce) {
  for (const Network &network : networks) {
    SCOPED_TRACE(network.name);
    const Counters counters = count(caseOf(network), "recurrent_products");
    const std::uint64_t rows = steps * batch, columns = network.gates * h;
    expectRead(counters,
               half16 * (rows * inputs * (columns / 64) + columns * inputs * (rows / 64)));
    EXPECT_EQ(counters.globalStore.bytes, single * rows * columns) << counters.text();
    expectNoConflicts(counters);
  }
}

// Each step of a program reads the state, w_hh and what x gives to the gates once.
TEST_P(RecurrentCounters, StepsReadWhatTheyNeed) {
  for (const Network &network : networks) {
    SCOPED_TRACE(network.name);
    const Counters counters = count(caseOf(network), "recurrent_steps");
    const std::uint64_t states = batch * h, gates = network.gates * h;
    // A product and, of gru, what the update keeps read the state.
    const std::uint64_t stateReads = network.gates == 3 ? 2 : 1;
    const std::uint64_t read = half16 * (states * stateReads + programs * gates * h) +
                               single * (batch * gates + network.memory * states);
    expectRead(counters, steps * read);
    const std::uint64_t written =
        half16 * 2 * states + single * (network.slots + network.memory) * states;
    EXPECT_EQ(counters.globalStore.bytes, steps * written + half16 * states * (1 + network.memory))
        << counters.text();
    expectNoConflicts(counters);
  }
}

TEST_P(RecurrentCounters, StepsBackReadWhatTheyNeed) {
  for (const Network &network : networks) {
    SCOPED_TRACE(network.name);
    const Counters counters = count(caseOf(network, "_backward"), "recurrent_backward_steps");
    const std::uint64_t states = batch * h, gates = network.gates * h;
    // The gradients of the gates of the step behind, and w_hh, but for the last step.
    const std::uint64_t product = half16 * (batch * gates + programs * gates * h);
    const std::uint64_t before = network.memory ? single : network.gates == 3 ? half16 : 0;
    const std::uint64_t others = half16 * states +                        // dy
                                 single * states * (1 + network.memory) + // what is carried
                                 single * states * network.slots;         // reserve
    expectRead(counters, (steps - 1) * (product + before * states) + steps * others);
    EXPECT_EQ(counters.globalStore.bytes,
              steps * (half16 * batch * gates * (network.gates == 3 ? 2 : 1) +
                       single * states * (1 + network.memory)))
        << counters.text();
    expectNoConflicts(counters);
  }
}

// Without a state before the first step, whose place copies fill with zeros a number at a time.
TEST_P(RecurrentCounters, CopiesOfSingleNumbersHaveNoConflicts) {
  for (const Network &network : networks) {
    KernelCase test = caseOf(network, "_backward");
    test.dtype = "f32";
    for (const auto &[name, counters] : countAll(test)) {
      SCOPED_TRACE(test.kernel + ": " + name);
      expectNoConflicts(counters);
      expectCoalesced(counters);
    }
  }
}

// A tile of the weights' gradients reads its columns of both factors once.
TEST_P(RecurrentCounters, WeightGradientsReadEachFactorOnceForEachTile) {
  for (const Network &network : networks) {
    SCOPED_TRACE(network.name);
    // Of dw_ih, and of dw_hh: before the first step there is no state.
    std::uint64_t factorRows = steps * batch;
    for (const auto &[name, counters] : countAll(caseOf(network, "_backward"))) {
      if (name != "recurrent_weight_gradients")
        continue;
      const std::uint64_t rows = steps * batch, gates = network.gates * h;
      expectRead(counters, half16 * (rows * gates * (h / 64) + factorRows * h * (gates / 64)));
      factorRows -= batch;
      EXPECT_EQ(counters.globalStore.bytes, half16 * gates * h) << counters.text();
      expectNoConflicts(counters);
    }
  }
}
