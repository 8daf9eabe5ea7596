// How many bytes each kernel of the registry reads of each input, and that its accesses are
// coalesced and meet no bank conflicts, at its own configuration. A kernel that is not here fails a
// test. What options and optional inputs add is in the families' tests of counters.
#include "CountersOfRecurrences.h"
#include "CountersOfTokens.h"
#include "PagedTest.h"
#include "kernels/conv/Launch.h"
#include "tests/unit/Processes.h"
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

const std::vector<Expectation> &elements() {
  static const std::vector<Expectation> all{
      {{"vector_add", "activation", "activation_backward", "swiglu", "swiglu_backward", "geglu",
        "geglu_backward", "dropout", "dropout_backward"},
       {{"...", 16384}}},
      // Rows of the table; the index of its row by each warp.
      {{"embedding"},
       {{"V", 100}, {"H", 256}, {"...", 64}},
       [](const Plan &p) {
         return Reads{
             {"table", p.bytes("y")},
             {"indices", few(p.byWarps(p.rows() / p.field("rows") * p.tiles("H", "block")))}};
       }},
      // Indices are checked, counted and moved. Then each program of a row of the table reads where
      // its places begin and end, and the places.
      {{"embedding_backward"},
       {{"V", 100}, {"H", 2048}, {"...", 64}},
       [](const Plan &p) {
         constexpr double digits = 256, steps = 7;
         const double counts = digits * 4, offsets = p.rows() * sector,
                      starts = (p.extent("V") + 1) * steps * sector,
                      columns = p.tiles("H", "block");
         return Reads{{"dy", p.bytes("dy")},
                      {"indices", 3 * p.bytes("indices")},
                      {"scratch", few(counts + offsets + starts +
                                      p.byWarps(columns * (2 * p.extent("V") + p.rows())))}};
       },
       {},
       contents({{"indices", numbers(64, [](int i) { return i + i / 2; })}}),
       "f16",
       {},
       // Offsets, starts, and where sorted numbers and places go, are found one by one; counts lie
       // as far apart as there are chunks.
       [](const Plan &p) { return (p.rows() * 3 + (p.extent("V") + 1) * 7) * sector + 256 * 4; },
       // A number and its place, of each of a chunk's, are looked up where they were before the
       // chunk was sorted. In order, by lanes that hold every second one, that is half as fast.
       [](const Plan &) { return 2.0 * 1024 / 32; }},
      {{"rope", "rope_backward"}, {{"B", 2}, {"H", 4}, {"S", 64}, {"D", 128}}},
      {{"add_positions"}, {{"B", 4}, {"S", 8}, {"H", 1024}, {"P", 8}}},
      {{"add_positions_backward"},
       {{"B", 4}, {"S", 8}, {"H", 1024}, {"P", 8}},
       [](const Plan &p) { return Reads{{"dy", p.bytes("dy")}}; }},
      {{"sinusoidal", "sinusoidal_backward"}, {{"B", 4}, {"S", 8}, {"H", 1024}}},
      {{"mean_pool"}, {{"B", 2}, {"T", 128}, {"D", 128}}},
      {{"chunk_mean_pool"}, {{"B", 2}, {"T", 256}, {"H", 2}, {"D", 128}}},
      // A step's channels, for each run of steps those of three taps before it too, and once more
      // for the final state; weights by each program. Backward three steps behind each run too, and
      // for each tap in the programs with an end of a sequence.
      {{"causal_conv1d", "causal_conv1d_backward"},
       {{"B", 2}, {"T", 64}, {"D", 128}, {"W", 4}},
       [](const Plan &p) {
         const bool forward = p.call.kernel->name == "causal_conv1d";
         const double around = 3 / p.field("run"),
                      programs = p.extent("B") * (p.tiles("T", "t") + 1);
         Reads reads{
             {"x", {(1 + around) * p.bytes("x"), (forward ? 1 + around : 7) * p.bytes("x")}},
             {"w", {p.bytes("w"), p.bytes("w") * programs}}};
         if (!forward)
           reads.insert({{"dy", {(1 + around) * p.bytes("dy"), 4 * p.bytes("dy")}},
                         {"scratch", p.field("programs") * 5 * p.extent("D") * 4}});
         return reads;
       },
       {},
       nullptr,
       "f16",
       {},
       // An input of each channel is stored at a time, by lanes that hold every fourth one, 24
       // bytes apart; so are dw, and the programs' parts, by lanes that hold every second channel.
       [](const Plan &p) {
         return p.call.kernel->name == "causal_conv1d"
                    ? 11 * p.bytes("final_state")
                    : 3 * p.bytes("dw") + p.field("programs") * 5 * p.extent("D") * 4;
       }},
      // Of rows of three numbers the copy and the kernel read one number of each at a time, from
      // the sectors that they read before.
      {{"causal_conv1d_update"},
       {{"B", 8}, {"T", 1}, {"D", 128}, {"W", 4}, {"P", 8}},
       [](const Plan &p) {
         const double state = p.bytes("state");
         return Reads{{"x", p.bytes("x")},
                      {"w", p.extent("B") * p.bytes("w")},
                      {"state", {state, 6 * state}},
                      {"state_out", {state, 14 * state}}};
       },
       {},
       nullptr,
       "f16",
       {},
       [](const Plan &p) { return 24 * p.bytes("state"); }},
      // A program's gradient by each warp that has some of the positions.
      {{"mean_pool_backward"},
       {{"B", 2}, {"T", 128}, {"D", 128}},
       [](const Plan &p) {
         return Reads{{"dy", {p.bytes("dy"), p.bytes("dy") * p.field("warps")}}};
       }},
      {{"chunk_mean_pool_backward"},
       {{"B", 2}, {"T", 256}, {"H", 2}, {"D", 128}},
       [](const Plan &p) { return Reads{{"dy", p.bytes("dy")}}; }},
  };
  return all;
}

const std::vector<Expectation> &rows() {
  static const std::vector<Expectation> all{
      {{"softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "layer_norm",
        "rms_norm", "rms_norm_quant", "rms_norm_gated", "reduce", "scan"},
       {{"...", 64}, {"N", 512}}},
      // The mean and the deviation of the rows that a program holds at once, by each warp.
      {{"layer_norm_backward", "rms_norm_backward", "rms_norm_gated_backward"},
       {{"...", 64}, {"N", 512}},
       [](const Plan &p) {
         const Bytes statistics = few(p.byWarps(p.rows() / p.field("rows")));
         Reads reads{{"x", p.bytes("x")}, {"dy", p.bytes("dy")}, {"rstd", statistics}};
         if (p.call.kernel->name == "layer_norm_backward")
           reads.insert({"mean", statistics});
         if (p.call.kernel->name == "rms_norm_gated_backward")
           reads.insert({"z", p.bytes("z")});
         return reads;
       }},
      // A channel's weights and a group's statistics, by each warp; of the gradients of weights a
      // part for each image.
      {{"group_norm", "group_norm_backward"},
       {{"B", 2}, {"C", 64}, {"...", 256}},
       [](const Plan &p) {
         const double channels = p.extent("B") * p.extent("C"),
                      groups = channels / p.field("channels");
         Reads reads{{"x", p.bytes("x")}, {"w", few(p.byWarps(channels))}};
         if (p.call.kernel->name == "group_norm")
           reads.insert({"b", few(p.byWarps(channels))});
         else
           reads.insert({{"dy", p.bytes("dy")},
                         {"mean", few(p.byWarps(groups))},
                         {"rstd", few(p.byWarps(groups))},
                         {"scratch", 2 * channels * 4}});
         return reads;
       }},
      // A row's target and its logit by each warp; the losses once more for their mean.
      {{"cross_entropy"},
       {{"...", 4}, {"V", 8192}},
       [](const Plan &p) {
         return Reads{{"logits", {p.bytes("logits"), p.bytes("logits") + p.byWarps(p.rows())}},
                      {"targets", few(p.byWarps(p.rows()) + p.bytes("targets"))},
                      {"scratch", few(sector)}};
       }},
      // What is known of a row, and all targets for the mean, by each warp.
      {{"cross_entropy_backward"},
       {{"...", 4}, {"V", 8192}},
       [](const Plan &p) {
         const double each = p.byWarps(p.rows() * p.tiles("V", "block"));
         return Reads{{"logits", p.bytes("logits")},
                      {"targets", few(2 * each)},
                      {"lse", few(each)},
                      {"dloss", few(each)}};
       }},
      {{"sort", "argsort"}, {{"...", 64}, {"N", 512}}},
      // In order: what goes with an element is looked up where it was.
      {{"topk"},
       {{"...", 64}, {"N", 512}},
       allOnce,
       {},
       contents({{"x", numbers(64 * 512, [](int i) { return -(i % 512); })}})},
      // Threads count different numbers at a time: conflicts are the contents' alone.
      {{"histogram"},
       {{"N", 16384}},
       allOnce,
       {},
       contents({{"x", numbers(16384, [](int i) { return i / 4 % 256; })}}),
       "i32"},
  };
  return all;
}

// Tiles of a convolution's pixels: so many in a row, or boxes of them.
double pixelTiles(const Plan &p, const char *rows, const char *columns) {
  const auto images = static_cast<std::int64_t>(p.extent("N")),
             down = static_cast<std::int64_t>(p.extent(rows)),
             across = static_cast<std::int64_t>(p.extent(columns)),
             m = static_cast<std::int64_t>(p.field("m"));
  return static_cast<double>(p.field("programs") > 0 ? pixelBox(m, images, down, across).tiles
                                                     : ceilDiv(images * down * across, m));
}

/// Bytes of the sectors in which a program's rows and columns have their scales, once for each
/// step.
std::pair<double, double> mxScaleSectors(const Plan &p) {
  const double steps = p.tiles("Ka", "k");
  return {p.bytes("a_scales") * p.tiles("N", "n") * steps,
          p.bytes("b_scales") * p.tiles("M", "m") * steps};
}

const std::vector<Expectation> &matrices() {
  const std::map<std::string, std::int64_t> image{{"N", 2},  {"C", 64}, {"H", 18}, {"W", 18},
                                                  {"K", 64}, {"R", 3},  {"S", 3}};
  static const std::vector<Expectation> all{
      {{"matmul"},
       {{"M", 256}, {"N", 256}, {"K", 256}},
       [](const Plan &p) { return products(p, "a", "b"); }},
      {{"batched_matmul"},
       {{"B", 3}, {"M", 128}, {"N", 128}, {"K", 128}},
       [](const Plan &p) { return products(p, "a", "b"); }},
      // Whole tiles of rows in each group; every warp reads the groups' lengths, of programs for a
      // tile more in each group too.
      {{"grouped_matmul"},
       {{"M", 256}, {"N", 128}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         return Reads{{"lhs", p.bytes("lhs") * p.tiles("N", "n")},
                      {"rhs", p.bytes("rhs") / p.extent("G") * p.tiles("M", "m")},
                      {"group_sizes",
                       few(p.byWarps((p.tiles("M", "m") + p.extent("G")) * p.tiles("N", "n")))}};
       },
       {},
       contents({{"group_sizes", {128, 128}}})},
      {{"grouped_matmul_drhs"},
       {{"M", 256}, {"N", 128}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         return Reads{{"lhs", p.bytes("lhs") * p.tiles("N", "n")},
                      {"dc", p.bytes("dc") * p.tiles("K", "m")},
                      {"group_sizes",
                       few(p.byWarps(p.extent("G") * p.tiles("K", "m") * p.tiles("N", "n")))}};
       },
       {},
       contents({{"group_sizes", {128, 128}}})},
      // A step needs one of the scales of each column, which lie in a row: the sectors of all.
      {{"quantized_matmul"},
       {{"M", 128}, {"N", 128}, {"K", 256}},
       [](const Plan &p) {
         return with(products(p, "a", "w"),
                     {{"scales", p.bytes("scales") * p.tiles("M", "m") * p.tiles("K", "k")}});
       },
       {},
       nullptr,
       "f16",
       {},
       [](const Plan &p) { return p.bytes("scales") * p.tiles("M", "m") * p.tiles("K", "k"); },
       // Where wgmma reads the decoded weights, two threads of a phase store to the same banks:
       // one more wavefront for each 128 bytes.
       [](const Plan &p) {
         return p.target == "sm_90a" ? p.tiles("M", "m") * p.extent("N") * p.extent("K") * 2 / 128
                                     : 0.0;
       }},
      // A block of K needs one of the scales of each row, by each warp that has the row; and one of
      // b, as a tile's columns lie in one block. Persistent programs load that for each row, of
      // which a thread has two.
      {{"scaled_matmul"},
       {{"M", 128}, {"N", 256}, {"K", 256}},
       [](const Plan &p) {
         const double blocks = p.tiles("M", "m") * p.tiles("N", "n") * p.extent("Sk");
         const double once = p.bytes("a_scales") * p.tiles("N", "n") * p.extent("Sk");
         return with(products(p, "a", "b"),
                     {{"a_scales", {once, once * p.field("warps")}},
                      {"b_scales", few(p.byWarps(blocks) * (p.field("persistent") ? 2 : 1))}});
       },
       {},
       nullptr,
       "f8e4m3",
       {},
       [](const Plan &p) {
         return p.bytes("a_scales") * p.tiles("N", "n") * p.extent("Sk") * p.field("warps");
       }},
      // A step needs two of the scales of each row, by each warp that has the row: a quarter of a
      // sector, as a row has eight.
      {{"mx_matmul"},
       {{"M", 128}, {"N", 256}, {"Ka", 256}},
       [](const Plan &p) {
         auto scales = [&](double once) { return Bytes(once, once * p.field("warps")); };
         const auto [left, right] = mxScaleSectors(p);
         return with(products(p, "a", "b"),
                     {{"a_scales", scales(left)}, {"b_scales", scales(right)}});
       },
       {},
       nullptr,
       "f8e4m3",
       {},
       [](const Plan &p) {
         const auto [left, right] = mxScaleSectors(p);
         return left + right;
       }},
      {{"quantize", "silu_mul_quantize"}, {{"M", 64}, {"K", 512}}},
      // A tap reads the pixels under it.
      {{"conv2d"},
       image,
       [](const Plan &p) {
         const double pixels = p.extent("N") * p.extent("P") * p.extent("Q");
         return Reads{
             {"x", p.extent("R") * p.extent("S") * pixels * p.extent("C") * 2 * p.tiles("K", "n")},
             {"w", p.bytes("w") * pixelTiles(p, "P", "Q")}};
       },
       {{"layout", "nhwc"}}},
      // So do dx, the other way round, and dw, whose tiles are of a tap each.
      {{"conv2d_backward"},
       image,
       [](const Plan &p) {
         const double taps = p.extent("R") * p.extent("S"),
                      places = p.extent("N") * p.extent("P") * p.extent("Q");
         return Reads{{"dy", taps * p.bytes("dy") * (p.tiles("C", "n") + p.tiles("C", "wgrad_n"))},
                      {"w", p.bytes("w") * pixelTiles(p, "H", "W")},
                      {"x", taps * places * p.extent("C") * 2 * p.tiles("K", "wgrad_m")}};
       },
       {{"layout", "nhwc"}}},
  };
  return all;
}

const std::map<std::string, std::int64_t> heads{{"B", 1},    {"Hq", 2},   {"Hkv", 1},
                                                {"Sq", 128}, {"Sk", 128}, {"D", 64}};
std::map<std::string, std::int64_t> headsWithDv() {
  auto all = heads;
  all["Dv"] = 64;
  return all;
}

/// Times that heads of queries read the keys that they share, for so many blocks of queries.
double timesOfKeys(const Plan &p, double blocks) {
  return p.extent("Hq") / p.extent("Hkv") * blocks;
}
Reads forward(const Plan &p, double blocks, const char *q = "q", const char *k = "k") {
  const double times = timesOfKeys(p, blocks);
  return {{q, p.bytes(q)}, {k, p.bytes(k) * times}, {"v", p.bytes("v") * times}};
}

/// A number for each row of queries, f32.
double statistic(const Plan &p) { return p.bytes("lse"); }

/// Of the gradient of queries and of that of keys: how often each reads the other side, by blocks
/// of its own, and its warps, each of which may read rows' statistics for itself.
struct Sides {
  double blocksOfQueries, blocksOfKeys;
  double warpsOfQueries, warpsOfKeys;
  double times(const Plan &p) const { return timesOfKeys(p, blocksOfQueries); }
  /// A statistic that both read.
  Bytes ofBoth(const Plan &p) const {
    return {statistic(p) * (1 + blocksOfKeys),
            statistic(p) * (warpsOfQueries + blocksOfKeys * warpsOfKeys)};
  }
  Bytes ofKeys(const Plan &p) const {
    return {statistic(p) * blocksOfKeys, statistic(p) * blocksOfKeys * warpsOfKeys};
  }
};
/// Blocks of m queries and of n keys, in one configuration for both gradients.
Sides sidesOf(const Plan &p, const char *m = "m", const char *n = "n",
              const char *warpsOfQueries = "warps", const char *warpsOfKeys = "warps") {
  return {p.tiles("Sq", m), p.tiles("Sk", n), p.field(warpsOfQueries), p.field(warpsOfKeys)};
}
/// Each side once for each block of the other, and its own.
Reads gradients(const Plan &p, const Sides &sides, const char *q = "q", const char *k = "k") {
  const double times = sides.times(p) + 1;
  return {{q, p.bytes(q) * (1 + sides.blocksOfKeys)},
          {"do", p.bytes("do") * (1 + sides.blocksOfKeys)},
          {k, p.bytes(k) * times},
          {"v", p.bytes("v") * times},
          {"lse", sides.ofBoth(p)}};
}
Bytes operator+(const Bytes &a, const Bytes &b) { return {a.least + b.least, a.most + b.most}; }
Bytes operator*(double times, const Bytes &a) { return {times * a.least, times * a.most}; }

/// Those of attention itself: an earlier launch reads o, dO and the rows' logarithms, these by each
/// of its four warps, and leaves two statistics.
Reads attentionGradients(const Plan &p, const Sides &sides, const char *q = "q",
                         const char *k = "k") {
  Reads reads = gradients(p, sides, q, k);
  reads.at("do") = reads.at("do") + p.bytes("do");
  reads.at("lse") = {statistic(p), 4 * statistic(p)};
  reads.insert({{"o", p.bytes("o")}, {"scratch", 2 * sides.ofBoth(p)}});
  return reads;
}

/// How often all keys are read by blocks of m queries that do not see later ones, summed over the
/// blocks.
double causalBlocks(const Plan &p, const char *m, const char *n) {
  double seen = 0;
  for (double end = p.field(m); end <= p.extent("Sq"); end += p.field(m))
    seen += std::ceil(end / p.field(n)) * p.field(n);
  return seen / p.extent("Sk");
}

/// The same of sequences of these lengths, in parts of all rows that are packed.
const std::vector<double> packed{128, 256, 64};
double packedBlocks(double m) {
  double seen = 0;
  for (const double length : packed)
    seen += length / m * length;
  return seen / 448;
}
/// Programs of blocks of m rows of packed sequences, for each head: a block more for each sequence
/// but the last may be begun.
double packedPrograms(double m, double heads) {
  return heads * (std::ceil(448 / m) + static_cast<double>(packed.size()));
}

/// One slice of a ring's attention to another, as the kernel that it is.
Config ofSlice(const Plan &p, const char *kernel) {
  const auto half = static_cast<std::int64_t>(p.extent("Sq") / 2);
  const Invocation slice = resolveTypical(
      findKernel(kernel), "f16",
      {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", half}, {"Sk", half}, {"D", 64}, {"Dv", 64}}, {});
  return completeConfig(slice, p.target, {});
}

/// Of paged keys: the number of each key's page, by each warp, once where a step's keys are fetched
/// and once for the first; and of each program its sequence's length.
Reads pages(const Plan &p, double programs, double keys) {
  return {{"block_tables", few(p.byWarps(keys))}, {"context_lens", few(p.byWarps(programs))}};
}

const std::vector<Expectation> &attentions() {
  const std::map<std::string, std::int64_t> sequences{
      {"Hq", 2}, {"Hkv", 1}, {"D", 64}, {"Dv", 64}, {"B1", 4}, {"Tq", 448}, {"Tk", 448}};
  const Prepare ends =
      contents({{"cu_seqlens_q", {0, 128, 384, 448}}, {"cu_seqlens_k", {0, 128, 384, 448}}});
  const Prepare allBlocks = contents({{"block_mask", std::vector<double>(8, 1)}});
  static const std::vector<Expectation> all{
      {{"attention"}, headsWithDv(), [](const Plan &p) { return forward(p, p.tiles("Sq", "m")); }},
      {{"attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         const Sides sides = sidesOf(p, "q_m", "kv_n", "q_warps", "kv_warps");
         return attentionGradients(p, sides);
       }},
      // A warp looks for its sequence among the ends, two numbers at a time.
      {{"attention_varlen"},
       sequences,
       [](const Plan &p) {
         const double each =
             p.byWarps(packedPrograms(p.field("m"), 2) * 2 * static_cast<double>(packed.size()));
         return with(forward(p, packedBlocks(p.field("m"))),
                     {{"cu_seqlens_q", few(each)}, {"cu_seqlens_k", few(each)}});
       },
       {},
       ends},
      {{"attention_varlen_backward"},
       sequences,
       [](const Plan &p) {
         const Sides sides{packedBlocks(p.field("q_m")), packedBlocks(p.field("kv_n")),
                           p.field("q_warps"), p.field("kv_warps")};
         const double each = 2 * static_cast<double>(packed.size()) *
                             (p.byWarps(packedPrograms(p.field("q_m"), 2), "q_warps") +
                              p.byWarps(packedPrograms(p.field("kv_n"), 1), "kv_warps"));
         return with(attentionGradients(p, sides),
                     {{"cu_seqlens_q", few(each)}, {"cu_seqlens_k", few(each)}});
       },
       {},
       ends,
       "f16",
       {},
       // A lane of MFMA's has four rows of the sums. Packed sequences begin anywhere, so that it
       // reads those rows' numbers one by one.
       [](const Plan &p) { return p.target == "gfx942" ? sector * p.extent("Tq") : 0.0; }},
      // A row's logarithms, by each warp.
      {{"attention_merge"},
       {{"P", 4}, {"B", 1}, {"Hq", 2}, {"Sq", 64}, {"D", 128}},
       [](const Plan &p) {
         const double logarithms = p.bytes("partial_lse");
         return Reads{{"partial_o", p.bytes("partial_o")},
                      {"partial_lse", {logarithms, logarithms * p.field("warps")}}};
       }},
      {{"paged_decode"},
       {{"S", 2}, {"Hq", 8}, {"D", 128}, {"Dc", 128}, {"max", 32}, {"blocks", 64}},
       [](const Plan &p) {
         const double keys = 2 * (512 + 256), bytes = keys * 128 * 2;
         return with({{"q", p.bytes("q")}, {"k_cache", bytes}, {"v_cache", bytes}},
                     pages(p, 2 * 2, keys / 16));
       },
       {},
       lengths({512, 256}),
       "f16",
       {{"splits", 1}},
       // The few rows of o go to memory from the layout of the sums, where no turn through shared
       // memory is worth it.
       [](const Plan &p) { return p.target == "gfx942" ? 0.0 : p.bytes("o"); }},
      // For the longest, for parts and for rows.
      {{"paged_plan"},
       {{"S", 256}},
       [](const Plan &p) {
         const double lengths = p.bytes("context_lens");
         return Reads{{"context_lens", {2 * lengths, 3 * lengths}}};
       },
       {{"parts", "512"}},
       contents({{"context_lens", numbers(256, [](int i) { return i; })}}),
       "i32"},
      // Caches by the copy that comes before; slots and positions by each warp. Programs have rows
      // of queries, keys or values.
      {{"kv_append", "rope_append"},
       {{"T", 64}, {"Hkv", 4}, {"D", 128}, {"Dv", 128}, {"blocks", 8}, {"page", 16}},
       [](const Plan &p) {
         const bool rotates = p.call.kernel->name == "rope_append";
         const Bytes each = few(p.byWarps(p.tiles("T", "m") * 16 / p.field("heads")));
         Reads reads{{"k", p.bytes("k")},
                     {"v", p.bytes("v")},
                     {"k_cache", p.bytes("k_cache")},
                     {"v_cache", p.bytes("v_cache")},
                     {"slots", each}};
         if (rotates)
           reads.insert({{"q", p.bytes("q")}, {"positions", each}});
         return reads;
       },
       {},
       contents({{"slots", numbers(64, [](int i) { return i; })}})},
      {{"paged_slots"},
       {{"S", 128}, {"max", 8}},
       [](const Plan &p) {
         return Reads{{"context_lens", p.bytes("context_lens")},
                      {"block_tables", {sector, p.extent("S") * sector}}};
       },
       {},
       nullptr,
       "i32",
       {},
       // The entries of a table's rows.
       [](const Plan &p) { return p.extent("S") * sector; }},
      {{"paged_prefill"},
       {{"S", 1},
        {"T", 256},
        {"ends", 2},
        {"Hq", 1},
        {"Hkv", 1},
        {"D", 64},
        {"Dc", 64},
        {"max", 32}},
       [](const Plan &p) {
         const double blocks = p.tiles("T", "m"), bytes = blocks * 256 * 64 * 2,
                      programs = blocks + 1;
         return with({{"q", p.bytes("q")},
                      {"k_cache", bytes},
                      {"v_cache", bytes},
                      {"cu_seqlens_q", few(p.byWarps(4 * programs))}},
                     pages(p, programs, blocks * 256 / 16));
       },
       {{"causal", "false"}},
       [](const Invocation &call, std::vector<HostArray> &inputs) {
         inputs[endsAt].assign(std::vector<double>{0, 256});
         lengths({256})(call, inputs);
       }},
      {{"attention_cached"},
       {{"S", 2}, {"T", 8}, {"Hq", 8}, {"D", 128}, {"Dc", 128}, {"max", 32}, {"blocks", 64}},
       [](const Plan &p) {
         const Bytes bytes = 2 * (512 + 256) * 128 * 2;
         return with({{"q", p.bytes("q")}, {"k_cache", bytes}, {"v_cache", bytes}},
                     pages(p, 2 * 2, 2 * 768 / 16));
       },
       {},
       lengths({512, 256}),
       "f16",
       {{"splits", 1}, {"m", 16}, {"warps", 1}},
       [](const Plan &p) { return p.bytes("o"); }},
      {{"latent_decode"},
       {{"S", 2}, {"T", 2}, {"Hq", 16}, {"D", 576}, {"page", 64}, {"max", 4}, {"blocks", 8}},
       [](const Plan &p) {
         const double keys = 256 + 128; // rows once, as keys and as values
         return with({{"q", p.bytes("q")}, {"cache", keys * 576 * 2}}, pages(p, 2, keys / 16));
       },
       {},
       contents({{"context_lens", {256, 128}}}),
       "f16",
       {{"splits", 1}, {"m", 16}, {"warps", 4}, {"overlap", 0}}},
      {{"latent_sparse"},
       {{"S", 2}, {"Hq", 16}, {"D", 576}, {"topk", 128}, {"blocks", 16}},
       [](const Plan &p) {
         const Bytes indices = few(p.byWarps(p.bytes("indices"))), rows = 2 * 128 * 576 * 2;
         return Reads{{"q", p.bytes("q")}, {"cache", rows}, {"indices", indices}};
       },
       {},
       contents({{"indices", numbers(256, [](int i) { return i; })}}),
       "f16",
       {{"splits", 1}}},
      // The mask by each warp that makes the lists of the blocks that there are; of these their
      // length, and a number for each block where it is fetched and where it is used.
      {{"block_sparse_attention"},
       headsWithDv(),
       [](const Plan &p) {
         const double blocks = p.tiles("Sq", "m"), programs = 2 * blocks;
         return with(forward(p, blocks),
                     {{"block_mask", few(p.byWarps(programs * 2))},
                      {"scratch", few(p.byWarps(programs * (1 + 2 * p.tiles("Sk", "n"))))}});
       },
       {},
       allBlocks},
      {{"block_sparse_attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         const Sides sides = sidesOf(p, "q_m", "kv_n", "q_warps", "kv_warps");
         const double numbers = 32 * 4, // of a warp
             ofQueries = p.tiles("Sq", "q_m") * p.field("q_warps") * (1 + 2 * p.tiles("Sk", "q_n")),
                      ofKeys = p.tiles("Sk", "kv_n") * p.field("kv_warps") *
                               (1 + 2 * p.tiles("Sq", "kv_m"));
         Reads reads = attentionGradients(p, sides);
         reads.at("scratch") = reads.at("scratch") + Bytes(0, 2 * numbers * (ofQueries + ofKeys));
         return with(reads, {{"block_mask", few(2 * 8 * 2 * numbers)}});
       },
       {},
       allBlocks},
      // Each slice of queries with each of keys; a merge reads a part and the sum so far.
      {{"ring_attention"},
       headsWithDv(),
       [](const Plan &p) {
         const Config slice = ofSlice(p, "attention");
         const double blocks = std::ceil(p.extent("Sq") / 2 / static_cast<double>(slice.at("m")));
         // Parts that are taken as they are, added to what there is in f32, and rounded; and
         // logarithms of the four by each of four warps.
         const double sums = (1 + 3 + 2) * p.bytes("q"), logarithms = p.bytes("lse");
         Reads reads = forward(p, 2 * blocks);
         reads.at("q") = 2 * p.bytes("q");
         reads.at("k") = 2 * p.bytes("k") * timesOfKeys(p, blocks);
         reads.at("v") = 2 * p.bytes("v") * timesOfKeys(p, blocks);
         return with(reads, {{"lse", {logarithms, 4 * logarithms}},
                             {"scratch", {sums, sums + 4 * logarithms}}});
       },
       {{"slices", "2"}}},
      {{"ring_attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         const Config slice = ofSlice(p, "attention_backward");
         const Plan inner{p.call, slice, p.target};
         Sides sides = sidesOf(inner, "q_m", "kv_n", "q_warps", "kv_warps");
         sides.blocksOfQueries = std::ceil(p.extent("Sq") / 2 / inner.field("q_m"));
         sides.blocksOfKeys = std::ceil(p.extent("Sk") / 2 / inner.field("kv_n"));
         Reads reads = attentionGradients(p, sides);
         for (auto &[name, bytes] : reads)
           bytes = 2 * bytes;
         reads.at("scratch") =
             reads.at("scratch") + (1 + 3 + 2) * (p.bytes("q") + p.bytes("k") + p.bytes("v"));
         return reads;
       },
       {{"slices", "2"}}},
      // Queries and keys are turned once, and read turned; dq and dk are turned back.
      {{"rope_attention", "exposb_attention"},
       headsWithDv(),
       [](const Plan &p) {
         Reads reads = forward(p, p.tiles("Sq", "m"));
         reads.insert_or_assign("scratch", reads.at("q") + reads.at("k"));
         for (const char *turned : {"q", "k"})
           reads.at(turned) = p.bytes(turned);
         return reads;
       }},
      {{"rope_attention_backward", "exposb_attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         Reads reads = attentionGradients(p, sidesOf(p, "q_m", "kv_n", "q_warps", "kv_warps"));
         reads.at("scratch") = reads.at("scratch") + reads.at("q") + reads.at("k");
         for (const char *turned : {"q", "k", "dq", "dk"})
           reads.insert_or_assign(turned, p.bytes(turned));
         return reads;
       }},
      // All blocks are near. For far keys, which may lie on either side, all are read as well. What
      // the merge reads is f32, and logarithms by each of four warps.
      {{"rerope_attention"},
       headsWithDv(),
       [](const Plan &p) {
         Reads reads = forward(p, p.tiles("Sq", "m"), "q1", "k1");
         const double logarithms = 2 * p.bytes("lse"), parts = 4 * p.bytes("o");
         reads.insert_or_assign("q2", reads.at("q1"));
         reads.insert_or_assign("k2", reads.at("k1"));
         reads.at("v") = 2 * reads.at("v");
         reads.insert_or_assign("scratch", Bytes(parts + logarithms, parts + 4 * logarithms));
         return reads;
       },
       {{"window", "1000"}}},
      {{"rerope_attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         const Sides sides = sidesOf(p, "q_m", "kv_n", "q_warps", "kv_warps");
         Reads reads = attentionGradients(p, sides, "q1", "k1");
         for (auto &[name, bytes] : reads)
           if (name != "q1" && name != "k1")
             bytes = 2 * bytes;
         reads.insert_or_assign("q2", reads.at("q1"));
         reads.insert_or_assign("k2", reads.at("k1"));
         const double sums = 4 * (p.bytes("k1") + p.bytes("v"));
         reads.at("scratch") = reads.at("scratch") + Bytes(p.field("kv_parts") * sums);
         return reads;
       },
       {{"window", "1000"}}},
      {{"stick_breaking_attention"},
       heads,
       [](const Plan &p) { return forward(p, causalBlocks(p, "m", "n")); }},
      // A gradient needs the scores of all later keys, so it goes through the keys twice; what a
      // block's rows sum to there and before is left, a number each, and read again.
      {{"stick_breaking_attention_backward"},
       heads,
       [](const Plan &p) {
         const Sides sides{causalBlocks(p, "m", "n"), causalBlocks(p, "n", "m"), p.field("warps"),
                           p.field("warps")};
         const double keys = p.bytes("v") * sides.times(p), both = 1 + sides.blocksOfKeys;
         const double sums =
             p.extent("Hq") * sides.blocksOfQueries * p.tiles("Sk", "n") * p.field("m") * 4;
         return Reads{{"q", p.bytes("q") * both},
                      {"do", p.bytes("do") * both},
                      {"k", p.bytes("k") + 2 * keys},
                      {"v", p.bytes("v") + keys},
                      {"scratch", {3 * sums, 3 * sums * p.field("warps")}}};
       }},
  };
  return all;
}

class EveryKernelCounters : public CountersTest {
protected:
  void expectAll(const std::vector<Expectation> &expectations) {
    for (const Expectation &expected : expectations)
      for (const std::string &kernel : expected.kernels) {
        KernelCase test{kernel, expected.extents, expected.options,
                        {},     expected.dtype,   expected.config};
        test.prepare = expected.prepare;
        SCOPED_TRACE(test.describe());
        expectOne(expected, test);
      }
  }

private:
  void expectOne(const Expectation &expected, const KernelCase &test) {
    const Invocation call = resolveCase(test);
    const Config config = configOf(test);
    const Plan plan{call, config, device.target()};
    std::map<std::string, std::uint64_t> read;
    double apart = 0, conflicts = 0;
    std::string tables;
    for (const auto &[name, counters] : countAll(test)) {
      tables += name + "\n" + counters.text();
      for (const auto &[argument, bytes] : counters.read)
        read[argument] += bytes;
      for (const AccessCounters *access :
           {&counters.globalLoad, &counters.globalStore, &counters.asyncCopy})
        apart += sector * static_cast<double>(access->sectors - access->idealSectors);
      for (const AccessCounters *access :
           {&counters.sharedLoad, &counters.sharedStore, &counters.asyncCopy})
        conflicts += static_cast<double>(access->wavefronts - access->idealWavefronts);
    }
    SCOPED_TRACE(tables);
    EXPECT_LE(apart, expected.apart(plan));
    EXPECT_LE(conflicts, expected.conflicts(plan));
    const Reads needed = expected.reads(plan);
    for (const auto &[argument, bytes] : read)
      EXPECT_TRUE(needed.contains(argument)) << argument << ": " << bytes;
    for (const auto &[argument, bytes] : needed) {
      SCOPED_TRACE(argument);
      EXPECT_GE(static_cast<double>(read[argument]), bytes.least);
      EXPECT_LE(static_cast<double>(read[argument]), bytes.most);
    }
  }
};
SECTILE_INSTANTIATE_ON(EveryKernelCounters, "virtual:sm_80,virtual:sm_90a,virtual:gfx942");

} // namespace

TEST_P(EveryKernelCounters, Elements) { expectAll(elements()); }
TEST_P(EveryKernelCounters, Rows) { expectAll(rows()); }
TEST_P(EveryKernelCounters, Tokens) { expectAll(tokens()); }
TEST_P(EveryKernelCounters, Matrices) { expectAll(matrices()); }
TEST_P(EveryKernelCounters, Attentions) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  expectAll(attentions());
}
TEST_P(EveryKernelCounters, Recurrences) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  expectAll(recurrences());
}

TEST(CountersOfEveryKernel, AreStated) {
  std::multiset<std::string> stated;
  for (const auto *family :
       {&elements(), &rows(), &tokens(), &matrices(), &attentions(), &recurrences()})
    for (const Expectation &expected : *family)
      stated.insert(expected.kernels.begin(), expected.kernels.end());
  for (const KernelSpec &kernel : kernelRegistry())
    EXPECT_EQ(stated.count(kernel.name), 1u) << kernel.name;
  EXPECT_EQ(stated.size(), kernelRegistry().size());
}
