// attention_varlen: attention over sequences of different lengths, packed without gaps, each by
// itself with attention's formula. Packed as for FlashAttention's varlen functions (arXiv
// 2205.14135). cu_seqlens that fall or do not go from 0 to the number of tokens are refused from
// the host; on the device they give undefined results, but lead to no access outside the arrays.
//
// attention_varlen_backward: its gradients, by attention_backward's formulas within each sequence.
// What learned operands have of it is summed in an order that the sequences fix.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/attention/Varlen.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/serving/Merge.h"
#include <algorithm>

using namespace sectile;
using flash::detail::Launch, flash::detail::Launcher;

namespace {

template <class T, class Out>
Kernel attentionVarlen{"attention_varlen",
                       [](flash::PackedForwardTensors<T, Out> tensors, flash::Numbers numbers,
                          blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
                         const blockwise::OptionScores options(config, given);
                         flash::traceForward(config, tensors, options.rules(numbers));
                       }};

struct PackedPlanConfig {
  int block = 32;            // at least one more than there are sequences
  int m = 128;               // queries of a block
  int rows = 512, warps = 4; // of the plan, which a program writes
};

// The plan of blockwise::PackedBlocks.
Kernel packedPlan{
    "attention_varlen_plan",
    [](View<const std::int32_t, 1> queryStarts, View<const std::int32_t, 1> keyStarts, Int queries,
       Int keys, View<std::int32_t, 2> plan, const PackedPlanConfig &config) {
      const Int sequences = queryStarts.extent(0) - 1, last = plan.extent(0) - 1;
      const auto rank = arange(0, config.block);
      const Bool exists = rank < sequences;
      const auto tokens = [&](const View<const std::int32_t, 1> &starts, const Int &total,
                              const auto &sequence) {
        const auto start = [&](const auto &at) {
          return clamp(load(starts.ptr() + at * starts.stride(0), exists), 0, total);
        };
        const auto first = start(sequence);
        return std::pair(first, maximum(start(sequence + 1) - first, 0));
      };
      const auto ofKeys = tokens(keyStarts, keys, rank).second;
      const auto sequence =
          std::get<1>(sort(std::tuple(where(exists, ofKeys, -1), rank), 0, /*descending=*/true));
      const auto [firstQuery, queriesOf] = tokens(queryStarts, queries, sequence);
      const auto [firstKey, keysOf] = tokens(keyStarts, keys, sequence);
      const auto blocks = where(exists, cdiv(queriesOf, config.m), 0);
      const auto first = cumsum(blocks, 0) - blocks;
      // A row's sequence is the last that begins no later.
      const Int begin = program_id(0) * config.rows;
      const auto row = begin + arange(0, config.rows);
      const auto earlier = sum(cast<std::int32_t>(exists && first < begin), 0);
      const auto at =
          maximum(earlier + cumsum(histogram(first - begin, config.rows, exists), 0) - 1, 0);
      const auto to = plan.ptr() + row * plan.stride(0);
      int column = 0;
      for (const auto &each : {sequence, first, blocks, firstQuery, queriesOf, firstKey, keysOf})
        store(to + column++ * plan.stride(1), gather(each, at, 0), row < last);
      store(plan.ptr() + last * plan.stride(0), minimum(sum(blocks, 0), last), program_id(0) == 0);
    }};

// Where the sequences of queries begin, or those of keys.
ArgumentRow startsArgument(const std::string &name, const char *total, const std::string &what) {
  const auto sample = [=](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    sampleBoundaries(total)(call, array, random);
    auto values = array.as<std::int32_t>();
    // No sequence is longer than bias and mask are wide, as far as that can be.
    if (values.empty() || what != "keys" || !(call.has("bias") || call.has("mask")))
      return;
    const auto width = static_cast<std::int32_t>(std::min(call.extent("Mk"), call.extent(total)));
    for (std::size_t i = 1; i + 1 < values.size(); ++i)
      values[i] = std::min(values[i], values[i - 1] + width);
    for (std::size_t i = values.size() - 1; --i > 0;)
      values[i] = std::max(values[i], values[i + 1] - width);
  };
  return {name + ": [B1] i32",
          "B + 1 numbers: sequence b's " + what +
              " are those from element b up to, without it, element b + 1",
          {.sample = sample}};
}

template <class T>
Kernel statistics{"attention_varlen_backward_rows",
                  [](View<const T, 3> o, View<const T, 3> dO, View<const float, 2> lse,
                     View<float, 2> delta, View<float, 2> logs, const AttentionConfig &config) {
                    auto head = program_id(1);
                    blockwise::rowStatistics<T>(program_id(0), config.m, config.valueWidth,
                                                o.fix(1, head), dO.fix(1, head), lse.at(head),
                                                delta.at(head), logs.at(head));
                  }};

template <class T>
Kernel queryGradients{"attention_varlen_backward_q",
                      [](flash::PackedBackwardTensors<T> in, View<T, 3> dq, flash::Numbers numbers,
                         blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
                        const blockwise::OptionScores options(config, given);
                        flash::traceQueryGradients(config, in, dq, options.rules(numbers));
                      }};

template <class T>
Kernel keyGradients{"attention_varlen_backward_kv",
                    [](flash::PackedBackwardTensors<T> in, View<T, 3> dk, View<T, 3> dv,
                       flash::Numbers numbers, blockwise::OptionArguments<T, 3> given,
                       const AttentionConfig &config) {
                      const blockwise::OptionScores options(config, given);
                      flash::traceKeyGradients(config, in, dk, dv, options.rules(numbers));
                    }};

// A program per block of the bias's gradient sums over the heads that share it.
template <class T>
Kernel biasGradients{
    "attention_varlen_backward_bias",
    [](flash::PackedBackwardTensors<T> in, View<T, 3> dbias, flash::Numbers numbers,
       blockwise::OptionArguments<T, 3> given, const AttentionConfig &config) {
      const blockwise::OptionScores options(config, given);
      const auto at =
          blockwise::packedBlock(in.queryStarts, in.q.extent(0), config.m, program_id(0));
      const blockwise::PackedSequence own(at, in);
      options.require(own.of(0));
      auto j = program_id(1);
      auto heads = in.q.extent(1) / dbias.extent(0);
      auto sums = zeros<float>(config.m, config.n);
      for (auto h : range(0, heads)) {
        const Int head = program_id(2) * heads + h, kvHead = head / numbers.group;
        const auto scores = blockwise::scoresOf<T>(
            config, own.of(head), blockwise::seeded(config, options.rules(numbers)));
        blockwise::addPairGradient<T>(
            sums, at.block, j, blockwise::packedHead(in, own, head, scores),
            own.keys.of(in.k.fix(1, kvHead)), own.keys.of(in.v.fix(1, kvHead)));
      }
      own.queries.of(dbias.at(program_id(2))).tile(config.m, config.n).store(at.block, j, sums);
    }};

// Gradients of learned operands. Only cu_seqlens on the device knows which part belongs to which
// sequence, and how much of one a sequence has.
struct SequenceSumsConfig {
  int rows = 32, columns = 32, warps = 4;
  // Parts are of programs, each of a block of so many queries, and are [1, H, programs, W]. 0: of
  // sequences, of which each has written as many elements as it has tokens, [B, H, 1, W].
  int size = 0;
};

// starts: of the tokens that programs or elements are of, `total` in all.
Kernel sequenceSums{
    "flash_packed_shared",
    [](View<const float, 4> parts, View<const std::int32_t, 1> starts, Int total,
       View<float, 3> gradient, const SequenceSumsConfig &config) {
      const Int sequences = starts.extent(0) - 1, batch = program_id(2),
                heads = parts.extent(1) / gradient.extent(1), width = parts.extent(3);
      const Bool all = gradient.extent(0) == 1;
      const auto start = [&](const Int &sequence) {
        const auto token = load(starts.ptr() + starts.stride(0) * sequence, sequence <= sequences);
        return Int(clamp(cast<Index>(token), Int(0), total));
      };
      Int first = where(all, Int(0), batch), end = where(all, sequences, batch + 1);
      if (config.size) {
        // As packedBlock counts.
        const auto firstProgram = [&](const Int &sequence) {
          return start(sequence) / config.size + sequence;
        };
        first = where(all, Int(0), firstProgram(batch));
        // No program is behind those that the grid had, wherever sequences end.
        end = where(all, parts.extent(2), minimum(firstProgram(batch + 1), parts.extent(2)));
      }
      const Int column = expand(program_id(0) * config.columns + arange(0, config.columns), 0);
      auto sums = zeros<float>(config.rows, config.columns);
      for (auto h : range(0, heads)) {
        const auto own = parts.fix(1, program_id(1) * heads + h);
        for (auto chunk : range(0, cdiv(end - first, config.rows))) {
          const Int row = expand(first + chunk * config.rows + arange(0, config.rows), 1);
          Bool exists = row < end && column < width;
          if (!config.size)
            exists = exists && column < start(row + 1) - start(row);
          sums += load(own.ptr() + cast<std::int64_t>(row) * own.stride(config.size ? 1 : 0) +
                           cast<std::int64_t>(column) * own.stride(2),
                       exists);
        }
      }
      gradient.at(batch, program_id(1)).tile(config.columns).store(program_id(0), sum(sums, 0));
    }};

void addSequences(Use &use, const Tensor<float, 4> &parts, const char *starts,
                  const Tensor<float, 4> &gradient, int size) {
  SequenceSumsConfig config{.size = size};
  const std::int64_t rows = size ? parts.extent(2) : parts.extent(0);
  config.rows = static_cast<int>(powerAtLeast(std::clamp<std::int64_t>(rows, 1, 32)));
  config.columns = 1024 / config.rows;
  const std::int64_t batches = gradient.extent(0), heads = gradient.extent(1),
                     width = gradient.extent(3);
  const bool ofKeys = starts == std::string_view("cu_seqlens_k");
  use(sequenceSums, Grid(ceilDiv(width, config.columns), heads, batches), parts,
      use.tensor<std::int32_t, 1>(starts), use.extent(ofKeys ? "Tk" : "Tq"),
      withAxes<3>(gradient, {batches, heads, width},
                  {gradient.stride(0), gradient.stride(1), gradient.stride(3)}),
      config);
}

} // namespace

KernelSpec sectile::attentionVarlenSpec() {
  KernelSpec spec = blockAttentionSpec();
  spec.name = "attention_varlen";
  spec.summary = "attention over packed sequences of different lengths";
  spec.arguments.clear();
  spec.add_arguments(
      {{"q: [Tq, Hq, D] f16|bf16|f32", "queries of all sequences; D and Dv from 16 to 256"},
       {"k: [Tk, Hkv, D] like q", "keys; Hq is a multiple of Hkv"},
       {"v: [Tk, Hkv, Dv] like q", "values"},
       startsArgument("cu_seqlens_q", "Tq", "queries"),
       startsArgument("cu_seqlens_k", "Tk", "keys"),
       {"bias?: [1|Hq, Tq, Mk] like q",
        "added to the scaled and capped scores; key j of the query's sequence is column j, so that "
        "Mk is at least the longest sequence of keys"},
       {"mask?: [1|Hq, Tq, Mk] bool",
        "true where a query sees a key; columns as bias has them",
        {.sample = sampleMask}},
       sinksArgument,
       seedOffsetArgument(),
       {"-> o: [Tq, Hq, Dv] like q", "0 in rows that see no key"},
       {"-> lse: [Hq, Tq] f32", "natural logarithm of each row's sum of exponentials"}});
  addPrograms(spec);
  spec.spaces.front().part = "attention_varlen";
  spec.options.pop_back(); // packed sequences have one layout
  spec.typical = {{"Tq", 8192}, {"Tk", 8192}, {"Hq", 16},   {"Hkv", 16}, {"D", 64},
                  {"Dv", 64},   {"B1", 9},    {"Mk", 2048}, {"R", 1}};
  spec.small = {{"Tq", 90}, {"Tk", 120}, {"Hq", 2},   {"Hkv", 1}, {"D", 32},
                {"Dv", 32}, {"B1", 6},   {"Mk", 120}, {"R", 3}};
  spec.check = checkVarlen;
  spec.contents = checkVarlenContents;
  spec.flops = nullptr; // only cu_seqlens knows
  spec.apply = [](Use &use) {
    const AttentionNumbers numbers(use.call);
    const OptionFlags flags = optionFlags(use, numbers);
    launchVarlen(use, numbers, modifiesScores(use, numbers), [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
        const auto to = [&]<class Out>(Out) {
          use(attentionVarlen<T, Out>, launch.grid,
              Arguments<flash::PackedForwardTensors<T, Out>>{
                  use.tensor<T, 3>("q"), use.tensor<T, 3>("k"), use.tensor<T, 3>("v"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_k"), launch.o.as<Out, 4>(),
                  launch.lse.as<float, 3>(), launch.sinks.as<const float, 2>(),
                  launch.plan.as<const std::int32_t, 2>()},
              launch.numbers, optionArguments<T, 3>(use, numbers),
              AttentionConfig{launch.config, flags});
        };
        if (launch.o.dtype == dtype_of<T>)
          to(T());
        else
          to(float());
      });
    });
  };
  return spec;
}

void sectile::launchVarlen(Use &use, const AttentionNumbers &numbers, bool modified,
                           const Launcher &launch) {
  const Invocation &call = use.call;
  const bool packed = use.field("packed");
  flash::LoopConfig chosen = forwardConfig(use, numbers, modified);
  chosen.split = packed;
  chosen.group = packed ? headsOfBlock(call) : 1;
  const std::int64_t blocks = packedBlocks(call, "Tq", chosen.m, chosen.group),
                     queries = call.extent("Tq"), allHeads = call.extent("Hq"),
                     heads = allHeads / chosen.group, sequences = call.extent("B1") - 1,
                     parts = packed ? use.field("splits") : 1;
  const auto starts = use.tensor<std::int32_t, 1>("cu_seqlens_q");
  const std::optional<Grid> persistent =
      packed ? std::nullopt : persistentGrid(use, numbers, chosen, blocks, heads);
  auto plan = noTensor<std::int32_t, 2>();
  if (persistent) {
    if (sequences > mostPlannedSequences)
      refuse(call, "persistent programs have ", mostPlannedSequences, " sequences at most, not ",
             sequences);
    plan = use.workspace<std::int32_t, 2>({blocks + 1, 7});
    // One code for few sequences, however many.
    const PackedPlanConfig config{
        .block = static_cast<int>(powerAtLeast(std::max<std::int64_t>(sequences + 1, 64))),
        .m = chosen.m};
    use(packedPlan, ceilDiv(blocks + 1, config.rows), starts,
        use.tensor<std::int32_t, 1>("cu_seqlens_k"), queries, call.extent("Tk"), plan, config);
  }
  const Launch launched{.of = packed ? Launch::Of::parts : Launch::Of::all,
                        .grid = persistent ? *persistent : Grid(blocks * parts, heads),
                        .config = chosen,
                        .numbers = launchNumbers(use, numbers, groupOf(call)),
                        .sinks = sinksOf(use),
                        .plan = plan};
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    const auto o = use.tensor<T, 3>("o");
    const auto lse = use.tensor<float, 2>("lse");
    launchParts(use, launched, parts, o, lse, launch, [&](const auto &partial, const auto &logs) {
      use(mergeTokens<T>, Grid(queries, allHeads), partial, logs, starts, o, lse,
          mergeRowConfig(parts, chosen.valueWidth));
    });
  });
}

KernelSpec sectile::attentionVarlenBackwardSpec() {
  KernelSpec spec = attentionGradientsSpec(attentionVarlenSpec());
  spec.summary = "the gradients of attention_varlen";
  spec.apply = [](Use &use) {
    const AttentionNumbers numbers(use.call);
    const OptionFlags flags = optionFlags(use, numbers);
    const auto launchEach = [&](Use &use, const Launch &launch) {
      for_dtype<half, bfloat16, float>(use.call.dtype("q"), [&]<class T>(T) {
        const auto with = [&](const auto &kernel, const Grid &grid, const auto &...results) {
          use(kernel, grid,
              Arguments<flash::PackedBackwardTensors<T>>{
                  use.tensor<T, 3>("q"), use.tensor<T, 3>("k"), use.tensor<T, 3>("v"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_q"),
                  use.tensor<std::int32_t, 1>("cu_seqlens_k"), use.tensor<T, 3>("do"),
                  launch.logs.as<const float, 2>(), launch.delta.as<const float, 2>()},
              results..., launch.numbers, optionArguments<T, 3>(use, numbers),
              AttentionConfig{launch.config, flags});
        };
        if (launch.of == Launch::Of::keys)
          return with(keyGradients<T>, launch.grid, use.tensor<T, 3>("dk"), use.tensor<T, 3>("dv"));
        with(queryGradients<T>, launch.grid, use.tensor<T, 3>("dq"));
        if (!use.has("bias"))
          return;
        const auto dbias = use.tensor<T, 3>("dbias");
        with(biasGradients<T>,
             Grid(launch.grid.x, ceilDiv(use.extent("Mk"), launch.config.n), dbias.extent(0)),
             dbias);
      });
    };
    launchVarlenGradients(use, numbers, modifiesScores(use, numbers), {}, launchEach);
  };
  return spec;
}

void sectile::launchVarlenGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                                    std::span<const flash::detail::LearnedGradient> learned,
                                    const Launcher &launch) {
  const Invocation &call = use.call;
  const std::int64_t heads = call.extent("Hq"), queries = call.extent("Tq");
  const AttentionConfig rows = rowConfig(use, numbers);
  flash::LoopConfig forQueries = attentionConfig(use, numbers, "q_"),
                    forKeys = attentionConfig(use, numbers, "kv_");
  forQueries.raw = forKeys.raw = mayBeRaw(numbers, modified);
  const auto lse = use.tensor<float, 2>("lse");
  const auto delta = use.workspace<float, 2>({heads, queries}),
             logs = use.workspace<float, 2>({heads, queries});
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    use(statistics<T>, Grid(ceilDiv(queries, rows.m), heads), use.tensor<T, 3>("o"),
        use.tensor<T, 3>("do"), lse, delta, logs, rows);
  });
  Launch each{.of = Launch::Of::queries,
              .grid = Grid(packedBlocks(call, "Tq", forQueries.m), heads),
              .config = forQueries,
              .numbers = launchNumbers(use, numbers, groupOf(call)),
              .logs = logs,
              .delta = delta};
  for (const auto &[along, slot, values, gradient] : learned)
    each.learned.push_back(
        along == flash::Along::pairs ? gradient
        : isOfPrograms(along)
            ? use.workspace<float, 4>({1, heads, each.grid.x, gradient.extent(3)})
            : use.workspace<float, 4>({call.extent("B1") - 1, heads, 1, gradient.extent(3)}));
  launch(use, each);
  launchPairs(use, each, learned, launch);
  each.of = Launch::Of::keys;
  each.grid = Grid(packedBlocks(call, "Tk", forKeys.n), call.extent("Hkv"));
  each.config = forKeys;
  launch(use, each);
  for (std::size_t i = 0; i < learned.size(); ++i)
    if (const flash::Along along = learned[i].along; along != flash::Along::pairs)
      addSequences(use, each.learned[i],
                   along == flash::Along::keys ? "cu_seqlens_k" : "cu_seqlens_q",
                   learned[i].gradient, isOfPrograms(along) ? forQueries.m : 0);
  // Sinks know of no sequences.
  const auto single = [](const Tensor<float, 2> &of) {
    return Tensor<float, 3>(of.data(), {1, of.extent(0), of.extent(1)},
                            {of.stride(0) * of.extent(0), of.stride(0), of.stride(1)}, of.memory());
  };
  if (use.has("sinks"))
    launchSinkGradients(use, single(lse), single(delta), rows);
}
