// Arguments, options and the launch of attention over pages. Both kernels compute
//   s = cap(scale q k^T), o = softmax(s) v, with sinks as Attention has them,
// of keys and values in pages (PagedAttention: Kwon et al., arXiv 2309.06180); those of a quantised
// cache are code * scale, where scores and weights are multiplied by the scale in f32. Refused:
// heads that are no multiple, D outside 16 to 256, pages beyond 256, a negative soft cap, windows
// below -1, tables for 2^30 keys; from the host also lengths and blocks that there are not, which
// are undefined on the device.
#include "kernels/serving/Paged.h"
#include "kernels/Sample.h"
#include "kernels/attention/OptionScores.h"
#include "kernels/serving/Merge.h"
#include <algorithm>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using flash::detail::Launch;

namespace {

struct PagedOptionConfig : AttentionConfig, flash::PageConfig {};
constexpr auto sectileConfigFields(std::type_identity<PagedOptionConfig>) {
  return std::tuple_cat(config_fields<AttentionConfig>, config_fields<flash::PageConfig>);
}

template <class T, class C, class Out>
Kernel pagedAttention{
    "paged_attention", [](flash::PagedTensors<T, C, Out> tensors, flash::Numbers numbers,
                          blockwise::OptionNumbers limits, const PagedOptionConfig &config) {
      const blockwise::OptionScores options(config, limits, View<const T, 4>(),
                                            View<const bool, 4>());
      flash::tracePages<T>(config, config, tensors, numbers, options.modifier(), options);
    }};

void sampleScales(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::uniform_real_distribution<double> sizes(0.01, 0.03);
  fillDrawn(array, [&] { return sizes(random); });
}

// Numbers of a cache: quantised ones are as large as their type has them.
void sampleCache(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  if (is_floating(array.dtype)) {
    fillDrawn(array, [&] { return normal(random); });
  } else {
    for (std::byte &byte : array.data)
      byte = static_cast<std::byte>(random());
  }
}

bool isPairs(const Invocation &call) { return call.dtype("k_cache") == DType::uint8; }

} // namespace

std::vector<ArgumentSpec> sectile::pagedInputs() {
  return {
      {.name = "k_cache",
       .axes = {"blocks", "Hkv", "page", "Dc"},
       .dtypes = {DType::float16, DType::bfloat16, DType::float32, DType::float8_e4m3, DType::int8,
                  DType::uint8},
       .sample = sampleCache,
       .doc = "keys in pages: of q's dtype, f8e4m3 or i8 with Dc = D, or u8: two numbers of 4 bits "
              "(-8 to 7, the first in the low half), Dc = D/2"},
      {.name = "v_cache",
       .axes = {"blocks", "Hkv", "page", "Dc"},
       .like = "k_cache",
       .sample = sampleCache,
       .doc = "values alike"},
      {.name = "context_lens",
       .axes = {"S"},
       .dtypes = {DType::int32},
       .sample =
           [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
             const std::int64_t most =
                 call.extent("blocks") ? call.extent("page") * call.extent("max") : 0;
             for (std::int32_t &length : array.as<std::int32_t>())
               length = static_cast<std::int32_t>(
                   most -
                   static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most / 2 + 1)));
           },
       .doc = "keys of each sequence, 0 to max * page"},
      {.name = "block_tables",
       .axes = {"S", "max"},
       .dtypes = {DType::int32},
       .sample =
           [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
             const auto blocks = static_cast<std::uint64_t>(call.extent("blocks"));
             for (std::int32_t &block : array.as<std::int32_t>())
               block = blocks ? static_cast<std::int32_t>(random() % blocks) : -1;
           },
       .doc = "key j of sequence s is in block block_tables[s, j / page]; entries of pages that "
              "hold no visible key may be anything"},
      {.name = "sinks",
       .optional = true,
       .axes = {"1|Hq", "R"},
       .dtypes = {DType::float32},
       .doc = "scores that take part in each row's softmax, without a value"},
      {.name = "k_scale",
       .optional = true,
       .axes = {"1|blocks", "Hkv"},
       .dtypes = {DType::float32},
       .sample = sampleScales,
       .doc = "what the numbers of k_cache are multiplied by"},
      {.name = "v_scale",
       .optional = true,
       .axes = {"1|blocks", "Hkv"},
       .dtypes = {DType::float32},
       .sample = sampleScales,
       .doc = "what the numbers of v_cache are multiplied by"},
  };
}

std::vector<OptionSpec> sectile::pagedOptions() {
  return {
      {.name = "scale",
       .kind = OptionSpec::number,
       .initial = "",
       .samples = {"0.7"},
       .doc = "of the scores; 1/sqrt(D) if not given"},
      {.name = "softcap",
       .kind = OptionSpec::number,
       .initial = "0",
       .samples = {"1.5"},
       .doc = "c: scaled scores s become c tanh(s / c); 0: they do not"},
      {.name = "window_left",
       .kind = OptionSpec::integer,
       .initial = "-1",
       .samples = {"0", "9"},
       .doc = "a query sees itself and so many keys before it; -1: all"},
  };
}

void sectile::followPaged(Invocation &call) {
  call.extents["Dc"] = call.extent("D") / (isPairs(call) ? 2 : 1);
}

void sectile::checkPaged(const Invocation &call) {
  const std::string &name = call.kernel->name;
  const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"), d = call.extent("D"),
                     stored = call.extent("Dc"), page = call.extent("page");
  if (kvHeads == 0 ? heads != 0 : heads % kvHeads != 0)
    throw InputError(name + ": Hq, the heads of q (" + std::to_string(heads) +
                     "), must be a multiple of Hkv, those of the caches (" +
                     std::to_string(kvHeads) + ")");
  if (d < 16 || d > 256)
    throw InputError(name + ": D is " + std::to_string(d) + ", but must be from 16 to 256");
  if (page < 1 || page > 256)
    throw InputError(name + ": a page is " + std::to_string(page) +
                     " keys, but must be from 1 to 256");
  if (const std::int64_t most = std::int64_t(1) << 30; call.extent("max") * page >= most)
    throw InputError(name + ": block_tables has room for " +
                     std::to_string(call.extent("max") * page) +
                     " keys of a sequence, but that must be less than " + std::to_string(most));
  const DType cache = call.dtype("k_cache");
  const bool plain = cache == DType::float16 || cache == DType::bfloat16 || cache == DType::float32;
  if (plain && cache != call.dtype("q"))
    throw InputError(name + ": k_cache is " + std::string(name_of(cache)) + ", but q is " +
                     std::string(name_of(call.dtype("q"))) +
                     "; a cache of 16 or 32 bits has the dtype of q");
  if (stored * (isPairs(call) ? 2 : 1) != d)
    throw InputError(name + ": the caches' last axis is " + std::to_string(stored) + ", but D is " +
                     std::to_string(d) +
                     (isPairs(call) ? ", and each byte holds two numbers" : ""));
  if (call.options.number("softcap") < 0)
    throw InputError(name + ": option 'softcap' cannot be negative");
  if (call.options.integer("window_left") < -1)
    throw InputError(name + ": option 'window_left' is a distance, or -1 for any");
}

PagedSettings sectile::pagedSettings(const Invocation &call, std::span<const HostArray> inputs) {
  auto optional = [&](const char *name) {
    return call.has(name) ? &inputs[call.index(name)] : nullptr;
  };
  return {.attention = attentionSettings(call, inputs),
          .kScale = optional("k_scale"),
          .vScale = optional("v_scale")};
}

std::int64_t sectile::pagedKeys(const Invocation &call, const std::string &target) {
  const bool wide = call.dtype("q") == DType::float32;
  const bool large = call.extent("D") > 128 || wide || !hasMatrixUnits(target, call.dtype("q"));
  return call.extent("D") > 128 && wide ? 16 : large ? 32 : 64;
}

std::int64_t sectile::pagedWarps(const std::string &target, DType dtype, std::int64_t m) {
  const bool units = hasMatrixUnits(target, dtype) && dtype != DType::float32;
  return units ? m / 16 : 4;
}

bool sectile::hasWholeSteps(const Invocation &call, std::int64_t n) {
  return call.extent("page") % n == 0 && call.dtype("k_cache") == call.dtype("q") &&
         !call.has("k_scale") && !call.has("v_scale");
}

bool sectile::pagedFits(const Invocation &call, const std::string &target, const Config &config) {
  const std::int64_t threads = config.at("warps") * warpSize(target);
  const std::int64_t width = paddedWidth(call.extent("D"));
  const std::int64_t m = config.at("m"), n = config.at("n");
  return (m * (n + width) + n * width) / threads <= 192;
}

void sectile::launchPaged(Use &use, const AttentionNumbers &numbers, bool modified,
                          const flash::detail::Launcher &launch) {
  const Invocation &call = use.call;
  const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv"), d = call.extent("D"),
                     tokens = call.tensor("q").shape[0], sequences = call.extent("S"),
                     group = groupOf(call);
  const bool packed = call.extents.contains("T");
  const int splits = use.config.contains("splits") ? use.field("splits") : 1;
  flash::LoopConfig chosen = use.config_as<flash::LoopConfig>();
  chosen.width = chosen.valueWidth = paddedWidth(d);
  chosen.group = static_cast<int>(group);
  chosen.sinks = numbers.sinks;
  chosen.overlap = chosen.overlap && hasWholeSteps(call, chosen.n);
  chosen.raw = chosen.overlap && mayBeRaw(numbers, modified) && !chosen.sinks;
  Launch paged{.of = Launch::Of::pages,
               .grid = Grid(packed ? tokens * group / chosen.m + sequences
                                   : sequences * ceilDiv(group, chosen.m),
                            kvHeads, splits),
               .config = chosen,
               .numbers = launchNumbers(numbers, group),
               .sinks = sinksOf(use),
               .pages = {.splits = splits,
                         .page = static_cast<int>(call.extent("page")),
                         .packed = packed,
                         .kScaled = use.has("k_scale"),
                         .vScaled = use.has("v_scale")},
               .queryStarts = packed ? use.tensor<std::int32_t, 1>("cu_seqlens_q")
                                     : noTensor<std::int32_t, 1>(),
               .kScales = broadcast<float, 2>(use, "k_scale"),
               .vScales = broadcast<float, 2>(use, "v_scale")};
  const auto lse = use.tensor<float, 2>("lse");
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    const auto o = use.tensor<T, 3>("o");
    if (splits == 1) {
      paged.o = withAxes<4>(o, {1, tokens, heads, d}, {0, o.stride(0), o.stride(1), o.stride(2)});
      paged.lse = withAxes<3>(lse, {1, tokens, heads}, {0, lse.stride(0), lse.stride(1)});
      return launch(use, paged);
    }
    const auto parts = use.workspace<float, 4>({splits, tokens, heads, d});
    const auto logs = use.workspace<float, 3>({splits, tokens, heads});
    paged.o = parts;
    paged.lse = logs;
    launch(use, paged);
    // The merge's rows are the tokens of a head.
    use(mergeStates<float, T>, Grid(tokens, heads, 1),
        withAxes<5>(parts, {splits, 1, heads, tokens, d},
                    {parts.stride(0), 0, parts.stride(2), parts.stride(1), parts.stride(3)}),
        withAxes<4>(logs, {splits, 1, heads, tokens},
                    {logs.stride(0), 0, logs.stride(2), logs.stride(1)}),
        withAxes<4>(o, {1, heads, tokens, d}, {0, o.stride(1), o.stride(0), o.stride(2)}),
        withAxes<3>(lse, {1, heads, tokens}, {0, lse.stride(1), lse.stride(0)}),
        mergeRowConfig(splits, chosen.width));
  });
}

void sectile::launchPagedAttention(Use &use) {
  const Invocation &call = use.call;
  const AttentionNumbers numbers(call);
  const OptionFlags flags = optionFlags(use, numbers);
  launchPaged(use, numbers, numbers.cap > 0, [&](Use &use, const Launch &launch) {
    for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
      const auto of = [&]<class C, class Out>(C, Out) {
        use(pagedAttention<T, C, Out>, launch.grid,
            Arguments<flash::PagedTensors<T, C, Out>>{
                use.tensor<T, 3>("q"), use.tensor<C, 4>("k_cache"), use.tensor<C, 4>("v_cache"),
                use.tensor<std::int32_t, 1>("context_lens"),
                use.tensor<std::int32_t, 2>("block_tables"),
                launch.queryStarts.as<const std::int32_t, 1>(), launch.sinks.as<const float, 2>(),
                launch.kScales.as<const float, 2>(), launch.vScales.as<const float, 2>(),
                launch.o.as<Out, 4>(), launch.lse.as<float, 3>()},
            launch.numbers, optionNumbers(numbers),
            PagedOptionConfig{{launch.config, flags}, launch.pages});
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
        for_dtype<float8_e4m3, std::int8_t, std::uint8_t>(call.dtype("k_cache"), ofCache);
    });
  });
}
