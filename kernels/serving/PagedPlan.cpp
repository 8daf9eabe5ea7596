// paged_plan: into which parts decoding over pages cuts the keys of each sequence. Parts are of the
// fewest keys, a multiple of 256, with which there are no more parts than asked for:
//   C = min c 256 with sum over s of max(ceil(context_lens[s] / (c 256)), 1) <= parts,
// and rows of the plan are (s, j C, min((j + 1) C, context_lens[s]), parts of s, or 0 where j > 0).
// Fewer parts than sequences are refused.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/references/Draw.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Plan.h"
#include "kernels/serving/References.h"
#include <algorithm>

using namespace sectile;

namespace {

constexpr int longest = 1 << 30; // the most keys that a sequence has

struct PlanConfig {
  int width = 256, warps = 4; // sequences at a time
};

struct PlanArguments {
  View<const std::int32_t, 1> context_lens;
  View<std::int32_t, 2> plan;
};

Kernel planParts{
    "paged_plan", [](const PlanArguments &a, const PlanConfig &config) {
      const auto &[lengths, plan] = a;
      const int width = config.width;
      const Int sequences = lengths.extent(0), parts = plan.extent(0);
      const Int chunks = cdiv(sequences, width);
      const auto keysOf = [&](const Int &chunk) {
        return clamp(cast<Index>(lengths.tile(width).load(chunk)), 0, longest);
      };
      const auto partsOf = [&](const Int &chunk, const Int &size) {
        return where(chunk * width + arange(0, width) < sequences,
                     maximum(cdiv(keysOf(chunk), size), 1), 0);
      };

      Int most = 0;
      for (auto chunk : range(0, chunks))
        most = maximum(most, max(keysOf(chunk), 0));
      // In units of planStep. There are enough parts of `high`, and too few of less than `low`.
      Int low = 1, high = maximum(cdiv(most, planStep), 1);
      loop_while([&] { return low < high; },
                 [&] {
                   const Int middle = (low + high) / 2;
                   Tile<std::int64_t> needed = 0;
                   for (auto chunk : range(0, chunks))
                     needed += sum(cast<std::int64_t>(partsOf(chunk, middle * planStep)), 0);
                   const Bool enough = needed <= cast<std::int64_t>(parts);
                   low = where(enough, low, middle + 1);
                   high = where(enough, middle, high);
                 });

      // Rows of numbers, whole.
      const auto put = [&](const Int &row, const Bool &present, const Int &sequence,
                           const Int &first, const Int &end, const Int &count) {
        const auto along = [&](const auto &x) { return expand(broadcast_to(x, width), 1); };
        const Int column = expand(arange(0, 4), 0);
        const Int number = where(column < 2, where(column == 0, along(sequence), along(first)),
                                 where(column == 2, along(end), along(count)));
        store(plan.ptr() + along(cast<std::int64_t>(row) * plan.stride(0)) +
                  cast<std::int64_t>(column) * plan.stride(1),
              cast<std::int32_t>(number), along(present));
      };
      const Int size = high * planStep;
      Int used = 0;
      for (auto chunk : range(0, chunks)) {
        const auto keys = keysOf(chunk), count = partsOf(chunk, size);
        const auto row = used + (cumsum(count, 0) - count);
        for (auto part : range(0, max(count, 0)))
          put(row + part, part < count, chunk * width + arange(0, width), part * size,
              minimum(part * size + size, keys), where(part == 0, count, 0));
        used += sum(count, 0);
      }
      for (auto chunk : range(used / width, cdiv(parts, width))) {
        const auto row = chunk * width + arange(0, width);
        put(row, row >= used && row < parts, -1, 0, 0, 0);
      }
    }};

} // namespace

KernelSpec sectile::pagedPlanSpec() {
  KernelSpec spec;
  spec.name = "paged_plan";
  spec.summary = "parts of the keys of sequences in pages, by their lengths, for paged_decode";
  spec.add_arguments(
      {{"context_lens: [S] i32",
        "keys of each sequence, 0 to 2^30",
        // A few sequences much longer than others, and empty ones.
        {.sample = sampleEach([](const Invocation &, auto &random) {
           const std::int64_t most = random() % 8 == 0 ? 60000 : 3000;
           return random() % 8 == 0 ? 0 : drawBelow(random, most);
         })}},
       {"-> plan: [parts, 4] i32",
        "a part: its sequence, its first key, the one behind its last, and in the first part of a "
        "sequence how many that has, else 0; sequence -1: not used"}});
  spec.add_options({{"parts: integer e.g. 9, 40", "rows of the plan, S at least; else S + 32"}});
  spec.config = {{"width", "sequences at a time"}, {"warps", "warps of the program"}};
  spec.typical = {{"S", 64}};
  spec.small = {{"S", 5}};
  spec.derive = [](Invocation &call) {
    call.extents["parts"] =
        call.options.given("parts") ? call.options.integer("parts") : call.extent("S") + 32;
  };
  spec.check = [](const Invocation &call) {
    checkParts(call, call.extent("parts"),
               "option 'parts' is " + std::to_string(call.extent("parts")));
  };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    const auto lengths = inputs[0].as<std::int32_t>();
    for (std::size_t s = 0; s < lengths.size(); ++s)
      if (lengths[s] < 0 || lengths[s] > longest)
        refuse(call, "context_lens[", s, "] is ", lengths[s], ", but must be from 0 to ", longest);
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs, Arithmetic) {
    return std::vector{planReference(inputs[0], call.extent("parts"))};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t width =
        powerAtLeast(std::clamp<std::int64_t>(call.extent("S"), warpSize(target), 1024));
    return Config{{"width", width},
                  {"warps", std::clamp<std::int64_t>(width / warpSize(target) / 2, 1, 8)}};
  };
  spec.spaces = {{.axes = {{"width", {32, 64, 128, 256, 512, 1024}}, {"warps", {1, 2, 4, 8}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    return config.at("width") >= config.at("warps") * warpSize(target);
                  }}};
  spec.batch = {}; // sums of integers have no order
  spec.apply = [](Use &use) { use(planParts, Grid(1)); };
  return spec;
}
