// The language folds operations on constants while it traces, and the compiler folds others. Both
// have to agree with what the operations give when a kernel runs on numbers from memory.
#include "tests/fuzz/language/Cases.h"
#include <cmath>
#include <limits>
#include <sectile/sectile.h>
#include <vector>

namespace sectile::fuzz {

namespace {

constexpr int width = 32;

template <class T> constexpr bool isReal = !std::is_integral_v<T>;

template <class T> std::vector<T> someNumbers(Draw &draw) {
  std::vector<T> result;
  for (int i = 0; i < 3; ++i)
    if constexpr (isReal<T>) {
      static constexpr float numbers[] = {0,        -0.0f,     1,     -1,    0.5f, -0.5f, 2,
                                          -3,       10,        0.75f, 7,     -2,   100,   -0.001f,
                                          INFINITY, -INFINITY, 0,     -0.0f, NAN};
      result.push_back(draw.pick(3) ? T(draw.oneOf(numbers)) : T(draw.coin() ? 0.0f : -0.0f));
    } else {
      using Limits = std::numeric_limits<T>;
      const T near = T(draw.pick(3));
      const T numbers[] = {T(Limits::max() - near),     T(Limits::min() + near), T(near), T(-near),
                           T(Limits::max() / 2 + near), T(7 * near + 1)};
      result.push_back(numbers[draw.pick(std::size(numbers))]);
    }
  return result;
}

template <class T> Tile<T> function(unsigned which, const Tile<T> &x, const Tile<T> &y) {
  if constexpr (isReal<T>) {
    switch (which % 37) {
    case 0:
      return exp(x);
    case 1:
      return exp2(x);
    case 2:
      return log(x);
    case 3:
      return log2(x);
    case 4:
      return sin(x);
    case 5:
      return cos(x);
    case 6:
      return sqrt(x);
    case 7:
      return rsqrt(x);
    case 8:
      return tanh(x);
    case 9:
      return erf(x);
    case 10:
      return floor(x);
    case 11:
      return ceil(x);
    case 12:
      return round(x);
    case 13:
      return rint(x);
    case 14:
      return trunc(x);
    case 15:
      return tan(x);
    case 16:
      return asin(x);
    case 17:
      return acos(x);
    case 18:
      return atan(x);
    case 19:
      return sinh(x);
    case 20:
      return cosh(x);
    case 21:
      return asinh(x);
    case 22:
      return acosh(x);
    case 23:
      return atanh(x);
    case 24:
      return expm1(x);
    case 25:
      return log1p(x);
    case 26:
      return log10(x);
    case 27:
      return cbrt(x);
    case 28:
    case 29:
      return atan2(x, y);
    case 30:
      return pow(x, y);
    case 31:
      return copysign(x, y);
    case 32:
      return minimum(x, y);
    case 33:
      return maximum(x, y, Nan::propagate);
    case 34:
      return x / y;
    case 35:
      return fmod(x, y);
    default:
      return x * y;
    }
  } else {
    const Tile<T> odd = y | T(1), few = y & T(sizeof(T) * 8 - 1);
    switch (which % 15) {
    case 0:
      return x + y;
    case 1:
      return x - y;
    case 2:
      return x * y;
    case 3:
      return x / odd;
    case 4:
      return x % odd;
    case 5:
      return x << few;
    case 6:
      return x >> few;
    case 7:
      return x & y;
    case 8:
      return x ^ y;
    case 9:
      return minimum(x, y);
    case 10:
      return maximum(x, y);
    case 11:
      return where(x < y, x, y);
    case 12:
      return abs(x);
    case 13:
      return cast<T>(popcount(x));
    default:
      return cast<T>(cast<float>(x & T(63)) * 0.5f);
    }
  }
}

/// Whether a device may give either number.
template <class T> bool agree(T a, T b) {
  if constexpr (!isReal<T>) {
    return a == b;
  } else {
    const double x = double(a), y = double(b);
    if (std::isnan(x) || std::isnan(y))
      return std::isnan(x) && std::isnan(y);
    if (std::isinf(x) || std::isinf(y))
      return x == y;
    const double relative = std::same_as<T, half> ? 4e-3 : std::same_as<T, float> ? 4e-6 : 1e-13;
    return std::fabs(x - y) <= relative * std::max(std::fabs(x), std::fabs(y)) + 1e-30;
  }
}

template <class T> std::optional<std::string> check(Draw &draw, const std::string &name) {
  constexpr int functions = 8;
  const std::vector<T> numbers = someNumbers<T>(draw);
  std::vector<unsigned> which;
  for (int i = 0; i < functions; ++i)
    which.push_back(unsigned(draw.pick(1000)));
  const bool scalars = draw.coin();
  Kernel kernel{"folded_constants", [=](Ptr<const T> x, Ptr<T> y, Ptr<T> z) {
                  auto i = arange(0, width);
                  for (int f = 0; f < functions; ++f) {
                    const int a = f % 3, b = (f + 1 + f / 3) % 3;
                    auto constant = [&](int at) {
                      return scalars ? full<T>(numbers[std::size_t(at)])
                                     : full<T>(numbers[std::size_t(at)], width);
                    };
                    auto loaded = [&](int at) -> Tile<T> {
                      Tile<T> scalar = load(x + at);
                      return scalars ? scalar : broadcast_to(scalar, width);
                    };
                    auto put = [&](const Ptr<T> &to, const Tile<T> &result) {
                      store(to + f * width + i, scalars ? broadcast_to(result, width) : result);
                    };
                    put(y, function<T>(which[std::size_t(f)], constant(a), constant(b)));
                    put(z, function<T>(which[std::size_t(f)], loaded(a), loaded(b)));
                  }
                }};
  Device device = Device::open(name);
  auto x = device.upload(numbers);
  auto y = device.allocate<T>(functions * width), z = device.allocate<T>(functions * width);
  kernel.launch(device.stream(), 1, x, y, z);
  const std::vector<T> constants = y.download(), loaded = z.download();
  for (int f = 0; f < functions; ++f)
    if (T a = constants[std::size_t(f) * width], b = loaded[std::size_t(f) * width]; !agree(a, b))
      return "wrong: function " + std::to_string(which[std::size_t(f)] % (isReal<T> ? 37 : 15)) +
             " of " + std::to_string(double(numbers[f % 3])) + " and " +
             std::to_string(double(numbers[std::size_t((f + 1 + f / 3) % 3)])) + " is " +
             std::to_string(double(a)) + " of constants, and " + std::to_string(double(b)) +
             " of memory";
  return std::nullopt;
}

} // namespace

std::optional<std::string> foldedConstants(uint64_t seed, const std::string &device) {
  for (const std::string &name : {std::string("interpreter"), device}) {
    Draw draw(seed);
    std::optional<std::string> wrong;
    try {
      switch (draw.pick(12)) {
      case 0:
        wrong = check<std::int8_t>(draw, name);
        break;
      case 1:
        wrong = check<std::int16_t>(draw, name);
        break;
      case 2:
        wrong = check<std::int32_t>(draw, name);
        break;
      case 3:
        wrong = check<std::int64_t>(draw, name);
        break;
      case 4:
        wrong = check<std::uint8_t>(draw, name);
        break;
      case 5:
        wrong = check<std::uint32_t>(draw, name);
        break;
      case 6:
        wrong = check<half>(draw, name);
        break;
      case 7:
        wrong = check<double>(draw, name);
        break;
      default:
        wrong = check<float>(draw, name);
      }
    } catch (const Error &error) {
      wrong = error.what();
    }
    if (wrong)
      return *wrong + "\n  on " + name;
  }
  return std::nullopt;
}

} // namespace sectile::fuzz
