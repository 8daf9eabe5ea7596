// Arguments and checks of causal convolutions along time. Refused: fewer than 2 taps or more than
// 4, states of another number of rows or inputs, cu_seqlens beside several batches; from the host
// also boundaries that fall or do not go from 0 to T.
#include "kernels/conv/CausalConv.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <algorithm>
#include <numeric>

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
  checkPacked(call, "ends");
  if (call.extent("N") != sequences(call))
    refuse(call, "there are ", sequences(call), " sequences, but states of ", call.extent("N"));
}

} // namespace

decltype(SearchSpace::where) causal::runsWithin(std::int64_t most, std::vector<TriedAlong> along) {
  return [most, tiles = tilesWithin({"t", "d"}, 2, 256, std::move(along))](
             const Invocation &call, const std::string &target, const Config &config) {
    const std::int64_t run = config.at("run"), threads = config.at("warps") * warpSize(target);
    return run <= config.at("t") && config.at("t") / run * config.at("d") <= most * threads &&
           tiles(call, target, config);
  };
}

void causal::addInputs(KernelSpec &spec) {
  spec.add_arguments({{"x: [B, T, D] f16|bf16|f32", "D channels at each of T steps"},
                      {"w: [D, W] like x", "2 to 4 taps of each channel, that of the step last"},
                      {"b?: [D] like x", "bias"}});
}

void causal::configure(KernelSpec &spec) {
  spec.add_options({{"activation: silu|none = silu", "of the sums"}});
  spec.config = {{"t", "steps of one program"},
                 {"d", "channels of one program"},
                 {"run", "at most so many steps that follow each other in a thread"},
                 {"warps", "warps of one program"}};
  spec.follow = follow;
  spec.derive = derive;
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkBoundaries(call, inputs, "cu_seqlens", call.extent("T"));
  };
  spec.neutral = {"t", "d", "run", "warps"}; // a sum is one thread's
  spec.typical = {{"B", 1}, {"T", 8192}, {"D", 8192}, {"W", 4}, {"ends", 9}};
  spec.small = {{"B", 1}, {"T", 40}, {"D", 20}, {"W", 4}, {"ends", 5}};
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // A thread loads 16 bytes of a step, and many steps, so that few are loaded twice; of a single
    // one it has little else to do.
    const std::int64_t steps = powerAtLeast(std::max<std::int64_t>(call.extent("T"), 1)),
                       d = std::clamp<std::int64_t>(powerAtLeast(call.extent("D")), 16, 256),
                       each = steps == 1 ? 2
                                         : 16 / static_cast<std::int64_t>(size_of(call.dtype("x"))),
                       warp = each * warpSize(target);
    std::int64_t run = std::min<std::int64_t>(steps, 16),
                 rows = std::clamp<std::int64_t>(4 * warp / d, 1, steps / run);
    // Programs enough for all multiprocessors; where there are many sequences, few steps with the
    // end of one in a program.
    const std::int64_t wanted = 4 * multiprocessors(target);
    const auto programs = [&] {
      return call.extent("B") * ceilDiv(call.extent("T"), run * rows) *
             ceilDiv(call.extent("D"), d);
    };
    while (rows > 1 && (programs() < wanted || (isPacked(call) && rows * d > warp)))
      rows /= 2;
    while (run > 4 && run < steps && programs() < wanted)
      run /= 2;
    return Config{{"t", run * rows},
                  {"d", d},
                  {"run", run},
                  {"warps", std::clamp<std::int64_t>(rows * d / warp, 1, 4)}};
  };
  spec.spaces = {{.part = spec.name,
                  .axes = {{"t", {1, 2, 4, 8, 16, 32, 64, 128}},
                           {"d", {32, 64, 128, 256, 512}},
                           {"run", {1, 4, 8, 16}},
                           {"warps", {1, 2, 4, 8}}},
                  .where = runsWithin(16, {{"t", 1, "T"}, {"d", 32, "D"}})}};
}

ConvConfig causal::configOf(const Use &use, const char *states) {
  ConvConfig config = use.config_as(
      ConvConfig{.width = static_cast<int>(use.extent("W")),
                 .silu = use.call.options.choice("activation") == "silu",
                 .packed = isPacked(use.call),
                 .b = use.has("b"),
                 .state = use.has(states),
                 .indexed = std::string_view(states) == "state" && use.has("indices")});
  config.run = std::gcd(static_cast<int>(powerAtMost(config.run)), config.t);
  return config;
}
