// attention_backward: gradients of q, k, v, the bias and the sinks from what the forward pass left.
// With p = e^(s - lse), z what dropout multiplies by, delta the sum of o * dO of each row:
//   dv = (p z)^T dO, ds = p (z (dO v^T) - delta), dbias = ds,
//   dsinks = -sum of e^(sink - lse) delta,
//   dq = scale ds' k, dk = scale ds'^T q, ds' = ds (1 - (t/c)^2) of scores t that a soft cap c made
// (Dao, arXiv 2307.08691; bias, sinks and soft cap derived from the forward formula). Weights are
// made anew. Rows that saw nothing have no gradients. That o and lse belong to the inputs is not
// checked.
#include "kernels/attention/Family.h"
#include "kernels/attention/OptionKernels.h"
#include "kernels/attention/References.h"
#include "kernels/attention/Tiles.h"
#include "kernels/blocks/RowBlocks.h"
#include <algorithm>
#include <limits>
#include <utility>

using namespace sectile;

namespace {

constexpr int rowsOfStatistics = 32; // of a program that looks at rows one by one

template <class T>
Kernel statistics{
    "attention_backward_rows",
    [](View<const T, 4> o, View<const T, 4> dO, View<const float, 3> lse, View<float, 3> delta,
       View<float, 3> logs, View<float, 4> dqSums, const AttentionConfig &config) {
      auto head = program_id(1), batch = program_id(2);
      blockwise::rowStatistics<T>(program_id(0), config.m, config.valueWidth, o.at(batch, head),
                                  dO.at(batch, head), lse.at(batch, head), delta.at(batch, head),
                                  logs.at(batch, head));
      if (config.sumsQueries)
        dqSums.at(batch, head)
            .tile(config.m, config.width)
            .store(program_id(0), 0, zeros<float>(config.m, config.width));
    }};

template <class T>
Kernel addedParts{
    "attention_backward_parts", [](View<const float, 4> sums, View<T, 4> gradients, Float scale,
                                   const AttentionConfig &config) {
      auto row = program_id(0), head = program_id(1), batch = program_id(2);
      auto partAt = [&](const Int &part) {
        return sums.at(batch, head * config.parts + part).tile(config.m, config.width).load(row, 0);
      };
      auto sum = partAt(0);
      for (int part = 1; part < config.parts; ++part)
        sum += partAt(part);
      gradients.at(batch, head).tile(config.m, config.width).store(row, 0, sum * scale);
    }};

struct SharedConfig {
  int parts = 32, columns = 32, warps = 4;
};

Kernel sharedGradients{
    "attention_backward_shared",
    [](View<const float, 4> parts, View<float, 3> gradient, const SharedConfig &config) {
      auto column = program_id(0);
      auto batches = parts.extent(0) / gradient.extent(0),
           heads = parts.extent(1) / gradient.extent(1);
      auto sums = zeros<float>(config.parts, config.columns);
      for (auto b : range(0, batches))
        for (auto h : range(0, heads)) {
          auto own = parts.at(program_id(2) * batches + b, program_id(1) * heads + h)
                         .tile(config.parts, config.columns);
          for (auto part : range(0, cdiv(parts.extent(2), config.parts)))
            sums += own.load(part, column);
        }
      gradient.at(program_id(2), program_id(1)).tile(config.columns).store(column, sum(sums, 0));
    }};

constexpr int sinkRows = 2048; // of a head, in one program

// The sinks' gradient as [B, H, programs, R].
Kernel sinkGradients{
    "attention_backward_sinks",
    [](View<const float, 2> sinks, View<const float, 3> lse, View<const float, 3> delta,
       View<float, 4> parts, const AttentionConfig &config) {
      auto program = program_id(0), head = program_id(1), batch = program_id(2);
      auto scores = sinks.at(head).tile(config.sinks).padding(-blockwise::infinity).load(0);
      auto rows = minimum(lse.extent(2) - program * sinkRows, sinkRows);
      parts.at(batch, head)
          .tile(1, config.sinks)
          .store(
              program, 0,
              expand(blockwise::sinkGradients(
                         scores, config.m, lse.at(batch, head).slice(0, program * sinkRows, rows),
                         delta.at(batch, head).slice(0, program * sinkRows, rows)),
                     0));
    }};

Config fieldsOf(const tiles::Row &forQueries, const tiles::Row &forKeys) {
  Config config = tiles::fields(forQueries, "q_");
  config.merge(tiles::fields(forKeys, "kv_"));
  return config;
}

// Bytes of a query head that the loop for dk and dv touches, with the sums of dq.
std::int64_t fusedBytes(const Invocation &call) {
  return queryBytes(call) + extentOr0(call, "Sq") * call.extent("D") * 4;
}

// How many programs share a group of query heads for dk and dv: as many as end soonest, in rounds
// of the chip's multiprocessors where all take as long. To store parts, and to add them up, takes
// as long as a few steps. In causal order the programs of a group come to work on different query
// heads: where dq is summed too, the cache has to hold these.
std::int64_t partsFor(const Invocation &call, const Config &config, const std::string &target) {
  constexpr double stored = 6, added = 4;
  constexpr std::int64_t cache = 24 << 20;
  const std::int64_t heads = std::max<std::int64_t>(extentOr0(call, "Hq"), 1),
                     kvHeads = std::max<std::int64_t>(extentOr0(call, "Hkv"), 1),
                     group = std::max<std::int64_t>(heads / kvHeads, 1),
                     batches = std::max<std::int64_t>(extentOr0(call, "B"), 1),
                     queries = std::max<std::int64_t>(extentOr0(call, "Sq"), 1),
                     keys = std::max<std::int64_t>(extentOr0(call, "Sk"), 1),
                     units = multiprocessors(target);
  const bool drifts = config.at("fused") && call.options.flag("causal");
  const double longest = double(ceilDiv(queries, config.at("kv_m"))),
               visible = visiblePairs(call) / double(batches * heads * keys),
               mean = visible / double(config.at("kv_m"));
  const bool alike = visible >= double(queries);
  std::int64_t best = group;
  double least = std::numeric_limits<double>::infinity();
  for (std::int64_t parts = 1; parts <= group; ++parts) {
    const std::int64_t members = group / parts;
    if (group % parts || (drifts && parts < group && members * fusedBytes(call) > cache))
      continue;
    const std::int64_t programs = ceilDiv(keys, config.at("kv_n")) * kvHeads * batches * parts;
    const double kept = parts > 1 ? stored : 0, one = double(members) * longest + kept,
                 all = double(programs) * (double(members) * mean + kept) / double(units),
                 time = (alike ? double(ceilDiv(programs, units)) * one : std::max(one, all)) +
                        (parts > 1 ? added : 0);
    if (time < least) {
      least = time;
      best = parts;
    }
  }
  return best;
}

Config backwardDefaults(const Invocation &call, const std::string &target) {
  const tiles::Row &forKeys = tiles::rowFor(tiles::Pass::keyGradients, call, target);
  Config config = fieldsOf(tiles::rowFor(tiles::Pass::queryGradients, call, target), forKeys);
  config["fused"] = forKeys.tile.schedule == tiles::Schedule::fused;
  config["kv_parts"] = partsFor(call, config, target);
  return config;
}

SearchSpace backwardSpace(const std::string &kernel, const std::string &prefix) {
  return {
      .part = kernel + "_" + prefix,
      .axes = {{prefix + "_m", {16, 32, 64, 128}},
               {prefix + "_n", {16, 32, 64, 128}},
               {prefix + "_warps", {4, 8}},
               {prefix + "_stages", {1, 2, 3}},
               {prefix + "_overlap", {0, 1}}},
      // Scores and sums of one thread.
      .where = [prefix](const Invocation &call, const std::string &target, const Config &config) {
        const bool keys = prefix == "kv";
        if (config.at(prefix + "_overlap") &&
            (config.at(prefix + "_warps") != 8 || config.at(prefix + "_stages") < 2 ||
             !hasWarpgroupUnits(target, operandType(call))))
          return false;
        const std::int64_t m = config.at(prefix + "_m"), n = config.at(prefix + "_n"),
                           warps = config.at(prefix + "_warps");
        const std::int64_t sums =
            keys ? n * (paddedWidth(call.extent("D")) + paddedWidth(call.extent("Dv")))
                 : m * paddedWidth(call.extent("D"));
        return (keys ? n : m) >= 16 * (warps / 4) &&
               (2 * m * n + sums) / (warps * warpSize(target)) <= 192;
      }};
}

} // namespace

void sectile::addShared(Use &use, const Tensor<float, 4> &parts, const Tensor<float, 4> &gradient) {
  SharedConfig config;
  config.parts = static_cast<int>(powerAtLeast(std::clamp<std::int64_t>(parts.extent(2), 1, 32)));
  config.columns = 1024 / config.parts;
  const std::int64_t batches = gradient.extent(0), heads = gradient.extent(1),
                     width = gradient.extent(3);
  use(sharedGradients, Grid(ceilDiv(width, config.columns), heads, batches), parts,
      withAxes<3>(gradient, {batches, heads, width},
                  {gradient.stride(0), gradient.stride(1), gradient.stride(3)}),
      config);
}

AttentionConfig sectile::rowConfig(const Use &use, const AttentionNumbers &numbers) {
  AttentionConfig rows;
  rows.m = rowsOfStatistics;
  rows.valueWidth = paddedWidth(use.call.extent("Dv"));
  rows.sinks = numbers.sinks;
  return rows;
}

void sectile::launchSinkGradients(Use &use, const Tensor<float, 3> &lse,
                                  const Tensor<float, 3> &delta, const AttentionConfig &rows) {
  const auto dsinks = use.tensor<float, 2>("dsinks");
  const Grid grid(ceilDiv(lse.extent(2), sinkRows), lse.extent(1), lse.extent(0));
  const auto parts =
      use.workspace<float, 4>({lse.extent(0), lse.extent(1), grid.x, dsinks.extent(1)});
  use(sinkGradients, grid, sinksOf(use), lse, delta, parts, rows);
  addShared(use, parts,
            withAxes<4>(dsinks, {1, dsinks.extent(0), 1, dsinks.extent(1)},
                        {0, dsinks.stride(0), 0, dsinks.stride(1)}));
}

KernelSpec sectile::attentionGradientsSpec(const KernelSpec &forward) {
  KernelSpec spec = forward;
  spec.name += "_backward";
  spec.arguments.clear();
  const auto add = [&](bool optional) {
    std::ranges::copy_if(forward.arguments, std::back_inserter(spec.arguments),
                         [=](const auto &one) { return one.optional == optional; });
  };
  add(false);
  for (ArgumentSpec &one : spec.arguments)
    if (std::exchange(one.output, false))
      one.doc = "of the forward pass";
  ArgumentSpec &lse = spec.arguments.back(), gradient = (&lse)[-1];
  // As if scores were small.
  lse.sample = sampleEach([](const Invocation &, auto &random) {
    return std::normal_distribution<float>(4, 0.2f)(random);
  });
  gradient.name = "do";
  gradient.doc = "the gradient of o";
  spec.arguments.push_back(gradient);
  add(true);
  const std::size_t inputs = spec.arguments.size();
  spec.add_gradients({"q", "k", "v", "bias", "sinks"});
  for (std::size_t i = inputs; i < spec.arguments.size(); ++i)
    spec.arguments[i].doc.insert(0, "the ");
  const char *overlap = "1: products run beside arithmetic, copies in a warp of their own";
  spec.config = {{"q_m", "queries of a program for dq"},
                 {"q_n", "keys of one of its steps"},
                 {"q_warps", "its warps"},
                 {"q_stages", "its steps in flight"},
                 {"q_overlap", overlap, 0, 1},
                 {"kv_m", "queries of a step of a program for dk and dv"},
                 {"kv_n", "its keys"},
                 {"kv_warps", "its warps"},
                 {"kv_stages", "its steps in flight"},
                 {"kv_overlap", overlap, 0, 1}};
  spec.neutral = {"q_stages", "kv_stages"};
  spec.factor = 3;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    return fieldsOf(tiles::rowFor(tiles::Pass::queryGradients, call, target),
                    tiles::rowFor(tiles::Pass::keyGradients, call, target));
  };
  spec.reference = backwardReference(attentionSettings);
  spec.spaces = {backwardSpace(spec.name, "q"), backwardSpace(spec.name, "kv")};
  return spec;
}

KernelSpec sectile::attentionBackwardSpec() {
  KernelSpec spec = attentionGradientsSpec(blockAttentionSpec());
  spec.summary = "the gradients of attention, from its inputs, its outputs and the gradient of o";
  spec.add_options({{"unordered: flag = false", "dq may be summed in any order where that is "
                                                "faster: two runs may differ in its last bits"}});
  spec.config.push_back(
      {"kv_parts", "programs for dk and dv that share the query heads of a group"});
  spec.config.push_back({"fused", "1: programs for dk and dv add up dq as well", 0, 1});
  spec.defaults = backwardDefaults;
  spec.flops = [](const Invocation &call) {
    return 2 * visiblePairs(call) * (3 * double(call.extent("D")) + 2 * double(call.extent("Dv")));
  };
  spec.apply = [](Use &use) {
    launchAttentionGradients(use, AttentionNumbers(use.call), GradientTensors(use));
  };
  return spec;
}

void sectile::launchAttentionGradients(Use &use, const AttentionNumbers &numbers,
                                       const GradientTensors &tensors) {
  launchGradientKernels<PlainOptions>(
      use, numbers, tensors, [&]<class T>(T, bool) { return optionArguments<T>(use, numbers); },
      std::identity());
}

void sectile::addHeadParts(Use &use, const Tensor<float, 4> &sums, const AnyTensor &gradients,
                           int parts, float scale) {
  for_dtype<half, bfloat16, float>(gradients.dtype, [&]<class T>(T) {
    const auto to = gradients.as<T, 4>();
    const AttentionConfig config{
        {.m = rowsOfStatistics, .width = paddedWidth(to.extent(3)), .parts = parts}, {}};
    use(addedParts<T>, Grid(ceilDiv(to.extent(2), config.m), to.extent(1), to.extent(0)), sums, to,
        scale, config);
  });
}

void sectile::launchPairs(Use &use, const flash::detail::Launch &queries,
                          std::span<const flash::detail::LearnedGradient> learned,
                          const flash::detail::Launcher &launch) {
  for (const auto &one : learned)
    if (const auto &gradient = one.gradient; one.along == flash::Along::pairs) {
      flash::detail::Launch pairs = queries;
      pairs.of = flash::detail::Launch::Of::pairs;
      pairs.grid = Grid(ceilDiv(gradient.extent(2), pairs.config.m) *
                            ceilDiv(gradient.extent(3), pairs.config.n),
                        gradient.extent(1), gradient.extent(0));
      pairs.pairs = &one;
      launch(use, pairs);
    }
}

void sectile::launchGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                              std::span<const flash::detail::LearnedGradient> learned,
                              const GradientTensors &tensors,
                              const flash::detail::Launcher &launch) {
  using flash::detail::Launch;
  const Invocation &call = use.call;
  const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                     kvHeads = call.extent("Hkv"), queries = call.extent("Sq"),
                     keys = call.extent("Sk"), groups = groupOf(call);
  if (!tensors.dvParts && tensors.dk.dtype != call.dtype("dv"))
    refuse(call, "dk and dv must have one dtype");
  AttentionConfig rows = rowConfig(use, numbers);
  flash::LoopConfig forQueries = attentionConfig(use, numbers, "q_"),
                    forKeys = attentionConfig(use, numbers, "kv_");
  forKeys.parts = use.field("kv_parts");
  if (forKeys.parts < 1 || groups % forKeys.parts)
    refuse(call, "kv_parts (", forKeys.parts, ") must divide the query heads of a group (", groups,
           ")");
  const bool fused = use.field("fused");
  if (fused && !allowsAnyOrder(call))
    refuse(call, "fused sums dq in any order, which only unordered=true allows");
  forQueries.raw = forKeys.raw = mayBeRaw(numbers, modified);
  forKeys.sumsQueries = rows.sumsQueries = fused;
  rows.width = forKeys.width;
  forQueries.heads = headsAtOnce(call, "Hq", keyBytes(call));
  forKeys.heads = headsAtOnce(call, "Hkv", queryBytes(call));
  const auto lse = use.tensor<float, 3>("lse");
  const auto delta = use.workspace<float, 3>({batches, heads, queries}),
             logs = use.workspace<float, 3>({batches, heads, queries});
  const std::int64_t width = call.extent("D"), valueWidth = call.extent("Dv");
  const auto dqSums =
      fused ? use.workspace<float, 4>({batches, heads, queries, width}) : noTensor<float, 4>();
  for_dtype<half, bfloat16, float>(operandType(call), [&]<class T>(T) {
    use(statistics<T>, Grid(ceilDiv(queries, rows.m), heads, batches), use.tensor<T, 4>("o"),
        use.tensor<T, 4>("do"), lse, delta, logs, dqSums, rows);
    Launch each{.of = Launch::Of::queries,
                .grid = headGrid(call, forQueries, ceilDiv(queries, forQueries.m), heads),
                .config = forQueries,
                .numbers = launchNumbers(use, numbers, groups),
                .logs = logs,
                .delta = delta,
                .dqSums = dqSums};
    for (const auto &[along, slot, values, gradient] : learned)
      each.learned.push_back(
          along == flash::Along::pairs
              ? gradient
              : use.workspace<float, 4>({batches, heads,
                                         isOfPrograms(along) ? ceilDiv(queries, forQueries.m) : 1,
                                         gradient.extent(3)}));
    if (!fused)
      launch(use, each);
    launchPairs(use, each, learned, launch);
    each.grid = headGrid(call, forKeys, ceilDiv(keys, forKeys.n), kvHeads * forKeys.parts);
    each.config = forKeys;
    if (forKeys.parts == 1 && !tensors.dvParts) {
      each.of = Launch::Of::keys;
      each.dk = tensors.dk;
      each.dv = anyTensor(use, "dv");
      launch(use, each);
    } else {
      const auto parts = [&](std::int64_t width) {
        return use.workspace<float, 4>({batches, kvHeads * forKeys.parts, keys, width});
      };
      const Tensor<float, 4> dkSums = parts(width),
                             dvSums = tensors.dvParts ? *tensors.dvParts : parts(valueWidth);
      each.of = Launch::Of::keyParts;
      each.dk = dkSums;
      each.dv = dvSums;
      each.numbers = launchNumbers(use, numbers, groups / forKeys.parts);
      launch(use, each);
      addHeadParts(use, dkSums, tensors.dk, forKeys.parts, 1);
      if (!tensors.dvParts)
        addHeadParts(use, dvSums, anyTensor(use, "dv"), forKeys.parts, 1);
    }
    if (fused)
      addHeadParts(use, dqSums, tensors.dq, 1, numbers.scale);
    for (std::size_t i = 0; i < learned.size(); ++i)
      if (learned[i].along != flash::Along::pairs)
        addShared(use, each.learned[i], learned[i].gradient);
  });
  if (numbers.sinks)
    launchSinkGradients(use, lse, delta, rows);
}
