// stick_breaking_attention, forward and backward (Tan et al., arXiv 2410.17980): each query breaks
// its stick at the keys before it, the nearest first, and what it breaks off is the key's weight:
//   A_ij = sigmoid(s_ij) prod of (1 - sigmoid(s_ik)) over j < k < i, o_i = sum of A_ij v_j, and
//   rem_i = prod of all (1 - sigmoid(s_ik)) is left. With a_ij = A_ij (do_i . v_j):
//   ds_ij = a_ij - sigmoid(s_ij) (rem_i drem_i + sum of a_ik over k <= j), derived from these.
// D outside 16 to 256 is refused. A NaN or an infinity may spread within blocks as attention's page
// says.
#include "kernels/attention/Band.h"
#include "kernels/attention/OnlineSoftmax.h"
#include "kernels/attention/Options.h"
#include "kernels/calls/Slice.h"
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "runtime/Chip.h"
#include <algorithm>

using namespace sectile;

namespace {

// Query i sees keys up to i + offset + last, so that later queries see more.
struct Order {
  Int queries, keys, offset, last = -1;

  Order(const Int &queries, const Int &keys)
      : queries(queries), keys(keys), offset(keys - queries) {}

  // How many blocks of `size` keys hold all that `rows` queries from `row` on see.
  Int keyBlocks(const Int &row, int rows, int size) const {
    return cdiv(minimum(keys, maximum(0, row + rows + offset + last)), size);
  }
  // The first block of `size` queries that see any of the keys from `column` on.
  Int queryBlock(const Int &column, int size) const {
    return maximum(0, column - offset - last) / size;
  }
};

// `rows` queries from `row` on and `columns` keys from `column` on, along the axes of a tile.
struct OrderedBlock {
  const Order &order;
  Int row;
  int rows;
  Int column;
  int columns;
  // A tile is [columns, rows], and queries behind the last see nothing; else [rows, columns].
  bool keysFirst = false;

  // x with `hidden` in place of what is not visible. Most blocks are wholly visible, and compare
  // nothing.
  Tile<float> mask(Tile<float> x, float hidden) const {
    const auto seesAll = [&] {
      return column + columns <= order.keys &&
             column + (columns - 1) <= row + (order.offset + order.last);
    };
    const Bool all = keysFirst ? row + rows <= order.queries && seesAll() : seesAll();
    when(!all, [&] {
      const Int i = expand(row + arange(0, rows), keysFirst ? 0 : 1),
                j = expand(column + arange(0, columns), keysFirst ? 1 : 0);
      const auto last = [&] { return minimum(order.keys - 1, i + (order.offset + order.last)); };
      x = where(j <= (keysFirst ? where(i < order.queries, last(), -1) : last()), x, hidden);
    });
    return x;
  }
};

struct StickConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int width = 64;
  bool remainder = false; // it has a gradient
};

// Logarithms are of base 2 throughout. Scores of a block, with queries or keys as its rows; -inf
// where a key is not visible, which breaks nothing off and leaves the stick as it is.
template <class T>
Tile<float> scoresOf(const Tile<T> &rows, const Tile<T> &columns, const Float &scale,
                     const OrderedBlock &block) {
  auto products =
      dot(rows, trans(columns), zeros<float>(rows.extent(0), columns.extent(0)), Precision::ieee);
  return block.mask(products * (scale * blockwise::log2e), -blockwise::infinity);
}

// log2(1 + 2^-|score|), relative error 2^-22: the minimax polynomial of log2(1 + e) / e for e from
// 0 to 1.
Tile<float> tail(const Tile<float> &scores) {
  const auto e = exp2(-abs(scores));
  auto sum = full_like(e, 0.00754918206f);
  for (float factor : {-0.0425670617f, 0.112856193f, -0.197118969f, 0.275641412f, -0.358408472f,
                       0.480692957f, -0.721340208f, 1.442695f})
    sum = fma(sum, e, factor);
  return e * sum;
}

// What breaking at keys does, in logarithms.
struct Breaks {
  Tile<float> broken;      // the part that breaks off: sigmoid(score)
  Tile<float> shortenings; // the part that is left, negated: 1 - sigmoid(score)

  explicit Breaks(const Tile<float> &scores) {
    const auto rest = tail(scores);
    broken = minimum(scores, 0.0f, Nan::propagate) - rest;
    shortenings = maximum(scores, 0.0f, Nan::propagate) + rest;
  }
};

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
Tile<float> weightsOf(const Breaks &breaks, const Tile<float> &later, int axis) {
  return exp2(breaks.broken - (later + sumBehind(breaks.shortenings, axis)));
}

// The part of a stick that is left. It may be a subnormal number, which exp2 would take for 0.
Tile<float> restOf(const Tile<float> &shortened) { return exp(shortened * -blockwise::ln2); }

// Gradients of the scores. `changes` are the weights times their gradients, `earlier` their sum
// over the earlier blocks: a score shortens the sticks of its key and of all earlier ones.
Tile<float> slopesOf(const Breaks &breaks, const OrderedBlock &block, const Tile<float> &changes,
                     const Tile<float> &earlier, int axis) {
  const auto all = earlier + cumsum(changes, axis);
  return block.mask(changes - exp2(breaks.broken) * all, 0.0f);
}

template <class T>
Kernel stickBreaking{"stick_breaking_attention",
                     [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<T, 4> o,
                        View<float, 3> rem, Int groups, Float scale, const StickConfig &config) {
                       const int m = config.m, n = config.n, width = config.width;
                       const Int block = blockwise::queryBlock();
                       auto head = program_id(1), batch = program_id(2);
                       const Order order(q.extent(2), k.extent(2));
                       const auto keyTiles = k.at(batch, head / groups).tile(n, width);
                       const auto valueTiles = v.at(batch, head / groups).tile(n, width);
                       const auto query = q.at(batch, head).tile(m, width).load(block, 0);
                       auto later = zeros<float>(m);
                       auto output = zeros<float>(m, width);
                       const Int blocks = order.keyBlocks(block * m, m, n);
                       for (auto step : range(0, blocks, {.warp_specialize = config.warps == 8})) {
                         const Int at = blocks - 1 - step;
                         const OrderedBlock here{order, block * m, m, at * n, n};
                         const Breaks breaks(scoresOf<T>(query, keyTiles.load(at, 0), scale, here));
                         const auto weights = weightsOf(breaks, expand(later, 1), 1);
                         output =
                             dot(cast<T>(weights), valueTiles.load(at, 0), output, Precision::ieee);
                         later += sum(breaks.shortenings, 1);
                       }
                       o.at(batch, head).tile(m, width).store(block, 0, output);
                       rem.at(batch, head).tile(m).store(block, restOf(later));
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
      const Int block = blockwise::queryBlock();
      auto head = program_id(1), batch = program_id(2);
      const Order order(q.extent(2), k.extent(2));
      const auto keyTiles = k.at(batch, head / groups).tile(n, width);
      const auto valueTiles = v.at(batch, head / groups).tile(n, width);
      const auto query = q.at(batch, head).tile(m, width).load(block, 0);
      const auto laterTiles = laters.at(batch, head).tile(1, m);
      const auto earlierTiles = earliers.at(batch, head).tile(1, m);
      const Int blocks = order.keyBlocks(block * m, m, n);
      auto blockOf = [&](const Int &at) { return OrderedBlock{order, block * m, m, at * n, n}; };

      auto later = zeros<float>(m);
      for (auto step : range(0, blocks)) {
        const Int at = blocks - 1 - step;
        laterTiles.store(at, block, expand(later, 0));
        const Breaks breaks(scoresOf<T>(query, keyTiles.load(at, 0), scale, blockOf(at)));
        later += sum(breaks.shortenings, 1);
      }
      barrier();

      auto earlier = zeros<float>(m);
      if (config.remainder)
        earlier = restOf(later) * drem.at(batch, head).tile(m).load(block);
      const auto slope = dO.at(batch, head).tile(m, width).load(block, 0);
      auto total = zeros<float>(m, width);
      for (auto at : range(0, blocks)) {
        const OrderedBlock here = blockOf(at);
        const auto keys = keyTiles.load(at, 0);
        const Breaks breaks(scoresOf<T>(query, keys, scale, here));
        const auto weights = weightsOf(breaks, reshape(laterTiles.load(at, block), m, 1), 1);
        const auto changes = weights * dot(slope, trans(valueTiles.load(at, 0)), zeros<float>(m, n),
                                           Precision::ieee);
        earlierTiles.store(at, block, expand(earlier, 0));
        const auto slopes = slopesOf(breaks, here, changes, expand(earlier, 1), 1);
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
      const Order order(q.extent(2), k.extent(2));
      const auto keys = k.at(batch, kvHead).tile(n, width).load(block, 0);
      const auto values = v.at(batch, kvHead).tile(n, width).load(block, 0);
      const Int first = order.queryBlock(block * n, m), end = cdiv(order.queries, m);
      auto keyTotal = zeros<float>(n, width), valueTotal = zeros<float>(n, width);
      for (auto head : range(kvHead * groups, (kvHead + 1) * groups)) {
        const auto queryTiles = q.at(batch, head).tile(m, width);
        const auto slopeTiles = dO.at(batch, head).tile(m, width);
        for (auto step : range(first, end)) {
          const OrderedBlock here{order, step * m, m, block * n, n, true};
          const auto queries = queryTiles.load(step, 0), slope = slopeTiles.load(step, 0);
          const Breaks breaks(scoresOf<T>(keys, queries, scale, here));
          const auto later = laters.at(batch, head).tile(1, m).load(block, step);
          const auto weights = weightsOf(breaks, later, 0);
          valueTotal = dot(cast<T>(weights), slope, valueTotal, Precision::ieee);
          const auto changes =
              weights * dot(values, trans(slope), zeros<float>(n, m), Precision::ieee);
          const auto earlier = earliers.at(batch, head).tile(1, m).load(block, step);
          const auto slopes = slopesOf(breaks, here, changes, earlier, 0);
          keyTotal = dot(cast<T>(slopes * scale), queries, keyTotal, Precision::ieee);
        }
      }
      dk.at(batch, kvHead).tile(n, width).store(block, 0, keyTotal);
      dv.at(batch, kvHead).tile(n, width).store(block, 0, valueTotal);
    }};

Config defaultsFor(const Invocation &call, const std::string &target, bool backward) {
  const std::int64_t d = call.extent("D");
  const DType dtype = call.dtype("q");
  if (!backward && d > 64 && hasWarpgroupUnits(target, dtype)) {
    if (call.extent("Sq") < 1024)
      return {{"m", 64}, {"n", 32}, {"warps", 4}, {"stages", 2}};
    return {{"m", 128}, {"n", d <= 128 ? 64 : 32}, {"warps", 8}, {"stages", 3}};
  }
  // Numbers that a row of operands has, in words.
  const std::int64_t words = d * (1 + backward) * (dtype == DType::float32 ? 2 : 1);
  const bool matrices = hasMatrixUnits(target, dtype);
  const std::int64_t most = target.starts_with("sm_") ? 512 : 256; // shared memory
  const std::int64_t wide = backward ? 256 : 128;
  std::int64_t size = words > most ? 16 : words > wide || !matrices ? 32 : 64;
  const auto shared = [&] { return Chip::known(target).maxSharedBytes; };
  // Warps of 32 threads have no registers for the keys and values of a block. They lie beside the
  // queries, their gradients and the scores.
  while (backward && matrices && warpSize(target) == 32 &&
         words * size * 4 + size * size * 2 > shared())
    size /= 2;
  // Of shared memory two blocks of queries and their gradients take most, keys and values the rest.
  const bool fits = backward ? matrices && words * size * 7 <= shared() : words <= 256;
  return {{"m", size}, {"n", size}, {"warps", 4}, {"stages", fits ? 2 : 1}};
}

KernelSpec commonSpec(bool backward) {
  KernelSpec spec;
  spec.add_arguments({{"q: [B, Hq, Sq, D] f16|bf16|f32", "queries; D from 16 to 256"},
                      {"k: [B, Hkv, Sk, D] like q", "keys; Hq is a multiple of Hkv"},
                      {"v: [B, Hkv, Sk, D] like q", "values"}});
  if (backward) {
    spec.add_arguments({{"do: [B, Hq, Sq, D] like q", "gradient of o"},
                        {"drem?: [B, Hq, Sq] f32", "gradient of rem; 0 if not given"}});
    spec.add_gradients({"q", "k", "v"});
  } else {
    spec.add_arguments({{"-> o: [B, Hq, Sq, D] like q", "0 in rows that see no key"},
                        {"-> rem: [B, Hq, Sq] f32", "1 less the sum of a row's weights"}});
  }
  spec.add_options({scaleOption});
  addLayouts(spec);
  spec.config = {{"m", backward ? "queries of a block" : "queries of one program"},
                 {"n", backward ? "keys of a block" : "keys of one step"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"}};
  spec.typical = {{"B", 4}, {"Hq", 16}, {"Hkv", 16}, {"Sq", 2048}, {"Sk", 2048}, {"D", 64}};
  // As many keys as queries, for sticks of all lengths: behind many keys nothing is left.
  spec.small = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 40}, {"Sk", 40}, {"D", 32}};
  spec.check = [](const Invocation &call) { checkHeads(call, "the queries", "the keys", {"D"}); };
  spec.reference = [backward](const Invocation &call, std::span<const HostArray> inputs,
                              Arithmetic arithmetic) {
    return (backward ? stickBreakingBackwardReference
                     : stickBreakingReference)(inputs, scaleOf(call), arithmetic);
  };
  spec.defaults = [backward](const Invocation &call, const std::string &target) {
    return defaultsFor(call, target, backward);
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t threads = config.at("warps") * warpSize(target), m = config.at("m"),
                            n = config.at("n"),
                            sums = std::max(m, n) * paddedWidth(call.extent("D"));
         // Scores and sums of one thread; backward also what they change, and dv.
         const std::int64_t numbers = backward ? 3 * m * n + 2 * sums : m * n + sums;
         return m >= 16 * (config.at("warps") / 4) && numbers <= (backward ? 224 : 160) * threads;
       }}};
  return spec;
}

StickConfig chosenConfig(const Use &use) {
  return use.config_as(StickConfig{.width = paddedWidth(use.extent("D"))});
}

// Heads of keys whose gradients are found together. Those of the queries leave 8 bytes for each
// query and block of keys to those of the keys: as many heads as 256 MiB hold.
std::int64_t headsFor(const Invocation &call, const Config &config) {
  const std::int64_t bytes = 8 * call.extent("B") * groupOf(call) * call.extent("Sq") *
                             ceilDiv(call.extent("Sk"), config.at("n"));
  return std::clamp<std::int64_t>((256 << 20) / std::max<std::int64_t>(bytes, 1), 1,
                                  std::max<std::int64_t>(call.extent("Hkv"), 1));
}

} // namespace

KernelSpec sectile::stickBreakingSpec() {
  KernelSpec spec = commonSpec(false);
  spec.name = "stick_breaking_attention";
  spec.summary =
      "o = sum of A v over earlier keys, A = sigmoid(s) * product of 1 - sigmoid(s) between";
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const StickConfig chosen = chosenConfig(use);
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      use(stickBreaking<T>,
          Grid(ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq"), call.extent("B")),
          use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"),
          use.tensor<T, 4>("o"), use.tensor<float, 3>("rem"), groupOf(call),
          static_cast<float>(scaleOf(call)), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::stickBreakingBackwardSpec() {
  KernelSpec spec = commonSpec(true);
  spec.name = "stick_breaking_attention_backward";
  spec.summary = "gradients of stick_breaking_attention";
  spec.factor = 3;
  spec.config.push_back({"heads", "heads of keys that come together, and share scratch memory"});
  spec.neutral.push_back("heads");
  spec.defaults = [defaults = spec.defaults](const Invocation &call, const std::string &target) {
    Config config = defaults(call, target);
    config["heads"] = headsFor(call, config);
    return config;
  };
  spec.spaces.front().part = "stick_breaking_attention_backward_keys";
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    StickConfig chosen = chosenConfig(use);
    chosen.remainder = call.has("drem");
    const std::int64_t batches = call.extent("B"), queries = call.extent("Sq"),
                       blocks = ceilDiv(call.extent("Sk"), chosen.n);
    const auto scale = static_cast<float>(scaleOf(call));
    const std::int64_t groups = groupOf(call), kvHeads = call.extent("Hkv"),
                       heads = std::clamp<std::int64_t>(use.field("heads"), 1,
                                                        std::max<std::int64_t>(kvHeads, 1));
    const auto laters = use.workspace<float, 4>({batches, heads * groups, blocks, queries}),
               earliers = use.workspace<float, 4>({batches, heads * groups, blocks, queries});
    const auto drem = use.tensor<float, 3>("drem");
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      for (std::int64_t first = 0; first < kvHeads; first += heads) {
        const Slice own{first, std::min(heads, kvHeads - first)},
            queryHeads{own.first * groups, own.length * groups};
        const auto ofQueries = [&](const char *name) {
          return cut(use.tensor<T, 4>(name), 1, queryHeads);
        };
        const auto ofKeys = [&](const char *name) { return cut(use.tensor<T, 4>(name), 1, own); };
        const auto q = ofQueries("q"), k = ofKeys("k"), v = ofKeys("v"), dO = ofQueries("do");
        use(stickBreakingQueries<T>, Grid(ceilDiv(queries, chosen.m), queryHeads.length, batches),
            q, k, v, dO, chosen.remainder ? cut(drem, 1, queryHeads) : drem, ofQueries("dq"),
            laters, earliers, groups, scale, chosen);
        use(stickBreakingKeys<T>, Grid(blocks, own.length, batches), q, k, v, dO, laters, earliers,
            ofKeys("dk"), ofKeys("dv"), groups, scale, chosen);
      }
    });
  };
  return spec;
}
