// cross_entropy of logits x and classes c, and its gradient. With lse = log(sum of e^x) of a row:
//   loss = (1 - s) (lse - x[c]) + s (lse - mean(x)) + z lse^2
//   dx = (e^(x - lse) (1 + 2 z lse) - (1 - s) [c] - s / V) dloss, derived from it,
// and with weights w of classes
//   loss = (1 - s) w[c] (lse - x[c]) + s mean(w (lse - x)) + z lse^2
//   dx = (e^(x - lse) ((1 - s) w[c] + s mean(w) + 2 z lse) - (1 - s) w[c] [c] - s w / V) dloss,
// as torch.nn.functional.cross_entropy, s its label_smoothing (Szegedy et al., arXiv 1512.00567); z
// is PaLM's z-loss (Chowdhery et al., arXiv 2204.02311). A mean is over w[c]; that of z lse^2 is
// over targets. Over no targets it is NaN. Targets without classes and an s outside 0 to 1 are
// refused; a target that is neither a class nor ignore_index is an assertion's error.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/Losses.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <sectile/approximate.h>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct CrossEntropyConfig {
  int block = 1024, rows = 1, warps = 4;
  bool smooth = false; // labels
  bool mean = false, class_weights = false, argmax = false;
};

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class T, class Target> struct CrossEntropyArguments {
  View<const T, 2> logits;
  View<const Target, 1> targets;
  View<const float, 1> class_weights, sums;
  View<float, 1> loss, lse;
  View<std::int32_t, 1> argmax;
  Tile<std::int64_t> ignore_index;
  Float label_smoothing, lse_square;
};

// Logits are read once: the largest so far and the sum relative to it.
template <class T, class Target>
Kernel crossEntropy{
    "cross_entropy",
    [](const CrossEntropyArguments<T, Target> &a, const CrossEntropyConfig &config) {
      const auto &[logits, targets, weights, sums, loss, lse, argmax, ignored, smoothing, square] =
          a;
      const int m = config.rows, n = config.block;
      auto row = program_id(0);
      auto number = row * m + arange(0, m);
      auto classes = logits.extent(1);
      auto target = cast<std::int64_t>(targets.tile(m).load(row));
      auto counts = number < logits.extent(0) && target != ignored;
      auto known = target >= 0 && target < classes;
      device_assert(known || !counts, "a target is a class or ignore_index");
      auto largest = full<float>(-infinity, m), total = zeros<float>(m), plain = zeros<float>(m);
      LargestPlace best{full<float>(-infinity, m), zeros<std::int32_t>(m)};
      for (auto block : range(0, cdiv(classes, n))) {
        auto values = cast<float>(logits.tile(m, n).padding(-infinity).load(row, block));
        auto before = largest;
        largest = maximum(largest, max(values, 1));
        auto base = where(largest == -infinity, 0.0f, largest);
        total = total * fast_exp(before - base) + sum(fast_exp(values - expand(base, 1)), 1);
        if (config.smooth) {
          auto inside = expand(block * n + arange(0, n) < classes, 0);
          auto present = where(inside, values, 0.0f);
          if (config.class_weights)
            present = present * expand(weights.tile(n).load(block), 0);
          plain += sum(present, 1);
        }
        if (config.argmax)
          best.take(values, 1, block * n);
      }
      auto logarithm = where(largest == -infinity, 0.0f, largest) + log(total);
      auto own = cast<float>(load(
          logits.ptr() + number * logits.stride(0) + target * logits.stride(1), counts && known));
      auto value = logarithm - own;
      Float factor = square;
      if (config.class_weights) {
        value = value * load(weights.ptr() + target * weights.stride(0), counts && known);
        wait_dependencies(); // the sums are there now
        const ClassSums all(sums);
        if (config.smooth)
          value = (1.0f - smoothing) * value +
                  smoothing * ((all.ofClasses * logarithm - plain) / cast<float>(classes));
        if (config.mean)
          factor = all.squareInMean(square);
      } else if (config.smooth) {
        value = (1.0f - smoothing) * value + smoothing * (logarithm - plain / cast<float>(classes));
      }
      value += factor * logarithm * logarithm;
      loss.tile(m).store(row, where(counts, value, 0.0f));
      lse.tile(m).store(row, logarithm);
      if (config.argmax)
        argmax.tile(m).store(row, best.place);
    }};

struct CrossEntropyBackwardConfig {
  int block = 1024, rows = 1, warps = 4;
  bool shared = false; // gradients are of a mean
  int counted = 0;     // targets, at least all, of which each program counts those of the mean;
                       // 0: a launch before has
  bool smooth = false, class_weights = false;
};

template <class T, class Target> struct CrossEntropyBackwardArguments {
  View<const T, 2> logits;
  View<const Target, 1> targets;
  View<const float, 1> lse, dloss, share, class_weights, sums;
  View<T, 2> dlogits;
  Tile<std::int64_t> ignore_index;
  Float label_smoothing, lse_square;
};

template <class T, class Target>
Kernel crossEntropyBackward{
    "cross_entropy_backward", [](const CrossEntropyBackwardArguments<T, Target> &a,
                                 const CrossEntropyBackwardConfig &config) {
      const auto &[logits, targets, lse, dloss, share, weights, sums, dlogits, ignored, smoothing,
                   square] = a;
      const int m = config.rows, n = config.block;
      auto row = program_id(0), block = program_id(1);
      auto target = cast<std::int64_t>(targets.tile(m).load(row));
      auto gradient = dloss.tile(m).load(row);
      auto logarithm = lse.tile(m).load(row);
      auto column = expand(block * n + arange(0, n), 0);
      auto loaded = logits.tile(m, n).load(row, block);
      if (config.class_weights) {
        auto known = target >= 0 && target < logits.extent(1);
        auto ofTarget = (1.0f - smoothing) * load(weights.ptr() + target * weights.stride(0),
                                                  known && target != ignored);
        wait_dependencies(); // the sums are there now
        const ClassSums all(sums);
        Float factor = square;
        if (config.shared) {
          gradient *= 1.0f / all.ofTargets;
          factor = all.squareInMean(square);
        }
        const Float part = smoothing / cast<float>(logits.extent(1));
        auto result = fast_exp(cast<float>(loaded) - expand(logarithm, 1)) *
                          expand(ofTarget + part * all.ofClasses + 2.0f * factor * logarithm, 1) -
                      where(expand(target, 1) == column, expand(ofTarget, 1), 0.0f);
        if (config.smooth)
          result = result - expand(part * weights.tile(n).load(block), 0);
        dlogits.tile(m, n).store(
            row, block, where(expand(target != ignored, 1), result * expand(gradient, 1), 0.0f));
        return;
      }
      if (config.counted) {
        gradient *= 1.0f / cast<float>(sum(countsOf(targets, ignored, 0, config.counted), 0));
      } else if (config.shared) {
        wait_dependencies(); // the share is there now
        gradient *= load(share.ptr());
      }
      auto values = cast<float>(loaded);
      auto weight =
          fast_exp(values - expand(logarithm, 1)) * expand(1.0f + 2.0f * square * logarithm, 1);
      auto own = where(expand(target, 1) == column, 1.0f - smoothing, 0.0f);
      auto result =
          (weight - own - smoothing / cast<float>(logits.extent(1))) * expand(gradient, 1);
      dlogits.tile(m, n).store(row, block, where(expand(target != ignored, 1), result, 0.0f));
    }};

// A class, or now and then a target to ignore.
void sampleTargets(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const std::int64_t classes = std::max<std::int64_t>(call.extent("V"), 1);
  fillDrawn(array, [&] {
    return static_cast<double>(
        random() % 8 ? static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(classes))
                     : call.options.integer("ignore_index"));
  });
}

// Of standard normal logits.
void sampleLogarithms(const Invocation &call, HostArray &array, std::mt19937_64 &) {
  const double usual = std::log(static_cast<double>(call.extent("V"))) + 0.5;
  array.assign(std::vector<double>(static_cast<std::size_t>(array.count()), usual));
}

void check(const Invocation &call) {
  if (call.extent("V") == 0 && elementCount(call.leading) != 0)
    refuse(call, "there are targets, but the logits have no classes");
}

// The arguments after the inputs that both kernels have are `own`.
void fill(KernelSpec &spec, std::int64_t longest, const std::vector<ArgumentRow> &own) {
  spec.add_arguments({{"logits: [..., V] f32|f16|bf16", "any number of rows, of any length"},
                      targetsArgument("...")});
  spec.add_arguments(own);
  spec.add_options(lossOptions());
  configureRows(spec, "V", longest);
  spec.spaces.front().part = spec.name;
  spec.typical = {{"...", 4096}, {"V", 32768}};
  spec.small = {{"...", 5}, {"V", 300}};
  spec.check = check;
}

// Beyond this many targets for a program, or for all programs together, a launch of one program
// that counts them takes less time.
constexpr std::int64_t mostCounted = 2048, mostCountedByAll = 1 << 19;

// Logits of a row that a program holds at once where rows are few.
constexpr std::int64_t longestAtOnce = 16384;

// Calls function(T{}, Target{}) with the types of the logits and the targets.
template <class Function> void forTypes(const Invocation &call, Function &&function) {
  for_dtype<float, half, bfloat16>(call.dtype("logits"), [&]<class T>(T zero) {
    forTargets(call, [&]<class Target>(Target target) { function(zero, target); });
  });
}

} // namespace

ArgumentRow sectile::targetsArgument(const std::string &axes) {
  return {"targets: [" + axes + "] i64|i32",
          "the class of each row; another number than a class or ignore_index is an error (an "
          "assertion's)",
          {.sample = sampleTargets}};
}

ArgumentRow sectile::classWeightsArgument() {
  return {
      "class_weights?: [V] f32",
      "a loss is multiplied by the weight of its target's class; a mean is divided by their sum",
      {.sample = sampleUniform(0.25, 2)}};
}

std::vector<OptionRow> sectile::lossOptions() {
  return {
      {"reduction: mean|sum|none = mean",
       "of all losses; the mean is over targets that are not ignored"},
      {"ignore_index: integer = -100 e.g. 3, -1", "a target that gives no loss and no gradient"},
      {"label_smoothing: number = 0 from 0 to 1 e.g. 0.1",
       "from 0 to 1: the part of a label that all classes share evenly"},
      {"lse_square: number = 0 e.g. 0.01", "times lse^2 is added to each loss"}};
}

std::vector<std::string> sectile::reduced(std::vector<std::string> axes,
                                          const OptionValues &options) {
  return options.choice("reduction") == "none" ? std::move(axes) : std::vector<std::string>();
}

CrossEntropyValues sectile::lossValues(const Invocation &call, std::span<const HostArray> inputs) {
  const OptionValues &options = call.options;
  return {options.integer("ignore_index"), options.number("label_smoothing"),
          options.number("lse_square"), options.choice("reduction"),
          inputs[call.index("class_weights")].to_double()};
}

KernelSpec sectile::crossEntropySpec() {
  KernelSpec spec;
  spec.name = "cross_entropy";
  spec.summary = "loss = lse - logits[target], with lse = log(sum(exp(logits)))";
  fill(spec, 2048,
       {classWeightsArgument(),
        {"-> loss: [...] f32", "one number unless the reduction is none", {.stored = reduced}},
        {"-> lse: [...] f32", "natural logarithm of each row's sum of exponentials"},
        {"-> argmax: [...] i32 with argmax",
         "the class of each row's largest logit, the first of equals; of a NaN, if there is one"}});
  spec.add_options({{"argmax: flag = false", "argmax is wanted"}});
  spec.defaults = [rows = spec.defaults](const Invocation &call, const std::string &target) {
    // Of few rows each takes as long as its program waits: they are read at once.
    const std::int64_t count = elementCount(call.leading), length = call.extent("V");
    if (count <= 2 * multiprocessors(target) && length <= longestAtOnce) {
      const auto [block, together, warps] =
          rowBlocksFor(count, length, longestAtOnce, call.dtype("logits"), target);
      return Config{{"block", block}, {"rows", together}, {"warps", warps}};
    }
    // Each block of a row waits for two sums over the threads: few of them, with much to do for
    // each.
    Config config = rows(call, target);
    config["warps"] = std::max<std::int64_t>(config["warps"] / 2, 1);
    return config;
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto result = crossEntropyReference(in[0], in[1], lossValues(call, in), arithmetic);
    return std::vector{result.loss, result.lse, result.argmax};
  };
  spec.apply = [](Use &use) {
    const std::string &reduction = use.call.options.choice("reduction");
    auto config = use.config_as<CrossEntropyConfig>();
    config.smooth = use.call.options.number("label_smoothing") != 0;
    config.mean = config.class_weights && reduction == "mean";
    const std::int64_t rows = use.extent("...");
    const bool reduces = reduction != "none";
    const auto loss = use.elements<float>("loss");
    const auto losses = reduces ? use.workspace<float, 1>({rows}) : loss;
    const auto sums = classSums(use);
    forTypes(use.call, [&]<class T, class Target>(T, Target) {
      use(crossEntropy<T, Target>, ceilDiv(rows, config.rows), config,
          {{"loss", losses}, {"sums", sums}});
    });
    if (reduces)
      forTargets(use.call, [&]<class Target>(Target) {
        use(crossEntropyMean<Target>, 1,
            MeanConfig{.mean = reduction == "mean", .weighted = config.class_weights},
            {{"losses", losses}, {"sums", sums}, {"loss", loss}});
      });
  };
  return spec;
}

KernelSpec sectile::crossEntropyBackwardSpec() {
  KernelSpec spec;
  spec.name = "cross_entropy_backward";
  spec.summary = "gradient of the logits of cross_entropy: (exp(logits - lse) - [target]) dloss";
  fill(spec, 2048,
       {{"lse: [...] f32", "from cross_entropy", {.sample = sampleLogarithms}},
        {"dloss: [...] f32",
         "gradient of the loss; one number unless the reduction is none",
         {.stored = reduced}},
        classWeightsArgument(),
        {"-> dlogits: [..., V] like logits over logits",
         "gradient of the logits; 0 in rows that are ignored"}});
  spec.factor = 3;
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    return std::vector{crossEntropyBackwardReference(in[0], in[1], in[2], in[3],
                                                     lossValues(call, in), arithmetic)};
  };
  spec.apply = [](Use &use) {
    const std::int64_t classes = use.extent("V"), rows = use.extent("...");
    const std::string &reduction = use.call.options.choice("reduction");
    auto config = use.config_as<CrossEntropyBackwardConfig>();
    config.shared = reduction == "mean";
    config.smooth = config.class_weights && use.call.options.number("label_smoothing") != 0;
    const Grid grid(classes ? ceilDiv(rows, config.rows) : 0, ceilDiv(classes, config.block));
    const bool counts = config.shared && !config.class_weights; // others have sums
    if (counts && rows <= mostCounted && rows * grid.x * grid.y <= mostCountedByAll)
      config.counted = static_cast<int>(powerAtLeast(std::max<std::int64_t>(rows, 32)));
    auto dloss = use.elements<float>("dloss");
    if (reduction != "none") // the same for all rows
      dloss = {dloss.data(), {rows}, {0}, dloss.memory()};
    auto share = noTensor<float, 1>();
    if (counts && !config.counted) {
      share = use.workspace<float, 1>({1});
      forTargets(use.call, [&]<class Target>(Target) {
        use(crossEntropyShare<Target>, 1, countConfig(), {{"share", share}});
      });
    }
    const auto sums = classSums(use);
    forTypes(use.call, [&]<class T, class Target>(T, Target) {
      use(crossEntropyBackward<T, Target>, grid, config,
          {{"dloss", dloss}, {"share", share}, {"sums", sums}});
    });
  };
  return spec;
}
