// Options and optional inputs of the attention kernels. With all of them
//   s = cap(scale q k^T) + bias, cap(x) = c tanh(x / c), -inf where a key is hidden,
//   lse = log(sum of e^s over keys and sinks), p = e^(s - lse), o = (p z) v,
// where dropout d makes z 0 or 1/(1 - d). Keys are hidden by causal order, windows (Beltagy et al.,
// arXiv 2004.05150) and masks. Heads share keys as in Ainslie et al. (arXiv 2305.13245), of one
// head in Shazeer (arXiv 1911.02150); the soft cap is Gemma 2's (arXiv 2408.00118), sinks are as in
// gpt-oss, dropout draws by Philox (Salmon et al., SC11). Refused: heads of q that are no multiple
// of those of k, D or Dv outside 16 to 256, windows below -1, a negative soft cap, dropout outside
// [0, 1).
#include "kernels/attention/Options.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/registry/Contents.h"
#include <cmath>
#include <utility>

using namespace sectile;

// Not all kernels have all options.
static bool hasOption(const Invocation &call, std::string_view name) {
  return call.options.values.contains(std::string(name));
}
static std::int64_t windowOf(const Invocation &call, std::string_view name) {
  return hasOption(call, name) ? call.options.integer(name) : -1;
}
static double numberOf(const Invocation &call, const std::string &name) {
  return hasOption(call, name) ? call.options.number(name) : 0;
}

void sectile::addAttentionOptions(KernelSpec &spec) {
  spec.add_options(
      {{"causal: flag = false", "query i sees key j where j <= i + Sk - Sq"},
       {"window_left: integer = -1 from -1 e.g. 0, 9",
        "query i sees key j where j >= i + Sk - Sq - window_left; -1: any"},
       {"window_right: integer = -1 from -1 e.g. 0, 3",
        "query i sees key j where j <= i + Sk - Sq + window_right; -1: any"},
       {"softcap: number = 0 from 0 e.g. 1.5",
        "c: scaled scores s become c tanh(s / c), before bias and masks; 0: they do not"},
       {"dropout: number = 0 e.g. 0.25",
        "probability to drop a weight; the others grow by 1/(1 - dropout)"},
       {"seed: seed = 0 e.g. 7, 18446744073709551615",
        "of dropout: the same seed drops the same weights"},
       scaleOption,
       {"precision: exact|tf32 = exact",
        "of f32 products: exact, or through tf32 on tensor cores"}});
}

ArgumentRow sectile::seedOffsetArgument() {
  return {"seed_offset?: [1] i64",
          "added to `seed`, modulo 2^64: a replayed graph drops other weights once it has changed",
          {.sample = sampleIntegers(0, 1 << 20)}};
}

void sectile::addLayouts(KernelSpec &spec, const std::string &doc) {
  for (ArgumentSpec &argument : spec.arguments)
    if (argument.axes.size() == 4 && argument.axes.front() == "B")
      argument.stored = [](std::vector<std::string> axes, const OptionValues &options) {
        if (options.choice("layout") == "bshd")
          std::swap(axes[1], axes[2]);
        return axes;
      };
  spec.add_options({{"layout: bhsd|bshd = bhsd", doc}});
}

void sectile::checkHeads(const Invocation &call, const std::string &ofQueries,
                         const std::string &ofKeys, const std::vector<std::string> &widths) {
  const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv");
  if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
    refuse(call, "Hq, the heads of ", ofQueries, " (", heads,
           "), must be a multiple of Hkv, those of ", ofKeys, " (", kvHeads, ")");
  for (const std::string &axis : widths)
    if (const std::int64_t d = call.extent(axis); d < 16 || d > 256)
      refuse(call, axis, " is ", d, ", but must be from 16 to 256");
}

void sectile::checkAttention(const Invocation &call) {
  checkHeads(call);
  if (const double p = call.options.number("dropout"); p < 0 || p >= 1)
    refuse(call, "option 'dropout' is at least 0 and below 1");
}

double sectile::visiblePairs(const Invocation &call) {
  const std::int64_t queries = call.extent("Sq"), keys = call.extent("Sk"),
                     left = windowOf(call, "window_left"),
                     right = call.options.flag("causal") ? 0 : windowOf(call, "window_right");
  double pairs = 0;
  for (std::int64_t i = 0; i < queries; ++i) {
    const std::int64_t beside = i + keys - queries;
    const std::int64_t first = left >= 0 ? beside - std::min(left, beside) : 0;
    const std::int64_t end = right >= 0 ? beside + std::min(right, keys + queries) + 1 : keys;
    pairs +=
        double(std::max<std::int64_t>(0, std::min(end, keys) - std::max<std::int64_t>(first, 0)));
  }
  return pairs * double(call.extent("B")) * double(call.extent("Hq"));
}

double sectile::keysSeen(const Invocation &call) {
  const std::int64_t rows = extentOr0(call, "B") * extentOr0(call, "Hq") * extentOr0(call, "Sq");
  return visiblePairs(call) / double(std::max<std::int64_t>(rows, 1));
}

// Bias and mask have a column for each of so many keys of a sequence.
static void checkColumns(const Invocation &call, std::int64_t keys) {
  for (const char *input : {"bias", "mask"})
    if (call.has(input) && call.extent("Mk") < keys)
      refuse(call, input, " has ", call.extent("Mk"), " columns, but a sequence has ", keys,
             " keys");
}

void sectile::checkVarlen(const Invocation &call) {
  checkAttention(call);
  if (call.extent("B1") < 1)
    refuse(call, "cu_seqlens_q and cu_seqlens_k have one element more than there are sequences, "
                 "so at least one");
  if (call.extent("B1") == 1 && call.extent("Tq") + call.extent("Tk") != 0)
    refuse(call, "q or k has tokens, but there is no sequence");
  // However the keys are cut into sequences, one has at least their mean.
  if (const std::int64_t sequences = call.extent("B1") - 1; sequences > 0)
    checkColumns(call, ceilDiv(call.extent("Tk"), sequences));
}

void sectile::checkVarlenContents(const Invocation &call, std::span<const HostArray> inputs) {
  checkBoundaries(call, inputs, "cu_seqlens_q", call.extent("Tq"));
  checkBoundaries(call, inputs, "cu_seqlens_k", call.extent("Tk"));
  const auto starts = inputs[call.index("cu_seqlens_k")].as<std::int32_t>();
  for (std::size_t i = 1; i < starts.size(); ++i)
    checkColumns(call, starts[i] - starts[i - 1]);
}

double sectile::scaleOf(const Invocation &call) {
  // A query has the columns of both of its products.
  const std::int64_t width = call.extent("D") * (takes(call, "qv") ? 2 : 1);
  return call.options.given("scale") ? call.options.number("scale")
                                     : 1 / std::sqrt(static_cast<double>(width));
}

static bool isCausal(const Invocation &call) {
  return hasOption(call, "causal") && call.options.flag("causal");
}
static bool isExact(const Invocation &call) {
  return operandType(call) != DType::float32 || !hasOption(call, "precision") ||
         call.options.choice("precision") == "exact";
}

AttentionSettings sectile::attentionSettings(const Invocation &call,
                                             std::span<const HostArray> inputs) {
  AttentionSettings settings{.causal = isCausal(call),
                             .scale = scaleOf(call),
                             .left = windowOf(call, "window_left"),
                             .right = windowOf(call, "window_right"),
                             .cap = numberOf(call, "softcap"),
                             .dropout = numberOf(call, "dropout"),
                             .tf32 = !isExact(call)};
  if (settings.dropout > 0)
    settings.seed = call.options.seed("seed");
  auto optional = [&](const char *name) -> const HostArray * {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (call.kernel->arguments[i].name == name && call.tensors[i].present)
        return &inputs[i];
    return nullptr;
  };
  if (const HostArray *offset = settings.dropout > 0 ? optional("seed_offset") : nullptr)
    settings.seed += static_cast<std::uint64_t>(offset->as<std::int64_t>()[0]);
  settings.bias = optional("bias");
  settings.mask = optional("mask");
  settings.sinks = optional("sinks");
  return settings;
}

AttentionNumbers::AttentionNumbers(const Invocation &call)
    : scale(static_cast<float>(scaleOf(call))), cap(static_cast<float>(numberOf(call, "softcap"))) {
  // Windows beyond any distance that there is are kept small, so that sums with them fit an Int.
  const std::int64_t farthest = 1 << 29;
  left = windowOf(call, "window_left");
  right = isCausal(call) ? 0 : windowOf(call, "window_right");
  leftBounded = left >= 0 && left < farthest;
  rightBounded = right >= 0 && right < farthest;
  left = leftBounded ? left : 0;
  right = rightBounded ? right : 0;
  const double p = numberOf(call, "dropout");
  drops = p > 0;
  seed = drops ? call.options.seed("seed") : 0;
  threshold = weightThreshold(p);
  dropoutScale = static_cast<float>(1 / (1 - threshold * 0x1p-32));
  exact = isExact(call);
  if (call.has("sinks"))
    sinks = static_cast<int>(powerAtLeast(std::max<std::int64_t>(call.extent("R"), 1)));
}

AttentionConfig sectile::attentionConfig(const Use &use, const AttentionNumbers &numbers,
                                         std::string_view prefix) {
  auto field = [&](const char *name) { return use.field((std::string(prefix) + name).c_str()); };
  return {{.m = field("m"),
           .n = field("n"),
           .warps = field("warps"),
           .stages = field("stages"),
           .width = paddedWidth(use.call.extent("D")),
           .valueWidth = paddedWidth(use.call.extent("Dv")),
           .dropout = numbers.drops,
           .exact = numbers.exact,
           .seedOffset = numbers.drops && takes(use.call, "seed_offset"),
           .sinks = numbers.sinks,
           .overlap = field("overlap") != 0,
           .delayed = field("overlap") != 2},
          optionFlags(use, numbers)};
}

OptionFlags sectile::optionFlags(const Use &use, const AttentionNumbers &numbers) {
  return {.left = numbers.leftBounded,
          .right = numbers.rightBounded,
          .bias = takes(use.call, "bias"),
          .mask = takes(use.call, "mask"),
          .cap = numbers.cap > 0,
          .near = numbers.near.has_value(),
          .minDistance = numbers.minDistance > 0};
}

AnyTensor sectile::anyTensor(const Use &use, std::string_view name) {
  AnyTensor result;
  for_dtype<half, bfloat16, float>(use.call.dtype(name),
                                   [&]<class T>(T) { result = use.tensor<T, 4>(name); });
  return result;
}

AttentionTensors::AttentionTensors(const Use &use, const char *q, const char *k)
    : q(anyTensor(use, q)), k(anyTensor(use, k)), o(anyTensor(use, "o")),
      lse(use.tensor<float, 3>("lse")) {}

GradientTensors::GradientTensors(const Use &use, const std::string &q, const std::string &k)
    : q(anyTensor(use, q)), k(anyTensor(use, k)), dq(anyTensor(use, "d" + q)),
      dk(anyTensor(use, "d" + k)) {}

std::int64_t sectile::groupOf(const Invocation &call) {
  return extentOr0(call, "Hq") / std::max<std::int64_t>(extentOr0(call, "Hkv"), 1);
}

AttentionConfig sectile::forwardConfig(const Use &use, const AttentionNumbers &numbers,
                                       bool modified) {
  AttentionConfig config = attentionConfig(use, numbers);
  config.raw = config.overlap && mayBeRaw(numbers, modified) && !config.sinks;
  return config;
}

bool sectile::mayBeRaw(const AttentionNumbers &numbers, bool modified) {
  return numbers.scale > 0 && std::isfinite(numbers.scale) && !modified;
}

bool sectile::modifiesScores(const Use &use, const AttentionNumbers &numbers) {
  return numbers.cap > 0 || numbers.near || use.has("bias");
}

Arguments<flash::Numbers> sectile::launchNumbers(const Use &use, const AttentionNumbers &numbers,
                                                 std::int64_t group) {
  return {group,
          numbers.scale,
          numbers.seed,
          numbers.threshold,
          numbers.dropoutScale,
          takes(use.call, "seed_offset") ? use.tensor<std::int64_t, 1>("seed_offset")
                                         : noTensor<std::int64_t, 1>()};
}

Invocation sectile::asBatch(Invocation call) {
  if (!call.extents.contains("Tq"))
    return call;
  const std::int64_t sequences = std::max<std::int64_t>(call.extent("B1") - 1, 1);
  call.extents["B"] = sequences;
  call.extents["Sq"] = ceilDiv(call.extent("Tq"), sequences);
  call.extents["Sk"] = ceilDiv(call.extent("Tk"), sequences);
  return call;
}

std::int64_t sectile::packedBlocks(const Invocation &call, const std::string &total,
                                   std::int64_t size, std::int64_t rows) {
  const std::int64_t sequences = call.extent("B1") - 1;
  return sequences == 0 ? 0 : call.extent(total) * rows / size + sequences;
}

int sectile::headsAtOnce(const Invocation &call, const std::string &heads, std::int64_t bytes) {
  constexpr std::int64_t cache = 24 << 20;
  const std::int64_t count = extentOr0(call, heads);
  if (!call.options.flag("causal"))
    return 1;
  std::int64_t most = std::clamp<std::int64_t>(cache / std::max<std::int64_t>(bytes, 1), 1,
                                               std::max<std::int64_t>(count, 1));
  while (count % most)
    --most;
  return static_cast<int>(most);
}

std::int64_t sectile::keyBytes(const Invocation &call) {
  return extentOr0(call, "Sk") * (call.extent("D") + call.extent("Dv")) *
         (operandType(call) == DType::float32 ? 4 : 2) / std::max<std::int64_t>(groupOf(call), 1);
}

std::int64_t sectile::queryBytes(const Invocation &call) {
  // The query heads of a group come one after another.
  return extentOr0(call, "Sq") * (call.extent("D") + call.extent("Dv")) *
         (operandType(call) == DType::float32 ? 4 : 2);
}

Grid sectile::headGrid(const Invocation &call, const flash::LoopConfig &config, std::int64_t blocks,
                       std::int64_t heads) {
  return Grid(config.heads, blocks, heads / config.heads * call.extent("B"));
}

bool sectile::takes(const Invocation &call, std::string_view name) {
  const auto named = [&](const auto &x) { return x.name == name; };
  return (std::ranges::any_of(call.kernel->arguments, named) && call.has(name)) ||
         (std::ranges::any_of(call.kernel->options, named) && call.options.number(name) > 0);
}

bool sectile::allowsAnyOrder(const Invocation &call) {
  return hasOption(call, "unordered") && call.options.flag("unordered");
}

DType sectile::operandType(const Invocation &call) { return call.tensors.front().dtype; }

std::int64_t sectile::extentOr0(const Invocation &call, std::string_view axis) {
  const auto extent = call.extents.find(std::string(axis));
  return extent == call.extents.end() ? 0 : extent->second;
}
