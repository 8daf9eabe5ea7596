// Kernels that ggml's graphs need beside those of Sectile's library, in Sectile's language: work on elements with
// ggml's broadcasting and conversions, rows by their numbers, rotations by positions, softmax with a mask. Axes are in
// Sectile's order, the dense one last; ggml counts them the other way.
#include <limits>
#include <sectile/register_kernel.h>
#include <sectile/sectile.h>

namespace sc = sectile;

namespace {

// Elements --------------------------------------------------------------------------------------------------------

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
  copy, scale, clamp, leaky_relu, sqr, sqrt, log, sin, cos, abs, sgn, neg, step, tanh, elu, relu, sigmoid, gelu,
  gelu_quick, silu, hardswish, hardsigmoid, exp, expm1, softplus, gelu_erf, floor, ceil, round, trunc
};
constexpr const char *functions =
    "kind: copy|scale|clamp|leaky_relu|sqr|sqrt|log|sin|cos|abs|sgn|neg|step|tanh|elu|relu|sigmoid|gelu|"
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
  case Function::copy: return x;
  case Function::scale: return a * x + b;
  case Function::clamp: return sc::clamp(x, a, b);
  case Function::leaky_relu: return sc::where(x > 0, x, a * x);
  case Function::sqr: return x * x;
  case Function::sqrt: return sc::sqrt(x);
  case Function::log: return sc::log(x);
  case Function::sin: return sc::sin(x);
  case Function::cos: return sc::cos(x);
  case Function::abs: return sc::abs(x);
  case Function::sgn: return sc::where(x > 0, 1.0f, sc::where(x < 0, -1.0f, sc::zeros_like(x)));
  case Function::neg: return -x;
  case Function::step: return sc::where(x > 0, 1.0f, sc::zeros_like(x));
  case Function::tanh: return sc::tanh(x);
  case Function::elu: return sc::where(x > 0, x, sc::expm1(x));
  case Function::relu: return sc::where(x > 0, x, 0.0f);
  case Function::sigmoid: return sc::sigmoid(x);
  case Function::gelu: return gelu(x);
  case Function::gelu_quick: return geluQuick(x);
  case Function::silu: return silu(x);
  case Function::hardswish: return x * hardSigmoid(x);
  case Function::hardsigmoid: return hardSigmoid(x);
  case Function::exp: return sc::exp(x);
  case Function::expm1: return sc::expm1(x);
  case Function::softplus: return sc::where(x > 20, x, sc::log1p(sc::exp(x)));
  case Function::gelu_erf: return geluErf(x);
  case Function::floor: return sc::floor(x);
  case Function::ceil: return sc::ceil(x);
  case Function::round: return sc::round(x);
  case Function::trunc: return sc::trunc(x);
  }
  return x;
}

struct MapConfig {
  int rows = 1, columns = 256, warps = 4;
  Function kind = Function::copy;
  bool repeats = false;
};
SECTILE_CONFIG(MapConfig, rows, columns, warps, kind, repeats)

template <class X, class Y> struct MapArguments {
  sc::View<const X, 4> x;
  sc::View<Y, 4> y;
  sc::Float a, b;
};
template <class X, class Y>
SECTILE_STRUCT((MapArguments<X, Y>), x, y, a, b)

template <class X, class Y>
sc::Kernel map{"ggml_map", [](const MapArguments<X, Y> &arguments, const MapConfig &config) {
                 const Place place(arguments.y, config.rows, config.columns);
                 auto x = sc::load(at(arguments.x, place, config.repeats), place.inside);
                 auto to = at(arguments.y, place);
                 if (config.kind == Function::copy)
                   sc::store(to, sc::cast<Y>(x), place.inside);
                 else if constexpr (!std::is_integral_v<X> && !std::is_integral_v<Y>)
                   sc::store(to, sc::cast<Y>(apply(config.kind, sc::cast<float>(x), arguments.a, arguments.b)), place.inside);
               }};

enum class Pair { add, sub, mul, div, reglu, geglu, swiglu, geglu_erf, geglu_quick, swiglu_oai };
constexpr const char *pairs = "kind: add|sub|mul|div|reglu|geglu|swiglu|geglu_erf|geglu_quick|swiglu_oai";

Numbers apply(Pair pair, const Numbers &x, const Numbers &y, const sc::Float &a, const sc::Float &b) {
  switch (pair) {
  case Pair::add: return x + y;
  case Pair::sub: return x - y;
  case Pair::mul: return x * y;
  case Pair::div: return x / y;
  case Pair::reglu: return sc::where(x > 0, x * y, 0.0f);
  case Pair::geglu: return gelu(x) * y;
  case Pair::swiglu: return silu(x) * y;
  case Pair::geglu_erf: return geluErf(x) * y;
  case Pair::geglu_quick: return geluQuick(x) * y;
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
SECTILE_CONFIG(PairConfig, rows, columns, warps, kind, repeats)

template <class X, class Y, class Z> struct PairArguments {
  sc::View<const X, 4> x;
  sc::View<const Y, 4> y;
  sc::View<Z, 4> z;
  sc::Float a, b;
};
template <class X, class Y, class Z>
SECTILE_STRUCT((PairArguments<X, Y, Z>), x, y, z, a, b)

template <class X, class Y, class Z>
sc::Kernel pairwise{"ggml_pair", [](const PairArguments<X, Y, Z> &arguments, const PairConfig &config) {
                      const Place place(arguments.z, config.rows, config.columns);
                      auto x = sc::cast<float>(sc::load(at(arguments.x, place), place.inside));
                      auto y = sc::cast<float>(sc::load(at(arguments.y, place, config.repeats), place.inside));
                      sc::store(at(arguments.z, place), sc::cast<Z>(apply(config.kind, x, y, arguments.a, arguments.b)),
                                place.inside);
                    }};

// Rows and columns of a tile of 1024 elements; the grid over a view of these extents.
template <class Config> sc::Grid tiled(Config &config, const sc::Shape &extents) {
  config.columns = 1;
  while (config.columns < 1024 && config.columns < extents[3])
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

void setExtents(sc::KernelSpec &spec) {
  for (const sc::ArgumentSpec &argument : spec.arguments)
    for (const std::string &axis : argument.axes) {
      spec.typical[axis] = 64;
      spec.small[axis] = 4;
    }
}

sc::KernelSpec describeMap() {
  sc::KernelSpec spec;
  spec.name = "ggml_map";
  spec.summary = "y = f(x), element by element; x is repeated where it is smaller";
  spec.add_arguments({{"x: [I, J, K, L] f32|f16|bf16|i32", "extents that divide those of y"},
                      {"like: [D, C, B, A] f32|f16|bf16|i32", "y's own memory, which says what y is"},
                      {"-> y: [D, C, B, A] like like over like, x", "the function's values"}});
  spec.add_options({{functions, "the function"}, {"a: number = 0", "its first number"}, {"b: number = 0", "its second"}});
  setExtents(spec);
  spec.defaults = [](const sc::Invocation &, const std::string &) { return sc::ConfigValues{}; };
  spec.apply = [](sc::Use &use) {
    auto config = use.config_as<MapConfig>();
    const auto grid = tiled(config, use.call.tensor("y").shape);
    config.repeats = use.call.tensor("x").shape != use.call.tensor("y").shape;
    sc::for_dtype<float, sc::half, sc::bfloat16, std::int32_t>(use.call.dtype("x"), [&]<class X>(X) {
      sc::for_dtype<float, sc::half, sc::bfloat16, std::int32_t>(
          use.call.dtype("y"), [&]<class Y>(Y) { use(map<X, Y>, grid, config); });
    });
  };
  return spec;
}

sc::KernelSpec describePair() {
  sc::KernelSpec spec;
  spec.name = "ggml_pair";
  spec.summary = "z = f(x, y), element by element; y is repeated where it is smaller";
  spec.add_arguments({{"x: [D, C, B, A] f32|f16"}, {"y: [I, J, K, L] f32|f16", "extents that divide those of x"},
                      {"-> z: [D, C, B, A] like x or f32 over x, y"}});
  spec.add_options({{pairs, "the function"}, {"a: number = 0", "its first number"}, {"b: number = 0", "its second"}});
  setExtents(spec);
  spec.defaults = [](const sc::Invocation &, const std::string &) { return sc::ConfigValues{}; };
  spec.apply = [](sc::Use &use) {
    auto config = use.config_as<PairConfig>();
    const auto grid = tiled(config, use.call.tensor("z").shape);
    config.repeats = use.call.tensor("y").shape != use.call.tensor("z").shape;
    sc::for_dtype<float, sc::half>(use.call.dtype("x"), [&]<class X>(X) {
      sc::for_dtype<float, sc::half>(use.call.dtype("y"), [&]<class Y>(Y) {
        sc::for_dtype<float, sc::half>(use.call.dtype("z"), [&]<class Z>(Z) { use(pairwise<X, Y, Z>, grid, config); });
      });
    });
  };
  return spec;
}

} // namespace

void sectile_register_kernels() {
  sc::register_kernel(describeMap(), "ggml");
  sc::register_kernel(describePair(), "ggml");
}
