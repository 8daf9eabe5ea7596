// rope_append: queries and keys of new tokens are rotated by their positions, as rope does, and
// keys and values go to their slots of a cache in pages, as kv_append does:
//   q_out[t, h] = R(positions[t]) norm(q[t, h]; q_weight),
//   k_cache[slot / page, h, slot % page] = R(positions[t]) norm(k[t, h]; k_weight) / k_scale[h]
// with norm(x; w) = x / sqrt(mean of x^2 + eps) (w + weight_offset) where w is given (Qwen3, Gemma
// 3) and x where it is not. All of it in f32, rounded once. cos and sin may come from a table
// instead. Refused: what kv_append and rope refuse, a table with another width than r or with
// options that it has none of, a negative eps; from the host also positions that the table does not
// have, which give NaN on the device.
#include "kernels/attention/Options.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/position/Rotary.h"
#include "kernels/position/RotarySpec.h"
#include "kernels/references/Sample.h"
#include "kernels/serving/Append.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Slots.h"
#include <limits>

using namespace sectile;
using serving::appendRows, serving::encoded, serving::RowScales, serving::SlotRows,
    serving::tokenSlots;

namespace {

struct RopeAppendConfig {
  int m = 4, heads = 4, warps = 4;
  int page = 16, valueWidth = 128;
  int dims = 0, rotary = 0;
  bool interleaved = false, scaled = false;
  bool cos_sin = false, q_weight = false, k_weight = false; // given
  bool k_scale = false, v_scale = false;                    // given
  bool k_scales = false, v_scales = false;                  // given, to be made
  bool wide = false;                                        // slots and positions have 64 bits
};

template <class T, class C> struct RopeAppendArguments {
  View<const T, 3> q, k, v;
  View<const std::int32_t, 2> slots, positions;
  View<const float, 2> cos_sin;
  View<const T, 1> q_weight, k_weight;
  View<const float, 1> k_scale, v_scale;
  View<T, 3> q_out;
  View<C, 4> k_out, v_out;
  View<float, 3> k_scales_out, v_scales_out;
  RotaryNumbers rotation;
  Float eps, weight_offset;
};

// [tokens, pairs]: of a table [P, R] of cosines, then sines.
SinCos tableAngles(const View<const float, 2> &table, const Tile<std::int64_t> &positions,
                   int tokens, const RotaryShape &shape) {
  const auto half = [&](int first) {
    return table.slice(1, first, shape.pairs())
        .tile(tokens, shape.pairWidth())
        .padding(std::numeric_limits<float>::quiet_NaN())
        .gather(positions, 0);
  };
  return {half(shape.pairs()), half(0)};
}

// Rows [tokens, heads, dims] in pieces, each normalised and multiplied by w + offset.
template <class T>
Pieces<float> normalised(Pieces<float> pieces, const View<const T, 1> &weight,
                         const RotaryShape &shape, const Float &eps, const Float &offset) {
  std::optional<Tile<float>> squares;
  for (const Tile<float> &piece : pieces) {
    const auto part = sum(piece * piece, 2);
    squares = squares ? *squares + part : part;
  }
  const auto rstd = 1.0f / sqrt(*squares / static_cast<float>(shape.dims) + eps);
  const auto weights = inFloat(loadPieces(weight, PieceTile<0>(), shape));
  for (std::size_t i = 0; i < pieces.size(); ++i)
    pieces[i] = pieces[i] * expand(rstd, 2) * expand(expand(weights[i] + offset, 0), 0);
  return pieces;
}

// Programs have rows of queries, of keys or of values, in this order.
template <class T, class C>
Kernel ropeAppend{
    "rope_append", [](const RopeAppendArguments<T, C> &a, const RopeAppendConfig &config) {
      const int m = config.m, heads = config.heads;
      const RotaryShape shape{config.dims, config.rotary, config.interleaved, config.scaled};
      const Int block = program_id(0), part = program_id(1);
      const Int ofQueries = cdiv(a.q.extent(1), heads), ofKeys = cdiv(a.k.extent(1), heads);
      const auto rotated = [&](const View<const T, 3> &rows, const PieceTile<2> &tile,
                               const View<const T, 1> &weight, bool weighs) {
        auto pieces = inFloat(loadPieces(rows, tile, shape));
        if (weighs)
          pieces = normalised<T>(pieces, weight, shape, a.eps, a.weight_offset);
        const auto positions = serving::integersOf(a.positions, config.wide, block, m, 0);
        const SinCos angles = config.cos_sin ? tableAngles(a.cos_sin, positions, m, shape)
                                             : rotationAngles(positions, shape, a.rotation);
        return rotate(pieces, {expand(angles.sin, 1), expand(angles.cos, 1)});
      };
      const auto slots = [&] {
        return tokenSlots(a.slots, config.wide, block, m, config.page, a.k_out.extent(0));
      };
      auto query = [&] {
        const PieceTile<2> tile{{m, heads}, {block, part}};
        const auto pieces = rotated(a.q, tile, a.q_weight, config.q_weight);
        barrier(); // q_out may be q, of which several threads may have an element
        storePieces(a.q_out, tile, shape, pieces);
      };
      auto key = [&] {
        const Int head = part - ofQueries;
        const PieceTile<2> tile{{m, heads}, {block, head}};
        const auto places = slots();
        const auto pieces = rotated(a.k, tile, a.k_weight, config.k_weight);
        const RowScales<C> scales{a.k_scale, a.k_scales_out, config.k_scale, config.k_scales};
        const auto scale = scales.of(places, head, heads, [&] {
          Tile<float> largest = max(abs(pieces.front()), 2, Nan::propagate);
          for (const Tile<float> &piece : std::span(pieces).subspan(1))
            largest = maximum(largest, max(abs(piece), 2, Nan::propagate), Nan::propagate);
          return largest;
        });
        Pieces<C> codes;
        for (const Tile<float> &piece : pieces)
          codes.push_back(encoded<C>(piece, scale));
        const SlotRows<C> to(a.k_out, places, head * heads, heads);
        storePieces(to.dims(), to, shape, codes);
      };
      auto value = [&] {
        const Int head = part - ofQueries - ofKeys;
        const auto places = slots();
        const SlotRows<C> to(a.v_out, places, head * heads, heads);
        appendRows(to, places, a.v.tile(m, heads, config.valueWidth).load(block, head, 0),
                   config.valueWidth,
                   RowScales<C>{a.v_scale, a.v_scales_out, config.v_scale, config.v_scales}, head);
      };
      when(part < ofQueries, query, [&] { when(part < ofQueries + ofKeys, key, value); });
    }};

// With a table, what only it says: how many dims rotate.
RotationOptions optionsOf(const Invocation &call) {
  RotationOptions options = ropeOptions(call);
  if (call.has("cos_sin"))
    options.rotary = call.extent("R");
  return options;
}

void check(const Invocation &call) {
  checkAppend(call);
  if (call.has("cos_sin")) {
    const OptionValues &options = call.options;
    if (call.extent("P") == 0 && call.extent("T") != 0)
      refuse(call, "there are tokens, but cos_sin has no rows");
    if (options.given("rotary") && options.integer("rotary") != call.extent("R"))
      refuse(call, "rotary is ", options.choice("rotary"), ", but cos_sin has ", call.extent("R"),
             " columns: leave it out");
    if (options.choice("scaling") != "none")
      refuse(call, "cos_sin holds angles as they are to be, and leaves nothing to scale: set "
                   "scaling=none, or leave cos_sin out");
  }
  checkRotation(call, optionsOf(call));
}

std::vector<HostArray> reference(const Invocation &call, std::span<const HostArray> in,
                                 Arithmetic arithmetic) {
  const auto given = [&](const char *name) {
    return call.has(name) ? &in[call.index(name)] : nullptr;
  };
  const HostArray &positions = in[call.index("positions")];
  const RotationOptions options = optionsOf(call);
  const auto rotated = [&](HostArray rows, const HostArray *weight) {
    if (weight)
      rows = rmsNormReference(rows, movedWeight(*weight, call.options.number("weight_offset")),
                              nullptr, call.options.number("eps"), arithmetic)
                 .y;
    const Shape shape = rows.shape;
    const HostArray *table = given("cos_sin");
    // Each token is a batch of its own.
    rows.shape = {shape[0], shape[1], 1, shape[2]};
    rows = ropeReference(rows, positions, options, arithmetic, table ? *table : HostArray());
    rows.shape = shape;
    return rows;
  };
  const auto k = appendReference(call, "k", rotated(in[1], given("k_weight")), in, arithmetic),
             v = appendReference(call, "v", in[2], in, arithmetic);
  return {rotated(in[0], given("q_weight")), k.cache, v.cache, k.scales, v.scales};
}

void contents(const Invocation &call, std::span<const HostArray> inputs) {
  checkSlots(call, inputs);
  if (!call.has("cos_sin"))
    return;
  const std::vector<double> positions = inputs[call.index("positions")].to_double();
  for (std::size_t t = 0; t < positions.size(); ++t)
    if (positions[t] < 0 || positions[t] >= static_cast<double>(call.extent("P")))
      refuse(call, "positions[", t, "] is ", static_cast<std::int64_t>(positions[t]),
             ", but cos_sin has ", call.extent("P"), " rows");
}

} // namespace

KernelSpec sectile::ropeAppendSpec() {
  KernelSpec spec;
  spec.name = "rope_append";
  spec.summary = "queries and keys of new tokens rotated, keys and values into a cache in pages";
  spec.add_arguments({{"q: [T, Hq, D] f16|bf16|f32", "queries of the new tokens; D from 2 to 1024"},
                      {"k: [T, Hkv, D] like q", "their keys"},
                      {"v: [T, Hkv, Dv] like q", "their values"}});
  addCaches(spec, "q");
  const auto positions = sampleEach([](const Invocation &call, auto &random) {
    return drawBelow(random, call.extents.contains("P") ? call.extent("P") : 100);
  });
  const auto table = [](const Invocation &call, HostArray &array, std::mt19937_64 &) {
    const std::int64_t rows = call.extent("P"), columns = call.extent("R");
    std::vector<double> numbers;
    for (std::int64_t p = 0; p < rows; ++p)
      for (std::int64_t i = 0; i < columns; ++i) {
        const double pair = static_cast<double>(i % (columns / 2)),
                     angle = static_cast<double>(p) *
                             std::pow(10000.0, -2 * pair / static_cast<double>(columns));
        numbers.push_back(i < columns / 2 ? std::cos(angle) : std::sin(angle));
      }
    array.assign(numbers);
  };
  spec.add_arguments(
      {{"positions: [T] like slots", "position of each token", {.sample = positions}},
       {"cos_sin?: [P, R] f32",
        "of each position the cosines of R/2 pairs, then their sines; in place of theta",
        {.sample = table}},
       {"q_weight?: [D] like q", "each query head is normalised by its RMS and times this"},
       {"k_weight?: [D] like q", "each key head alike"},
       {"-> q_out: [T, Hq, D] like q over q", "the queries rotated"}});
  addCacheOutputs(spec);
  spec.add_options(rotationOptions());
  spec.add_options(
      {{"eps: number = 1e-6 from 0 e.g. 0.01", "added to the mean of a head's squares"},
       {"weight_offset: number = 0 e.g. 1", "added to the weights; 1 in Gemma"}});
  spec.typical = {{"T", 1024},      {"Hq", 32},   {"Hkv", 8},  {"D", 128}, {"Dv", 128},
                  {"blocks", 1024}, {"page", 16}, {"P", 8192}, {"R", 128}};
  spec.small = {{"T", 13},     {"Hq", 4},   {"Hkv", 3}, {"D", 20}, {"Dv", 20},
                {"blocks", 6}, {"page", 5}, {"P", 50},  {"R", 20}};
  spec.check = check;
  spec.contents = contents;
  spec.reference = reference;
  configureAppend(
      spec, [](const Invocation &call) { return call.extent("Hq") + 2 * call.extent("Hkv"); });
  spec.apply = [](Use &use) {
    const RotationOptions options = optionsOf(use.call);
    const RotaryValues rotation = rotaryValues(options);
    auto chosen = use.config_as<RopeAppendConfig>();
    chosen.page = static_cast<int>(use.extent("page"));
    chosen.valueWidth = paddedWidth(use.extent("Dv"));
    chosen.dims = static_cast<int>(use.extent("D"));
    chosen.rotary = static_cast<int>(options.rotary);
    chosen.interleaved = options.interleaved;
    chosen.scaled = options.scaling.kind != FrequencyScaling::none;
    const Grid grid(ceilDiv(use.extent("T"), chosen.m),
                    ceilDiv(use.extent("Hq"), chosen.heads) +
                        2 * ceilDiv(use.extent("Hkv"), chosen.heads));
    chosen.wide = hasWideSlots(use);
    const auto slots = wordsOf(use, "slots"), positions = wordsOf(use, "positions");
    forAppend(use.call, [&]<class T, class C>(T, C) {
      use(ropeAppend<T, C>, grid, chosen,
          {{"slots", slots},
           {"positions", positions},
           {"step", rotation.step},
           {"rampBase", rotation.rampBase},
           {"rampPair", rotation.rampPair},
           {"rampFrequency", rotation.rampFrequency},
           {"rampShrink", rotation.rampShrink},
           {"magnitude", rotation.magnitude}});
    });
  };
  return spec;
}
