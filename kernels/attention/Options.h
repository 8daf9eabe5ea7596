// What the attention kernels have in common on the host: their options, optional inputs and what
// launches and references make of both.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/references/Draw.h"
#include <sectile/flash.h>

namespace sectile {

// Options of every attention kernel.
void addAttentionOptions(KernelSpec &spec);
inline const OptionRow scaleOption{"scale: number e.g. 0.7",
                                   "of the scores; 1/sqrt(D) if not given"};
double scaleOf(const Invocation &call);
// The option `layout`: in bshd all arguments so far that begin with B and have four axes are stored
// with the second and third the other way round.
void addLayouts(KernelSpec &spec,
                const std::string &doc = "bshd: q, k, v and o are stored as [B, S, H, D]");
inline const ArgumentRow sinksArgument{
    "sinks?: [1|Hq, R] f32", "scores that take part in each row's softmax, without a value"};
ArgumentRow seedOffsetArgument();
// For ArgumentSpec::sample: a mask that hides one in four.
inline const auto sampleMask =
    sampleEach([](const Invocation &, auto &random) { return random() % 4 != 0; });
// Heads and widths; windows and the soft cap; those and the other options; throw InputError.
void checkHeads(const Invocation &call, const std::string &ofQueries = "q",
                const std::string &ofKeys = "k and v",
                const std::vector<std::string> &widths = {"D", "Dv"});
void checkAttention(const Invocation &call);
void checkVarlen(const Invocation &call);
void checkVarlenContents(const Invocation &call, std::span<const HostArray> inputs);

// How many pairs of a query and a key that it may see by their positions there are, of all heads.
double visiblePairs(const Invocation &call);
// Keys that a query sees, in the mean: a window leaves few of them.
double keysSeen(const Invocation &call);

// inputs by their place among the call's arguments. Points into them.
AttentionSettings attentionSettings(const Invocation &call, std::span<const HostArray> inputs);

// The options as a launch takes them.
struct AttentionNumbers {
  float scale = 1, cap = 0;
  bool leftBounded = false, rightBounded = false;
  std::int64_t left = 0, right = 0;
  bool drops = false;
  std::uint64_t seed = 0;
  std::uint32_t threshold = 0; // of Dropout
  float dropoutScale = 1;      // 1 / (1 - p)
  bool exact = true;           // f32 products; it does not matter for other types
  int sinks = 0;               // of a head, up to the next power of two
  std::optional<Nearness> near = {};
  std::int64_t minDistance = 0; // how far at least a query and a key that it sees are

  explicit AttentionNumbers(const Invocation &call);
};

// Which options there are.
struct OptionFlags {
  bool left = false, right = false, bias = false, mask = false, cap = false;
  bool near = false, minDistance = false;
  bool adds = false; // the gradient of the bias to what is there
};

// What the kernels' code depends on.
using AttentionConfig = JoinedConfig<flash::LoopConfig, OptionFlags>;

// With the fields prefix + "m", "n", "warps" and "stages" of the configuration.
AttentionConfig attentionConfig(const Use &use, const AttentionNumbers &numbers,
                                std::string_view prefix = "");

// The forward pass's. modified: scores are more than scaled products.
AttentionConfig forwardConfig(const Use &use, const AttentionNumbers &numbers, bool modified);
// Whether exponents can be taken of products, which are scaled there: that the largest product is
// the largest score needs a positive scale, and nothing added.
bool mayBeRaw(const AttentionNumbers &numbers, bool modified);
// Whether the options of a call modify scores.
bool modifiesScores(const Use &use, const AttentionNumbers &numbers);
Arguments<flash::Numbers> launchNumbers(const Use &use, const AttentionNumbers &numbers,
                                        std::int64_t group);

// An argument of four axes, of whatever float type.
AnyTensor anyTensor(const Use &use, std::string_view name);

// Tensors of a call that others may stand for.
struct AttentionTensors {
  AnyTensor q, k, o, lse; // o: of the type of q, or of f32

  explicit AttentionTensors(const Use &use, const char *q = "q", const char *k = "k");
};
struct GradientTensors {
  AnyTensor q, k, dq, dk;
  // Where programs put their parts of dv, [B, Hkv * kv_parts, Sk, Dv], for addHeadParts. None: dv
  // is written.
  std::optional<Tensor<float, 4>> dvParts = {};
  bool addsBias = false; // dbias to what is there

  explicit GradientTensors(const Use &use, const std::string &q = "q", const std::string &k = "k");
};

// Call `launch` for each launch of the loops of `attention` and `attention_backward`, in order.
void launchForward(Use &use, const AttentionNumbers &numbers, bool modified,
                   const AttentionTensors &tensors, const flash::detail::Launcher &launch);
void launchGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                     std::span<const flash::detail::LearnedGradient> learned,
                     const GradientTensors &tensors, const flash::detail::Launcher &launch);

// The grid of programs that do one block after another, of `blocks` blocks of each head, and the
// order in which they do, for `chosen`; none where each block has a program of its own.
std::optional<Grid> persistentGrid(const Use &use, const AttentionNumbers &numbers,
                                   flash::LoopConfig &chosen, std::int64_t blocks,
                                   std::int64_t heads);

// One program makes the plan of packed sequences.
constexpr std::int64_t mostPlannedSequences = 1023;

// All launches of `attention`, and of `attention_backward`. Earlier launches of the call may have
// written any of the tensors, q and k for gradients only if there are queries.
void launchAttention(Use &use, const AttentionNumbers &numbers, const AttentionTensors &tensors);
void launchAttentionGradients(Use &use, const AttentionNumbers &numbers,
                              const GradientTensors &tensors);
// Sums [B, H * parts, S, D] times scale become gradients [B, H, S, D]: each `parts` heads are added
// up, in order.
void addHeadParts(Use &use, const Tensor<float, 4> &sums, const AnyTensor &gradients, int parts,
                  float scale);

// The same of packed sequences.
void launchVarlen(Use &use, const AttentionNumbers &numbers, bool modified,
                  const flash::detail::Launcher &launch);
void launchVarlenGradients(Use &use, const AttentionNumbers &numbers, bool modified,
                           std::span<const flash::detail::LearnedGradient> learned,
                           const flash::detail::Launcher &launch);
// Whether each program has a part of the gradient of a learned operand, not each query or key.
inline bool isOfPrograms(flash::Along along) {
  return along == flash::Along::heads || along == flash::Along::distances;
}
// The launches for learned operands along pairs, beside `queries`.
void launchPairs(Use &use, const flash::detail::Launch &queries,
                 std::span<const flash::detail::LearnedGradient> learned,
                 const flash::detail::Launcher &launch);
// Parts [B, H, parts, W] become a gradient [B or 1, H or 1, 1, W]: what shares an element is added
// up in an order that the extents fix.
void addShared(Use &use, const Tensor<float, 4> &parts, const Tensor<float, 4> &gradient);

OptionFlags optionFlags(const Use &use, const AttentionNumbers &numbers);

// Of programs that look at each row: of o and its gradient, or of lse.
AttentionConfig rowConfig(const Use &use, const AttentionNumbers &numbers);
void launchSinkGradients(Use &use, const Tensor<float, 3> &lse, const Tensor<float, 3> &delta,
                         const AttentionConfig &rows);

// Packed sequences as a batch of their mean length; other calls as they are.
Invocation asBatch(Invocation call);
// As many blocks of `size` rows, `rows` of a token, as packed sequences can have.
std::int64_t packedBlocks(const Invocation &call, const std::string &total, std::int64_t size,
                          std::int64_t rows = 1);
// In causal order, how many heads may start their blocks side by side, for the cache to hold what
// they read, `bytes` of each: a divisor of the heads. 1 where all blocks take as long.
int headsAtOnce(const Invocation &call, const std::string &heads, std::int64_t bytes);
// Bytes of the keys and values that a query head reads, as far as no other one does; of the queries
// and dO that a head of the keys reads at once.
std::int64_t keyBytes(const Invocation &call);
std::int64_t queryBytes(const Invocation &call);
// The grid that HeadAndBatch is for.
Grid headGrid(const Invocation &call, const flash::LoopConfig &config, std::int64_t blocks,
              std::int64_t heads);
// Of q, by whatever name.
DType operandType(const Invocation &call);
// Of an axis that only optional inputs have.
std::int64_t extentOr0(const Invocation &call, std::string_view axis);
// Whether a call has this input, or a number above 0 for this option. Kernels of the family that
// know no such thing take none.
bool takes(const Invocation &call, std::string_view name);
// Whether dq may be summed in any order, an option that not all kernels of the family have.
bool allowsAnyOrder(const Invocation &call);

// Query heads that share a head of the keys.
std::int64_t groupOf(const Invocation &call);

// An optional input as if it had all of B along an axis 1|B; as it is if left out.
template <Element T, int N> Tensor<T, N> broadcast(const Use &use, std::string_view argument) {
  const Tensor<T, N> tensor = use.tensor<T, N>(argument);
  if (!use.has(argument))
    return tensor;
  std::array<std::int64_t, N> extents = tensor.extents(), strides = tensor.strides();
  for (std::size_t i = 0; i < N; ++i)
    if (const std::string &axis = use.call.kernel->arguments[use.call.index(argument)].axes[i];
        extents[i] == 1) {
      strides[i] = 0;
      if (axis.starts_with("1|"))
        extents[i] = use.call.extent(axis.substr(2));
    }
  return {tensor.data(), extents, strides, tensor.memory()};
}
inline Tensor<float, 2> sinksOf(const Use &use) { return broadcast<float, 2>(use, "sinks"); }

// What programs take their time for.
enum class Work { reading, multiplying };
// Into how many parts to split keys of `bytes` that `blocks` programs read in so many steps each,
// if each part makes as many programs more and is `partBytes` of partial results: the most that
// take no longer than the best number by `slack`, a part of its time.
std::int64_t keyParts(std::int64_t blocks, std::int64_t steps, double bytes, double partBytes,
                      double slack, const std::string &target, Work work = Work::reading);

// The configuration for a call whose queries are too few to fill the chip; none for others.
std::optional<ConfigValues> packedDefaults(const Invocation &call, const std::string &target);
// Heads whose queries are rows of one block there: all that share keys, but with dropout, whose
// numbers are drawn by blocks of one head, a single one.
int headsOfBlock(const Invocation &call);
void launchPacked(Use &use, const AttentionNumbers &numbers, bool modified,
                  const AttentionTensors &tensors, const flash::detail::Launcher &launch);

// Launches what writes so many parts of o and lse, and merge(parts of o, parts of lse) where they
// are not the results themselves.
template <class T, int N, class Merge>
void launchParts(Use &use, flash::detail::Launch each, std::int64_t parts, const Tensor<T, N> &o,
                 const Tensor<float, N - 1> &lse, const flash::detail::Launcher &launch,
                 Merge &&merge) {
  const auto whole = asOnePart(o);
  const auto wholeLogs = asOnePart(lse);
  each.o = whole;
  each.lse = wholeLogs;
  if (parts == 1)
    return launch(use, each);
  const auto several = [&](auto extents) {
    extents.front() = parts;
    return extents;
  };
  const auto partial = use.workspace<float, N + 1>(several(whole.extents()));
  const auto logs = use.workspace<float, N>(several(wholeLogs.extents()));
  each.o = partial;
  each.lse = logs;
  launch(use, each);
  merge(partial, logs);
}

inline int paddedWidth(std::int64_t width) { return static_cast<int>(ceilDiv(width, 16) * 16); }

} // namespace sectile
