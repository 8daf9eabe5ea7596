// Arguments, options and the launch of attention over pages. All these kernels compute
//   s = cap(scale q k^T), o = softmax(s) v, with sinks as Attention has them,
// or with queries qv for the values, too, s = cap(scale (q k^T + qv v^T)),
// of keys and values in pages (PagedAttention: Kwon et al., arXiv 2309.06180); those of a quantised
// cache are code * scale, where scores and weights are multiplied by the scale in f32. Refused:
// heads that are no multiple, D outside 16 to 256, empty pages, a negative soft cap, windows below
// -1, tables for 2^30 keys; from the host also lengths and blocks that there are not, which
// are undefined on the device.
#include "kernels/serving/Paged.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include "kernels/serving/Merge.h"
#include "kernels/serving/Plan.h"
#include <algorithm>

using namespace sectile;
using flash::detail::Launch;

namespace {
void checkTokens(const Invocation &call, std::int64_t sequence, std::int64_t tokens,
                 std::int64_t most, const std::string &what) {
  if (tokens > most)
    refuse(call, "sequence ", sequence, " has ", tokens, " tokens in q, but ", what, " ", most);
}
bool isCached(const Invocation &call) { return call.options.values.contains("max_queries"); }
} // namespace

bool sectile::isPacked(const Invocation &call) { return call.extents.contains("ends"); }
bool sectile::isPlanned(const Invocation &call) { return call.extents.contains("parts"); }

std::int64_t sectile::queriesOfEach(const Invocation &call) {
  if (!isCached(call))
    return 1;
  if (!isPacked(call))
    return call.extent("T") / std::max<std::int64_t>(call.extent("S"), 1);
  return std::min(call.options.integer("max_queries"), call.extent("T"));
}

void sectile::checkSequences(const Invocation &call) {
  if (isPlanned(call))
    checkParts(call, call.extent("parts"),
               "plan has " + std::to_string(call.extent("parts")) + " rows");
  if (!isPacked(call))
    return;
  serving::checkStarts(call);
  if (call.extent("S") == 0 && call.extent("T") != 0)
    refuse(call, "q has tokens, but there is no sequence");
}

void serving::checkStarts(const Invocation &call) {
  if (call.extent("ends") != call.extent("S") + 1)
    refuse(call, "cu_seqlens_q has ", call.extent("ends"),
           " numbers, but must have one more than the ", call.extent("S"),
           " sequences of context_lens");
}

void sectile::checkQueries(const Invocation &call) {
  checkSequences(call);
  const std::int64_t tokens = call.extent("T"), sequences = call.extent("S");
  if (!isPacked(call) && (sequences ? tokens % sequences : tokens) != 0)
    refuse(call, "q has ", tokens, " tokens for ", sequences,
           " sequences; give cu_seqlens_q where these have different numbers of tokens");
  if (const std::int64_t queries = isPacked(call) && !isPlanned(call) ? 0 : queriesOfEach(call);
      queries * groupOf(call) >= std::int64_t(1) << 30)
    refuse(call, "a sequence has ", queries, " queries of ", groupOf(call),
           " heads that share keys, but the product must be less than 2^30");
}

void sectile::checkQueryNumbers(const Invocation &call, std::span<const HostArray> inputs) {
  if (!isPacked(call))
    return;
  checkBoundaries(call, inputs, "cu_seqlens_q", call.extent("T"));
  const auto bounds = inputs[call.index("cu_seqlens_q")].as<std::int32_t>();
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    checkTokens(call, static_cast<std::int64_t>(s), bounds[s + 1] - bounds[s],
                call.options.integer("max_queries"), "option 'max_queries' is");
}

// Chunks of about one length.
static void sampleEnds(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const std::int64_t tokens = call.extent("T"), sequences = call.extent("ends") - 1;
  std::vector<double> ends;
  for (std::int64_t s = 0; s <= sequences; ++s)
    ends.push_back(static_cast<double>(s == 0 ? 0
                                       : s == sequences
                                           ? tokens
                                           : tokens * s / sequences +
                                                 drawBelow(random, tokens / (2 * sequences) + 1)));
  array.assign(ends);
}

const ArgumentRow serving::lengthsArgument{
    "context_lens: [S] i32",
    "keys of each sequence, 0 to max * page",
    {.sample = sampleEach([](const Invocation &call, auto &random) {
       const std::int64_t most =
           call.extent("blocks") ? call.extent("page") * call.extent("max") : 0;
       return most - drawBelow(random, most / 2 + 1);
     })}};
const ArgumentRow serving::tablesArgument{
    "block_tables: [S, max] i32",
    "key j of sequence s is in block block_tables[s, j / page]; entries of pages that hold no "
    "visible key may be anything",
    {.sample = sampleEach([](const Invocation &call, auto &random) {
       const std::int64_t blocks = call.extent("blocks");
       return blocks ? drawBelow(random, blocks) : -1;
     })}};
const ArgumentRow serving::planArgument{
    "plan?: [parts, 4] i32", "of paged_plan: into which parts keys are split among programs"};

ArgumentRow serving::startsArgument(bool optional) {
  return {std::string("cu_seqlens_q") + (optional ? "?" : "") + ": [ends] i32",
          std::string("[S + 1]: sequence s has tokens cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1 "
                      "of q; begins with 0, never falls, ends with T") +
              (optional ? "; left out: each has T / S" : ""),
          {.sample = sampleEnds}};
}

ArgumentRow serving::logarithmsArgument(const std::string &tokens) {
  return {"-> lse: [" + tokens + ", Hq] f32",
          "natural logarithm of the sum of exponentials, that of the sinks included"};
}

const OptionRow serving::causalOption{"causal: flag = true",
                                      "query i of n sees key j where j <= i + context_len - n"};
const OptionRow serving::maxQueriesOption{
    "max_queries: integer = 1073741823 from 0 e.g. 100000",
    "the most tokens that a sequence has in q, if fewer than T: with cu_seqlens_q and a plan, "
    "results of parts have memory and programs for so many"};

void serving::addPlans(KernelSpec &spec) {
  spec.typical.insert({"parts", 80});
  spec.small["parts"] = 7;
  spec.batch.push_back("parts");
  spec.sample_dependent = [](const Invocation &call, std::span<HostArray> inputs) {
    if (isPlanned(call))
      inputs[call.index("plan")] =
          planReference(inputs[call.index("context_lens")], call.extent("parts"));
  };
}

void serving::checkPage(const Invocation &call) {
  if (const std::int64_t page = call.extent("page"); page < 1 || page > mostOfPage)
    refuse(call, "a page is ", page, " keys, but must be from 1 to ", mostOfPage);
}

void serving::checkRoom(const Invocation &call, std::int64_t page) {
  if (const std::int64_t most = std::int64_t(1) << 30; call.extent("max") * page >= most)
    refuse(call, "block_tables has room for ", call.extent("max") * page,
           " keys of a sequence, but that must be less than ", most);
}

namespace {

struct LimitConfig {
  bool chunked = false, tree = false, padded = false;
};
using PagedOptionConfig = JoinedConfig<AttentionConfig, flash::PageConfig, LimitConfig>;

// What a query sees besides what OptionScores says.
struct PagedLimits {
  flash::Chunked chunks;
  flash::TokenTree tree;
  View<const std::int32_t, 1> padding; // [S]: keys before the first of a sequence
};

class PagedVisibility final : public flash::AnyVisibility {
public:
  PagedVisibility(const blockwise::OptionScores &options, const PagedLimits &limits,
                  const LimitConfig &has)
      : options(options), limits(limits), has(has) {}

  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const override {
    const flash::Interval all = options.keysOf(sequence, query);
    if (!has.padded)
      return has.chunked ? flash::meet(all, limits.chunks.keysOf(sequence, query)) : all;
    const Int padding = paddingOf(sequence);
    flash::Interval own{0, {}};
    if (has.chunked)
      own = flash::meet(own, limits.chunks.keysOf(withoutPadding(sequence, padding), query));
    own.first = *own.first + padding;
    if (own.last)
      own.last = *own.last + padding;
    return flash::meet(all, own);
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const override {
    const flash::Interval all = options.queriesOf(sequence, key);
    if (!has.padded)
      return has.chunked ? flash::meet(all, limits.chunks.queriesOf(sequence, key)) : all;
    const Int padding = paddingOf(sequence);
    flash::Interval own{where(key < padding, sequence.queries, 0), {}};
    if (has.chunked)
      own = flash::meet(own,
                        limits.chunks.queriesOf(withoutPadding(sequence, padding), key - padding));
    return flash::meet(all, own);
  }
  std::optional<Bool> sees(const flash::At &at) const override {
    return has.tree ? std::optional(limits.tree.sees(at)) : std::nullopt;
  }
  std::optional<Bool> isWhole(const flash::At &at) const override {
    return has.tree ? std::optional(limits.tree.isWhole(at)) : std::nullopt;
  }

private:
  Int paddingOf(const flash::Sequence &sequence) const {
    const auto &of = limits.padding;
    const auto length = load(of.ptr() + cast<std::int64_t>(sequence.batch) * of.stride(0));
    return clamp(cast<Index>(length), 0, sequence.keys);
  }
  // Chunks begin at the first key that is none of the padding.
  static flash::Sequence withoutPadding(const flash::Sequence &sequence, const Int &padding) {
    flash::Sequence own = sequence;
    own.keys = sequence.keys - padding;
    return own;
  }

  const blockwise::OptionScores &options;
  const PagedLimits &limits;
  LimitConfig has;
};

template <class T, class C, class Out>
Kernel pagedAttention{
    "paged_attention", [](flash::PagedTensors<T, C, Out> tensors, flash::Numbers numbers,
                          blockwise::OptionNumbers window, PagedLimits limits,
                          View<const T, 3> valueQueries, const PagedOptionConfig &config) {
      const blockwise::OptionScores options(config, window, View<const T, 4>(),
                                            View<const bool, 4>());
      flash::tracePages(config, config, tensors,
                        {numbers, options.modifier(), PagedVisibility(options, limits, config)},
                        valueQueries);
    }};

// Numbers of a cache: quantised ones are as large as their type has them.
void sampleCache(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  if (is_floating(array.dtype))
    return sampleNormal(1)(call, array, random);
  for (std::byte &byte : array.data)
    byte = static_cast<std::byte>(random());
}

bool isPairs(const Invocation &call) { return call.dtype("k_cache") == DType::uint8; }

void checkBits(const Invocation &call, std::int64_t sequence, std::int64_t tokens) {
  checkTokens(call, sequence, tokens, 32 * call.extent("words"), "the bits of a row of tree are");
}

void checkCached(const Invocation &call) {
  checkQueries(call);
  if (!isPacked(call) && call.has("tree"))
    checkBits(call, 0, queriesOfEach(call));
}

void check(const Invocation &call) {
  checkHeads(call, "q", "the caches", {"D"});
  const std::int64_t d = call.extent("D"), stored = call.extent("Dc");
  serving::checkPage(call);
  serving::checkRoom(call, call.extent("page"));
  const DType cache = call.dtype("k_cache");
  const bool plain = cache == DType::float16 || cache == DType::bfloat16 || cache == DType::float32;
  if (plain && cache != call.dtype("q"))
    refuse(call, "k_cache is ", name_of(cache), ", but q is ", name_of(call.dtype("q")),
           "; a cache of 16 or 32 bits has the dtype of q");
  if (stored * (isPairs(call) ? 2 : 1) != d)
    refuse(call, "the caches' last axis is ", stored, ", but D is ", d,
           (isPairs(call) ? ", and each byte holds two numbers" : ""));
  if (isCached(call))
    checkCached(call);
  else
    checkSequences(call);
}

const ArgumentRow paddingArgument{
    "left_pad?: [S] i32",
    "how many of a sequence's first keys are padding, which no query sees, 0 to max * page",
    {.sample = sampleEach([](const Invocation &call, auto &random) {
       return drawBelow(random, call.extent("page") * call.extent("max") / 3 + 1);
     })}};

void checkPadding(const Invocation &call, std::span<const HostArray> inputs) {
  const std::int64_t room = call.extent("max") * call.extent("page");
  const auto padding = inputs[call.index("left_pad")].as<std::int32_t>();
  for (std::size_t s = 0; s < padding.size(); ++s)
    if (padding[s] < 0 || padding[s] > room)
      refuse(call, "left_pad[", s, "] is ", padding[s], ", but must be from 0 to ", room,
             ", the keys that a row of block_tables has room for");
}

// Sequences with more tokens than the tree has bits.
void checkTree(const Invocation &call, std::span<const HostArray> inputs) {
  if (!isPacked(call) || !call.has("tree"))
    return;
  const auto bounds = inputs[call.index("cu_seqlens_q")].as<std::int32_t>();
  for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
    checkBits(call, static_cast<std::int64_t>(s), bounds[s + 1] - bounds[s]);
}

PagedSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  auto optional = [&](const char *name) {
    return call.has(name) ? &inputs[call.index(name)] : nullptr;
  };
  return {.attention = attentionSettings(call, inputs),
          .cu = isPacked(call) ? &inputs[call.index("cu_seqlens_q")] : nullptr,
          .kScale = optional("k_scale"),
          .vScale = optional("v_scale"),
          .kScales = optional("k_scales"),
          .vScales = optional("v_scales"),
          .queries = queriesOfEach(call),
          .chunk = isCached(call) ? call.options.integer("chunk") : 0,
          .tree = isCached(call) ? optional("tree") : nullptr,
          .padding = isCached(call) ? optional("left_pad") : nullptr,
          .valueQueries = isCached(call) ? optional("qv") : nullptr};
}

} // namespace

KernelSpec sectile::pagedSpec(Paged kind) {
  KernelSpec spec;
  const bool single = kind == Paged::decode, cached = kind == Paged::cached;
  const std::string tokens = single ? "S" : "T", queries = ": [" + tokens + ", Hq, D] ";
  spec.add_arguments(
      {{"q" + queries + "f16|bf16|f32",
        single ? "the last token of each sequence; D from 16 to 256"
               : "the chunks' tokens, sequence after sequence; D from 16 to 256"},
       {"k_cache: [blocks, Hkv, page, Dc] f16|bf16|f32|f8e4m3|f8e5m2|i8|u8",
        "keys in pages: of q's dtype, f8e4m3, f8e5m2 or i8 with Dc = D, or u8: two numbers of 4 "
        "bits (-8 to 7, the first in the low half), Dc = D/2",
        {.sample = sampleCache}},
       {"v_cache: [blocks, Hkv, page, Dc] like k_cache", "values alike", {.sample = sampleCache}},
       serving::lengthsArgument,
       serving::tablesArgument,
       sinksArgument});
  for (const std::string cache : {"k", "v"})
    spec.add_arguments({{cache + "_scale?: [1|blocks, Hkv] f32",
                         "what the numbers of " + cache + "_cache are multiplied by",
                         {.sample = sampleUniform(0.01, 0.03)}}});
  if (!single)
    spec.add_arguments({serving::startsArgument(cached)});
  if (cached)
    spec.add_arguments(
        {{"tree?: [T, words] i32",
          "of the tokens' last n keys, where n tokens of a sequence are in q, token t sees key j "
          "only if bit j % 32 of tree[t, j / 32] is set",
          // Any bits: trees are some of these.
          {.sample = sampleEach([](const Invocation &, auto &random) {
             return static_cast<std::int32_t>(random());
           })}}});
  if (kind != Paged::prefill)
    spec.add_arguments({serving::planArgument});
  for (const std::string cache : {"k", "v"})
    spec.add_arguments({{cache + "_scales?: [blocks, Hkv, page] f32",
                         "the same for each key and head, besides",
                         {.sample = sampleUniform(0.01, 0.03)}}});
  if (cached)
    spec.add_arguments({paddingArgument,
                        {"qv?: [T, Hq, D] like q",
                         "queries for the values, whose products are added to those of q and the "
                         "keys: scores are scale * (q k + qv v)"}});
  spec.add_arguments({{"-> o" + queries + "like q",
                       single ? "0 where a sequence has no keys" : "0 where a query sees no key"},
                      serving::logarithmsArgument(tokens)});
  if (!single)
    spec.add_options({serving::causalOption});
  spec.add_options({scaleOption,
                    {"softcap: number = 0 from 0 e.g. 1.5",
                     "c: scaled scores s become c tanh(s / c); 0: they do not"},
                    {"window_left: integer = -1 from -1 e.g. 0, 9",
                     "a query sees itself and so many keys before it; -1: all"}});
  if (cached)
    spec.add_options({{"window_right: integer = -1 from -1 e.g. 0, 3",
                       "a query sees so many keys behind it, if not causal; -1: all"},
                      {"chunk: integer = 0 from 0 to 1073741823 e.g. 7, 64",
                       "a query sees keys of its own chunk of so many positions; 0: all"},
                      serving::maxQueriesOption});
  spec.typical = {{"Hq", 32},       {"Hkv", 8},   {"D", 128},   {"S", single ? 16 : 8},
                  {"blocks", 4096}, {"page", 16}, {"max", 256}, {"R", 1}};
  spec.small = {{"Hq", 4},      {"Hkv", 2},   {"D", 32},  {"S", 3},
                {"blocks", 20}, {"page", 16}, {"max", 6}, {"R", 1}};
  if (!single) {
    spec.typical["T"] = cached ? 64 : 4096;
    spec.small["T"] = cached ? 15 : 40;
  }
  if (kind != Paged::prefill)
    serving::addPlans(spec);
  spec.follow = [single, cached](Invocation &call) {
    call.extents["Dc"] = call.extent("D") / (isPairs(call) ? 2 : 1);
    if (cached)
      call.extents["words"] = ceilDiv(call.extent("T"), 32);
    if (!single)
      call.extents["ends"] = call.extent("S") + 1;
  };
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    if (isCached(call)) {
      checkQueryNumbers(call, inputs);
      checkTree(call, inputs);
      if (call.has("left_pad"))
        checkPadding(call, inputs);
    } else if (isPacked(call)) {
      checkBoundaries(call, inputs, "cu_seqlens_q", call.extent("T"));
    }
    checkPagedContents(call, inputs[3], inputs[4], settingsOf(call, inputs));
    if (isPlanned(call))
      checkPlan(call, inputs[call.index("plan")], inputs[3]);
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto result =
        pagedReference(in[0], in[1], in[2], in[3], in[4], settingsOf(call, in), arithmetic);
    return std::vector{result.o, result.lse};
  };
  return spec;
}

bool sectile::hasWholeSteps(const Invocation &call, std::int64_t n) {
  return call.extent("page") % n == 0 && call.dtype("k_cache") == call.dtype("q") &&
         !std::ranges::any_of(std::array{"k_scale", "v_scale", "k_scales", "v_scales"},
                              [&](const char *name) { return call.has(name); });
}

void sectile::launchPaged(Use &use, const AttentionNumbers &numbers, bool modified,
                          const flash::detail::Launcher &launch) {
  const Invocation &call = use.call;
  launchPaged(use, numbers, modified,
              {.width = call.extent("D"),
               .queries = queriesOfEach(call),
               .several = isCached(call) && (isPlanned(call) || !isPacked(call)),
               .whole = [&](std::int64_t n) { return hasWholeSteps(call, n); }},
              launch);
}

void sectile::launchPaged(Use &use, const AttentionNumbers &numbers, bool modified,
                          const PagedRows &rows, const flash::detail::Launcher &launch) {
  const Invocation &call = use.call;
  const std::int64_t heads = call.extent("Hq"), kvHeads = PagedRows::kvHeads(call), d = rows.width,
                     tokens = call.tensor("q").shape[0], sequences = call.extent("S"),
                     group = std::max<std::int64_t>(groupOf(call), 1), queries = rows.queries;
  const bool packed = isPacked(call), planned = isPlanned(call);
  const int splits = use.config.contains("splits") && !planned ? use.field("splits") : 1;
  // Without a sequence all rows of a plan are empty, and there is none to read a length of.
  const std::int64_t parts = planned && sequences > 0 ? call.extent("parts") : sequences;
  flash::LoopConfig chosen = use.config_as<flash::LoopConfig>();
  chosen.width = chosen.valueWidth = paddedWidth(d);
  chosen.group = static_cast<int>(group);
  chosen.sinks = numbers.sinks;
  chosen.overlap = chosen.overlap && rows.whole(chosen.n);
  chosen.raw = chosen.overlap && mayBeRaw(numbers, modified) && !chosen.sinks;
  Launch paged{.of = Launch::Of::pages,
               .grid = Grid(heads == 0           ? 0
                            : packed && !planned ? tokens * group / chosen.m + sequences
                                                 : parts * ceilDiv(queries * group, chosen.m),
                            kvHeads, splits),
               .config = chosen,
               .numbers = launchNumbers(use, numbers, group),
               .sinks = sinksOf(use),
               .pages = {.splits = splits,
                         .page = static_cast<int>(call.extent("page")),
                         .packed = packed,
                         .kScaled = takes(call, "k_scale"),
                         .vScaled = takes(call, "v_scale"),
                         .kScaledByKey = takes(call, "k_scales"),
                         .vScaledByKey = takes(call, "v_scales"),
                         .planned = planned,
                         .several = rows.several,
                         .valueKeys = takes(call, "qv")},
               .queryStarts = packed ? use.tensor<std::int32_t, 1>("cu_seqlens_q")
                                     : noTensor<std::int32_t, 1>(),
               .plan = planned ? use.tensor<std::int32_t, 2>("plan") : noTensor<std::int32_t, 2>(),
               .queries = queries};
  const auto scales = [&](const char *name) {
    return takes(call, name) ? broadcast<float, 2>(use, name) : noTensor<float, 2>();
  };
  paged.kScales = scales("k_scale");
  paged.vScales = scales("v_scale");
  const auto ofKeys = [&](const char *name) {
    return takes(call, name) ? use.tensor<float, 3>(name) : noTensor<float, 3>();
  };
  paged.kKeyScales = ofKeys("k_scales");
  paged.vKeyScales = ofKeys("v_scales");
  if (planned && planStep % chosen.n != 0)
    refuse(call, "a step is ", chosen.n, " keys, but a plan's parts are multiples of ", planStep);
  const auto lse = use.tensor<float, 2>("lse");
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    const auto o = use.tensor<T, 3>("o");
    if (planned) {
      const auto partial = use.workspace<float, 4>({parts, queries, heads, d});
      const auto logs = use.workspace<float, 3>({parts, queries, heads});
      paged.o = withAxes<4>(partial, {1, parts * queries, heads, d},
                            {0, partial.stride(1), partial.stride(2), partial.stride(3)});
      paged.lse =
          withAxes<3>(logs, {1, parts * queries, heads}, {0, logs.stride(1), logs.stride(2)});
      launch(use, paged);
      // A sequence has as many parts as the others leave it, at most.
      return use(serving::mergePlanned<T>, Grid(parts * queries, heads), partial, logs,
                 use.tensor<std::int32_t, 2>("plan"), paged.queryStarts.as<std::int32_t, 1>(), o,
                 lse,
                 serving::PlannedMergeConfig{mergeRowConfig(parts - sequences + 1, chosen.width),
                                             {packed, paged.pages.several}});
    }
    launchParts(use, paged, splits, o, lse, launch, [&](const auto &partial, const auto &logs) {
      use(mergeTokens<T>, Grid(tokens, heads), partial, logs.permute({0, 2, 1}),
          paged.queryStarts.as<std::int32_t, 1>(), o, lse.permute({1, 0}),
          mergeRowConfig(splits, chosen.width));
    });
  });
}

std::vector<ConfigSpec> sectile::pagedFields(const char *rows, bool inParts) {
  std::vector<ConfigSpec> fields{{"m", rows}, {"n", "keys of one step"}};
  if (inParts)
    fields.push_back(
        {"splits", "parts of the keys, each with programs of its own, unless a plan says others"});
  fields.insert(fields.end(),
                {{"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {"overlap",
                  "1: products run beside softmax, copies of pages in a warp of their own", 0, 1}});
  return fields;
}

void sectile::launchPagedAttention(Use &use) {
  const Invocation &call = use.call;
  const AttentionNumbers numbers(call);
  const OptionFlags flags = optionFlags(use, numbers);
  const std::int64_t chunk = isCached(call) ? call.options.integer("chunk") : 0;
  const bool hasTree = takes(call, "tree"), isPadded = takes(call, "left_pad");
  const Arguments<PagedLimits> limits{
      {chunk},
      {hasTree ? use.tensor<std::int32_t, 2>("tree") : noTensor<std::int32_t, 2>()},
      isPadded ? use.tensor<std::int32_t, 1>("left_pad") : noTensor<std::int32_t, 1>()};
  launchPaged(use, numbers, numbers.cap > 0, [&](Use &use, const Launch &launch) {
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto of = [&]<class C, class Out>(C, Out) {
        use(pagedAttention<T, C, Out>, launch.grid,
            Arguments<flash::PagedTensors<T, C, Out>>{
                use.tensor<T, 3>("q"), use.tensor<C, 4>("k_cache"), use.tensor<C, 4>("v_cache"),
                use.tensor<std::int32_t, 1>("context_lens"),
                use.tensor<std::int32_t, 2>("block_tables"),
                launch.queryStarts.as<const std::int32_t, 1>(),
                launch.plan.as<const std::int32_t, 2>(), launch.sinks.as<const float, 2>(),
                launch.kScales.as<const float, 2>(), launch.vScales.as<const float, 2>(),
                launch.kKeyScales.as<const float, 3>(), launch.vKeyScales.as<const float, 3>(),
                launch.o.as<Out, 4>(), launch.lse.as<float, 3>(), launch.queries},
            launch.numbers, optionNumbers(numbers), limits,
            takes(call, "qv") ? use.tensor<T, 3>("qv") : noTensor<T, 3>(),
            PagedOptionConfig{
                {launch.config, flags}, launch.pages, {chunk > 0, hasTree, isPadded}});
      };
      const auto ofCache = [&]<class C>(C code) {
        if (launch.o.dtype == dtype_of<T>)
          of(code, T());
        else
          of(code, float());
      };
      if (call.dtype("k_cache") == call.dtype("q"))
        ofCache(T());
      else
        for_dtype<float8_e4m3, float8_e5m2, std::int8_t, std::uint8_t>(call.dtype("k_cache"),
                                                                       ofCache);
    });
  });
}
