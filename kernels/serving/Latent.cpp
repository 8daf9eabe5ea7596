// latent_decode and latent_sparse: attention in which a row of the cache is a latent, shared by all
// heads, and some rotated columns (MLA, DeepSeek-V2: arXiv 2405.04434, in its absorbed form):
//   s = scale q (latent, rest)^T, o = softmax(s) latent, with sinks as Attention has them.
// latent_decode takes the keys of sequences in pages, as attention_cached does; latent_sparse those
// that a list names for each query (DeepSeek-V3.2). Rows of 656 bytes are FlashMLA's: 512 codes of
// e4m3, 4 scales of f32, each of 128 codes, and 64 numbers of bf16. Refused: a call without the
// option `scale`, because models differ in it; latents outside 16 to 512 columns and others outside
// 1 to 128; rows of bytes whose latent is no multiple of 128; what attention_cached refuses.
#include "kernels/serving/Latent.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/references/Sample.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Plan.h"
#include "runtime/Chip.h"
#include <algorithm>
#include <cstdint>

using namespace sectile;
using flash::detail::Launch;
using serving::LatentConfig, serving::LatentTensors;

namespace {

template <class T, class C, class R, class Out>
Kernel latentAttention{"latent_attention", [](LatentTensors<T, C, R, Out> tensors,
                                              flash::Numbers numbers, const LatentConfig &config) {
                         serving::traceLatent<T, C, R, Out>(config, tensors, numbers);
                       }};

bool isListed(const Invocation &call) { return call.extents.contains("topk"); }
bool isGrouped(const Invocation &call) { return call.dtype("cache") == DType::uint8; }

std::int64_t latentOf(const Invocation &call) {
  return call.options.given("latent") ? call.options.integer("latent") : call.extent("D") - 64;
}

// Whether the engine may copy steps of n keys as they lie.
bool copiesWholeSteps(const Invocation &call, std::int64_t n) {
  return !isListed(call) && call.extent("page") % n == 0 &&
         call.dtype("cache") == call.dtype("q") && !call.has("cache_scale");
}

// Where the parts of a row of bytes begin.
struct RowBytes {
  std::int64_t groups, rest, all;
  explicit RowBytes(const Invocation &call) {
    const std::int64_t latent = latentOf(call);
    groups = latent;
    rest = groups + latent / 128 * 4;
    all = rest + (call.extent("D") - latent) * 2;
  }
};

// Codes that are numbers, and scales of usual sizes.
void sampleRows(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  if (array.dtype != DType::uint8)
    return sampleNormal(1)(call, array, random);
  const RowBytes at(call);
  const auto bytes = array.as<std::uint8_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) % at.all;
    const auto drawn = static_cast<std::uint32_t>(random());
    const auto put = [&](std::uint32_t number, std::int64_t size) {
      bytes[i] = static_cast<std::uint8_t>(number >> (8 * ((place - at.groups) % size)));
    };
    if (place < at.groups)
      bytes[i] = static_cast<std::uint8_t>((drawn & 0x80) | (drawn >> 8) % 0x7f);
    else if (place < at.rest) // 2^-8 to 2^-6, by their exponents
      put((119u + static_cast<std::uint32_t>(i / 4 % 3)) << 23, 4);
    else if (place % 2) // the upper half of a bfloat16 around 1
      bytes[i] = static_cast<std::uint8_t>((drawn & 0x80) | 0x3f);
    else
      bytes[i] = static_cast<std::uint8_t>(drawn);
  }
}

void check(const Invocation &call) {
  const std::int64_t width = call.extent("D"), latent = latentOf(call), rest = width - latent,
                     stored = call.extent("Dc");
  const DType cache = call.dtype("cache"), q = call.dtype("q");
  if (latent < 16 || latent > 512 || rest < 1 || rest > 128)
    refuse(call, "D is ", width, " with latents of ", latent,
           ", but a latent has 16 to 512 columns, and 1 to 128 follow it (see the "
           "option 'latent')");
  serving::checkPage(call);
  const bool coded = isGrouped(call) || cache == DType::float8_e4m3;
  if (coded ? q == DType::float32 : cache != q)
    refuse(call, "cache is ", name_of(cache), ", but q is ", name_of(q),
           "; a cache has the dtype of q, or codes that f16 and bf16 go with");
  if (isGrouped(call) && (latent % 128 || rest % 2))
    refuse(call,
           "rows of bytes have latents of a multiple of 128 columns and an even number of "
           "others, but these are ",
           latent, " and ", rest);
  if (const std::int64_t wanted = isGrouped(call) ? RowBytes(call).all : width; stored != wanted)
    refuse(call, "a row of cache has ", stored, " elements, but must have ", wanted,
           " for D = ", width);
  if (const Shape &strides = call.tensor("cache").strides;
      isGrouped(call) && !strides.empty() && (strides[0] % 4 || strides[1] % 4 || strides[2] != 1))
    refuse(call,
           "rows of bytes must be dense and lie at multiples of 4 bytes, but the strides of "
           "cache are ",
           toString(strides));
  if (isListed(call))
    return;
  serving::checkRoom(call, call.extent("page"));
  checkQueries(call);
}

PagedSettings settingsOf(const Invocation &call, std::span<const HostArray> inputs) {
  return {.attention = attentionSettings(call, inputs),
          .cu = isPacked(call) ? &inputs[call.index("cu_seqlens_q")] : nullptr,
          .queries = queriesOfEach(call)};
}

// What both kernels have. `keys`: the inputs that name the keys.
KernelSpec latentSpec(bool listed, const std::vector<ArgumentRow> &keys,
                      const std::vector<ArgumentRow> &more) {
  KernelSpec spec;
  const std::string tokens = listed ? "S" : "T";
  spec.add_arguments(
      {{"q: [" + tokens + ", Hq, D] f16|bf16|f32",
        "queries in the columns of the cache's rows: absorbed ones, then rotated ones"},
       {"cache: [blocks, page, Dc] f16|bf16|f32|f8e4m3|u8",
        "rows of a latent and further columns: of q's dtype or f8e4m3 with Dc = D, or u8: codes "
        "of f8e4m3, an f32 scale for each 128 of them, and the further columns in bf16",
        {.sample = sampleRows}}});
  spec.add_arguments(keys);
  spec.add_arguments({sinksArgument,
                      {"cache_scale?: [1] f32",
                       "what all numbers of the cache are multiplied by",
                       {.sample = sampleUniform(0.1, 0.3)}}});
  spec.add_arguments(more);
  spec.add_arguments(
      {{"-> o: [" + tokens + ", Hq, Dv] like q", "sums of latents; 0 where a query sees no key"},
       serving::logarithmsArgument(tokens)});
  spec.add_options(
      {{"scale: number e.g. 0.0722, 0.1",
        "of the scores: must be given, as models differ (1/sqrt(192) for DeepSeek-V2, times a "
        "square for its longer contexts)",
        // Only commands without arrays have extents here.
        [](const Invocation &call) -> std::string {
          if (call.extents.empty())
            refuse(call, "the option 'scale' must be given, because models differ in it: "
                         "1/sqrt(192) for DeepSeek-V2, with a factor for its longer contexts");
          return "0.0722";
        }},
       {"latent: integer e.g. 32", "columns of a latent; D - 64 if not given"}});
  spec.config = pagedFields("rows of one program: queries of all heads", /*inParts=*/true);
  spec.typical = {{"Hq", 16}, {"D", 576}, {"S", 32}, {"blocks", 2048}, {"page", 64}, {"R", 1}};
  spec.small = {{"Hq", 4}, {"D", 96}, {"S", 3}, {"blocks", 9}, {"page", 16}, {"R", 1}};
  spec.follow = [](Invocation &call) {
    call.extents["Dc"] = isGrouped(call) ? RowBytes(call).all : call.extent("D");
    if (call.extents.contains("T"))
      call.extents["ends"] = call.extent("S") + 1;
  };
  spec.derive = [](Invocation &call) { call.extents["Dv"] = latentOf(call); };
  spec.check = check;
  spec.spaces = {
      {.part = "latent_attention",
       .axes = {{"m", {16, 32, 64, 128}},
                {"n", {16, 32, 64}},
                {"warps", {1, 2, 4, 8}},
                {"stages", {1, 2, 3}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t m = config.at("m"), n = config.at("n"), width = call.extent("D"),
                            threads = config.at("warps") * warpSize(target);
         return m * (n + width) / threads <= 192 && n * width / threads <= 192;
       }}};
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    const AttentionNumbers numbers(call);
    const std::int64_t latent = latentOf(call), rest = call.extent("D") - latent;
    const bool listed = isListed(call), grouped = isGrouped(call);
    serving::LatentRowConfig of{.rest = paddedWidth(rest),
                                .grouped = grouped,
                                .scaled = call.has("cache_scale"),
                                .listed = listed};
    if (listed)
      of.counted = call.has("lengths");
    else
      of.causal = call.options.flag("causal");
    const PagedRows rows{.width = latent,
                         .queries = queriesOfEach(call),
                         .several = !listed && (isPlanned(call) || !isPacked(call)),
                         .whole = [&](std::int64_t n) { return copiesWholeSteps(call, n); }};
    launchPaged(use, numbers, false, rows, [&](Use &use, const Launch &launch) {
      // Columns of the cache's rows, `first` of them further on, as numbers of a type.
      const auto columns = [&]<class B, class C>(const Tensor<B, 3> &cache, C, std::int64_t first,
                                                 std::int64_t count) {
        constexpr auto size = static_cast<std::int64_t>(sizeof(C) / sizeof(B));
        return Tensor<C, 3>(reinterpret_cast<C *>(cache.data() + first * cache.stride(2)),
                            {cache.extent(0), cache.extent(1), count},
                            {cache.stride(0) / size, cache.stride(1) / size, cache.stride(2)},
                            cache.memory());
      };
      const auto ints = [&](const char *name) {
        return takes(call, name) ? use.tensor<std::int32_t, 1>(name) : noTensor<std::int32_t, 1>();
      };
      for_dtype<half, bfloat16, float>(call.dtype("q"), [&]<class T>(T) {
        const auto with = [&]<class C, class R, class Out>(const Tensor<C, 3> &latents,
                                                           const Tensor<R, 3> &others,
                                                           const Tensor<float, 3> &groups, Out) {
          use(latentAttention<T, C, R, Out>, launch.grid,
              Arguments<LatentTensors<T, C, R, Out>>{
                  use.tensor<T, 3>("q"), latents, others, groups,
                  use.tensor<float, 1>("cache_scale"), ints(listed ? "lengths" : "context_lens"),
                  use.tensor<std::int32_t, 2>(listed ? "indices" : "block_tables"),
                  launch.queryStarts.as<const std::int32_t, 1>(),
                  launch.plan.as<const std::int32_t, 2>(), launch.sinks.as<const float, 2>(),
                  launch.o.as<Out, 4>(), launch.lse.as<float, 3>(), launch.queries},
              launch.numbers, LatentConfig{launch.config, launch.pages, of});
        };
        const auto ofRows = [&]<class Out>(Out out) {
          if (call.dtype("cache") == call.dtype("q")) {
            const auto cache = use.tensor<T, 3>("cache");
            return with(columns(cache, T(), 0, latent), columns(cache, T(), latent, rest),
                        noTensor<float, 3>(), out);
          }
          if constexpr (!std::is_same_v<T, float>) {
            if (!grouped) {
              using C = float8_e4m3;
              const auto cache = use.tensor<C, 3>("cache");
              return with(columns(cache, C(), 0, latent), columns(cache, C(), latent, rest),
                          noTensor<float, 3>(), out);
            }
            const auto cache = use.tensor<std::uint8_t, 3>("cache");
            if (reinterpret_cast<std::uintptr_t>(cache.data()) % 4)
              refuse(call, "rows of bytes must lie at multiples of 4 bytes, but cache does not");
            const RowBytes at(call);
            with(columns(cache, float8_e4m3(), 0, latent),
                 columns(cache, bfloat16(), at.rest, rest),
                 columns(cache, 0.0f, at.groups, latent / 128), out);
          }
        };
        if (launch.o.dtype == dtype_of<T>)
          ofRows(T());
        else
          ofRows(0.0f);
      });
    });
  };
  return spec;
}

// For programs with rows of `rows` queries' heads, of `sequences` that have as many keys.
Config latentDefaults(const Invocation &call, const std::string &target, std::int64_t rows,
                      std::int64_t sequences, std::int64_t keys) {
  const DType dtype = call.dtype("q");
  const bool units = hasMatrixUnits(target, dtype) && dtype != DType::float32,
             warpgroups = hasWarpgroupUnits(target, dtype);
  const std::int64_t width = call.extent("D"), latent = latentOf(call);
  const auto config = [&](std::int64_t m, std::int64_t n, std::int64_t warps, bool overlap) {
    const std::int64_t splits =
        keyParts(ceilDiv(rows, m) * sequences, ceilDiv(keys, n),
                 2.0 * double(keys * width * sequences), 8.0 * double(rows * width * sequences),
                 0.02, target, warpgroups && rows >= m ? Work::multiplying : Work::reading);
    return Config{{"m", m},
                  {"n", n},
                  {"splits", splits},
                  {"warps", warps},
                  {"stages", units ? 2 : 1},
                  {"overlap", overlap}};
  };
  // Two warpgroups have half of the outputs' columns each. Of full tiles multiplying takes the
  // time: with 64 keys in a step each warpgroup's part of the scores is worth an instruction. There
  // is just room for the operands, and for none of another step in registers. Codes are decoded
  // once for as many rows as can be; those of chosen rows with scales of their own spill.
  const bool asNumbers = call.dtype("cache") == dtype && !call.has("cache_scale"),
             chosenBytes = call.dtype("cache") == DType::uint8 && call.extents.contains("topk");
  if (warpgroups && rows >= 64 && width - latent > 32 &&
      (!asNumbers || (latent > 448 && width - latent <= 64)))
    return config(64, chosenBytes ? 32 : 64, 8, /*overlap=*/false);
  if (warpgroups && copiesWholeSteps(call, 32))
    return config(64, 32, 8, /*overlap=*/true);
  // Rows and the keys of the steps in flight lie in shared memory together, beside weights on their
  // way. Steps in flight are given up first, then rows, then keys.
  const Chip *chip = Chip::find(target); // null: the interpreter, which has room
  const bool copies = chip && chip->asyncCopy;
  std::int64_t m = std::clamp<std::int64_t>(powerAtLeast(rows), 16, units ? 32 : 16),
               n = units ? 32 : 16, stages = units ? 2 : 1;
  const auto fits = [&] {
    const std::int64_t numbers = (m + (copies ? stages : 1) * n) * width,
                       bytes = numbers * static_cast<std::int64_t>(size_of(dtype)) + m * n * 4;
    return !chip || bytes <= static_cast<std::int64_t>(chip->maxSharedBytes);
  };
  if (!fits() && copies)
    stages = 1;
  if (!fits())
    m = 16;
  while (!fits() && n > 8)
    n /= 2;
  // Outputs of a thread stay within 64 registers.
  Config chosen = config(m, n, std::clamp<std::int64_t>(m / 4, 4, 8), false);
  chosen["stages"] = stages;
  return chosen;
}

} // namespace

KernelSpec sectile::latentDecodeSpec() {
  KernelSpec spec = latentSpec(false, {serving::lengthsArgument, serving::tablesArgument},
                               {serving::startsArgument(/*optional=*/true), serving::planArgument});
  spec.name = "latent_decode";
  spec.summary = "attention over a cache of latents (MLA) in pages";
  spec.add_options({serving::causalOption, serving::maxQueriesOption});
  spec.typical.insert({{"T", 32}, {"max", 64}, {"parts", 64}});
  spec.small.insert({{"T", 6}, {"max", 4}});
  serving::addPlans(spec);
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkQueryNumbers(call, inputs);
    checkPagedContents(call, inputs[2], inputs[3], settingsOf(call, inputs));
    if (isPlanned(call))
      checkPlan(call, inputs[call.index("plan")], inputs[2]);
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    const LatentRows rows =
        latentRows(call, in[1], latentOf(call), in[call.index("cache_scale")], arithmetic);
    auto result = pagedReference(in[0], rows.keys, rows.values, in[2], in[3], settingsOf(call, in),
                                 arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t sequences = std::max<std::int64_t>(call.extent("S"), 1);
    return latentDefaults(call, target, ceilDiv(call.extent("T"), sequences) * call.extent("Hq"),
                          sequences, call.extent("max") * call.extent("page"));
  };
  return spec;
}

KernelSpec sectile::latentSparseSpec() {
  KernelSpec spec = latentSpec(
      true,
      {{"indices: [S, topk] i32",
        "the keys of each query, in any order: row slot % page of block slot / page of the cache; "
        "negative ones are left out",
        {.sample = sampleEach([](const Invocation &call, auto &random) {
           const std::int64_t slots = call.extent("blocks") * call.extent("page");
           return slots == 0 || random() % 8 == 0 ? -1 : drawBelow(random, slots);
         })}}},
      {{"lengths?: [S] i32",
        "how many of a query's indices count, 0 to topk; left out: all",
        {.sample = sampleEach([](const Invocation &call, auto &random) {
           return drawBelow(random, call.extent("topk") + 1);
         })}}});
  spec.name = "latent_sparse";
  spec.summary = "attention over chosen rows of a cache of latents (MLA)";
  spec.typical.insert({{"topk", 2048}});
  spec.small.insert({{"topk", 50}});
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkIndices(call, inputs[2], call.has("lengths") ? &inputs[call.index("lengths")] : nullptr);
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    const LatentRows rows =
        latentRows(call, in[1], latentOf(call), in[call.index("cache_scale")], arithmetic);
    auto result = chosenRowsReference(in[0], rows, in[2],
                                      call.has("lengths") ? &in[call.index("lengths")] : nullptr,
                                      settingsOf(call, in), arithmetic);
    return std::vector{result.o, result.lse};
  };
  spec.defaults = [](const Invocation &call, const std::string &target) {
    return latentDefaults(call, target, call.extent("Hq"),
                          std::max<std::int64_t>(call.extent("S"), 1), call.extent("topk"));
  };
  return spec;
}
