// Attention of few queries, as while a sequence is decoded: what takes time is to read the keys and
// values. So a block's rows are the queries of all heads that share a head of the keys, which is
// then read once, and the keys are split among programs, whose results a second launch merges in
// order (Flash-Decoding; Dao, Haziza, Massa and Sizov, 2023).
#include "kernels/attention/PackedHeads.h"
#include "kernels/attention/Forward.h"
#include "kernels/attention/Options.h"
#include "kernels/serving/Merge.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

// o [parts, B, Hq, Sq, Dv] and lse [parts, B, Hq, Sq] of each part of the keys; of one part they
// are the result.
template <class T, class Out>
Kernel packedHeads{
    "attention_packed", [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v,
                           View<Out, 5> o, View<float, 4> lse, View<const T, 4> bias,
                           View<const bool, 4> mask, View<const float, 2> sinks, Float scale,
                           Float cap, Int left, Int right, const AttentionConfig &config) {
      using namespace blockwise;
      const int m = config.m;
      const PackedRows packed{config.group};
      const auto parts = o.extent(0);
      auto part = program_id(0) % parts, block = program_id(0) / parts, head = program_id(1),
           batch = program_id(2), first = head * config.group;
      auto row = block * m + arange(0, m);
      auto exists = packed.query(row) < q.extent(2);
      // Of a view of heads, queries and elements.
      auto places = [&](const auto &view, int width) {
        return expand(packed.place(view, row), 1) +
               expand(cast<std::int64_t>(arange(0, width)) * view.stride(2), 0);
      };
      auto inside = [&](const auto &view, int width) {
        return expand(exists, 1) && expand(arange(0, width) < view.extent(2), 0);
      };
      auto ofHeads = [&](const auto &view) { return view.slice(0, first, config.group); };
      const auto queries = ofHeads(q.at(batch));
      auto query =
          load(queries.ptr() + places(queries, config.width), inside(queries, config.width));

      auto scores = scoresOf<T>(config, q.extent(2), k.extent(2), batch, first,
                                {scale, cap, left, right, {}, {}, {}}, bias, mask);
      scores.packed = packed;
      if (config.bias)
        scores.headBias = ofHeads(bias.at(batch));
      if (config.mask)
        scores.headMask = ofHeads(mask.at(batch));
      OnlineSoftmax softmax = softmaxFor(scores);
      if (config.sinks) {
        auto r = arange(0, config.sinks);
        const auto own = sinks.slice(0, first, config.group);
        softmax.enter(
            load(own.ptr() + expand(cast<std::int64_t>(row % config.group) * own.stride(0), 1) +
                     expand(cast<std::int64_t>(r) * own.stride(1), 0),
                 expand(exists && part == 0, 1) && expand(r < own.extent(1), 0), -infinity) *
            log2e);
      }
      Band::Range steps = scores.keyBlocks(block);
      auto count = maximum(steps.end - steps.first, 0);
      steps = {steps.first + count * part / parts, steps.first + count * (part + 1) / parts};
      takeIn(softmax, query, block, steps, k.at(batch, head), v.at(batch, head), scores);
      const auto to = ofHeads(o.at(part, batch));
      store(to.ptr() + places(to, config.valueWidth), softmax.result(),
            inside(to, config.valueWidth));
      const auto logs = ofHeads(lse.at(part, batch));
      store(logs.ptr() + packed.place(logs, row), softmax.logarithm(), exists);
    }};

template <class T, int N> Tensor<T, N + 1> asOnePart(const Tensor<T, N> &tensor) {
  std::array<std::int64_t, N + 1> extents{1}, strides{};
  std::ranges::copy(tensor.extents(), extents.begin() + 1);
  std::ranges::copy(tensor.strides(), strides.begin() + 1);
  return {tensor.data(), extents, strides, tensor.memory()};
}

std::int64_t groupOf(const Invocation &call) {
  return extentOr0(call, "Hq") / std::max<std::int64_t>(extentOr0(call, "Hkv"), 1);
}

std::int64_t splitsFor(const Invocation &call, const Config &config, const std::string &target) {
  const std::int64_t rows = extentOr0(call, "Sq") * groupOf(call),
                     heads = extentOr0(call, "B") * extentOr0(call, "Hkv");
  return keyParts(ceilDiv(rows, config.at("m")) * heads,
                  ceilDiv(extentOr0(call, "Sk"), config.at("n")),
                  double(keyBytes(call)) * double(groupOf(call) * heads),
                  8.0 * double(rows * heads * call.extent("Dv")), 0.01, target);
}

} // namespace

// As many parts as take least time by this count, in bytes that are read meanwhile. A program has a
// multiprocessor to itself, and fewer than three fifths of them read slower than all. A wave of
// programs begins with nothing under way, a merge is a launch, and parts are written and read.
std::int64_t sectile::keyParts(std::int64_t blocks, std::int64_t steps, double bytes,
                               double partBytes, double slack, const std::string &target) {
  constexpr double waveBytes = 3e6, mergeBytes = 12e6;
  const std::int64_t units = multiprocessors(target),
                     most = std::clamp<std::int64_t>(steps / 4, 1, 128);
  const auto time = [&](std::int64_t parts) {
    const std::int64_t programs = std::max<std::int64_t>(blocks, 1) * parts,
                       last = programs % units,
                       places = programs - last + (last ? std::max(last, units * 3 / 5) : 0);
    return bytes * double(places) / double(programs) +
           double(ceilDiv(programs, units)) * waveBytes +
           (parts > 1 ? mergeBytes + double(parts) * partBytes : 0);
  };
  double least = time(1);
  for (std::int64_t parts = 2; parts <= most; ++parts)
    least = std::min(least, time(parts));
  std::int64_t parts = most;
  while (parts > 1 && time(parts) > least * (1 + slack))
    --parts;
  return parts;
}

std::optional<ConfigValues> sectile::packedDefaults(const Invocation &call,
                                                    const std::string &target) {
  const std::int64_t rows = extentOr0(call, "Sq") * groupOf(call);
  const std::int64_t d = std::max(call.extent("D"), call.extent("Dv"));
  const bool engine = hasWarpgroupUnits(target, call.dtype("q"));
  if (extentOr0(call, "Sq") > 16 || rows < 1 || rows > 128 || takes(call, "dropout") ||
      extentOr0(call, "Sk") < 256)
    return std::nullopt;
  Config config{{"m", engine       ? (rows <= 64 ? 64 : 128)
                      : rows <= 16 ? 16
                      : rows <= 32 ? 32
                                   : 64},
                {"n", d > 128  ? 32
                      : d > 64 ? 64
                               : 128},
                {"warps", engine && rows > 64 ? 8 : 4},
                {"stages", 2},
                {"overlap", engine},
                {"persistent", 0},
                {"programs", multiprocessors(target)},
                {"packed", 1}};
  config["splits"] = splitsFor(call, config, target);
  return config;
}

void sectile::launchPacked(Use &use) {
  const Invocation &call = use.call;
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     kvHeads = call.extent("Hkv"), queries = call.extent("Sq"),
                     keys = call.extent("Sk"), parts = use.field("splits");
  const AttentionNumbers numbers(call);
  if (numbers.drops)
    throw InputError(
        call.kernel->name +
        ": packed heads have no dropout, whose weights are drawn for one head's block");
  AttentionConfig chosen = forwardConfig(use, numbers);
  chosen.group = static_cast<int>(heads / std::max<std::int64_t>(kvHeads, 1));
  const Grid grid(parts * ceilDiv(queries * chosen.group, chosen.m), kvHeads, batches);
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    const auto launch = [&]<class Out>(const Tensor<Out, 5> &o, const Tensor<float, 4> &lse) {
      use(packedHeads<T, Out>, grid, use.tensor<T, 4>("q"), use.tensor<T, 4>("k"),
          use.tensor<T, 4>("v"), o, lse,
          broadcast<T, 4>(use, "bias", {batches, heads, queries, keys}),
          broadcast<bool, 4>(use, "mask", {batches, heads, queries, keys}),
          broadcast<float, 2>(use, "sinks", {heads, extentOr0(call, "R")}), numbers.scale,
          numbers.cap, numbers.left, numbers.right, chosen);
    };
    const auto o = use.tensor<T, 4>("o");
    const auto lse = use.tensor<float, 3>("lse");
    if (parts == 1)
      return launch(asOnePart(o), asOnePart(lse));
    const std::int64_t width = call.extent("Dv");
    const auto partial = use.workspace<float, 5>({parts, batches, heads, queries, width});
    const auto logs = use.workspace<float, 4>({parts, batches, heads, queries});
    launch(partial, logs);
    use(mergeRow<float, T>, Grid(queries, heads, batches), partial, logs, o, lse,
        mergeRowConfig(parts, chosen.valueWidth));
  });
}
