// rope: rotary position embedding (Su et al., arXiv 2104.09864) of the rows of x, and its gradient:
//   (x1, x2) -> (x1 cos(a) - x2 sin(a), x2 cos(a) + x1 sin(a)), a = p theta^(-2i/r) for pair i,
// and the same by -a; the frequency of a pair may be scaled (RotarySpec.cpp). Refused: r that is
// odd or outside 2 to D, theta below 1, D beyond 1024, an offset beyond 2^40.
#include "kernels/attention/Options.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/position/Family.h"
#include "kernels/position/Rotary.h"
#include "kernels/position/RotarySpec.h"

using namespace sectile;

namespace {

struct RopeConfig {
  int m = 32, heads = 4, warps = 4;
  int dims = 0, rotary = 0;
  bool interleaved = false, scaled = false, given = false, back = false, weighs = false;
};

// RowGains.
struct Gains {
  Float base, peak, center, width, boost, boostDecay;

  // Of the dims in a piece, and positions [rows]: [rows, dims].
  Tile<float> at(const Int &dims, const Tile<float> &positions) const {
    const auto power = [](const Tile<float> &exponent) {
      return exp2(exponent * std::numbers::log2e_v<float>);
    };
    const auto away = (cast<float>(dims) - center) / width;
    return expand(power(away * away * -0.5f) * peak + base, 0) *
           expand(power(positions * -boostDecay) * boost + 1.0f, 1);
  }
};

template <class T> struct RopeArguments {
  View<const T, 4> x;
  View<const std::int32_t, 2> positions;
  View<T, 4> y;
  Int offset;
  RotaryNumbers rotation;
  Gains gains;
};

// A program turns the same rows of several heads at once: their angles are the same, and are made
// while the rows are in flight.
template <class T>
Kernel rope{
    "rope", [](const RopeArguments<T> &a, const RopeConfig &config) {
      const RotaryShape shape{config.dims, config.rotary, config.interleaved, config.scaled};
      auto block = program_id(0), batch = program_id(2);
      const PieceTile<2> tile{{config.heads, config.m}, {program_id(1), block}};
      const auto rows = loadPieces(a.x.at(batch), tile, shape);
      const auto rotatedAt = [&](const auto &positions) {
        const SinCos angles = rotationAngles(positions, shape, a.rotation);
        const auto weighed = [&](Pieces<float> pieces) {
          for (std::size_t i = 0; config.weighs && i < pieces.size(); ++i)
            pieces[i] = pieces[i] * expand(a.gains.at(shape.dimsOf(i), cast<float>(positions)), 0);
          return pieces;
        };
        const auto rotated = [&](const Pieces<float> &pieces) {
          return rotate(pieces, {expand(angles.sin, 0), expand(angles.cos, 0)}, config.back);
        };
        return config.back ? rotated(weighed(inFloat(rows))) : weighed(rotated(inFloat(rows)));
      };
      storePieces(a.y.at(batch), tile, shape,
                  config.given ? rotatedAt(a.positions.at(batch).tile(config.m).load(block))
                               : rotatedAt(block * config.m + arange(0, config.m) + a.offset));
    }};

RotationOptions optionsOf(const Invocation &call, bool back) {
  RotationOptions options = ropeOptions(call);
  options.offset = call.options.integer("offset");
  options.back = back;
  if (!options.scaling.length && !call.has("positions"))
    options.scaling.length = options.offset + call.extent("S");
  return options;
}

KernelSpec makeSpec(bool back) {
  KernelSpec spec;
  spec.name = back ? "rope_backward" : "rope";
  spec.summary = back ? "the gradient of rope: each pair turned back by its position's angle"
                      : "rotary position embedding: each pair of dims turned by p * theta^(-2i/r)";
  const std::string x = back ? "dy" : "x", y = back ? "dx" : "y", axes = ": [B, H, S, D] ";
  spec.add_arguments({{x + axes + "f16|bf16|f32", back ? "gradient of y" : "rows to turn"},
                      {"positions?: [B, S] i32",
                       "position of each row; offset, offset + 1, ... where not given",
                       {.sample = sampleIntegers(-20, 79)}},
                      {"-> " + y + axes + "like " + x + " over " + x,
                       back ? "gradient of x" : "the rows turned"}});
  spec.add_options(rotationOptions());
  spec.add_options({{"offset: integer = 0 from -1099511627776 to 1099511627776 e.g. 5, -7",
                     "position of the first row"}});
  addLayouts(spec, "order of the axes in memory");
  spec.config = {{"m", "rows of one program"},
                 {"heads", "heads that share a row's angles"},
                 {"warps", "warps of one program"}};
  spec.neutral = {"m", "heads", "warps"}; // there are no sums
  spec.typical = {{"B", 4}, {"H", 16}, {"S", 2048}, {"D", 128}};
  spec.small = {{"B", 2}, {"H", 3}, {"S", 19}, {"D", 40}};
  spec.check = [back](const Invocation &call) {
    checkRotation(call, optionsOf(call, back));
    const std::int64_t dims = call.extent("D");
    if (dims > 1024)
      refuse(call, "D is ", dims, ", but must be at most 1024");
  };
  spec.reference = [back](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    const RotationOptions options = optionsOf(call, back);
    return std::vector{ropeReference(inputs[0], inputs[1], options, arithmetic)};
  };
  if (back)
    spec.factor = 3;
  spec.defaults = [](const Invocation &call, const std::string &) {
    return rowTiles(call.extent("B"), call.extent("H"), call.extent("S"), call.extent("D"));
  };
  spec.spaces = {
      {.axes = {{"m", {1, 2, 4, 8, 16, 32, 64}},
                {"heads", {1, 2, 4, 8, 16}},
                {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t numbers = config.at("m") * config.at("heads") * call.extent("D") /
                                      (config.at("warps") * warpSize(target));
         return numbers >= 8 && numbers <= 128 &&
                (config.at("heads") == 1 || config.at("heads") < 2 * call.extent("H"));
       }}};
  spec.apply = [back](Use &use) {
    std::optional<Tensor<std::int32_t, 2>> positions;
    if (use.has("positions"))
      positions = use.tensor<std::int32_t, 2>("positions");
    rotateRows(use, anyTensor(use, back ? "dy" : "x"), anyTensor(use, back ? "dx" : "y"),
               optionsOf(use.call, back), use.config, positions);
  };
  return spec;
}

} // namespace

Config sectile::rowTiles(std::int64_t batches, std::int64_t heads, std::int64_t rows,
                         std::int64_t dims) {
  // 64 elements for each of 64 threads, and a row's angles for four heads, where there are as many.
  // Few rows are spread over more programs, of a warp each. With fewer than 512 elements several
  // threads would hold the same one, and where y is x one of them could load what another stored.
  constexpr std::int64_t most = 4096, ofWarp = 2048, wanted = 1024, least = 512, enough = 256;
  const std::int64_t width = powerAtMost(std::max<std::int64_t>(dims, 16));
  std::int64_t together = powerAtMost(std::clamp<std::int64_t>(heads, 1, 4)),
               m = std::clamp<std::int64_t>(most / (together * width), 1, 64);
  while (m > 1 && (m >= 2 * rows || batches * ceilDiv(heads, together) * ceilDiv(rows, m) < enough))
    m /= 2;
  while (together < std::min<std::int64_t>(heads, 8) && together * m * width < wanted &&
         batches * ceilDiv(heads, 2 * together) * ceilDiv(rows, m) >= enough)
    together *= 2;
  while (m * together * dims < least)
    m *= 2;
  return {{"m", m}, {"heads", together}, {"warps", together * m * width < ofWarp ? 1 : 2}};
}

void sectile::rotateRows(Use &use, const AnyTensor &x, const AnyTensor &y,
                         const RotationOptions &options, const Config &tiles,
                         const std::optional<Tensor<std::int32_t, 2>> &positions) {
  RopeConfig config;
  for_each_field(config, [&](std::string_view name, auto &value) {
    if (const auto field = tiles.find(std::string(name)); field != tiles.end())
      value = static_cast<std::remove_reference_t<decltype(value)>>(field->second);
  });
  config.dims = static_cast<int>(x.extents[3]);
  config.rotary = static_cast<int>(options.rotary);
  config.interleaved = options.interleaved;
  config.scaled = options.scaling.kind != FrequencyScaling::none;
  config.given = positions.has_value();
  config.back = options.back;
  config.weighs = options.gains.has_value();
  const RowGains gains = options.gains.value_or(RowGains());
  const RotaryValues rotation = rotaryValues(options);
  const Grid grid(ceilDiv(x.extents[2], config.m), ceilDiv(x.extents[1], config.heads),
                  x.extents[0]);
  for_dtype<half, bfloat16, float>(x.dtype, [&]<class T>(T) {
    const auto from = x.as<T, 4>();
    const auto to = y.as<T, 4>();
    const auto places = positions.value_or(noTensor<std::int32_t, 2>());
    use(rope<T>, grid, config,
        {{"x", from},
         {"positions", places},
         {"y", to},
         {"offset", options.offset},
         {"step", rotation.step},
         {"rampBase", rotation.rampBase},
         {"rampPair", rotation.rampPair},
         {"rampFrequency", rotation.rampFrequency},
         {"rampShrink", rotation.rampShrink},
         {"magnitude", rotation.magnitude},
         {"base", gains.base},
         {"peak", gains.peak},
         {"center", gains.center},
         {"width", gains.width},
         {"boost", gains.boost},
         {"boostDecay", gains.boostDecay}});
  });
}

KernelSpec sectile::ropeSpec() { return makeSpec(false); }

KernelSpec sectile::ropeBackwardSpec() { return makeSpec(true); }
