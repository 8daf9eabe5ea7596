// How often each kernel of the registry reads its inputs, and that its accesses are coalesced and
// meet no bank conflicts, at its own configuration. A kernel that is not here fails a test. What
// options and optional inputs add is in the families' tests of counters.
#include "CountersTest.h"
#include "PagedTest.h"
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

/// A call with its configuration, for formulas of bytes.
struct Plan {
  const Invocation &call;
  const Config &config;
  const std::string &target;

  double bytes(std::string_view argument) const {
    const TensorType &type = call.tensor(argument);
    return static_cast<double>(HostArray(type.dtype, type.shape).data.size());
  }
  double extent(const char *axis) const { return static_cast<double>(call.extent(axis)); }
  double field(const char *name) const { return static_cast<double>(config.at(name)); }
  /// Tiles along an axis.
  double tiles(const char *axis, const char *name) const {
    return std::ceil(extent(axis) / field(name));
  }
  double allOnce() const {
    double sum = 0;
    for (std::size_t i = 0; i < call.tensors.size(); ++i)
      if (!call.kernel->arguments[i].output && call.tensors[i].present)
        sum += bytes(call.kernel->arguments[i].name);
    return sum;
  }
  /// Keys and values, as all heads of queries that share them read them, once.
  double keys(const char *key = "k") const {
    return (bytes(key) + bytes("v")) * extent("Hq") / extent("Hkv");
  }
};

struct Expectation {
  std::vector<std::string> kernels;
  std::map<std::string, std::int64_t> extents;
  /// Bytes that all launches together have to read: inputs, and what one leaves for the next.
  std::function<double(const Plan &)> reads = [](const Plan &plan) { return plan.allOnce(); };
  /// Beyond them, as a part of them: small arrays that several warps or programs read for
  /// themselves.
  double again = 0;
  /// Sectors and wavefronts by their ideals, where contents or places make them more.
  double sectors = 1, wavefronts = 1;
  Assignments options = {};
  std::function<void(const Invocation &, std::vector<HostArray> &)> prepare = nullptr;
  std::string dtype = "f16";
  Config config = {};
};

/// Index lists and lengths.
auto contents(std::map<std::string, std::vector<double>> values) {
  return [values](const Invocation &call, std::vector<HostArray> &inputs) {
    for (const auto &[name, value] : values)
      inputs[call.index(name)].assign(value);
  };
}

const std::vector<Expectation> &elements() {
  static const std::vector<Expectation> all{
      {{"vector_add", "activation", "activation_backward", "swiglu", "swiglu_backward", "geglu",
        "geglu_backward", "dropout", "dropout_backward"},
       {{"...", 16384}}},
      // An index by each warp that copies a part of its row.
      {{"embedding"},
       {{"V", 100}, {"H", 256}, {"...", 64}},
       [](const Plan &p) { return p.bytes("y") + p.bytes("indices"); },
       0.1},
      // Places are sorted by their rows, to where the contents say; each program of a row reads
      // where its places begin.
      {{"embedding_backward"},
       {{"V", 100}, {"H", 2048}, {"...", 64}},
       [](const Plan &p) { return p.bytes("dy") + p.bytes("indices"); },
       0.26,
       1.02,
       1.1},
      {{"rope", "rope_backward"}, {{"B", 2}, {"H", 4}, {"S", 64}, {"D", 128}}},
      {{"add_positions"}, {{"B", 4}, {"S", 8}, {"H", 1024}, {"P", 8}}},
      {{"add_positions_backward"},
       {{"B", 4}, {"S", 8}, {"H", 1024}, {"P", 8}},
       [](const Plan &p) { return p.bytes("dy"); }},
      {{"sinusoidal", "sinusoidal_backward"}, {{"B", 4}, {"S", 8}, {"H", 1024}}},
      {{"mean_pool"}, {{"B", 2}, {"T", 128}, {"D", 128}}},
      {{"chunk_mean_pool"}, {{"B", 2}, {"T", 256}, {"H", 2}, {"D", 128}}},
      // A gradient of all positions is read by each program that has some of them.
      {{"mean_pool_backward"},
       {{"B", 2}, {"T", 128}, {"D", 128}},
       [](const Plan &p) { return p.bytes("dy"); },
       3},
      {{"chunk_mean_pool_backward"},
       {{"B", 2}, {"T", 256}, {"H", 2}, {"D", 128}},
       [](const Plan &p) { return p.bytes("dy"); }},
  };
  return all;
}

const std::vector<Expectation> &rows() {
  static const std::vector<Expectation> all{
      {{"softmax", "softmax_backward", "log_softmax", "log_softmax_backward", "layer_norm",
        "rms_norm", "reduce", "scan"},
       {{"...", 64}, {"N", 512}}},
      // A row's mean and deviation, by each warp.
      {{"layer_norm_backward", "rms_norm_backward"},
       {{"...", 64}, {"N", 512}},
       [](const Plan &p) { return p.bytes("x") + p.bytes("dy"); },
       0.04},
      // A group's weights and statistics, by each warp.
      {{"group_norm", "group_norm_backward"},
       {{"B", 2}, {"C", 64}, {"...", 256}},
       [](const Plan &p) { return p.allOnce(); },
       0.13},
      // A row's target and loss, by each warp.
      {{"cross_entropy", "cross_entropy_backward"},
       {{"...", 4}, {"V", 8192}},
       [](const Plan &p) { return p.bytes("logits"); },
       0.13},
      // Elements are exchanged where the contents say.
      {{"sort", "argsort", "topk"},
       {{"...", 64}, {"N", 512}},
       [](const Plan &p) { return p.allOnce(); },
       0,
       1,
       1.6},
      // Atomic additions to places that the contents say.
      {{"histogram"},
       {{"N", 16384}},
       [](const Plan &p) { return p.allOnce(); },
       0,
       1,
       4,
       {},
       nullptr,
       "i32"},
  };
  return all;
}

/// Each tile of the result reads its rows of the one operand and its columns of the other.
double products(const Plan &p, const char *a, const char *b) {
  return p.bytes(a) * p.tiles("N", "n") + p.bytes(b) * p.tiles("M", "m");
}

const std::vector<Expectation> &matrices() {
  static const std::vector<Expectation> all{
      {{"matmul"},
       {{"M", 256}, {"N", 256}, {"K", 256}},
       [](const Plan &p) { return products(p, "a", "b"); }},
      {{"batched_matmul"},
       {{"B", 3}, {"M", 128}, {"N", 128}, {"K", 128}},
       [](const Plan &p) { return products(p, "a", "b"); }},
      // Whole tiles of rows in each group; every warp reads the groups' lengths.
      {{"grouped_matmul"},
       {{"M", 256}, {"N", 128}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         return p.bytes("lhs") * p.tiles("N", "n") + p.bytes("rhs") * p.tiles("M", "m") / 2;
       },
       0.02,
       1,
       1,
       {},
       contents({{"group_sizes", {128, 128}}})},
      {{"grouped_matmul_drhs"},
       {{"M", 256}, {"N", 128}, {"K", 128}, {"G", 2}},
       [](const Plan &p) {
         return p.bytes("lhs") * p.tiles("N", "n") + p.bytes("dc") * p.tiles("K", "m");
       },
       0.02,
       1,
       1,
       {},
       contents({{"group_sizes", {128, 128}}})},
      // Scales of neighbours in a tile lie a row of them apart.
      {{"quantized_matmul"},
       {{"M", 128}, {"N", 128}, {"K", 256}},
       [](const Plan &p) { return products(p, "a", "w"); },
       0.06,
       1.03},
      {{"scaled_matmul"},
       {{"M", 128}, {"N", 256}, {"K", 256}},
       [](const Plan &p) { return products(p, "a", "b"); },
       0.2,
       1.25,
       1,
       {},
       nullptr,
       "f8e4m3"},
      // A tap reads the pixels under it, the gradients as many; how often is in the products'
      // counters.
      {{"conv2d"},
       {{"N", 2}, {"C", 64}, {"H", 18}, {"W", 18}, {"K", 64}, {"R", 3}, {"S", 3}},
       [](const Plan &p) { return p.allOnce(); },
       24,
       1,
       1,
       {{"layout", "nhwc"}}},
      {{"conv2d_backward"},
       {{"N", 2}, {"C", 64}, {"H", 18}, {"W", 18}, {"K", 64}, {"R", 3}, {"S", 3}},
       [](const Plan &p) { return p.allOnce(); },
       24,
       1,
       1,
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

/// Keys once for each block of queries, and both sides' own rows; then queries and gradients once
/// for each block of keys.
double gradients(const Plan &p, const char *m, const char *n, double parts = 1) {
  const double rows = p.bytes("q") + p.bytes("do");
  return rows + p.keys() * std::ceil(p.extent("Sq") / parts / p.field(m)) + p.bytes("k") +
         p.bytes("v") + rows * std::ceil(p.extent("Sk") / parts / p.field(n));
}

/// The part of all keys that blocks of m queries see where later ones are hidden, summed over the
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

/// One slice of a ring's attention to another, as the kernel that it is.
Config ofSlice(const Plan &p, const char *kernel) {
  const auto half = static_cast<std::int64_t>(p.extent("Sq") / 2);
  const Invocation slice = resolveTypical(
      findKernel(kernel), "f16",
      {{"B", 1}, {"Hq", 2}, {"Hkv", 1}, {"Sq", half}, {"Sk", half}, {"D", 64}, {"Dv", 64}}, {});
  return completeConfig(slice, p.target, {});
}

const std::vector<Expectation> &attentions() {
  static const std::vector<Expectation> all{
      {{"attention"},
       headsWithDv(),
       [](const Plan &p) { return p.bytes("q") + p.keys() * p.tiles("Sq", "m"); }},
      // And what a row's statistics are, by each warp.
      {{"attention_backward"},
       headsWithDv(),
       [](const Plan &p) { return p.bytes("o") + p.bytes("do") + gradients(p, "q_m", "kv_n"); },
       0.08},
      // Where sequences begin is read by every warp; where rows' statistics lie is not known.
      {{"attention_varlen"},
       {{"Hq", 2}, {"Hkv", 1}, {"D", 64}, {"Dv", 64}, {"B1", 4}, {"Tq", 448}, {"Tk", 448}},
       [](const Plan &p) { return p.bytes("q") + p.keys() * packedBlocks(p.field("m")); },
       0.05,
       1.05,
       1,
       {},
       contents({{"cu_seqlens_q", {0, 128, 384, 448}}, {"cu_seqlens_k", {0, 128, 384, 448}}})},
      {{"attention_varlen_backward"},
       {{"Hq", 2}, {"Hkv", 1}, {"D", 64}, {"Dv", 64}, {"B1", 4}, {"Tq", 448}, {"Tk", 448}},
       [](const Plan &p) {
         const double rows = p.bytes("q") + p.bytes("do");
         return p.bytes("o") + p.bytes("do") + rows + p.keys() * packedBlocks(p.field("q_m")) +
                p.bytes("k") + p.bytes("v") + rows * packedBlocks(p.field("kv_n"));
       },
       0.12,
       1.05,
       1,
       {},
       contents({{"cu_seqlens_q", {0, 128, 384, 448}}, {"cu_seqlens_k", {0, 128, 384, 448}}})},
      // The logarithms, by each warp.
      {{"attention_merge"},
       {{"P", 4}, {"B", 1}, {"Hq", 2}, {"Sq", 64}, {"D", 128}},
       [](const Plan &p) { return p.allOnce(); },
       0.06},
      // Numbers of pages, for each key of a step and each warp at most.
      {{"paged_decode"},
       {{"S", 2},
        {"Hq", 8},
        {"Hkv", 2},
        {"D", 128},
        {"Dc", 128},
        {"page", 16},
        {"max", 32},
        {"blocks", 64}},
       [](const Plan &p) { return p.bytes("q") + 2 * 2 * (512 + 256) * 128.0 * 2; },
       0.1,
       1.02,
       1,
       {},
       lengths({512, 256}),
       "f16",
       {{"splits", 1}}},
      {{"paged_prefill"},
       {{"S", 1},
        {"T", 256},
        {"ends", 2},
        {"Hq", 1},
        {"Hkv", 1},
        {"D", 64},
        {"Dc", 64},
        {"max", 32}},
       [](const Plan &p) { return p.bytes("q") + p.tiles("T", "m") * 2 * 256 * 64 * 2; },
       0.1,
       1.02,
       1,
       {{"causal", "false"}},
       [](const Invocation &call, std::vector<HostArray> &inputs) {
         inputs[endsAt].assign(std::vector<double>{0, 256});
         lengths({256})(call, inputs);
       }},
      // Lists of the blocks that there are, and rows' statistics.
      {{"block_sparse_attention"},
       heads,
       [](const Plan &p) { return p.bytes("q") + p.keys() * p.tiles("Sq", "m"); },
       0.05,
       1,
       1,
       {},
       contents({{"mask", std::vector<double>(8, 1)}})},
      {{"block_sparse_attention_backward"},
       heads,
       [](const Plan &p) { return p.bytes("o") + gradients(p, "m", "n"); },
       0.08,
       1,
       1,
       {},
       contents({{"mask", std::vector<double>(8, 1)}})},
      // Each slice of queries with each of keys; a merge reads a part and the sum so far.
      {{"ring_attention"},
       headsWithDv(),
       [](const Plan &p) {
         const double m = static_cast<double>(ofSlice(p, "attention").at("m"));
         return 2 * (p.bytes("q") + p.keys() * std::ceil(p.extent("Sq") / 2 / m)) +
                (1 + 3 + 2) * p.bytes("q");
       },
       0.05,
       1,
       1,
       {{"slices", "2"}}},
      {{"ring_attention_backward"},
       headsWithDv(),
       [](const Plan &p) {
         const Config slice = ofSlice(p, "attention_backward");
         const Plan inner{p.call, slice, p.target};
         return 2 * (p.bytes("o") + p.bytes("do") + gradients(inner, "q_m", "kv_n", 2)) +
                (1 + 3 + 2) * (p.bytes("q") + p.bytes("k") + p.bytes("v"));
       },
       0.05,
       1,
       1,
       {{"slices", "2"}}},
      // Keys are turned once, and read turned.
      {{"rope_attention", "exposb_attention"},
       heads,
       [](const Plan &p) { return p.bytes("k") + p.bytes("q") + p.keys() * p.tiles("Sq", "m"); },
       0.12},
      {{"rope_attention_backward", "exposb_attention_backward"},
       heads,
       [](const Plan &p) {
         return p.bytes("k") + p.bytes("q") + p.bytes("o") + gradients(p, "m", "n");
       },
       0.08},
      // Of the two sets of keys a block reads the one that it needs.
      {{"rerope_attention"},
       heads,
       [](const Plan &p) {
         return p.bytes("q1") + p.bytes("q2") + p.keys("k1") * p.tiles("Sq", "m");
       },
       0,
       1,
       1,
       {{"window", "1000"}}},
      {{"rerope_attention_backward"},
       heads,
       [](const Plan &p) {
         const double rows = p.bytes("q1") + p.bytes("do");
         return p.bytes("q2") + p.bytes("o") + rows + p.keys("k1") * p.tiles("Sq", "m") +
                p.bytes("k1") + p.bytes("k2") + p.bytes("v") + rows * p.tiles("Sk", "n");
       },
       0.08,
       1,
       1,
       {{"window", "1000"}}},
      // A gradient needs the scores of all later keys, so it goes through the keys twice; what a
      // block's rows sum to is left and read again.
      {{"stick_breaking_attention"},
       heads,
       [](const Plan &p) { return p.bytes("q") + p.keys() * causalBlocks(p, "m", "n"); }},
      {{"stick_breaking_attention_backward"},
       heads,
       [](const Plan &p) {
         const double rows = p.bytes("q") + p.bytes("do");
         return rows + 1.5 * p.keys() * causalBlocks(p, "m", "n") + p.bytes("k") + p.bytes("v") +
                rows * causalBlocks(p, "n", "m");
       },
       0.1},
  };
  return all;
}

/// The states at the chunks' ends, which take as much as inputs of f16 and else are f32.
double states(const Plan &p) {
  return p.extent("B") * p.extent("H") * p.tiles("T", "chunk") * p.extent("Dk") * p.extent("Dv") *
         (p.call.tensors[0].dtype == DType::float16 ? 2 : 4);
}

struct Cell {
  double gates, slots, memory;
  /// What x gives to the gates of all steps, and the reserve.
  double inputs(const Plan &p) const {
    return p.extent("T") * p.extent("B") * gates * p.extent("H") * 4;
  }
};
Cell cellOf(const Plan &p) {
  const std::string &name = p.call.kernel->name;
  return name.starts_with("rnn")   ? Cell{1, 1, 0}
         : name.starts_with("gru") ? Cell{3, 4, 0}
                                   : Cell{4, 5, 1};
}

const std::vector<Expectation> &recurrences() {
  const std::map<std::string, std::int64_t> network{
      {"T", 4}, {"B", 32}, {"I", 64}, {"H", 64}, {"...", 1}};
  static const std::vector<Expectation> all{
      {{"linear_recurrence"},
       {{"B", 1}, {"H", 2}, {"T", 256}, {"Dk", 64}, {"Dv", 64}},
       [](const Plan &p) {
         const double columns = p.tiles("Dv", "dv");
         return p.bytes("k") * columns + p.bytes("v") + (p.bytes("q") + p.bytes("k")) * columns +
                p.bytes("v") + states(p);
       },
       0.004}, // the states' units, by each thread

      {{"linear_recurrence_backward"},
       {{"B", 1}, {"H", 2}, {"T", 256}, {"Dk", 64}, {"Dv", 64}},
       [](const Plan &p) {
         const double columns = p.tiles("Dv", "dv");
         return (p.bytes("k") + p.bytes("q")) * columns + p.bytes("v") + p.bytes("do") +
                p.bytes("q") + p.bytes("k") + p.bytes("v") + 2 * p.bytes("do") + 3 * states(p);
       },
       0.014},
      // The gates of all steps at once, in tiles of 64; each step then reads the state, w_hh in
      // each program and what x gives.
      {{"rnn", "gru", "lstm"},
       network,
       [](const Plan &p) {
         const Cell cell = cellOf(p);
         const double state = p.extent("B") * p.extent("H"), programs = p.tiles("B", "b");
         return p.bytes("x") * cell.gates + p.bytes("w_ih") * 2 + cell.inputs(p) +
                p.extent("T") * (state * (cell.gates == 3 ? 2 : 1) * 2 +
                                 programs * p.bytes("w_hh") + cell.memory * state * 4);
       }},
      // From the last step on; then the products of all steps for dx, dw_ih and dw_hh.
      {{"rnn_backward", "gru_backward", "lstm_backward"},
       network,
       [](const Plan &p) {
         const Cell cell = cellOf(p);
         const double state = p.extent("B") * p.extent("H"), programs = p.tiles("B", "b"),
                      steps = p.extent("T"), sums = cell.inputs(p) / 2;
         const double before = cell.memory ? 4 : cell.gates == 3 ? 2 : 0;
         return (steps - 1) * (sums / steps + programs * p.bytes("w_hh") + before * state) +
                steps * state * (2 + 4 * (1 + cell.memory) + 4 * cell.slots) + sums +
                p.bytes("w_ih") * 2 + sums + p.bytes("x") * cell.gates + sums +
                p.bytes("y") * cell.gates * (steps - 1) / steps;
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
  static void expectAtMost(std::uint64_t count, std::uint64_t ideal, double factor) {
    EXPECT_LE(static_cast<double>(count), static_cast<double>(ideal) * factor);
  }
  void expectOne(const Expectation &expected, const KernelCase &test) {
    const Invocation call = resolveCase(test);
    const Config config = configOf(test);
    Counters all;
    std::string tables;
    for (const auto &[name, counters] : countAll(test)) {
      for (AccessCounters Counters::*access :
           {&Counters::globalLoad, &Counters::globalStore, &Counters::asyncCopy,
            &Counters::sharedLoad, &Counters::sharedStore})
        all.*access += counters.*access;
      tables += name + "\n" + counters.text();
    }
    SCOPED_TRACE(tables);
    const double needed = expected.reads({call, config, device.target()});
    EXPECT_GE(static_cast<double>(readBytes(all)), needed);
    EXPECT_LE(static_cast<double>(readBytes(all)), needed * (1 + expected.again));
    for (const AccessCounters &access : {all.globalLoad, all.globalStore, all.asyncCopy})
      expectAtMost(access.sectors, access.idealSectors, expected.sectors);
    for (const AccessCounters &access : {all.sharedLoad, all.sharedStore, all.asyncCopy})
      expectAtMost(access.wavefronts, access.idealWavefronts, expected.wavefronts);
  }
};
SECTILE_INSTANTIATE_ON(EveryKernelCounters, "virtual:sm_80,virtual:gfx942");

} // namespace

TEST_P(EveryKernelCounters, Elements) { expectAll(elements()); }
TEST_P(EveryKernelCounters, Rows) { expectAll(rows()); }
TEST_P(EveryKernelCounters, Matrices) { expectAll(matrices()); }
TEST_P(EveryKernelCounters, Attentions) { expectAll(attentions()); }
TEST_P(EveryKernelCounters, Recurrences) { expectAll(recurrences()); }

TEST(CountersOfEveryKernel, AreStated) {
  std::multiset<std::string> stated;
  for (const auto *family : {&elements(), &rows(), &matrices(), &attentions(), &recurrences()})
    for (const Expectation &expected : *family)
      stated.insert(expected.kernels.begin(), expected.kernels.end());
  for (const KernelSpec &kernel : kernelRegistry())
    EXPECT_EQ(stated.count(kernel.name), 1u) << kernel.name;
  EXPECT_EQ(stated.size(), kernelRegistry().size());
}
