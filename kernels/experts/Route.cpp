// moe_route: the k experts of each token and their weights, from logits x of all experts:
//   s = softmax(x), sigmoid(x) or x; the k largest of s + bias, ties by the lower number;
//   w = s of those, or with `chosen` softmax of theirs; w / sum of w; times `scale`
// as in Switch and Mixtral (softmax), DeepSeek-V3 (arXiv 2412.19437: sigmoid, bias, groups) and
// gpt-oss (chosen). With groups of experts, neighbours, only those of the topk_group best are
// chosen from: a group's score is the sum of its two best with a bias, else its best.
// With `statistics` also which part of all choices fell on each expert and its mean score, of which
// losses that balance experts are made. Refused: more than 32 experts for a token or 1024 in all,
// groups that do not divide them, fewer than k left. And its gradient, where choices are constant.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/experts/Family.h"
#include "kernels/experts/References.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <limits>
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t mostGroups = 16;

enum class Scoring : int { softmax, sigmoid, chosen };

struct RouteConfig {
  int rows = 8, warps = 4;
  int width = 128;      // of the experts, up to the next power of two
  int k = 8, slots = 8; // slots: k, up to the next power of two
  int n_group = 1, topk_group = 1;
  Scoring scoring = Scoring::softmax;
  bool bias = false, renormalize = true, statistics = false, means = false;
};

template <class T> struct RouteArguments {
  View<const T, 2> logits;
  View<const float, 1> bias;
  Float scale;
  View<float, 2> weights;
  View<std::int32_t, 2> experts;
  View<float, 2> counts, sums; // [programs, E]: choices of each expert, and its scores
};

Tile<float> scoresOf(const Tile<float> &x, Scoring scoring) {
  return scoring == Scoring::softmax ? softmax(x, 1) : scoring == Scoring::sigmoid ? sigmoid(x) : x;
}
// 0 behind the last choice.
Tile<float> ofChoices(const Tile<float> &x, const RouteConfig &config, float none = 0) {
  return where(expand(arange(0, config.slots) < config.k, 0), x, none);
}

// Whether an expert's group is among the best, from the keys of all experts.
Tile<bool> isInBestGroup(const Tile<float> &keys, const Int &experts, const RouteConfig &config) {
  const int width = config.width, groups = config.n_group;
  const Int number = arange(0, width), group = number / (experts / groups);
  std::vector<Tile<float>> scores;
  for (int i = 0; i < groups; ++i) {
    const auto own = where(expand(group == i, 0), keys, -infinity);
    const auto [best, at] = max_with_index(own, 1, Nan::propagate);
    Tile<float> score = best;
    if (config.bias) {
      const auto others = where(expand(number, 0) == expand(cast<Index>(at), 1), -infinity, own);
      const auto second = max(others, 1, Nan::propagate);
      score = best + where(second == -infinity, 0.0f, second); // of a group of one
    }
    scores.push_back(score);
  }
  auto isIn = full<bool>(false, config.rows, width);
  for (int i = 0; i < groups; ++i) {
    Tile<std::int32_t> ahead = zeros<std::int32_t>(config.rows);
    for (int j = 0; j < groups; ++j)
      if (j != i)
        ahead += cast<std::int32_t>(j < i ? scores[j] >= scores[i] : scores[j] > scores[i]);
    isIn = isIn || (expand(ahead < config.topk_group, 1) && expand(group == i, 0));
  }
  return isIn;
}

template <class T>
Kernel moeRoute{
    "moe_route", [](const RouteArguments<T> &a, const RouteConfig &config) {
      const int m = config.rows, width = config.width;
      const Int row = program_id(0), experts = a.logits.extent(1);
      const auto x = cast<float>(a.logits.tile(m, width).padding(-infinity).load(row, 0));
      const auto isExpert = expand(arange(0, width) < experts, 0);
      const auto scores = scoresOf(x, config.scoring);
      auto keys = scores;
      if (config.bias)
        keys = keys + expand(a.bias.tile(width).load(0), 0);
      auto may = isExpert;
      if (config.topk_group < config.n_group)
        may = may && isInBestGroup(where(isExpert, keys, -infinity), experts, config);
      const auto [best, chosen] = topk(where(may, keys, -infinity), config.slots, 1);
      auto weights = gather(scores, chosen, 1);
      if (config.scoring == Scoring::chosen)
        weights = softmax(ofChoices(weights, config, -infinity), 1);
      else if (config.renormalize)
        weights = weights / expand(sum(ofChoices(weights, config), 1), 1);
      a.weights.tile(m, config.slots).store(row, 0, weights * a.scale);
      a.experts.tile(m, config.slots).store(row, 0, chosen);
      if (config.statistics) {
        const auto isThere = expand(row * m + arange(0, m) < a.logits.extent(0), 1);
        const auto isChoice = isThere && expand(arange(0, config.slots) < config.k, 0);
        a.counts.at(row).tile(width).store(0, cast<float>(histogram(chosen, width, isChoice)));
        a.sums.at(row).tile(width).store(0, sum(where(isThere, scores, 0.0f), 0));
      }
    }};

struct StatisticsArguments {
  View<const float, 2> counts, sums;
  View<float, 1> fraction, mean_score;
  Float choices, tokens;
};

struct StatisticsConfig {
  int rows = 64, columns = 32, warps = 4;
};

Kernel moeStatistics{"moe_statistics",
                     [](const StatisticsArguments &a, const StatisticsConfig &config) {
                       const Int column = program_id(0);
                       const auto total = [&](const View<const float, 2> &parts) {
                         auto sums = zeros<float>(config.rows, config.columns);
                         for (auto i : range(0, cdiv(parts.extent(0), config.rows)))
                           sums += parts.tile(config.rows, config.columns).load(i, column);
                         return sum(sums, 0);
                       };
                       a.fraction.tile(config.columns).store(column, total(a.counts) / a.choices);
                       a.mean_score.tile(config.columns).store(column, total(a.sums) / a.tokens);
                     }};

template <class T> struct RouteBackwardArguments {
  View<const T, 2> logits;
  View<const std::int32_t, 2> experts;
  View<const float, 2> dweights;
  View<const float, 1> dmean_score;
  View<T, 2> dlogits;
  Float scale, tokens;
};

template <class T>
Kernel moeRouteBackward{
    "moe_route_backward", [](const RouteBackwardArguments<T> &a, const RouteConfig &config) {
      const int m = config.rows, width = config.width;
      const Int row = program_id(0), experts = a.logits.extent(1);
      const auto x = cast<float>(a.logits.tile(m, width).padding(-infinity).load(row, 0));
      const auto scores = scoresOf(x, config.scoring);
      const auto chosen = a.experts.tile(m, config.slots).load(row, 0);
      auto gradient = ofChoices(a.dweights.tile(m, config.slots).load(row, 0), config) * a.scale;
      const auto own = gather(scores, minimum(maximum(chosen, 0), width - 1), 1);
      if (config.scoring == Scoring::chosen) {
        const auto w = softmax(ofChoices(own, config, -infinity), 1);
        gradient = w * (gradient - expand(sum(w * gradient, 1), 1));
      } else if (config.renormalize) {
        const auto total = expand(sum(ofChoices(own, config), 1), 1);
        gradient =
            (gradient - expand(sum(gradient * ofChoices(own, config), 1), 1) / total) / total;
      }
      // To the experts' places.
      const auto number = expand(cast<std::int32_t>(arange(0, width)), 0);
      auto spread = zeros<float>(m, width);
      for (int i = 0; i < config.k; ++i) {
        const auto isSlot = expand(arange(0, config.slots) == i, 0);
        const auto at = sum(where(isSlot, chosen, 0), 1);
        const auto value = sum(where(isSlot, gradient, 0.0f), 1);
        spread += where(number == expand(cast<std::int32_t>(at), 1), expand(value, 1), 0.0f);
      }
      if (config.means)
        spread += expand(a.dmean_score.tile(width).load(0) / a.tokens, 0);
      auto result = spread;
      if (config.scoring == Scoring::softmax) {
        const auto isExpert = expand(arange(0, width) < experts, 0);
        const auto along = sum(where(isExpert, spread * scores, 0.0f), 1);
        result = scores * (spread - expand(along, 1));
      } else if (config.scoring == Scoring::sigmoid) {
        result = spread * scores * sigmoid(-x);
      }
      a.dlogits.tile(m, width).store(row, 0, result);
    }};

void check(const Invocation &call) {
  const std::int64_t experts = call.extent("E"), k = call.options.integer("k"),
                     groups = call.options.integer("n_group"),
                     best = call.options.integer("topk_group");
  if (experts > mostExperts)
    refuse(call, "there are ", experts, " experts, but at most ", mostExperts, " are taken");
  if (groups < 1 || groups > mostGroups || experts % groups != 0)
    refuse(call, "option 'n_group' is ", groups, ", but must be from 1 to ", mostGroups,
           " and divide the ", experts, " experts");
  if (const std::int64_t left = experts / groups * std::min(best, groups); k > left)
    refuse(call, "option 'k' is ", k, ", but there are only ", left, " experts to choose from");
}

// What both kernels have.
void specify(KernelSpec &spec) {
  spec.add_arguments({{"logits: [T, E] f32|f16|bf16", "of each token for each expert"}});
  spec.add_options(
      {{"k: integer = 2 from 1 to 32 e.g. 1, 3", "experts of a token, 1 to 32"},
       {"scoring: softmax|sigmoid|chosen = softmax",
        "what weights come from: softmax or sigmoid of the logits, or softmax of those chosen"},
       {"n_group: integer = 1 e.g. 2, 4", "groups of experts, 1 to 16"},
       {"topk_group: integer = 1 from 1 e.g. 2",
        "groups that are chosen from; n_group or more: all"},
       {"renormalize: flag = false", "weights are divided by their sum; not with `chosen`"},
       {"scale: number = 1 e.g. 2.5", "of the weights"}});
  spec.config = {{"rows", "tokens of one program"}, {"warps", "warps of one program"}};
  spec.typical = {{"T", 16384}, {"E", 128}};
  spec.small = {{"T", 21}, {"E", 24}};
  spec.check = check;
  const auto widthOf = [](const Invocation &call) {
    return powerAtLeast(std::max<std::int64_t>(call.extent("E"), 32));
  };
  spec.defaults = [widthOf](const Invocation &call, const std::string &target) {
    const std::int64_t rows = std::clamp<std::int64_t>(2048 / widthOf(call), 2, 16);
    return Config{
        {"rows", rows},
        {"warps", std::clamp<std::int64_t>(rows * widthOf(call) / warpSize(target) / 8, 1, 8)}};
  };
  spec.spaces = {
      {.axes = {{"rows", {1, 2, 4, 8, 16, 32}}, {"warps", {1, 2, 4, 8}}},
       .where = [widthOf](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t elements = config.at("rows") * widthOf(call),
                            threads = config.at("warps") * warpSize(target);
         return elements >= threads && elements <= 32 * threads;
       }}};
}

RouteConfig configOf(const Use &use) {
  auto config = use.config_as<RouteConfig>();
  config.width = static_cast<int>(powerAtLeast(std::max<std::int64_t>(use.extent("E"), 32)));
  config.slots = static_cast<int>(powerAtLeast(config.k));
  return config;
}

} // namespace

KernelSpec sectile::moeRouteSpec() {
  KernelSpec spec;
  spec.name = "moe_route";
  spec.summary = "the k best experts of each token, and their weights";
  specify(spec);
  spec.add_arguments({{"bias?: [E] f32", "added to the scores that experts are chosen by"},
                      {"-> weights: [T, K] f32", "of the experts chosen, the best first"},
                      {"-> experts: [T, K] i32", "their numbers; of equals the lower one first"},
                      {"-> fraction: [E] f32 with statistics", "of all T k choices, by expert"},
                      {"-> mean_score: [E] f32 with statistics", "over all tokens"}});
  spec.add_options({{"statistics: flag = false", "fraction and mean_score are wanted"}});
  spec.derive = [](Invocation &call) { call.extents["K"] = call.options.integer("k"); };
  spec.reference = moeRouteReference;
  spec.batch = {"T"};
  spec.apply = [](Use &use) {
    const RouteConfig config = configOf(use);
    const std::int64_t tokens = use.extent("T"), experts = use.extent("E"),
                       programs = ceilDiv(tokens, config.rows);
    const auto parts = [&] {
      return config.statistics ? use.workspace<float, 2>({programs, experts})
                               : noTensor<float, 2>();
    };
    const auto counts = parts(), sums = parts();
    for_dtype<float, half, bfloat16>(use.call.dtype("logits"), [&]<class T>(T) {
      use(moeRoute<T>, programs, config, {{"counts", counts}, {"sums", sums}});
    });
    if (config.statistics)
      use(moeStatistics, ceilDiv(experts, StatisticsConfig{}.columns), StatisticsConfig{},
          {{"counts", counts},
           {"sums", sums},
           {"choices", static_cast<double>(tokens * config.k)},
           {"tokens", static_cast<double>(tokens)}});
  };
  return spec;
}

KernelSpec sectile::moeRouteBackwardSpec() {
  KernelSpec spec;
  spec.name = "moe_route_backward";
  spec.summary = "gradient of moe_route's logits; the choice of experts is constant";
  specify(spec);
  const auto choices = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    // Distinct in each row.
    const std::int64_t k = array.shape[1], experts = std::max<std::int64_t>(call.extent("E"), 1);
    auto numbers = array.as<std::int32_t>();
    for (std::size_t i = 0; i < numbers.size(); ++i)
      numbers[i] = i % static_cast<std::size_t>(k) == 0
                       ? static_cast<std::int32_t>(random() % static_cast<std::uint64_t>(experts))
                       : static_cast<std::int32_t>((numbers[i - 1] + 1) % experts);
  };
  spec.add_arguments({{"experts: [T, K] i32", "from moe_route", {.sample = choices}},
                      {"dweights: [T, K] f32", "gradient of the weights"},
                      {"dmean_score?: [E] f32", "gradient of the mean scores"}});
  spec.add_gradients({"logits"});
  spec.follow = [](Invocation &call) { call.extents["K"] = call.options.integer("k"); };
  spec.check = [](const Invocation &call) {
    check(call);
    if (call.extent("K") != call.options.integer("k"))
      refuse(call, "experts has ", call.extent("K"), " in a row, but option 'k' is ",
             call.options.choice("k"));
  };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    for (const std::int32_t expert : inputs[call.index("experts")].as<std::int32_t>())
      if (expert < 0 || expert >= call.extent("E"))
        refuse(call, "experts has ", expert, ", but there are experts 0 to ", call.extent("E") - 1);
  };
  spec.reference = moeRouteBackwardReference;
  spec.factor = 3;
  spec.batch = {"T"};
  spec.apply = [](Use &use) {
    RouteConfig config = configOf(use);
    config.means = use.has("dmean_score");
    for_dtype<float, half, bfloat16>(use.call.dtype("logits"), [&]<class T>(T) {
      use(moeRouteBackward<T>, ceilDiv(use.extent("T"), config.rows), config,
          {{"tokens", static_cast<double>(use.extent("T"))}});
    });
  };
  return spec;
}
