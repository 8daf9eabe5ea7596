// rerope_attention, forward and backward: attention with two sets of queries and keys, one for keys
// near a query and one for those far from it:
//   o = softmax(s) v, s_ij = scale (q1_i . k1_j where |p_i - p_j| < window, else q2_i . k2_j),
// as ReRoPE has it (Su, github.com/bojone/rerope); gradients are derived from it. Refused: D
// outside 16 to 256, a negative window. A NaN or an infinity may spread within blocks as
// attention's page says.
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "kernels/position/Scheme.h"
#include "kernels/position/SchemeSpec.h"
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::scheme;

namespace {

struct ReropeConfig {
  int m = 64, n = 64, warps = 4, stages = 2;
  int width = 64;
  bool causal = false;

  Extents extents() const { return {m, n, width}; }
};
SECTILE_CONFIG(ReropeConfig, m, n, warps, stages, width, causal)

// Key j is near to query i where |i + offset - j| < window.
template <class T> struct ReropeScheme {
  // Those of the other set have no value where a part has no use for them.
  template <class U> struct Sets {
    Tile<U> near, far;
  };
  using Operands = Sets<T>;
  using Totals = Sets<float>;

  const ReropeConfig &config;
  View<const T, 2> q1, q2, k1, k2; // of one head
  Int offset, window;
  Float scale;

  Operands queries(const Int &block, Part part) const {
    return load(q1, q2, block, config.m, part);
  }
  Operands keys(const Int &block, Part part) const { return load(k1, k2, block, config.n, part); }

  Tile<float> scores(const Operands &own, const Operands &other, const Tile<Index> &i,
                     const Tile<Index> &j, Part part) const {
    auto product = [](const Tile<T> &a, const Tile<T> &b) {
      return dot(a, trans(b), zeros<float>(a.extent(0), b.extent(0)), Precision::ieee);
    };
    const Float factor = scale * blockwise::log2e;
    if (part == Part::near)
      return product(own.near, other.near) * factor;
    if (part == Part::far)
      return product(own.far, other.far) * factor;
    auto near = product(own.near, other.near);
    auto far = product(own.far, other.far);
    return where(isNear(i, j), near, far) * factor;
  }

  Totals noQueries() const { return nothing(config.m); }
  Totals noKeys() const { return nothing(config.n); }
  void accumulate(Totals &total, const Tile<float> &slope, const Operands &other,
                  const Tile<Index> &i, const Tile<Index> &j, Part part) const {
    auto add = [&](Tile<float> &sum, const Tile<float> &change, const Tile<T> &with) {
      sum = dot(cast<T>(change), with, sum, Precision::ieee);
    };
    if (part == Part::both) {
      const auto near = isNear(i, j);
      add(total.near, where(near, slope, 0.0f), other.near);
      add(total.far, where(near, 0.0f, slope), other.far);
    } else if (part == Part::near) {
      add(total.near, slope, other.near);
    } else {
      add(total.far, slope, other.far);
    }
  }

  // In causal order nothing visible is ahead of a query, nor behind a key.
  std::vector<Run> keyRuns(const Int &row, const Band::Range &blocks) const {
    return runs(row + offset, config.m, config.n, blocks, true, !config.causal);
  }
  std::vector<Run> queryRuns(const Int &column, const Band::Range &blocks) const {
    return runs(column - offset, config.n, config.m, blocks, !config.causal, true);
  }

private:
  Operands load(const View<const T, 2> &near, const View<const T, 2> &far, const Int &block,
                int extent, Part part) const {
    Operands operands;
    if (part != Part::far)
      operands.near = near.tile(extent, config.width).load(block, 0);
    if (part != Part::near)
      operands.far = far.tile(extent, config.width).load(block, 0);
    return operands;
  }
  Totals nothing(int rows) const {
    auto near = zeros<float>(rows, config.width), far = zeros<float>(rows, config.width);
    return {near, far};
  }
  Bool isNear(const Tile<Index> &i, const Tile<Index> &j) const {
    return abs(i + offset - j) < window;
  }

  // For `rows` places from `row` on, the blocks of `size` others: far from all of them, mixed, near
  // to all, mixed, far; without those before or behind the near ones where no others are visible.
  std::vector<Run> runs(const Int &row, int rows, int size, const Band::Range &blocks, bool before,
                        bool behind) const {
    const Int last = row + (rows - 1);
    // The first block with anything near, the first with nothing far, and where either ends.
    Int anyFirst = maximum(row - window + 1, 0) / size;
    Int allFirst = cdiv(maximum(last - window + 1, 0), size);
    Int allEnd = maximum(row + window, 0) / size;
    Int anyEnd = cdiv(maximum(last + window, 0), size);
    if (!before)
      anyFirst = allFirst = blocks.first;
    if (!behind)
      anyEnd = allEnd = blocks.end;
    const Int a = minimum(maximum(anyFirst, blocks.first), blocks.end);
    const Int d = maximum(minimum(anyEnd, blocks.end), a);
    const Int b = minimum(maximum(allFirst, a), d);
    const Int c = minimum(maximum(allEnd, b), d);
    std::vector<Run> result;
    if (before) {
      result.push_back({blocks.first, a, Part::far});
      result.push_back({a, b, Part::both});
    }
    result.push_back({b, c, Part::near});
    if (behind) {
      result.push_back({c, d, Part::both});
      result.push_back({d, blocks.end, Part::far});
    }
    return result;
  }
};

// One program's place, and the scheme of its heads.
template <class T> struct Program {
  const ReropeConfig &config;
  View<const T, 4> q1, q2, k1, k2;
  Int window;
  Float scale;
  Int block = program_id(0), head = program_id(1), batch = program_id(2);
  Band band = {.queries = q1.extent(2),
               .keys = k1.extent(2),
               .offset = k1.extent(2) - q1.extent(2),
               .left = {},
               .right = config.causal ? std::optional<Int>(0) : std::nullopt};

  ReropeScheme<T> scheme(const Int &queryHead, const Int &keyHead) const {
    return {config,
            q1.at(batch, queryHead),
            q2.at(batch, queryHead),
            k1.at(batch, keyHead),
            k2.at(batch, keyHead),
            band.offset,
            window,
            scale};
  }
};

template <class T>
Kernel reropeAttention{
    "rerope_attention",
    [](View<const T, 4> q1, View<const T, 4> q2, View<const T, 4> k1, View<const T, 4> k2,
       View<const T, 4> v, View<T, 4> o, View<float, 3> lse, Int groups, Float scale, Int window,
       const ReropeConfig &config) {
      const Program<T> at{config, q1, q2, k1, k2, window, scale, blockwise::queryBlock()};
      const Int kvHead = at.head / groups;
      attend<T>(at.scheme(at.head, kvHead), at.band, config.extents(), at.block,
                v.at(at.batch, kvHead), o.at(at.batch, at.head), lse.at(at.batch, at.head));
    }};

template <class T>
Kernel reropeAttentionQueries{
    "rerope_attention_backward_queries",
    [](View<const T, 4> q1, View<const T, 4> q2, View<const T, 4> k1, View<const T, 4> k2,
       View<const T, 4> v, View<const T, 4> o, View<const float, 3> lse, View<const T, 4> dO,
       View<T, 4> dq1, View<T, 4> dq2, View<float, 3> deltas, Int groups, Float scale, Int window,
       const ReropeConfig &config) {
      const Program<T> at{config, q1, q2, k1, k2, window, scale, blockwise::queryBlock()};
      const Int kvHead = at.head / groups;
      const auto total = queryGradients<T>(at.scheme(at.head, kvHead), at.band, config.extents(),
                                           at.block, v.at(at.batch, kvHead),
                                           o.at(at.batch, at.head), dO.at(at.batch, at.head),
                                           lse.at(at.batch, at.head), deltas.at(at.batch, at.head));
      dq1.at(at.batch, at.head).tile(config.m, config.width).store(at.block, 0, total.near * scale);
      dq2.at(at.batch, at.head).tile(config.m, config.width).store(at.block, 0, total.far * scale);
    }};

// A program has one block of keys, and goes through all queries of all heads that see them.
template <class T>
Kernel reropeAttentionKeys{
    "rerope_attention_backward_keys",
    [](View<const T, 4> q1, View<const T, 4> q2, View<const T, 4> k1, View<const T, 4> k2,
       View<const T, 4> v, View<const float, 3> lse, View<const T, 4> dO,
       View<const float, 3> deltas, View<T, 4> dk1, View<T, 4> dk2, View<T, 4> dv, Int groups,
       Float scale, Int window, const ReropeConfig &config) {
      const Program<T> at{config, q1, q2, k1, k2, window, scale};
      const int n = config.n, width = config.width;
      const Int first = at.head * groups;
      const auto own = at.scheme(first, at.head);
      const auto keys = own.keys(at.block, Part::both);
      const auto values = v.at(at.batch, at.head).tile(n, width).load(at.block, 0);
      auto keyTotal = own.noKeys();
      auto valueTotal = zeros<float>(n, width);
      for (auto head : range(first, first + groups))
        keyGradients<T>(at.scheme(head, at.head), at.band, config.extents(), at.block, keys, values,
                        dO.at(at.batch, head), lse.at(at.batch, head), deltas.at(at.batch, head),
                        keyTotal, valueTotal);
      dk1.at(at.batch, at.head).tile(n, width).store(at.block, 0, keyTotal.near * scale);
      dk2.at(at.batch, at.head).tile(n, width).store(at.block, 0, keyTotal.far * scale);
      dv.at(at.batch, at.head).tile(n, width).store(at.block, 0, valueTotal);
    }};

std::int64_t windowOf(const Invocation &call) {
  // One beyond any distance that there is is kept small, so that sums with it fit an Int.
  return std::min<std::int64_t>(call.options.integer("window"), 1 << 29);
}

ReropeOptions reropeOptions(const Invocation &call) {
  return {{.causal = call.options.flag("causal"), .scale = scheme::scale(call)}, windowOf(call)};
}

KernelSpec commonSpec(const char *name, const char *summary, bool backward) {
  KernelSpec spec;
  spec.name = name;
  spec.summary = summary;
  spec.arguments = scheme::inputs({"q1", "q2"}, {"k1", "k2"});
  spec.options = scheme::options(false);
  spec.options.push_back({.name = "window",
                          .kind = OptionSpec::integer,
                          .initial = "512",
                          .samples = {"0", "7"},
                          .doc = "keys nearer than this meet q1 and k1, the others q2 and k2"});
  scheme::configure(spec, backward, 2);
  if (!backward)
    scheme::inWarpgroups(spec, {{128, {{"m", 128}, {"n", 64}, {"warps", 8}, {"stages", 2}}},
                                {256, {{"m", 64}, {"n", 32}, {"warps", 8}, {"stages", 3}}}});
  spec.check = [](const Invocation &call) {
    scheme::check(call);
    if (call.options.integer("window") < 0)
      throw InputError(call.kernel->name + ": option 'window' cannot be negative");
  };
  return spec;
}

ReropeConfig chosenConfig(const Use &use) {
  return {use.field("m"),
          use.field("n"),
          use.field("warps"),
          use.field("stages"),
          paddedWidth(use.call.extent("D")),
          use.call.options.flag("causal")};
}

std::int64_t groupsOf(const Invocation &call) {
  return call.extent("Hq") / std::max<std::int64_t>(call.extent("Hkv"), 1);
}

} // namespace

KernelSpec sectile::reropeAttentionSpec() {
  KernelSpec spec = commonSpec(
      "rerope_attention",
      "attention with queries and keys for near positions and others for far ones", false);
  spec.arguments.push_back(scheme::queryLike("o", "0 in rows that see no key", true));
  spec.arguments.back().like = "q1";
  spec.arguments.push_back(scheme::logarithms(true));
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    auto result = reropeAttentionReference(inputs, reropeOptions(call), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const ReropeConfig chosen = chosenConfig(use);
    for_dtype<half, bfloat16, float>(call.dtype("q1"), [&]<class T>(T) {
      use(reropeAttention<T>,
          Grid(ceilDiv(call.extent("Sq"), chosen.m), call.extent("Hq"), call.extent("B")),
          use.tensor<T, 4>("q1"), use.tensor<T, 4>("q2"), use.tensor<T, 4>("k1"),
          use.tensor<T, 4>("k2"), use.tensor<T, 4>("v"), use.tensor<T, 4>("o"),
          use.tensor<float, 3>("lse"), groupsOf(call), static_cast<float>(scheme::scale(call)),
          windowOf(call), chosen);
    });
  };
  return spec;
}

KernelSpec sectile::reropeAttentionBackwardSpec() {
  KernelSpec spec = commonSpec("rerope_attention_backward", "gradients of rerope_attention", true);
  spec.factor = 3;
  auto add = [&](ArgumentSpec argument) {
    argument.like = "q1";
    spec.arguments.push_back(std::move(argument));
  };
  add(scheme::queryLike("o", "of the forward kernel", false));
  spec.arguments.push_back(scheme::logarithms(false));
  add(scheme::queryLike("do", "gradient of o", false));
  for (const char *name : {"dq1", "dq2"})
    add(scheme::queryLike(name, "gradient of the queries", true));
  for (const char *name : {"dk1", "dk2"})
    add(scheme::keyLike(name, "gradient of the keys", true));
  add(scheme::keyLike("dv", "gradient of v", true));
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return reropeAttentionBackwardReference(inputs, reropeOptions(call), arithmetic);
  };
  spec.spaces.front().part = "rerope_attention_backward_keys";
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const ReropeConfig chosen = chosenConfig(use);
    const std::int64_t batches = call.extent("B"), heads = call.extent("Hq"),
                       queries = call.extent("Sq"), groups = groupsOf(call),
                       window = windowOf(call);
    const auto scale = static_cast<float>(scheme::scale(call));
    const auto deltas = use.workspace<float, 3>({batches, heads, queries});
    for_dtype<half, bfloat16, float>(call.dtype("q1"), [&]<class T>(T) {
      const auto q1 = use.tensor<T, 4>("q1"), q2 = use.tensor<T, 4>("q2"),
                 k1 = use.tensor<T, 4>("k1"), k2 = use.tensor<T, 4>("k2"),
                 v = use.tensor<T, 4>("v"), dO = use.tensor<T, 4>("do");
      const auto lse = use.tensor<float, 3>("lse");
      use(reropeAttentionQueries<T>, Grid(ceilDiv(queries, chosen.m), heads, batches), q1, q2, k1,
          k2, v, use.tensor<T, 4>("o"), lse, dO, use.tensor<T, 4>("dq1"), use.tensor<T, 4>("dq2"),
          deltas, groups, scale, window, chosen);
      use(reropeAttentionKeys<T>,
          Grid(ceilDiv(call.extent("Sk"), chosen.n), call.extent("Hkv"), batches), q1, q2, k1, k2,
          v, lse, dO, deltas, use.tensor<T, 4>("dk1"), use.tensor<T, 4>("dk2"),
          use.tensor<T, 4>("dv"), groups, scale, window, chosen);
    });
  };
  return spec;
}
