// Arguments and checks of causal convolutions along time. Refused: fewer than 2 taps or more than
// 4, states of another number of rows or inputs, cu_seqlens beside several batches; from the host
// also boundaries that fall or do not go from 0 to T.
#include "kernels/conv/CausalConv.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <algorithm>

using namespace sectile;
using namespace sectile::causal;

namespace {

bool isPacked(const Invocation &call) { return call.has("cu_seqlens"); }

std::int64_t sequences(const Invocation &call) {
  return isPacked(call) ? std::max<std::int64_t>(call.extent("ends") - 1, 0) : call.extent("B");
}

void follow(Invocation &call) {
  call.extents["C"] = call.extent("W") - 1;
  call.extents["N"] = sequences(call);
}

void derive(Invocation &call) {
  call.extents.try_emplace("C", std::max<std::int64_t>(call.extent("W") - 1, 0));
  call.extents.try_emplace("N", sequences(call));
}

void check(const Invocation &call) {
  const std::int64_t taps = call.extent("W");
  if (taps < 2 || taps > 4)
    refuse(call, "w has ", taps, " taps, but must have 2, 3 or 4");
  if (call.extent("C") != taps - 1)
    refuse(call, "a state has ", call.extent("C"), " inputs, but with ", taps, " taps must have ",
           taps - 1);
  if (isPacked(call)) {
    if (call.extent("B") != 1)
      refuse(call, "with cu_seqlens B must be 1, but is ", call.extent("B"));
    if (call.extent("ends") < 1)
      refuse(call, "cu_seqlens has one number more than sequences, but has none");
    if (call.extent("ends") == 1 && call.extent("T") != 0)
      refuse(call, "x has steps, but there is no sequence");
  }
  if (call.extent("N") != sequences(call))
    refuse(call, "there are ", sequences(call), " sequences, but states of ", call.extent("N"));
}

} // namespace

void causal::addInputs(KernelSpec &spec) {
  spec.add_arguments({{"x: [B, T, D] f16|bf16|f32", "D channels at each of T steps"},
                      {"w: [D, W] like x", "2 to 4 taps of each channel, that of the step last"},
                      {"b?: [D] like x", "bias"}});
}

ArgumentRow causal::boundaries() {
  return {"cu_seqlens?: [ends] i32",
          "packed sequences (B is 1): sequence s is steps cu_seqlens[s] to cu_seqlens[s + 1] - 1; "
          "from 0 to T, never falling",
          {.sample = sampleBoundaries("T")}};
}

void causal::configure(KernelSpec &spec) {
  spec.add_options({{"activation: silu|none = silu", "of the sums"}});
  spec.config = {{"t", "steps of one program"},
                 {"d", "channels of one program"},
                 {"warps", "warps of one program"}};
  spec.follow = follow;
  spec.derive = derive;
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkBoundaries(call, inputs, "cu_seqlens", call.extent("T"));
  };
  spec.neutral = {"t", "d", "warps"}; // a sum is one thread's
  spec.typical = {{"B", 1}, {"T", 8192}, {"D", 8192}, {"W", 4}, {"ends", 9}};
  spec.small = {{"B", 1}, {"T", 40}, {"D", 20}, {"W", 4}, {"ends", 5}};
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // A thread has 8 channels of some steps, and reads them once for each tap. Where it looks for
    // sequences, too, it has fewer.
    const bool isPacked = call.has("cu_seqlens");
    const std::int64_t t = std::clamp<std::int64_t>(powerAtLeast(call.extent("T")), 1,
                                                    isPacked ? 16 : 32),
                       d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16,
                                                    t == 1 ? 256 : 128),
                       each = t == 1     ? 2
                              : isPacked ? 8
                                         : 16,
                       warps = std::clamp<std::int64_t>(t * d / (each * warpSize(target)), 1,
                                                        isPacked ? 8 : 4);
    return Config{{"t", t}, {"d", d}, {"warps", powerAtMost(warps)}};
  };
  spec.spaces = {{.part = spec.name,
                  .axes = {{"t", {1, 2, 4, 8, 16, 32, 64}},
                           {"d", {32, 64, 128, 256}},
                           {"warps", {1, 2, 4, 8}}},
                  .where = tilesWithin({"t", "d"}, 2, 32, {{"t", 1, "T"}, {"d", 32, "D"}})}};
}

ConvConfig causal::configOf(const Use &use, const char *states) {
  return use.config_as(
      ConvConfig{.width = static_cast<int>(use.extent("W")),
                 .silu = use.call.options.choice("activation") == "silu",
                 .packed = isPacked(use.call),
                 .b = use.has("b"),
                 .state = use.has(states),
                 .indexed = std::string_view(states) == "state" && use.has("indices")});
}
