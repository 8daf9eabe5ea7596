// Kernels that ggml's graphs need beside those of Sectile's library, in Sectile's language: work on
// elements with ggml's broadcasting and conversions, rows by their numbers, rotations by positions,
// softmax with a mask. Axes are in Sectile's order, the dense one last; ggml counts them the other
// way.
#include <limits>
#include <sectile/register_kernel.h>
#include <sectile/sectile.h>

namespace sc = sectile;

namespace {

// Elements
// --------------------------------------------------------------------------------------------------------

// A program has some columns of some rows; its place in the grid is one number.
template <class T> struct Place {
  sc::Int i, j, k, l; // along the axes: of the rows [rows, 1], of the columns [1, columns]
  sc::Tile<bool> inside;

  Place(const sc::View<T, 4> &like, int rows, int columns) {
    auto blocks = sc::cdiv(like.extent(3), columns);
    auto row = sc::expand(sc::program_id(0) / blocks * rows + sc::arange(0, rows), 1);
    l = sc::expand(sc::program_id(0) % blocks * columns + sc::arange(0, columns), 0);
    k = row % like.extent(2);
    j = row / like.extent(2) % like.extent(1);
    i = row / like.extent(2) / like.extent(1);
    inside = i < like.extent(0) && l < like.extent(3);
  }
};

// Where the element is in a view whose extents divide those of the place, which repeats it.
template <class U, class T>
sc::Ptr<U> at(const sc::View<U, 4> &view, const Place<T> &place, bool repeats = false) {
  auto step = [&](sc::Int index, int axis) {
    return (repeats ? index % view.extent(axis) : index) * view.stride(axis);
  };
  return view.ptr() + step(place.i, 0) + step(place.j, 1) + step(place.k, 2) + step(place.l, 3);
}

enum class Function {
  copy,
  scale,
  clamp,
  at_least,
  at_most,
  leaky_relu,
  sqr,
  sqrt,
  log,
  sin,
  cos,
  abs,
  sgn,
  neg,
  step,
  tanh,
  elu,
  relu,
  sigmoid,
  gelu,
  gelu_quick,
  silu,
  hardswish,
  hardsigmoid,
  exp,
  expm1,
  softplus,
  gelu_erf,
  floor,
  ceil,
  round,
  trunc
};
constexpr const char *functions =
    "kind: "
    "copy|scale|clamp|at_least|at_most|leaky_relu|sqr|sqrt|log|sin|cos|abs|sgn|neg|step|tanh|elu|"
    "relu|sigmoid|gelu|"
    "gelu_quick|silu|hardswish|hardsigmoid|exp|expm1|softplus|gelu_erf|floor|ceil|round|trunc";

using Numbers = sc::Tile<float>;

Numbers gelu(const Numbers &x) {
  return 0.5f * x * (1 + sc::tanh(0.79788456080286535588f * x * (1 + 0.044715f * x * x)));
}
Numbers geluErf(const Numbers &x) { return 0.5f * x * (1 + sc::erf(x * 0.70710678118654752440f)); }
Numbers geluQuick(const Numbers &x) { return x * sc::sigmoid(1.702f * x); }
Numbers silu(const Numbers &x) { return x * sc::sigmoid(x); }
Numbers hardSigmoid(const Numbers &x) { return sc::clamp((x + 3) / 6, 0, 1); }

Numbers apply(Function function, const Numbers &x, const sc::Float &a, const sc::Float &b) {
  switch (function) {
  case Function::copy:
    return x;
  case Function::scale:
    return a * x + b;
  case Function::clamp:
    return sc::clamp(x, a, b);
  case Function::at_least:
    return sc::maximum(x, a);
  case Function::at_most:
    return sc::minimum(x, a);
  case Function::leaky_relu:
    return sc::where(x > 0, x, a * x);
  case Function::sqr:
    return x * x;
  case Function::sqrt:
    return sc::sqrt(x);
  case Function::log:
    return sc::log(x);
  case Function::sin:
    return sc::sin(x);
  case Function::cos:
    return sc::cos(x);
  case Function::abs:
    return sc::abs(x);
  case Function::sgn:
    return sc::where(x > 0, 1.0f, sc::where(x < 0, -1.0f, sc::zeros_like(x)));
  case Function::neg:
    return -x;
  case Function::step:
    return sc::where(x > 0, 1.0f, sc::zeros_like(x));
  case Function::tanh:
    return sc::tanh(x);
  case Function::elu:
    return sc::where(x > 0, x, sc::expm1(x));
  case Function::relu:
    return sc::where(x > 0, x, 0.0f);
  case Function::sigmoid:
    return sc::sigmoid(x);
  case Function::gelu:
    return gelu(x);
  case Function::gelu_quick:
    return geluQuick(x);
  case Function::silu:
    return silu(x);
  case Function::hardswish:
    return x * hardSigmoid(x);
  case Function::hardsigmoid:
    return hardSigmoid(x);
  case Function::exp:
    return sc::exp(x);
  case Function::expm1:
    return sc::expm1(x);
  case Function::softplus:
    return sc::where(x > 20, x, sc::log1p(sc::exp(x)));
  case Function::gelu_erf:
    return geluErf(x);
  case Function::floor:
    return sc::floor(x);
  case Function::ceil:
    return sc::ceil(x);
  case Function::round:
    return sc::round(x);
  case Function::trunc:
    return sc::trunc(x);
  }
  return x;
}

struct MapConfig {
  int rows = 1, columns = 256, warps = 4;
  Function kind = Function::copy;
  bool repeats = false;
};

template <class X, class Y> struct MapArguments {
  sc::View<const X, 4> x;
  sc::View<Y, 4> y;
  sc::Float a, b;
};

template <class X, class Y>
sc::Kernel map{
    "ggml_map", [](const MapArguments<X, Y> &arguments, const MapConfig &config) {
      const Place place(arguments.y, config.rows, config.columns);
      auto x = sc::load(at(arguments.x, place, config.repeats), place.inside);
      auto to = at(arguments.y, place);
      if (config.kind == Function::copy)
        sc::store(to, sc::cast<Y>(x), place.inside);
      else if constexpr (!std::is_integral_v<X> && !std::is_integral_v<Y>)
        sc::store(to, sc::cast<Y>(apply(config.kind, sc::cast<float>(x), arguments.a, arguments.b)),
                  place.inside);
    }};

enum class Pair { add, sub, mul, div, reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai };
constexpr const char *pairs =
    "kind: add|sub|mul|div|reglu|geglu|swiglu|geglu_erf|geglu_quick|swiglu_oai";

Numbers apply(Pair pair, const Numbers &x, const Numbers &y, const sc::Float &a,
              const sc::Float &b) {
  switch (pair) {
  case Pair::add:
    return x + y;
  case Pair::sub:
    return x - y;
  case Pair::mul:
    return x * y;
  case Pair::div:
    return x / y;
  case Pair::reglu:
    return sc::where(x > 0, x * y, 0.0f);
  case Pair::geglu:
    return gelu(x) * y;
  case Pair::swiglu:
    return silu(x) * y;
  case Pair::geglu_erf:
    return geluErf(x) * y;
  case Pair::geglu_quick:
    return geluQuick(x) * y;
  case Pair::swiglu_oai: {
    auto gate = sc::minimum(x, b);
    return gate * sc::sigmoid(a * gate) * (sc::clamp(y, -b, b) + 1);
  }
  }
  return x;
}

struct PairConfig {
  int rows = 1, columns = 256, warps = 4;
  Pair kind = Pair::add;
  bool repeats = false;
};

template <class X, class Y, class Z> struct PairArguments {
  sc::View<const X, 4> x;
  sc::View<const Y, 4> y;
  sc::View<Z, 4> z;
  sc::Float a, b;
};

template <class X, class Y, class Z>
sc::Kernel pairwise{
    "ggml_pair", [](const PairArguments<X, Y, Z> &arguments, const PairConfig &config) {
      const Place place(arguments.z, config.rows, config.columns);
      auto x = sc::cast<float>(sc::load(at(arguments.x, place), place.inside));
      auto y = sc::cast<float>(sc::load(at(arguments.y, place, config.repeats), place.inside));
      sc::store(at(arguments.z, place),
                sc::cast<Z>(apply(config.kind, x, y, arguments.a, arguments.b)), place.inside);
    }};

// Rows and columns of a tile of 1024 elements, or of one row of more; the grid over a view of these
// extents.
template <class Config>
sc::Grid tiled(Config &config, const sc::Shape &extents, int longest = 1024) {
  config.columns = 1;
  while (config.columns < longest && config.columns < extents[3])
    config.columns *= 2;
  const std::int64_t rows = extents[0] * extents[1] * extents[2];
  config.rows = 1;
  while (config.rows * config.columns < 1024 && config.rows < rows)
    config.rows *= 2;
  if (config.rows * config.columns < 32) // a warp's worth
    config.columns *= 32 / (config.rows * config.columns);
  if (config.rows * config.columns <= 128)
    config.warps = 1;
  return sc::cdiv(rows, config.rows) * sc::cdiv(extents[3], config.columns);
}

// Blocks of rows, of which a program has one.
template <class Config> Config rowConfig(std::int64_t length) {
  Config config;
  config.block = 32;
  while (config.block < 4096 && config.block < length)
    config.block *= 2;
  config.warps = config.block <= 256 ? 1 : 4;
  return config;
}

// With extents that no command needs to know.
sc::KernelSpec described(std::string name, std::string summary,
                         const std::vector<sc::ArgumentRow> &arguments,
                         const std::vector<sc::OptionRow> &options,
                         std::function<void(sc::Use &)> apply) {
  sc::KernelSpec spec;
  spec.name = std::move(name);
  spec.summary = std::move(summary);
  spec.add_arguments(arguments);
  spec.add_options(options);
  spec.defaults = [](const sc::Invocation &, const std::string &) { return sc::ConfigValues{}; };
  spec.apply = std::move(apply);
  for (const sc::ArgumentSpec &argument : spec.arguments)
    for (const std::string &axis : argument.axes) {
      spec.typical[axis] = 64;
      spec.small[axis] = 4;
    }
  return spec;
}

sc::KernelSpec describeMap() {
  return described("ggml_map", "y = f(x), element by element; x is repeated where it is smaller",
                   {{"x: [I, J, K, L] f32|f16|bf16|i32|i64", "extents that divide those of y"},
                    {"like: [D, C, B, A] f32|f16|bf16|i32", "y's own memory, which says what y is"},
                    {"-> y: [D, C, B, A] like like over like, x", "the function's values"}},
                   {{functions, "the function"},
                    {"a: number = 0", "its first number"},
                    {"b: number = 0", "its second"}},
                   [](sc::Use &use) {
                     auto config = use.config_as<MapConfig>();
                     const auto grid = tiled(config, use.call.tensor("y").shape);
                     config.repeats = use.call.tensor("x").shape != use.call.tensor("y").shape;
                     sc::for_dtype<float, sc::half, sc::bfloat16, std::int32_t, std::int64_t>(
                         use.call.dtype("x"), [&]<class X>(X) {
                           sc::for_dtype<float, sc::half, sc::bfloat16, std::int32_t>(
                               use.call.dtype("y"),
                               [&]<class Y>(Y) { use(map<X, Y>, grid, config); });
                         });
                   });
}

sc::KernelSpec describePair() {
  return described(
      "ggml_pair", "z = f(x, y), element by element; y is repeated where it is smaller",
      {{"x: [D, C, B, A] f32|f16|bf16"},
       {"y: [I, J, K, L] f32|f16|bf16", "extents that divide those of x"},
       {"-> z: [D, C, B, A] like x or f32 over x, y"}},
      {{pairs, "the function"},
       {"a: number = 0", "its first number"},
       {"b: number = 0", "its second"}},
      [](sc::Use &use) {
        auto config = use.config_as<PairConfig>();
        const auto grid = tiled(config, use.call.tensor("z").shape);
        config.repeats = use.call.tensor("y").shape != use.call.tensor("z").shape;
        sc::for_dtype<float, sc::half, sc::bfloat16>(use.call.dtype("x"), [&]<class X>(X) {
          sc::for_dtype<float, sc::half, sc::bfloat16>(use.call.dtype("y"), [&]<class Y>(Y) {
            if (use.call.dtype("z") == sc::dtype_of<X>)
              use(pairwise<X, Y, X>, grid, config);
            else
              use(pairwise<X, Y, float>, grid, config);
          });
        });
      });
}

// Softmax
// -----------------------------------------------------------------------------------------------------------

struct SoftmaxConfig {
  int block = 1024, warps = 4;
  bool masked = false, sloped = false, sinks = false;
};

// ALiBi's slope of a head: of the first `heads` the powers of one base, of the others those between
// them.
sc::Float slopeOf(const sc::Int &head, const sc::Float &base, const sc::Float &between,
                  const sc::Int &heads) {
  return sc::where(head < heads, sc::pow(base, sc::cast<float>(head + 1)),
                   sc::pow(between, sc::cast<float>(2 * (head - heads) + 1)));
}

template <class M> struct SoftmaxArguments {
  sc::View<const float, 4> x;
  sc::View<const M, 4> mask;
  sc::View<const float, 1> sinks;
  sc::View<float, 4> y;
  sc::Float scale, slope, slope_between;
  sc::Int heads;
};

// y = softmax(scale x + slope(head) mask), with a sink's score beside those of the row.
template <class M>
sc::Kernel softmax{
    "ggml_softmax", [](const SoftmaxArguments<M> &a, const SoftmaxConfig &config) {
      constexpr float lowest = -std::numeric_limits<float>::infinity();
      auto k = sc::program_id(0) % a.x.extent(2),
           j = sc::program_id(0) / a.x.extent(2) % a.x.extent(1),
           i = sc::program_id(0) / a.x.extent(2) / a.x.extent(1);
      auto from = a.x.at(i, j, k).tile(config.block).padding(lowest);
      sc::Float slope = 1;
      if (config.sloped)
        slope = slopeOf(j, a.slope, a.slope_between, a.heads);
      auto scores = [&](sc::Int block) {
        auto s = from.load(block) * a.scale;
        if (config.masked) {
          auto mask = a.mask.at(i % a.mask.extent(0), j % a.mask.extent(1), k).tile(config.block);
          s += slope * sc::cast<float>(mask.load(block));
          s = sc::where(block * config.block + sc::arange(0, config.block) < a.x.extent(3), s,
                        lowest);
        }
        return s;
      };
      auto blocks = sc::cdiv(a.x.extent(3), config.block);
      sc::Float most = lowest, total = 0;
      if (config.sinks) {
        most = sc::load(a.sinks.ptr() + j * a.sinks.stride(0));
        total = 1;
      }
      for (auto block : sc::range(0, blocks)) {
        auto s = scores(block);
        auto now = sc::maximum(most, sc::max(s, 0));
        total = total * sc::where(most == lowest, 0.0f, sc::exp(most - now)) +
                sc::sum(sc::where(s == lowest, 0.0f, sc::exp(s - now)), 0);
        most = now;
      }
      auto to = a.y.at(i, j, k).tile(config.block);
      for (auto block : sc::range(0, blocks)) {
        auto s = scores(block);
        sc::barrier(); // y may be x, whose elements other threads read
        to.store(block, sc::exp(s - most) / total);
      }
    }};

sc::KernelSpec describeSoftmax() {
  return described("ggml_softmax", "y = softmax(scale x + slope mask) along the last axis",
                   {{"x: [D, C, B, A] f32"},
                    {"mask?: [I, J, B, A] f32|f16", "I and J divide D and C"},
                    {"sinks?: [C] f32", "scores beside those of a row"},
                    {"-> y: [D, C, B, A] f32 over x"}},
                   {{"scale: number = 1", "of x"},
                    {"slope: number = 1", "ALiBi's: head j < heads has slope^(j + 1)"},
                    {"slope_between: number = 1", "head heads + j has slope_between^(2 j + 1)"},
                    {"heads: integer = 0", "a power of two; 0: the mask has no slopes"}},
                   [](sc::Use &use) {
                     auto config = rowConfig<SoftmaxConfig>(use.extent("A"));
                     config.masked = use.has("mask");
                     config.sloped = use.call.options.integer("heads") != 0;
                     config.sinks = use.has("sinks");
                     const auto grid = use.extent("D") * use.extent("C") * use.extent("B");
                     sc::for_dtype<float, sc::half>(use.call.dtype("mask"), [&]<class M>(M) {
                       use(softmax<M>, grid, config);
                     });
                   });
}

struct L2Arguments {
  sc::View<const float, 4> x;
  sc::View<float, 4> y;
  sc::Float eps;
};

struct L2Config {
  int block = 1024, warps = 4;
};

sc::Kernel l2Norm{"ggml_l2_norm", [](const L2Arguments &a, const L2Config &config) {
                    auto k = sc::program_id(0) % a.x.extent(2),
                         j = sc::program_id(0) / a.x.extent(2) % a.x.extent(1),
                         i = sc::program_id(0) / a.x.extent(2) / a.x.extent(1);
                    auto from = a.x.at(i, j, k).tile(config.block);
                    auto to = a.y.at(i, j, k).tile(config.block);
                    sc::Float total = 0;
                    for (auto block : sc::range(0, sc::cdiv(a.x.extent(3), config.block))) {
                      auto x = from.load(block);
                      total += sc::sum(x * x, 0);
                    }
                    auto length = sc::maximum(sc::sqrt(total), a.eps);
                    for (auto block : sc::range(0, sc::cdiv(a.x.extent(3), config.block)))
                      to.store(block, from.load(block) / length);
                  }};

sc::KernelSpec describeL2Norm() {
  return described("ggml_l2_norm", "y = x / max(|x|, eps) along the last axis",
                   {{"x: [D, C, B, A] f32"}, {"-> y: [D, C, B, A] f32"}},
                   {{"eps: number = 1e-6", "the least length"}}, [](sc::Use &use) {
                     const auto config = rowConfig<L2Config>(use.extent("A"));
                     use(l2Norm, use.extent("D") * use.extent("C") * use.extent("B"), config);
                   });
}

template <class T> struct AlibiArguments {
  sc::View<const T, 4> mask;
  sc::View<T, 4> y;
  sc::Float slope, slope_between;
  sc::Int heads;
};

struct AlibiConfig {
  int rows = 1, columns = 256, warps = 4;
};

template <class T>
sc::Kernel alibi{"ggml_alibi", [](const AlibiArguments<T> &a, const AlibiConfig &config) {
                   const Place place(a.y, config.rows, config.columns);
                   auto slope = slopeOf(place.j, a.slope, a.slope_between, a.heads);
                   auto mask = sc::cast<float>(sc::load(at(a.mask, place, true), place.inside));
                   sc::store(at(a.y, place), sc::cast<T>(mask * slope), place.inside);
                 }};

sc::KernelSpec describeAlibi() {
  return described("ggml_alibi", "a mask times the slopes of heads",
                   {{"mask: [I, J, B, A] f32|f16|bf16", "I and J divide D and C"},
                    {"like: [D, C, B, A] like mask", "y's own memory, which says what y is"},
                    {"-> y: [D, C, B, A] like like over like"}},
                   {{"slope: number = 1", "head j < heads has slope^(j + 1)"},
                    {"slope_between: number = 1", "head heads + j has slope_between^(2 j + 1)"},
                    {"heads: integer = 1", "a power of two"}},
                   [](sc::Use &use) {
                     AlibiConfig config;
                     const auto grid = tiled(config, use.call.tensor("y").shape);
                     sc::for_dtype<float, sc::half, sc::bfloat16>(
                         use.call.dtype("mask"), [&]<class T>(T) { use(alibi<T>, grid, config); });
                   });
}

// Rotations by positions
// ----------------------------------------------------------------------------------------------

enum class Rotation { normal, neox, mrope, imrope, vision };

struct RopeConfig {
  int rows = 1, columns = 128, warps = 4;
  Rotation kind = Rotation::normal;
  bool factors = false, ramped = false;
  int dims = 64, first = 0;                       // which elements of a row are rotated
  int time = 0, height = 0, width = 0, other = 0; // pairs of each of the four positions
};

template <class T> struct RopeArguments {
  sc::View<const T, 4> x;
  sc::View<const std::int32_t, 1> positions;
  sc::View<const float, 1> factors;
  sc::View<T, 4> y;
  sc::Float base, scale, low, high, mix, magnitude, sign;
};

template <class T>
sc::Kernel rope{
    "ggml_rope", [](const RopeArguments<T> &a, const RopeConfig &config) {
      const Place place(a.y, config.rows, config.columns); // a program has whole rows
      // A pair is two neighbours, or as far apart as there are pairs.
      const bool isVision = config.kind == Rotation::vision;
      const int pairs = isVision ? config.dims : config.dims / 2;
      auto dim = place.l - config.first;
      auto rotated = dim >= 0 && dim < 2 * pairs;
      const bool isNormal = config.kind == Rotation::normal;
      auto pair = isNormal ? dim / 2 : dim % pairs;
      auto second = isNormal ? dim % 2 == 1 : dim >= pairs;
      auto other = place.l + sc::where(second, -1, 1) * (isNormal ? 1 : pairs);
      pair = sc::where(rotated, pair, 0);

      auto exponent = pair;
      auto which = sc::zeros_like(pair); // of the positions
      if (config.kind >= Rotation::mrope) {
        const int time = config.time, height = config.height, width = config.width;
        auto sector = pair % (time + height + width + config.other);
        if (config.kind == Rotation::imrope) {
          which = sc::where(sector % 3 == 1 && sector < 3 * height, 1,
                            sc::where(sector % 3 == 2 && sector < 3 * width, 2,
                                      sc::where(sector % 3 == 0 && sector < 3 * time, 0, 3)));
        } else {
          which = sc::where(sector < time, 0,
                            sc::where(sector < time + height, 1,
                                      sc::where(sector < time + height + width, 2, 3)));
          if (isVision)
            exponent =
                sector -
                sc::where(which == 0, 0,
                          sc::where(which == 1, time,
                                    sc::where(which == 2, time + height, time + height + width)));
        }
      }
      auto position =
          sc::load(a.positions.ptr() + (place.j + which * a.y.extent(1)) * a.positions.stride(0),
                   place.inside);
      auto angle = sc::cast<float>(position) *
                   sc::pow(a.base, sc::cast<float>(exponent) * (-2.0f / config.dims));
      if (config.factors)
        angle = angle / sc::load(a.factors.ptr() + pair * a.factors.stride(0), rotated, 1.0f);
      auto turned = angle * a.scale;
      if (config.ramped) {
        auto ramp =
            (1 - sc::clamp((sc::cast<float>(pair) - a.low) / sc::maximum(0.001f, a.high - a.low), 0,
                           1)) *
            a.mix;
        turned = turned * (1 - ramp) + angle * ramp;
      }
      auto cosine = sc::cos(turned) * a.magnitude, sine = sc::sin(turned) * a.magnitude * a.sign;
      auto x = sc::load(at(a.x, place), place.inside);
      auto row =
          a.x.ptr() + place.i * a.x.stride(0) + place.j * a.x.stride(1) + place.k * a.x.stride(2);
      auto y = sc::cast<float>(sc::load(row + other * a.x.stride(3), place.inside && rotated));
      auto result = sc::cast<float>(x) * cosine + sc::where(second, y, -y) * sine;
      sc::barrier(); // y may be x: another thread reads the other of each pair
      sc::store(at(a.y, place), sc::where(rotated, sc::cast<T>(result), x), place.inside);
    }};

sc::KernelSpec describeRope() {
  auto spec =
      described("ggml_rope", "rotary embedding by given positions",
                {{"x: [D, C, B, A] f32|f16", "C tokens of B heads"},
                 {"positions: [P] i32", "C, or four times C by times, heights, widths, others"},
                 {"factors?: [F] f32", "what each pair's angle is divided by"},
                 {"-> y: [D, C, B, A] like x over x"}},
                {{"kind: normal|neox|mrope|imrope|vision",
                  "which elements are pairs, and which position is whose"},
                 {"dims: integer = 64", "how many elements are rotated"},
                 {"first: integer = 0", "the first that is"},
                 {"time: integer = 0", "pairs by the first positions"},
                 {"height: integer = 0", "by the second"},
                 {"width: integer = 0", "by the third"},
                 {"other: integer = 0", "by the fourth"},
                 {"base: number = 10000", "of the frequencies"},
                 {"scale: number = 1", "of the angles"},
                 {"low: number = 0", "YaRN: where angles cease to be unscaled"},
                 {"high: number = 0", "YaRN: where all are scaled"},
                 {"mix: number = 0", "YaRN: its share"},
                 {"magnitude: number = 1", "of the result"},
                 {"sign: number = 1", "-1: backwards"}},
                [](sc::Use &use) {
                  auto config = use.config_as<RopeConfig>();
                  config.factors = use.has("factors");
                  config.ramped = use.call.options.number("mix") != 0;
                  const sc::Shape &shape = use.call.tensor("y").shape;
                  const auto grid = tiled(config, shape, 4096);
                  sc::for_dtype<float, sc::half>(use.call.dtype("x"),
                                                 [&]<class T>(T) { use(rope<T>, grid, config); });
                });
  spec.check = [](const sc::Invocation &call) {
    if (call.extent("A") > 4096)
      throw sc::InputError("ggml_rope: rows of more than 4096 elements");
  };
  return spec;
}

// Rows by their numbers, and quantised rows
// ---------------------------------------------------------------------------

// How a row lies in memory: as numbers, or as blocks of ggml's formats, whose elements follow from
// the row's bytes.
enum class Format { plain, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k };
constexpr const char *formats = "format: plain|q4_0|q4_1|q5_0|q5_1|q8_0|q4_k|q5_k|q6_k";

// Element `l` of rows that begin at `row`.
Numbers decoded(Format format, const sc::Ptr<const std::uint8_t> &row, const sc::Int &l,
                const sc::Tile<bool> &inside) {
  static constexpr int bytesOf[] = {0, 18, 20, 22, 24, 34, 144, 176, 210};
  const int elements = format >= Format::q4_k ? 256 : 32;
  auto start = row + l / elements * bytesOf[static_cast<int>(format)];
  auto e = l % elements;
  auto byte = [&](auto offset) { return sc::cast<std::int32_t>(sc::load(start + offset, inside)); };
  auto half = [&](int offset) {
    return sc::cast<float>(sc::bitcast<sc::half>(sc::cast<std::uint16_t>(
        byte(sc::zeros_like(e) + offset) | byte(sc::zeros_like(e) + (offset + 1)) << 8)));
  };
  auto nibble = [&](auto offset, auto isHigh) {
    return sc::where(isHigh, byte(offset) >> 4, byte(offset) & 15);
  };
  auto number = [](auto x) { return sc::cast<float>(x); };
  const auto d = [&] { return half(0); };
  switch (format) {
  case Format::plain:
    break;
  case Format::q4_0:
    return d() * number(nibble(2 + e % 16, e >= 16) - 8);
  case Format::q4_1:
    return d() * number(nibble(4 + e % 16, e >= 16)) + half(2);
  case Format::q5_0: {
    auto fifth = byte(2 + e / 8) >> sc::cast<std::int32_t>(e % 8) & 1;
    return d() * number((nibble(6 + e % 16, e >= 16) | fifth << 4) - 16);
  }
  case Format::q5_1: {
    auto fifth = byte(4 + e / 8) >> sc::cast<std::int32_t>(e % 8) & 1;
    return d() * number(nibble(8 + e % 16, e >= 16) | fifth << 4) + half(2);
  }
  case Format::q8_0:
    return d() * number(sc::cast<std::int8_t>(byte(2 + e)));
  case Format::q4_k:
  case Format::q5_k: {
    // Eight groups of 32 with scales and offsets of six bits, packed into twelve bytes.
    auto group = e / 32;
    auto late = group >= 4;
    auto low = byte(4 + group + sc::where(late, 4, 0)),
         scaleTop = byte(4 + sc::where(late, group - 4, group)), offsetLow = byte(8 + group),
         offsetTop = byte(4 + group);
    auto scale = sc::where(late, low & 15 | scaleTop >> 6 << 4, low & 63);
    auto offset = sc::where(late, offsetLow >> 4 | offsetTop >> 6 << 4, offsetLow & 63);
    const int codes = format == Format::q4_k ? 16 : 48;
    auto code = nibble(codes + e / 64 * 32 + e % 32, group % 2 == 1);
    if (format == Format::q5_k)
      code = code | (byte(16 + e % 32) >> sc::cast<std::int32_t>(group) & 1) << 4;
    return d() * number(scale) * number(code) - half(2) * number(offset);
  }
  case Format::q6_k: {
    auto quarter = e % 128 / 32;
    auto low = nibble(e / 128 * 64 + quarter % 2 * 32 + e % 32, quarter >= 2);
    auto high = byte(128 + e / 128 * 32 + e % 32) >> sc::cast<std::int32_t>(quarter * 2) & 3;
    auto scale = sc::cast<std::int8_t>(byte(192 + e / 16));
    return half(208) * number(scale) * number((low | high << 4) - 32);
  }
  }
  return number(byte(e));
}

struct RowsConfig {
  int rows = 1, columns = 256, warps = 4;
  Format format = Format::plain;
};

template <class T, class Y> struct GetRowsArguments {
  sc::View<const T, 4> table;
  sc::View<const std::int32_t, 3> indices;
  sc::View<Y, 4> y;
};

template <class T, class Y>
sc::Kernel getRows{
    "ggml_get_rows", [](const GetRowsArguments<T, Y> &a, const RowsConfig &config) {
      const Place place(a.y, config.rows, config.columns);
      auto index = sc::load(a.indices.ptr() + place.i * a.indices.stride(0) +
                                place.j * a.indices.stride(1) + place.k * a.indices.stride(2),
                            place.i < a.y.extent(0));
      sc::device_assert(index >= 0 && sc::cast<sc::Index>(index) < a.table.extent(2),
                        "an index is a row of the table");
      auto row = a.table.ptr() + place.i * a.table.stride(0) + place.j * a.table.stride(1) +
                 sc::cast<std::int64_t>(index) * a.table.stride(2);
      if constexpr (std::is_same_v<T, std::uint8_t>)
        sc::store(at(a.y, place), sc::cast<Y>(decoded(config.format, row, place.l, place.inside)),
                  place.inside);
      else
        sc::store(at(a.y, place),
                  sc::cast<Y>(sc::load(row + place.l * a.table.stride(3), place.inside)),
                  place.inside);
    }};

template <class Y> struct DecodeArguments {
  sc::View<const std::uint8_t, 4> x;
  sc::View<Y, 4> y;
};

template <class Y>
sc::Kernel decode{"ggml_decode", [](const DecodeArguments<Y> &a, const RowsConfig &config) {
                    const Place place(a.y, config.rows, config.columns);
                    auto row = a.x.ptr() + place.i * a.x.stride(0) + place.j * a.x.stride(1) +
                               place.k * a.x.stride(2);
                    sc::store(at(a.y, place),
                              sc::cast<Y>(decoded(config.format, row, place.l, place.inside)),
                              place.inside);
                  }};

template <class T, class Index, class Y> struct SetRowsArguments {
  sc::View<const T, 4> x;
  sc::View<const Index, 3> indices;
  sc::View<Y, 4> y;
};

template <class T, class Index, class Y>
sc::Kernel setRows{
    "ggml_set_rows", [](const SetRowsArguments<T, Index, Y> &a, const RowsConfig &config) {
      const Place place(a.x, config.rows, config.columns);
      auto index = sc::load(a.indices.ptr() + place.i % a.indices.extent(0) * a.indices.stride(0) +
                                place.j % a.indices.extent(1) * a.indices.stride(1) +
                                place.k * a.indices.stride(2),
                            place.i < a.x.extent(0));
      sc::device_assert(index >= 0 && sc::cast<sc::Index>(index) < a.y.extent(2),
                        "an index is a row of y");
      auto to = a.y.ptr() + place.i * a.y.stride(0) + place.j * a.y.stride(1) +
                sc::cast<std::int64_t>(index) * a.y.stride(2) + place.l * a.y.stride(3);
      sc::store(to, sc::cast<Y>(sc::load(at(a.x, place), place.inside)), place.inside);
    }};

sc::KernelSpec describeGetRows() {
  return described(
      "ggml_get_rows", "rows of a table by their numbers; also of a quantised one, as its bytes",
      {{"table: [D, C, V, W] f32|f16|bf16|i32|u8"},
       {"indices: [D, C, N] i32"},
       {"like: [D, C, N, A] f32|i32", "y's own memory, which says what y is"},
       {"-> y: [D, C, N, A] like like over like"}},
      {{formats, "of the table's rows"}}, [](sc::Use &use) {
        auto config = use.config_as<RowsConfig>();
        const auto grid = tiled(config, use.call.tensor("y").shape);
        if (use.call.dtype("y") == sc::DType::int32)
          return use(getRows<std::int32_t, std::int32_t>, grid, config);
        sc::for_dtype<float, sc::half, sc::bfloat16, std::uint8_t>(
            use.call.dtype("table"), [&]<class T>(T) { use(getRows<T, float>, grid, config); });
      });
}

sc::KernelSpec describeDecode() {
  return described("ggml_decode", "the numbers of quantised rows",
                   {{"x: [D, C, B, W] u8", "the rows' bytes"},
                    {"like: [D, C, B, A] f16|bf16|f32", "y's own memory, which says what y is"},
                    {"-> y: [D, C, B, A] like like over like"}},
                   {{formats, "of the rows"}}, [](sc::Use &use) {
                     auto config = use.config_as<RowsConfig>();
                     const auto grid = tiled(config, use.call.tensor("y").shape);
                     sc::for_dtype<float, sc::half, sc::bfloat16>(
                         use.call.dtype("y"), [&]<class Y>(Y) { use(decode<Y>, grid, config); });
                   });
}

sc::KernelSpec describeSetRows() {
  return described("ggml_set_rows", "changes the rows of y that have these numbers",
                   {{"x: [D, C, N, A] f32|f16"},
                    {"indices: [I, J, N] i64|i32", "I and J divide D and C"},
                    {"into: [D, C, V, A] f32|f16|bf16", "what y begins as"},
                    {"-> y: [D, C, V, A] like into updates into"}},
                   {}, [](sc::Use &use) {
                     RowsConfig config;
                     const auto grid = tiled(config, use.call.tensor("x").shape);
                     sc::for_dtype<float, sc::half>(use.call.dtype("x"), [&]<class T>(T) {
                       sc::for_dtype<std::int64_t, std::int32_t>(
                           use.call.dtype("indices"), [&]<class Index>(Index) {
                             sc::for_dtype<float, sc::half, sc::bfloat16>(
                                 use.call.dtype("y"),
                                 [&]<class Y>(Y) { use(setRows<T, Index, Y>, grid, config); });
                           });
                     });
                   });
}

} // namespace

void sectile_register_kernels() {
  for (sc::KernelSpec spec :
       {describeMap(), describePair(), describeSoftmax(), describeAlibi(), describeL2Norm(),
        describeRope(), describeGetRows(), describeDecode(), describeSetRows()})
    sc::register_kernel(std::move(spec), "ggml");
}
