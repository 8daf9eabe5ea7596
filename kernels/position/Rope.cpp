// rope: rotary position embedding (Su et al., arXiv 2104.09864) of the rows of x, and its gradient:
//   (x1, x2) -> (x1 cos(a) - x2 sin(a), x2 cos(a) + x1 sin(a)), a = p theta^(-2i/r) for pair i,
// and the same by -a. Refused: r that is odd or outside 2 to D, theta below 1, D beyond 1024, an
// offset beyond 2^40.
#include "kernels/Use.h"
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "kernels/position/Rotary.h"
#include "kernels/position/RotarySpec.h"
#include <bit>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct RopeConfig {
  int m = 32, heads = 4, warps = 4;
  int dims = 0, rotary = 0;
  bool interleaved = false, given = false, back = false;
};
SECTILE_CONFIG(RopeConfig, m, heads, warps, dims, rotary, interleaved, given, back)

// A program turns the same rows of several heads at once: their angles are the same, and are made
// while the rows are under way.
template <class T>
Kernel rope{
    "rope", [](View<const T, 4> x, View<const std::int32_t, 2> positions, View<T, 4> y, Int offset,
               Scalar<double> step, const RopeConfig &config) {
      const RotaryShape shape{config.dims, config.rotary, config.interleaved};
      auto block = program_id(0), batch = program_id(2);
      const PieceTile<2> tile{{config.heads, config.m}, {program_id(1), block}};
      const auto pieces = loadPieces(x.at(batch), tile, shape);
      const SinCos angles =
          config.given
              ? rotationAngles(positions.at(batch).tile(config.m).load(block), shape, step)
              : rotationAngles(block * config.m + arange(0, config.m) + offset, shape, step);
      storePieces(y.at(batch), tile, shape,
                  rotate(pieces, {expand(angles.sin, 0), expand(angles.cos, 0)}, config.back));
    }};

KernelSpec makeSpec(bool back) {
  KernelSpec spec;
  spec.name = back ? "rope_backward" : "rope";
  spec.summary = back ? "the gradient of rope: each pair turned back by its position's angle"
                      : "rotary position embedding: each pair of dims turned by p * theta^(-2i/r)";
  auto stored = [](std::vector<std::string> axes, const OptionValues &options) {
    if (options.choice("layout") == "bshd")
      std::swap(axes[1], axes[2]);
    return axes;
  };
  const std::vector<std::string> axes{"B", "H", "S", "D"};
  spec.arguments = {
      {.name = back ? "dy" : "x",
       .axes = axes,
       .stored = stored,
       .dtypes = {DType::float16, DType::bfloat16, DType::float32},
       .doc = back ? "gradient of y" : "rows to turn"},
      {.name = "positions",
       .optional = true,
       .axes = {"B", "S"},
       .dtypes = {DType::int32},
       .sample =
           [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
             for (std::int32_t &position : array.as<std::int32_t>())
               position = static_cast<std::int32_t>(random() % 100) - 20;
           },
       .doc = "position of each row; offset, offset + 1, ... where not given"},
      {.name = back ? "dx" : "y",
       .output = true,
       .axes = axes,
       .stored = stored,
       .like = back ? "dy" : "x",
       .over = {back ? "dy" : "x"},
       .doc = back ? "gradient of x" : "the rows turned"},
  };
  spec.options = rotationOptions();
  spec.options.push_back({.name = "offset",
                          .kind = OptionSpec::integer,
                          .initial = "0",
                          .samples = {"5", "-7"},
                          .doc = "position of the first row"});
  spec.options.push_back({.name = "layout",
                          .kind = OptionSpec::choice,
                          .initial = "bhsd",
                          .choices = {"bhsd", "bshd"},
                          .doc = "order of the axes in memory"});
  spec.config = {{"m", "rows of one program"},
                 {"heads", "heads that share a row's angles"},
                 {"warps", "warps of one program"}};
  spec.neutral = {"m", "heads", "warps"}; // there are no sums
  spec.typical = {{"B", 4}, {"H", 16}, {"S", 2048}, {"D", 128}};
  spec.small = {{"B", 2}, {"H", 3}, {"S", 19}, {"D", 40}};
  spec.check = [](const Invocation &call) {
    checkRotation(call);
    const std::int64_t dims = call.extent("D");
    if (dims > 1024)
      throw InputError(call.kernel->name + ": D is " + std::to_string(dims) +
                       ", but must be at most 1024");
    if (std::abs(call.options.integer("offset")) > std::int64_t(1) << 40)
      throw InputError(call.kernel->name + ": option 'offset' must be within 2^40");
  };
  spec.reference = [back](const Invocation &call, std::span<const HostArray> inputs,
                          Arithmetic arithmetic) {
    const RopeOptions options{call.options.choice("style") == "interleaved",
                              call.options.number("theta"), rotaryDims(call),
                              call.options.integer("offset"), back};
    return std::vector{ropeReference(inputs[0], inputs[1], options, arithmetic)};
  };
  if (back)
    spec.factor = 3;
  spec.defaults = [](const Invocation &call, const std::string &) {
    // 64 elements for each thread: a row's angles for four heads, where there are as many.
    const std::int64_t heads = std::bit_floor(
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(call.extent("H"), 1, 4)));
    const std::int64_t dims =
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(call.extent("D"), 16)));
    return Config{{"m", std::clamp<std::int64_t>(8192 / (heads * dims), 1, 64)},
                  {"heads", heads},
                  {"warps", 4}};
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
    const Invocation &call = use.call;
    RopeConfig chosen{use.field("m"), use.field("heads"), use.field("warps")};
    chosen.dims = static_cast<int>(call.extent("D"));
    chosen.rotary = static_cast<int>(rotaryDims(call));
    chosen.interleaved = call.options.choice("style") == "interleaved";
    chosen.given = call.has("positions");
    chosen.back = back;
    const Grid grid(ceilDiv(call.extent("S"), chosen.m), ceilDiv(call.extent("H"), chosen.heads),
                    call.extent("B"));
    const char *from = back ? "dy" : "x", *to = back ? "dx" : "y";
    for_dtype<half, bfloat16, float>(call.dtype(from), [&]<class T>(T) {
      use(rope<T>, grid, use.tensor<T, 4>(from), use.tensor<std::int32_t, 2>("positions"),
          use.tensor<T, 4>(to), call.options.integer("offset"),
          frequencyStep(call.options.number("theta"), chosen.rotary), chosen);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::ropeSpec() { return makeSpec(false); }

KernelSpec sectile::ropeBackwardSpec() { return makeSpec(true); }
