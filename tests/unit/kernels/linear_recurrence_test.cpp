// linear_recurrence, step by step and by chunks, and its gradients.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include "vgpu/VirtualDevice.h"
#include <cmath>
#include <limits>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class Recurrence : public OnDevice {};
SECTILE_INSTANTIATE_ON(Recurrence, "virtual:sm_80,virtual:sm_90a");
class RecurrenceElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(RecurrenceElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

using Names = std::vector<std::string>;
const char *const forward = "linear_recurrence", *const backward = "linear_recurrence_backward";

// The optional inputs in all kinds of company.
std::vector<Names> companies(const char *kernel) {
  std::vector<Names> result{
      {}, {"g"}, {"gk"}, {"g", "gk", "initial_state"}, {"g", "initial_state"}};
  if (kernel == backward) {
    result[1].push_back("dfinal_state");
    result[3].push_back("dfinal_state");
  }
  return result;
}

} // namespace

TEST_P(Recurrence, OfAllDtypesAndDecays) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (const char *kernel : {forward, backward})
    for (const Names &with : companies(kernel)) {
      ++place;
      for (const char *dtype : {"f32", "f16", "bf16"})
        if (isAmongAThird(place++))
          expectRight(device, {kernel, {{"B", 1}}, {}, with, dtype});
    }
}

TEST_P(Recurrence, OfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {forward, backward})
    for (const Names &with : {Names{"g", "initial_state"}, Names{"gk"}})
      for (std::int64_t length : {0, 1, 15, 16, 17, 33, 64, 65})
        expectRight(device, {kernel, {{"B", 1}, {"H", 1}, {"T", length}}, {}, with, "f16"});
}

TEST_P(Recurrence, OfAllWidths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward})
    for (const auto &[width, values] : {std::pair(1, 33), {17, 1}, {64, 33}, {130, 33}})
      expectRight(
          device,
          {kernel, {{"B", 1}, {"H", 1}, {"T", 20}, {"Dk", width}, {"Dv", values}}, {}, {"g"}});
}

TEST_P(Recurrence, OfAllConfigurations) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const Names &with : {Names{"g", "initial_state"}, Names{"gk"}})
    for (std::int64_t chunk : {1, 16, 32}) {
      const Config config{{"chunk", chunk}, {"dv", 16}, {"warps", 2}};
      expectRight(device, {forward, {{"B", 1}}, {}, with, "f32", config});
      if (chunk > 1)
        expectRight(device, {backward, {{"B", 1}}, {}, with, "f32", config});
    }
}

TEST_P(Recurrence, OptionsAndStrides) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {forward, backward}) {
    for (const Names &with : companies(kernel))
      expectRight(device,
                  {kernel, {{"B", 1}}, {{"reverse", "true"}, {"scale", "0.3"}}, with, "f16"});
    expectRightWithStrides(device,
                           {kernel, {}, {{"reverse", "true"}}, {"g", "gk", "initial_state"}});
    expectRightWithStrides(device, {kernel, {}, {}, {"g"}, "f16"});
  }
}

TEST_P(RecurrenceElsewhere, Works) {
  for (const char *kernel : {forward, backward})
    for (const Names &with : {Names{"g", "initial_state"}, Names{"gk"}})
      expectRight(device, {kernel, {{"B", 1}, {"H", 1}}, {{"reverse", "true"}}, with, "f16"});
}

// Strong decays, and decays to nothing in the middle of chunks: sums of logarithms run far below
// what an exponential can hold.
TEST_P(Recurrence, ForgetsAll) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {forward, backward})
    for (const char *gate : {"g", "gk"})
      for (const char *dtype : {"f32", "f16"}) {
        KernelCase test{kernel, {{"B", 1}, {"H", 1}}, {}, {gate, "initial_state"}, dtype};
        test.prepare = [gate](const Invocation &call, std::vector<HostArray> &inputs) {
          auto logs = inputs[call.index(gate)].as<float>();
          for (std::size_t i = 0; i < logs.size(); ++i)
            logs[i] = i % 7 == 3   ? -std::numeric_limits<float>::infinity()
                      : i % 5 == 1 ? -60.0f
                                   : logs[i];
        };
        expectRight(device, test);
      }
}

TEST_P(Recurrence, SumsOfIntegersAreExact) {
  for (const char *dtype : {"f16", "f32"})
    for (std::int64_t chunk : {1, 16}) {
      KernelCase test{forward, {{"B", 1}, {"T", 33}}, {{"scale", "1"}}, {"initial_state"},
                      dtype,   {{"chunk", chunk}}};
      test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
        for (std::size_t i : {0, 1, 2, 5})
          fillIntegers(inputs[i], 1, i);
      };
      expectExact(device, test);
    }
}

TEST_P(Recurrence, DecaysBeforeItAdds) {
  // [example]
  // Decays of 1/2: states 1, 2.5, 4.25.
  const std::vector<float> ones{1, 1, 1}, values{1, 2, 3};
  const std::vector<float> logs(3, std::log(0.5f));
  auto one = device.upload(ones), v = device.upload(values), g = device.upload(logs);
  auto out = sectile::run_kernel(device.stream(), "linear_recurrence",
                                 {{"q", tensor(one, {1, 1, 3, 1})},
                                  {"k", tensor(one, {1, 1, 3, 1})},
                                  {"v", tensor(v, {1, 1, 3, 1})},
                                  {"g", tensor(g, {1, 1, 3})}},
                                 {{"scale", "2"}});
  device.synchronize();
  auto o = out.at("o").as<float, 4>(); // 2, 5, 8.5
  // [/example]
  EXPECT_EQ(Buffer<float>(o.memory()).download(), (std::vector<float>{2, 5, 8.5f}));
}

TEST(RecurrenceReference, GradientsAreThoseOfTheOutputs) {
  for (const Names &with : companies(forward))
    for (const char *reverse : {"false", "true"})
      for (const char *scale : {"0.7", "1.5"})
        expectGradients({forward,
                         {{"B", 1}, {"H", 2}, {"T", 5}, {"Dk", 3}, {"Dv", 2}},
                         {{"reverse", reverse}, {"scale", scale}},
                         with},
                        backward);
}

// A decay after the update, and a state that is not handed on: the harness must see it.
TEST(RecurrenceReference, PlantedBugsAreCaught) {
  const Invocation call = resolveCase({forward, {{"T", 4}}, {}, {"g", "initial_state"}});
  const auto inputs = sampleInputs(call, 1);
  auto late = inputs;
  std::fill(late[3].data.begin(), late[3].data.end(), std::byte{0});
  auto forgotten = inputs;
  std::fill(forgotten[5].data.begin(), forgotten[5].data.end(), std::byte{0});
  for (const auto &wrong : {late, forgotten}) {
    const auto outputs = referenceOutputs(call, wrong, Arithmetic::own);
    for (const Verdict &verdict : check(call, inputs, outputs))
      EXPECT_FALSE(verdict.accuracy.ok()) << verdict.output;
  }
}

TEST(RecurrenceErrors, SayWhatIsWrong) {
  EXPECT_THROW(resolveCase({forward, {{"Dk", 257}}}), InputError);
  EXPECT_THROW(resolveCase({backward, {{"Dk", 257}}}), InputError);
}

// The last launch, of outputs by chunks, reads every input once for each block of columns.
TEST(RecurrenceCounters, ReadsNoMoreThanItNeeds) {
  for (const char *target : {"virtual:sm_80", "virtual:sm_90a"}) {
    SCOPED_TRACE(target);
    const Device device = Device::open(target);
    const Invocation call = resolveCase(
        {forward, {{"B", 1}, {"H", 1}, {"T", 256}, {"Dk", 64}, {"Dv", 64}}, {}, {"g"}, "f16"});
    const Config config = completeConfig(call, device.target(), {});
    auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
    machine.countAccesses();
    execute(device, call, config, sampleInputs(call, 1));
    const auto &counters = machine.lastCounters();
    const auto columns = static_cast<std::uint64_t>(64 / config.at("dv")),
               chunks = static_cast<std::uint64_t>(256 / config.at("chunk"));
    // States are f16, with one unit for each block, which each thread reads. Lanes that read the
    // same number, as of g, touch one sector.
    const std::uint64_t states = chunks * 64 * 64 * 2, values = 256 * 64 * 2,
                        units = chunks * columns * 4 * 32 *
                                static_cast<std::uint64_t>(config.at("warps"));
    EXPECT_LE(counters.globalLoad.sectors * 32 + counters.asyncCopy.bytes,
              columns * (2 * values + 4 * 256 * 4) + values + states + units);
    EXPECT_EQ(counters.globalStore.bytes, values);
    EXPECT_EQ(counters.globalStore.sectors, counters.globalStore.idealSectors);
  }
}
