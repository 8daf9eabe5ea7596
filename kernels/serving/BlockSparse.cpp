// block_sparse_attention and its gradients: attention in which a mask says what blocks of keys a
// block of queries sees, and others cost nothing:
//   o = softmax(scale q k^T) v over the keys j with mask[i / block_q, j / block_k],
// as block-sparse FlashAttention (Dao et al., arXiv 2205.14135); gradients by attention_backward's
// formulas. Refused: blocks that are no multiples of 16 up to 1024, a mask of other extents. A row
// that sees nothing gives o = 0 and lse = -inf. A NaN or an infinity may spread within blocks that
// causal order cuts, as attention's page says.
#include "kernels/position/Scheme.h"
#include "kernels/position/SchemeSpec.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/PresentBlocks.h"
#include "kernels/serving/References.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::scheme;
using serving::PresentTiles;

namespace {

struct BlockSparseConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int width = 64; // D, up to the next multiple of 16
  int blockQ = 64, blockK = 64;
  bool causal = false;

  Extents extents() const { return {m, n, width}; }
};
SECTILE_CONFIG(BlockSparseConfig, m, n, warps, stages, width, blockQ, blockK, causal)

// Plain scores of one head; the blocks that there are come in a list.
template <class T> struct BlockSparseScheme {
  const BlockSparseConfig &config;
  View<const T, 2> q, k;
  Float scale;
  PresentTiles tiles;

  Tile<T> queries(const Int &block, Part) const {
    return q.tile(config.m, config.width).load(block, 0);
  }
  Tile<T> keys(const Int &block, Part) const {
    return k.tile(config.n, config.width).load(block, 0);
  }
  Tile<float> scores(const Tile<T> &own, const Tile<T> &other, const Tile<Index> &,
                     const Tile<Index> &, Part) const {
    return dot(own, trans(other), zeros<float>(own.extent(0), other.extent(0)), Precision::ieee) *
           (scale * blockwise::log2e);
  }
  Tile<float> noQueries() const { return zeros<float>(config.m, config.width); }
  Tile<float> noKeys() const { return zeros<float>(config.n, config.width); }
  void accumulate(Tile<float> &total, const Tile<float> &slope, const Tile<T> &other,
                  const Tile<Index> &, const Tile<Index> &, Part) const {
    total = dot(cast<T>(slope), other, total, Precision::ieee);
  }
  void storeQueries(const View<T, 2> &dq, const Int &block, const Tile<float> &total) const {
    dq.tile(config.m, config.width).store(block, 0, total * scale);
  }
  void storeKeys(const View<T, 2> &dk, const Int &block, const Tile<float> &total) const {
    dk.tile(config.n, config.width).store(block, 0, total * scale);
  }
  std::vector<Run> keyRuns(const Int &, const Band::Range &) const { return present(); }
  std::vector<Run> queryRuns(const Int &, const Band::Range &) const { return present(); }

private:
  std::vector<Run> present() const {
    return {{.first = 0, .end = tiles.count, .blockOf = [this](const Int &step) {
               return tiles.tile(step);
             }}};
  }
};

struct Place {
  Int block = program_id(0), head = program_id(1), batch = program_id(2);
};

Band bandOf(const BlockSparseConfig &config, const Int &queries, const Int &keys) {
  Band band{.queries = queries, .keys = keys, .offset = keys - queries};
  if (config.causal)
    band.right = Int(0);
  return band;
}

using Lists = View<const std::int32_t, 4>;
using Counts = View<const std::int32_t, 3>;

// The list of the block of queries that tile `at.block` is of.
template <class T>
BlockSparseScheme<T> schemeOf(const Place &at, const View<const T, 4> &q, const View<const T, 4> &k,
                              const Lists &lists, const Counts &counts, const Int &groups,
                              const Float &scale, const BlockSparseConfig &config) {
  const int queryParts = config.blockQ / config.m, keyParts = config.blockK / config.n;
  return {config, q.at(at.batch, at.head), k.at(at.batch, at.head / groups), scale,
          PresentTiles(lists.at(at.batch, at.head), counts.at(at.batch, at.head),
                       at.block / queryParts, keyParts)};
}

template <class T>
Kernel forward{"block_sparse_attention",
               [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<T, 4> o,
                  View<float, 3> lse, Lists lists, Counts counts, Int groups, Float scale,
                  const BlockSparseConfig &config) {
                 const Place at;
                 const auto scheme = schemeOf<T>(at, q, k, lists, counts, groups, scale, config);
                 attend<T>(scheme, bandOf(config, q.extent(2), k.extent(2)), config.extents(),
                           at.block, v.at(at.batch, at.head / groups), o.at(at.batch, at.head),
                           lse.at(at.batch, at.head));
               }};

template <class T>
Kernel backwardQueries{
    "block_sparse_attention_backward_queries",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const T, 4> o,
       View<const float, 3> lse, View<const T, 4> dO, View<T, 4> dq, View<float, 3> deltas,
       Lists lists, Counts counts, Int groups, Float scale, const BlockSparseConfig &config) {
      const Place at;
      const auto scheme = schemeOf<T>(at, q, k, lists, counts, groups, scale, config);
      const auto total = queryGradients<T>(
          scheme, bandOf(config, q.extent(2), k.extent(2)), config.extents(), at.block,
          v.at(at.batch, at.head / groups), o.at(at.batch, at.head), dO.at(at.batch, at.head),
          lse.at(at.batch, at.head), deltas.at(at.batch, at.head));
      scheme.storeQueries(dq.at(at.batch, at.head), at.block, total);
    }};

// A program has one tile of keys, and goes through the present blocks of queries of all heads that
// share them. The lists are those of blocks of keys.
template <class T>
Kernel backwardKeys{
    "block_sparse_attention_backward_keys",
    [](View<const T, 4> q, View<const T, 4> k, View<const T, 4> v, View<const float, 3> lse,
       View<const T, 4> dO, View<const float, 3> deltas, View<T, 4> dk, View<T, 4> dv, Lists lists,
       Counts counts, Int groups, Float scale, const BlockSparseConfig &config) {
      const Place at;
      const Extents extents = config.extents();
      const Band band = bandOf(config, q.extent(2), k.extent(2));
      const int queryParts = config.blockQ / config.m, keyParts = config.blockK / config.n;
      const Int first = at.head * groups;
      auto schemeOf = [&](const Int &head) {
        return BlockSparseScheme<T>{config, q.at(at.batch, head), k.at(at.batch, at.head), scale,
                                    PresentTiles(lists.at(at.batch, head),
                                                 counts.at(at.batch, head), at.block / keyParts,
                                                 queryParts)};
      };
      const auto own = schemeOf(first);
      const auto keys = own.keys(at.block, Part::both);
      const auto values = v.at(at.batch, at.head).tile(extents.n, extents.width).load(at.block, 0);
      auto keyTotal = own.noKeys();
      auto valueTotal = zeros<float>(extents.n, extents.width);
      for (auto head : range(first, first + groups))
        keyGradients<T>(schemeOf(head), band, extents, at.block, keys, values,
                        dO.at(at.batch, head), lse.at(at.batch, head), deltas.at(at.batch, head),
                        keyTotal, valueTotal);
      own.storeKeys(dk.at(at.batch, at.head), at.block, keyTotal);
      dv.at(at.batch, at.head).tile(extents.n, extents.width).store(at.block, 0, valueTotal);
    }};

struct PresentLists {
  Tensor<std::int32_t, 4> lists;
  Tensor<std::int32_t, 3> counts;
};

// Makes the lists of blocks of queries or of keys, for all batches and heads of the mask; what they
// give is for all batches and heads of q.
PresentLists listPresent(Use &use, bool ofQueries) {
  const Invocation &call = use.call;
  auto mask = use.tensor<bool, 4>("mask");
  if (!ofQueries)
    mask = mask.permute({0, 1, 3, 2});
  const auto [batches, heads, rows, columns] = mask.extents();
  const auto lists = use.workspace<std::int32_t, 4>({batches, heads, rows, columns});
  const auto counts = use.workspace<std::int32_t, 3>({batches, heads, rows});
  const serving::BlockListConfig config{.blockQ = static_cast<int>(call.options.integer("block_q")),
                                        .blockK = static_cast<int>(call.options.integer("block_k")),
                                        .causal = call.options.flag("causal"),
                                        .ofQueries = ofQueries};
  use(serving::listBlocks, Grid(rows, heads, batches), mask, lists, counts, call.extent("Sq"),
      call.extent("Sk"), config);
  const std::int64_t ofBatch = batches == 1 ? 0 : lists.stride(0),
                     ofHead = heads == 1 ? 0 : lists.stride(1);
  return {{lists.data(),
           {call.extent("B"), call.extent("Hq"), rows, columns},
           {ofBatch, ofHead, lists.stride(2), 1},
           lists.memory()},
          {counts.data(),
           {call.extent("B"), call.extent("Hq"), rows},
           {batches == 1 ? 0 : counts.stride(0), heads == 1 ? 0 : counts.stride(1), 1},
           counts.memory()}};
}

// Tiles divide blocks.
BlockSparseConfig chosenConfig(const Use &use) {
  const int blockQ = static_cast<int>(use.call.options.integer("block_q")),
            blockK = static_cast<int>(use.call.options.integer("block_k"));
  return {.m = std::gcd(use.field("m"), blockQ),
          .n = std::gcd(use.field("n"), blockK),
          .warps = use.field("warps"),
          .stages = use.field("stages"),
          .width = paddedWidth(use.call.extent("D")),
          .blockQ = blockQ,
          .blockK = blockK,
          .causal = use.call.options.flag("causal")};
}

BlockSparseSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  return {.scheme = {.causal = call.options.flag("causal"), .scale = scheme::scale(call)},
          .blockQ = call.options.integer("block_q"),
          .blockK = call.options.integer("block_k"),
          .mask = &inputs[call.index("mask")]};
}

// An axis of the mask is as long as another one in blocks of as many as an option says.
struct MaskAxis {
  const char *option, *axis, *length, *blocks;
};
constexpr MaskAxis masked[] = {{"block_q", "Mq", "Sq", "queries"}, {"block_k", "Mk", "Sk", "keys"}};

void checkBlocks(const Invocation &call) {
  scheme::check(call);
  for (const auto &[option, axis, length, blocks] : masked) {
    const std::int64_t size = call.options.integer(option);
    if (size < 16 || size > 1024 || size % 16)
      throw InputError(call.kernel->name + ": option '" + option + "' is " + std::to_string(size) +
                       ", but must be a multiple of 16 up to 1024");
    if (call.extent(axis) != ceilDiv(call.extent(length), size))
      throw InputError(call.kernel->name + ": the mask has " + std::to_string(call.extent(axis)) +
                       " blocks of " + blocks + ", but " + std::to_string(call.extent(length)) +
                       " of them in blocks of " + std::to_string(size) + " are " +
                       std::to_string(ceilDiv(call.extent(length), size)));
  }
}

KernelSpec commonSpec(bool isBackward) {
  KernelSpec spec;
  spec.options = scheme::options(false);
  for (const MaskAxis &each : masked)
    spec.options.push_back(
        {.name = each.option,
         .kind = OptionSpec::integer,
         .initial = "64",
         .samples = {"16", "128"},
         .doc = std::string(each.blocks) + " of a block of the mask, a multiple of 16"});
  scheme::configure(spec, isBackward, 1);
  spec.small = {{"B", 2}, {"Hq", 2}, {"Hkv", 1}, {"Sq", 150}, {"Sk", 140}, {"D", 32}};
  spec.follow = [](Invocation &call) {
    for (const auto &[option, axis, length, blocks] : masked)
      call.extents[axis] =
          ceilDiv(call.extent(length), std::max<std::int64_t>(call.options.integer(option), 1));
  };
  spec.check = checkBlocks;
  spec.arguments = scheme::inputs({"q"}, {"k"});
  spec.arguments.push_back({.name = "mask",
                            .axes = {"1|B", "1|Hq", "Mq", "Mk"},
                            .dtypes = {DType::boolean},
                            .sample =
                                [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
                                  for (bool &present : array.as<bool>())
                                    present = random() % 2 == 0;
                                },
                            .doc = "true where a block of queries sees a block of keys"});
  return spec;
}

} // namespace

KernelSpec sectile::blockSparseAttentionSpec() {
  KernelSpec spec = commonSpec(false);
  spec.name = "block_sparse_attention";
  spec.summary = "attention over the blocks of keys that a mask of blocks has, and no others";
  spec.arguments.push_back(scheme::queryLike("o", "0 in rows that see no key", true));
  spec.arguments.back().like = "q";
  spec.arguments.push_back(scheme::logarithms(true));
  spec.spaces.front().part = forward<half>.name();
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result =
        blockSparseReference(inputs[0], inputs[1], inputs[2], settingsOf(call, inputs), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const BlockSparseConfig chosen = chosenConfig(use);
    const PresentLists present = listPresent(use, true);
    const Grid grid(ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq"), call.extent("B"));
    const std::int64_t groups = call.extent("Hq") / std::max<std::int64_t>(call.extent("Hkv"), 1);
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      use(forward<T>, grid, use.tensor<T, 4>("q"), use.tensor<T, 4>("k"), use.tensor<T, 4>("v"),
          use.tensor<T, 4>("o"), use.tensor<float, 3>("lse"), present.lists, present.counts, groups,
          static_cast<float>(scheme::scale(call)), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::blockSparseAttentionBackwardSpec() {
  KernelSpec spec = commonSpec(true);
  spec.name = "block_sparse_attention_backward";
  spec.summary = "gradients of block_sparse_attention";
  spec.factor = 3;
  auto add = [&](ArgumentSpec argument) {
    argument.like = "q";
    spec.arguments.push_back(std::move(argument));
  };
  add(scheme::queryLike("o", "of the forward kernel", false));
  spec.arguments.push_back(scheme::logarithms(false));
  // Of so many keys, with weights below 1 for the most part.
  spec.arguments.back().sample = [](const Invocation &call, HostArray &array,
                                    std::mt19937_64 &random) {
    std::normal_distribution<float> normal(std::log(static_cast<float>(call.extent("Sk") + 1)) + 1,
                                           0.2f);
    for (float &logarithm : array.as<float>())
      logarithm = normal(random);
  };
  add(scheme::queryLike("do", "gradient of o", false));
  add(scheme::queryLike("dq", "gradient of q", true));
  add(scheme::keyLike("dk", "gradient of k", true));
  add(scheme::keyLike("dv", "gradient of v", true));
  spec.spaces.front().part = backwardKeys<half>.name();
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = blockSparseBackwardReference(inputs, settingsOf(call, inputs), arithmetic);
    return std::vector{result.dq, result.dk, result.dv};
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const BlockSparseConfig chosen = chosenConfig(use);
    const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                       kvHeads = call.extent("Hkv"), queries = call.extent("Sq");
    const std::int64_t groups = heads / std::max<std::int64_t>(kvHeads, 1);
    const auto scale = static_cast<float>(scheme::scale(call));
    const PresentLists ofQueries = listPresent(use, true), ofKeys = listPresent(use, false);
    const auto deltas = use.workspace<float, 3>({batches, heads, queries});
    const auto lse = use.tensor<float, 3>("lse");
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto q = use.tensor<T, 4>("q"), k = use.tensor<T, 4>("k"), v = use.tensor<T, 4>("v"),
                 dO = use.tensor<T, 4>("do");
      use(backwardQueries<T>, Grid(ceilDiv(queries, chosen.m), heads, batches), q, k, v,
          use.tensor<T, 4>("o"), lse, dO, use.tensor<T, 4>("dq"), deltas, ofQueries.lists,
          ofQueries.counts, groups, scale, chosen);
      use(backwardKeys<T>, Grid(ceilDiv(call.extent("Sk"), chosen.n), kvHeads, batches), q, k, v,
          lse, dO, deltas, use.tensor<T, 4>("dk"), use.tensor<T, 4>("dv"), ofKeys.lists,
          ofKeys.counts, groups, scale, chosen);
    });
  };
  return spec;
}
