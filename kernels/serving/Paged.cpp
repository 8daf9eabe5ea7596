// Arguments, options and the launch of attention over pages. Both kernels compute
//   s = cap(scale q k^T), o = softmax(s) v, with sinks as Attention has them,
// of keys and values in pages (PagedAttention: Kwon et al., arXiv 2309.06180); those of a quantised
// cache are code * scale, rounded to q's dtype. Refused: heads that are no multiple, D outside 16
// to 256, pages beyond 256, a negative soft cap, windows below -1; from the host also lengths
// and blocks that there are not, which are undefined on the device.
#include "kernels/serving/Paged.h"
#include "kernels/Sample.h"
#include "kernels/attention/Options.h"
#include "kernels/serving/Merge.h"
#include "kernels/serving/PagedAttention.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using serving::PagedConfig;

namespace {

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

static double scaleOf(const Invocation &call) {
  return call.options.given("scale") ? call.options.number("scale")
                                     : 1 / std::sqrt(static_cast<double>(call.extent("D")));
}

PagedSettings sectile::pagedSettings(const Invocation &call, std::span<const HostArray> inputs) {
  auto optional = [&](const char *name) {
    return call.has(name) ? &inputs[call.index(name)] : nullptr;
  };
  return {.scale = scaleOf(call),
          .cap = call.options.number("softcap"),
          .left = call.options.integer("window_left"),
          .sinks = optional("sinks"),
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

void sectile::launchPaged(Use &use, std::int64_t blocks, bool packed, bool causal, int splits) {
  const Invocation &call = use.call;
  const std::int64_t heads = call.extent("Hq"), kvHeads = call.extent("Hkv");
  const std::int64_t tokens = call.tensor("q").shape[0], d = call.extent("D");
  const std::int64_t cacheBlocks = call.extent("blocks");
  auto bounded = [](std::int64_t n) {
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(n)));
  };
  const PagedConfig chosen{
      .m = use.field("m"),
      .n = use.field("n"),
      .splits = splits,
      .warps = use.field("warps"),
      .stages = use.field("stages"),
      .width = paddedWidth(d),
      .page = static_cast<int>(call.extent("page")),
      .group = static_cast<int>(heads / std::max<std::int64_t>(kvHeads, 1)),
      .packed = packed,
      .causal = causal,
      .window = call.options.integer("window_left") >= 0,
      .cap = call.options.number("softcap") > 0,
      .sinks = use.has("sinks") && call.tensor("sinks").shape[1] ? bounded(call.extent("R")) : 0,
      .kScaled = use.has("k_scale"),
      .vScaled = use.has("v_scale"),
      .overlap = use.field("overlap") && hasWholeSteps(call, use.field("n")),
  };
  const Grid grid(blocks, kvHeads, splits);
  for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
    const auto q = use.tensor<T, 3>("q"), o = use.tensor<T, 3>("o");
    const auto lse = use.tensor<float, 2>("lse");
    const auto cu = packed ? use.tensor<std::int32_t, 1>("cu_seqlens_q")
                           : Tensor<std::int32_t, 1>(nullptr, {0}, {1});
    auto run = [&]<class C, class Out>(C, Out, const Tensor<Out, 4> &to,
                                       const Tensor<float, 3> &logs) {
      use(serving::pagedAttention<T, C, Out>, grid, q, use.tensor<C, 4>("k_cache"),
          use.tensor<C, 4>("v_cache"), use.tensor<std::int32_t, 1>("context_lens"),
          use.tensor<std::int32_t, 2>("block_tables"), cu,
          broadcast<float, 2>(use, "sinks", {heads, call.has("sinks") ? call.extent("R") : 0}),
          broadcast<float, 2>(use, "k_scale", {cacheBlocks, kvHeads}),
          broadcast<float, 2>(use, "v_scale", {cacheBlocks, kvHeads}), to, logs,
          static_cast<float>(scaleOf(call)), static_cast<float>(call.options.number("softcap")),
          call.options.integer("window_left"), chosen);
    };
    auto ofCache = [&]<class C>(C) {
      if (splits == 1)
        return run(C{}, T{},
                   Tensor<T, 4>(o.data(), {1, tokens, heads, d},
                                {0, o.stride(0), o.stride(1), o.stride(2)}, o.memory()),
                   Tensor<float, 3>(lse.data(), {1, tokens, heads},
                                    {0, lse.stride(0), lse.stride(1)}, lse.memory()));
      const auto parts = use.workspace<float, 4>({splits, tokens, heads, d});
      const auto logs = use.workspace<float, 3>({splits, tokens, heads});
      run(C{}, float{}, parts, logs);
      // The merge's rows are the tokens of a head.
      const MergeRowConfig merge = mergeRowConfig(splits, chosen.width);
      use(mergeRow<float, T>, Grid(tokens, heads, 1),
          Tensor<float, 5>(parts.data(), {splits, 1, heads, tokens, d},
                           {parts.stride(0), 0, parts.stride(2), parts.stride(1), parts.stride(3)},
                           parts.memory()),
          Tensor<float, 4>(logs.data(), {splits, 1, heads, tokens},
                           {logs.stride(0), 0, logs.stride(2), logs.stride(1)}, logs.memory()),
          Tensor<T, 4>(o.data(), {1, heads, tokens, d}, {0, o.stride(1), o.stride(0), o.stride(2)},
                       o.memory()),
          Tensor<float, 3>(lse.data(), {1, heads, tokens}, {0, lse.stride(1), lse.stride(0)},
                           lse.memory()),
          merge);
    };
    if (call.dtype("k_cache") == call.dtype("q"))
      ofCache(T{});
    else
      for_dtype<float8_e4m3, std::int8_t, std::uint8_t>(call.dtype("k_cache"), ofCache);
  });
}
