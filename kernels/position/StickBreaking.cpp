// stick_breaking_attention, forward and backward (Tan et al., arXiv 2410.17980): each query breaks
// its stick at the keys before it, the nearest first, and what it breaks off is the key's weight:
//   A_ij = sigmoid(s_ij) prod of (1 - sigmoid(s_ik)) over j < k < i, o_i = sum of A_ij v_j, and
//   rem_i = prod of all (1 - sigmoid(s_ik)) is left. With a_ij = A_ij (do_i . v_j):
//   ds_ij = a_ij - sigmoid(s_ij) (rem_i drem_i + sum of a_ik over k <= j), derived from these.
// D outside 16 to 256 is refused. A NaN or an infinity may spread within blocks as attention's page
// says.
#include "kernels/attention/Band.h"
#include "kernels/attention/OnlineSoftmax.h"
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "kernels/position/Scheme.h"
#include "kernels/position/SchemeSpec.h"

using namespace sectile;
using blockwise::Band;

namespace {

struct StickConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int width = 64;
  bool remainder = false; // it has a gradient
};
SECTILE_CONFIG(StickConfig, m, n, warps, stages, width, remainder)

// Scores of blocks of queries and keys, either way round.
template <class T>
Tile<float> scoresOf(const Tile<T> &rows, const Tile<T> &columns, const Float &scale) {
  return scale * dot(rows, trans(columns), zeros<float>(rows.extent(0), columns.extent(0)),
                     Precision::ieee);
}

// log(1 + e^-|score|)
Tile<float> tail(const Tile<float> &scores) { return log1p(exp(-abs(scores))); }

// -log(1 - sigmoid(score)): how much shorter, in logarithms, a stick is behind each key.
Tile<float> shortening(const Tile<float> &scores, const Bool &visible) {
  return where(visible, maximum(scores, 0.0f, Nan::propagate) + tail(scores), 0.0f);
}

// For each element the sum of those behind it along the axis. Not a sum less the element, which
// would lose the digits of all the others where the element is large.
Tile<float> sumBehind(const Tile<float> &x, int axis) {
  const auto sums = associative_scan(
      std::tuple(zeros_like(x), x), axis,
      [](const Float &, const Float &all, const Float &ownBehind, const Float &own) {
        return std::tuple(all + ownBehind, all + own);
      },
      true);
  return std::get<0>(sums);
}

// Weights, from what the later blocks have shortened the stick by; keys along `axis`.
Tile<float> weightsOf(const Tile<float> &scores, const Bool &visible,
                      const Tile<float> &shortenings, const Tile<float> &later, int axis) {
  const auto broken = minimum(scores, 0.0f, Nan::propagate) - tail(scores);
  const auto logarithm = broken - (later + sumBehind(shortenings, axis));
  return where(visible, exp(logarithm), 0.0f);
}

// Gradients of the scores. `changes` are the weights times their gradients, `earlier` their sum
// over the earlier blocks: a score shortens the sticks of its key and of all earlier ones.
Tile<float> slopesOf(const Tile<float> &scores, const Bool &visible, const Tile<float> &changes,
                     const Tile<float> &earlier, int axis) {
  const auto all = earlier + cumsum(changes, axis);
  return where(visible, changes - sigmoid(scores) * all, 0.0f);
}

Band bandOf(const Int &queries, const Int &keys) {
  return {.queries = queries, .keys = keys, .offset = keys - queries, .left = {}, .right = Int(-1)};
}

template <class T>
Kernel stickBreaking{
    "stick_breaking_attention",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<T, 4> o, View<float, 3> rem,
       Int groups, Float scale, const StickConfig &config) {
      const int m = config.m, n = config.n, width = config.width;
      auto block = program_id(0), head = program_id(1), batch = program_id(2);
      const Band band = bandOf(q.extent(2), k.extent(2));
      const auto keyTiles = k.at(batch, head / groups).tile(n, width);
      const auto valueTiles = v.at(batch, head / groups).tile(n, width);
      const auto query = q.at(batch, head).tile(m, width).load(block, 0);
      const auto i = expand(scheme::rowNumbers(block, m), 1);
      auto later = zeros<float>(m);
      auto output = zeros<float>(m, width);
      const Int blocks = band.keyBlocks(block * m, m, n).end;
      for (auto step : range(0, blocks)) {
        const Int at = blocks - 1 - step;
        const auto visible = band.visibleKeys(i, expand(scheme::rowNumbers(at, n), 0));
        const auto scores = scoresOf<T>(query, keyTiles.load(at, 0), scale);
        const auto shortenings = shortening(scores, visible);
        const auto weights = weightsOf(scores, visible, shortenings, expand(later, 1), 1);
        output = dot(cast<T>(weights), valueTiles.load(at, 0), output, Precision::ieee);
        later += sum(shortenings, 1);
      }
      o.at(batch, head).tile(m, width).store(block, 0, output);
      rem.at(batch, head).tile(m).store(block, exp(-later));
    }};

// Gradients of the queries. Leaves for each row and block of keys what the later blocks shorten the
// stick by, found from the last to the first, and what the earlier ones change, found the other
// way: neither is a difference.
template <class T>
Kernel stickBreakingQueries{
    "stick_breaking_attention_backward_queries",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> dO,
       View<const float, 3> drem, View<T, 4> dq, View<float, 4> laters, View<float, 4> earliers,
       Int groups, Float scale, const StickConfig &config) {
      const int m = config.m, n = config.n, width = config.width;
      auto block = program_id(0), head = program_id(1), batch = program_id(2);
      const Band band = bandOf(q.extent(2), k.extent(2));
      const auto keyTiles = k.at(batch, head / groups).tile(n, width);
      const auto valueTiles = v.at(batch, head / groups).tile(n, width);
      const auto query = q.at(batch, head).tile(m, width).load(block, 0);
      const auto laterTiles = laters.at(batch, head).tile(1, m);
      const auto earlierTiles = earliers.at(batch, head).tile(1, m);
      const auto i = expand(scheme::rowNumbers(block, m), 1);
      const Int blocks = band.keyBlocks(block * m, m, n).end;
      auto visibleIn = [&](const Int &at) {
        return band.visibleKeys(i, expand(scheme::rowNumbers(at, n), 0));
      };

      auto later = zeros<float>(m);
      for (auto step : range(0, blocks)) {
        const Int at = blocks - 1 - step;
        laterTiles.store(at, block, expand(later, 0));
        later += sum(shortening(scoresOf<T>(query, keyTiles.load(at, 0), scale), visibleIn(at)), 1);
      }
      barrier();

      auto earlier = zeros<float>(m);
      if (config.remainder)
        earlier = exp(-later) * drem.at(batch, head).tile(m).load(block);
      const auto slope = dO.at(batch, head).tile(m, width).load(block, 0);
      auto total = zeros<float>(m, width);
      for (auto at : range(0, blocks)) {
        const auto visible = visibleIn(at);
        const auto keys = keyTiles.load(at, 0);
        const auto scores = scoresOf<T>(query, keys, scale);
        const auto before = reshape(laterTiles.load(at, block), m, 1);
        const auto weights = weightsOf(scores, visible, shortening(scores, visible), before, 1);
        const auto changes = weights * dot(slope, trans(valueTiles.load(at, 0)), zeros<float>(m, n),
                                           Precision::ieee);
        earlierTiles.store(at, block, expand(earlier, 0));
        const auto slopes = slopesOf(scores, visible, changes, expand(earlier, 1), 1);
        total = dot(cast<T>(slopes * scale), keys, total, Precision::ieee);
        earlier += sum(changes, 1);
      }
      dq.at(batch, head).tile(m, width).store(block, 0, total);
    }};

// A program has one block of keys, and goes through all queries of all heads that see them.
template <class T>
Kernel stickBreakingKeys{
    "stick_breaking_attention_backward_keys",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> dO,
       View<const float, 4> laters, View<const float, 4> earliers, View<T, 4> dk, View<T, 4> dv,
       Int groups, Float scale, const StickConfig &config) {
      const int m = config.m, n = config.n, width = config.width;
      auto block = program_id(0), kvHead = program_id(1), batch = program_id(2);
      const Band band = bandOf(q.extent(2), k.extent(2));
      const auto keys = k.at(batch, kvHead).tile(n, width).load(block, 0);
      const auto values = v.at(batch, kvHead).tile(n, width).load(block, 0);
      const auto j = expand(scheme::rowNumbers(block, n), 1);
      const Band::Range seen = band.queryBlocks(block * n, n, m);
      auto keyTotal = zeros<float>(n, width), valueTotal = zeros<float>(n, width);
      for (auto head : range(kvHead * groups, (kvHead + 1) * groups)) {
        const auto queryTiles = q.at(batch, head).tile(m, width);
        const auto slopeTiles = dO.at(batch, head).tile(m, width);
        for (auto step : range(seen.first, seen.end)) {
          const auto visible = band.visible(expand(scheme::rowNumbers(step, m), 0), j);
          const auto queries = queryTiles.load(step, 0), slope = slopeTiles.load(step, 0);
          const auto scores = scoresOf<T>(keys, queries, scale);
          const auto later = laters.at(batch, head).tile(1, m).load(block, step);
          const auto weights = weightsOf(scores, visible, shortening(scores, visible), later, 0);
          valueTotal = dot(cast<T>(weights), slope, valueTotal, Precision::ieee);
          const auto changes =
              weights * dot(values, trans(slope), zeros<float>(n, m), Precision::ieee);
          const auto earlier = earliers.at(batch, head).tile(1, m).load(block, step);
          const auto slopes = slopesOf(scores, visible, changes, earlier, 0);
          keyTotal = dot(cast<T>(slopes * scale), queries, keyTotal, Precision::ieee);
        }
      }
      dk.at(batch, kvHead).tile(n, width).store(block, 0, keyTotal);
      dv.at(batch, kvHead).tile(n, width).store(block, 0, valueTotal);
    }};

KernelSpec commonSpec(const char *name, const char *summary, bool backward) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.arguments = scheme::inputs({"q"}, {"k"});
  for (OptionSpec &option : scheme::options(false))
    if (option.name != "causal")
      spec.options.push_back(std::move(option));
  scheme::configure(spec, backward, 1);
  spec.small["Sk"] = spec.small["Sq"]; // sticks of all lengths: behind many keys nothing is left
  spec.check = scheme::check;
  return spec;
}

StickConfig chosenConfig(const Use &use) {
  return {use.field("m"), use.field("n"), use.field("warps"), use.field("stages"),
          scheme::paddedWidth(use.call.extent("D"))};
}

std::int64_t groupsOf(const Invocation &call) {
  return call.extent("Hq") / std::max<std::int64_t>(call.extent("Hkv"), 1);
}

ArgumentSpec restArgument(const char *name, const char *doc, bool output) {
  return {.name = name,
          .output = output,
          .optional = !output,
          .axes = {"B", "Hq", "Sq"},
          .dtypes = {DType::float32},
          .sample =
              [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
                std::normal_distribution<float> normal;
                for (float &value : array.as<float>())
                  value = normal(random);
              },
          .doc = doc};
}

} // namespace

KernelSpec sectile::stickBreakingSpec() {
  KernelSpec spec = commonSpec(
      "stick_breaking_attention",
      "o = sum of A v over earlier keys, A = sigmoid(s) * product of 1 - sigmoid(s) between",
      false);
  spec.arguments.push_back(scheme::queryLike("o", "0 in rows that see no key", true));
  spec.arguments.back().like = "q";
  spec.arguments.push_back(restArgument("rem", "1 less the sum of a row's weights", true));
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return stickBreakingReference(inputs, scheme::scale(call), arithmetic);
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const StickConfig chosen = chosenConfig(use);
    forDType<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      use(stickBreaking<T>,
          Grid(ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq"), call.extent("B")),
          use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"),
          use.tensor<T, 4>("o"), use.tensor<float, 3>("rem"), groupsOf(call),
          static_cast<float>(scheme::scale(call)), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::stickBreakingBackwardSpec() {
  KernelSpec spec = commonSpec("stick_breaking_attention_backward",
                               "gradients of stick_breaking_attention", true);
  spec.factor = 3;
  auto add = [&](ArgumentSpec argument) {
    argument.like = "q";
    spec.arguments.push_back(std::move(argument));
  };
  add(scheme::queryLike("do", "gradient of o", false));
  spec.arguments.push_back(restArgument("drem", "gradient of rem; 0 if not given", false));
  add(scheme::queryLike("dq", "gradient of q", true));
  add(scheme::keyLike("dk", "gradient of k", true));
  add(scheme::keyLike("dv", "gradient of v", true));
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return stickBreakingBackwardReference(inputs, scheme::scale(call), arithmetic);
  };
  spec.spaces.front().part = "stick_breaking_attention_backward_keys";
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    StickConfig chosen = chosenConfig(use);
    chosen.remainder = call.has("drem");
    const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                       queries = call.extent("Sq"), blocks = ceilDiv(call.extent("Sk"), chosen.n);
    const auto scale = static_cast<float>(scheme::scale(call));
    const auto laters = use.workspace<float, 4>({batches, heads, blocks, queries});
    const auto earliers = use.workspace<float, 4>({batches, heads, blocks, queries});
    forDType<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v"),
                 dO = use.tensor<T, 4>("do");
      use(stickBreakingQueries<T>, Grid(ceilDiv(queries, chosen.m), heads, batches), q, k, v, dO,
          use.tensor<float, 3>("drem"), use.tensor<T, 4>("dq"), laters, earliers, groupsOf(call),
          scale, chosen);
      use(stickBreakingKeys<T>, Grid(blocks, call.extent("Hkv"), batches), q, k, v, dO, laters,
          earliers, use.tensor<T, 4>("dk"), use.tensor<T, 4>("dv"), groupsOf(call), scale, chosen);
    });
  };
  return spec;
}
