// Operations on numbers that the compiler knows, and on the same numbers from memory. Whatever is
// computed ahead of time has to be what the operation gives at run time: to the bit where it is
// exact, and else as near as its error allows, with the same sign, infinity or NaN.
#include "Apply.h"
#include "tests/unit/Processes.h"
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <sectile/approximate.h>

using namespace sectile;
using sectile::test::count;

SECTILE_ON_DEVICES(Constants);

namespace {

using Word = std::uint64_t;

template <class T> constexpr bool isReal = detail::isFloat(detail::kindOf<T>());
template <class T>
using WordOf =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, Word>>>;

// A number of T as a word, in a kernel and on the host, and back to a real.
template <class T> Tile<Word> wordOf(const Tile<T> &x) {
  if constexpr (isReal<T>)
    return cast<Word>(bitcast<WordOf<T>>(x));
  else
    return cast<Word>(x);
}
template <class T> double realOf(Word word) {
  return static_cast<double>(std::bit_cast<T>(static_cast<WordOf<T>>(word)));
}
template <class T> auto literal(T x) {
  if constexpr (isReal<T>)
    return static_cast<double>(x);
  else
    return x;
}

// How many units of a float's last place two results are apart; infinite where they differ in kind.
template <class T> double unitsApart(Word first, Word second) {
  if (first == second)
    return 0;
  if constexpr (!isReal<T>) {
    return INFINITY;
  } else {
    const double a = realOf<T>(first), b = realOf<T>(second);
    if (std::isnan(a) && std::isnan(b))
      return 0;
    if (std::isnan(a) || std::isnan(b) || std::signbit(a) != std::signbit(b))
      return INFINITY;
    using Limits = std::numeric_limits<T>;
    const double least = static_cast<double>(Limits::min()),
                 most = static_cast<double>(Limits::max());
    if (std::isinf(a) != std::isinf(b)) // the largest number is infinity's neighbour
      return std::min(std::abs(a), std::abs(b)) >= most * (1 - 1e-6) ? 1 : INFINITY;
    if (std::max(std::abs(a), std::abs(b)) <= least) // may be 0
      return 1;
    const int exponent =
        std::max(std::ilogb(std::max(std::abs(a), std::abs(b))), Limits::min_exponent - 1);
    return std::abs(a - b) / std::ldexp(1.0, exponent - Limits::digits + 1);
  }
}

template <class T> struct Operation {
  std::string name;
  unsigned arity;
  double bound; // of the error, in units of the last place
  std::function<Tile<Word>(const Tile<T> &, const Tile<T> &, const Tile<T> &)> apply;
  double (*apart)(Word, Word);
};
template <class T> using Operations = std::vector<Operation<T>>;

template <class R, class T, class F>
void add(Operations<T> &all, std::string name, unsigned arity, double bound, F function) {
  Operation<T> operation{std::move(name), arity, bound, nullptr, unitsApart<R>};
  // There are a thousand of these: pointers to functions are much quicker to compile.
  if constexpr (std::is_empty_v<F>)
    operation.apply = +[](const Tile<T> &x, const Tile<T> &y, const Tile<T> &z) {
      return wordOf<R>(F()(x, y, z));
    };
  else
    operation.apply = [function](const Tile<T> &x, const Tile<T> &y, const Tile<T> &z) {
      return wordOf<R>(function(x, y, z));
    };
  all.push_back(std::move(operation));
}
#define ONE(name, bound)                                                                           \
  add<T>(all, #name, 1, bound, [](auto x, auto, auto) { return sectile::name(x); })
#define TEST_OF(name)                                                                              \
  add<bool>(all, #name, 1, 0, [](auto x, auto, auto) { return sectile::name(x); })
#define TWO(name, bound)                                                                           \
  add<T>(all, #name, 2, bound, [](auto x, auto y, auto) { return sectile::name(x, y); })
#define SIGN(sign) add<T>(all, #sign, 2, 0, [](auto x, auto y, auto) { return x sign y; })
#define COMPARE(sign) add<bool>(all, #sign, 2, 0, [](auto x, auto y, auto) { return x sign y; })

template <class To, class T> void addCast(Operations<T> &all, const char *to) {
  add<To>(all, std::string("cast to ") + to, 1, 0, [](auto x, auto, auto) { return cast<To>(x); });
}

template <class T> void addCasts(Operations<T> &all) {
  addCast<bool>(all, "bool");
  addCast<std::int8_t>(all, "int8");
  addCast<std::uint8_t>(all, "uint8");
  addCast<std::int16_t>(all, "int16");
  addCast<std::uint16_t>(all, "uint16");
  addCast<std::int32_t>(all, "int32");
  addCast<std::uint32_t>(all, "uint32");
  addCast<std::int64_t>(all, "int64");
  addCast<std::uint64_t>(all, "uint64");
  addCast<half>(all, "half");
  addCast<bfloat16>(all, "bfloat16");
  addCast<float>(all, "float");
  addCast<double>(all, "double");
  addCast<float8_e4m3>(all, "e4m3");
  addCast<float8_e5m2>(all, "e5m2");
  addCast<float8_e4m3fnuz>(all, "e4m3fnuz");
  addCast<float8_e5m2fnuz>(all, "e5m2fnuz");
  addCast<float8_e4m3b11fnuz>(all, "e4m3b11fnuz");
}

template <class To, class T> void addRoundings(Operations<T> &all, const char *to) {
  if constexpr (sizeof(To) < sizeof(T))
    for (Rounding rounding : {Rounding::nearest_even, Rounding::toward_zero})
      for (Overflow overflow : {Overflow::infinity, Overflow::saturate})
        add<To>(all,
                std::string(rounding == Rounding::toward_zero ? "truncated " : "rounded ") +
                    (overflow == Overflow::saturate ? "saturated " : "") + to,
                1, 0, [=](auto x, auto, auto) { return cast<To>(x, rounding, overflow); });
}

template <class T> Operations<T> operationsOfAll() {
  Operations<T> all;
  SIGN(+);
  SIGN(-);
  SIGN(*);
  COMPARE(==);
  COMPARE(!=);
  COMPARE(<);
  COMPARE(<=);
  COMPARE(>);
  COMPARE(>=);
  TWO(minimum, 0);
  TWO(maximum, 0);
  ONE(abs, 0);
  add<T>(all, "negation", 1, 0, [](auto x, auto, auto) { return -x; });
  add<T>(all, "clamp", 3, 0, [](auto x, auto y, auto z) { return clamp(x, y, z); });
  add<T>(all, "where", 3, 0, [](auto x, auto y, auto z) { return where(x < y, y, z); });
  addCasts(all);
  return all;
}

template <class T> Operations<T> operationsOfReals() {
  Operations<T> all = operationsOfAll<T>();
  const double bound = 16;
  SIGN(/);
  add<T>(all, "fma", 3, 0, [](auto x, auto y, auto z) { return fma(x, y, z); });
  add<T>(all, "minimum with NaN", 2, 0,
         [](auto x, auto y, auto) { return minimum(x, y, Nan::propagate); });
  add<T>(all, "maximum with NaN", 2, 0,
         [](auto x, auto y, auto) { return maximum(x, y, Nan::propagate); });
  ONE(exp, bound);
  ONE(exp2, bound);
  ONE(exp10, bound);
  ONE(expm1, bound);
  ONE(log, bound);
  ONE(log2, bound);
  ONE(log10, bound);
  ONE(log1p, bound);
  ONE(sin, bound);
  ONE(cos, bound);
  ONE(tan, bound);
  ONE(asin, bound);
  ONE(acos, bound);
  ONE(atan, bound);
  ONE(sinh, bound);
  ONE(cosh, bound);
  ONE(tanh, bound);
  ONE(asinh, bound);
  ONE(acosh, bound);
  ONE(atanh, bound);
  ONE(erf, bound);
  ONE(cbrt, bound);
  ONE(sqrt, 0);
  ONE(rsqrt, bound);
  ONE(sigmoid, bound);
  ONE(floor, 0);
  ONE(ceil, 0);
  ONE(round, 0);
  ONE(rint, 0);
  ONE(trunc, 0);
  TEST_OF(isnan);
  TEST_OF(isinf);
  TEST_OF(isfinite);
  TWO(pow, bound);
  TWO(atan2, bound);
  TWO(copysign, 0);
  TWO(fmod, 0);
  TWO(remainder, 0);
  for (int by : {-200, -3, 0, 5, 140})
    add<T>(all, "ldexp by " + std::to_string(by), 1, 0,
           [by](auto x, auto, auto) { return ldexp(x, by); });
  add<WordOf<T>>(all, "bits", 1, 0, [](auto x, auto, auto) { return bitcast<WordOf<T>>(x); });
  addRoundings<half>(all, "half");
  addRoundings<bfloat16>(all, "bfloat16");
  addRoundings<float>(all, "float");
  addRoundings<float8_e4m3>(all, "e4m3");
  addRoundings<float8_e5m2>(all, "e5m2");
  return all;
}

template <class T> Operations<T> operationsOfIntegers() {
  Operations<T> all = operationsOfAll<T>();
  SIGN(&);
  SIGN(|);
  SIGN(^);
  // What is undefined is left out: zeros below, and shifts by the width.
  add<T>(all, "/", 2, 0, [](auto x, auto y, auto) { return x / where(y == 0, 1, y); });
  add<T>(all, "%", 2, 0, [](auto x, auto y, auto) { return x % where(y == 0, 1, y); });
  add<T>(all, "cdiv", 2, 0, [](auto x, auto y, auto) { return cdiv(x, where(y == 0, 1, y)); });
  constexpr int last = 8 * static_cast<int>(sizeof(T)) - 1;
  add<T>(all, "<<", 2, 0, [](auto x, auto y, auto) { return x << (y & last); });
  add<T>(all, ">>", 2, 0, [](auto x, auto y, auto) { return x >> (y & last); });
  add<T>(all, "~", 1, 0, [](auto x, auto, auto) { return ~x; });
  TWO(mulhi, 0);
  add<std::int32_t>(all, "popcount", 1, 0, [](auto x, auto, auto) { return popcount(x); });
  add<std::int32_t>(all, "clz", 1, 0, [](auto x, auto, auto) { return clz(x); });
  add<std::int32_t>(all, "ctz", 1, 0, [](auto x, auto, auto) { return ctz(x); });
  add<std::int32_t>(all, "ffs", 1, 0, [](auto x, auto, auto) { return ffs(x); });
  ONE(brev, 0);
  return all;
}

template <class T> std::vector<T> specials() {
  using Limits = std::numeric_limits<T>;
  if constexpr (isReal<T>) {
    std::vector<T> values = {T(0.0f),   T(-0.0f), T(1.0f),   T(-1.0f),   T(0.5f),
                             T(-0.5f),  T(1.5f),  T(-2.5f),  T(2.0f),    T(3.0f),
                             T(-10.0f), T(0.1f),  T(100.0f), T(-300.0f), T(1e4f)};
    values.insert(values.end(), {Limits::infinity(), T(-static_cast<float>(Limits::infinity())),
                                 Limits::quiet_NaN(), Limits::max(), Limits::lowest(),
                                 Limits::min(), Limits::denorm_min()});
    if constexpr (sizeof(T) >= 4)
      values.insert(values.end(), {T(3e9f), T(-3e9f), T(1e19f), T(-1e19f), T(1e30f), T(65520),
                                   T(464), T(0x1.01p-9), -Limits::denorm_min(), -Limits::min()});
    return values;
  } else {
    std::vector<T> values = {T(0),
                             T(1),
                             T(2),
                             T(3),
                             T(7),
                             T(100),
                             T(-1),
                             T(-2),
                             T(-100),
                             Limits::min(),
                             Limits::max(),
                             T(Limits::max() - 1),
                             T(Limits::max() / 2 + 1)};
    return values;
  }
}

// Which operands are constants, by bits, for so many operands.
std::vector<unsigned> masksOf(unsigned arity) {
  return arity == 1   ? std::vector<unsigned>{1}
         : arity == 2 ? std::vector<unsigned>{3, 1, 2}
                      : std::vector<unsigned>{7, 1, 2, 4, 6};
}

constexpr int lanes = 32;

template <class T> struct Inputs {
  std::vector<T> operands[3];
  unsigned count = 0;

  std::string describe(unsigned i, unsigned arity) const {
    std::string text;
    for (unsigned k = 0; k < arity; ++k)
      text += (k ? ", " : "") + std::to_string(literal(operands[k][i]));
    return text;
  }
};

// Each special number for operations of one; combinations of them for the others.
template <class T> Inputs<T> draw(unsigned arity, unsigned wanted, std::mt19937_64 &random) {
  Inputs<T> inputs;
  std::vector<T> values = specials<T>();
  std::shuffle(values.begin(), values.end(), random);
  inputs.count =
      std::min<unsigned>(arity == 1 ? static_cast<unsigned>(values.size()) : wanted, lanes);
  for (auto &operand : inputs.operands)
    for (unsigned i = 0; i < lanes; ++i)
      operand.push_back(&operand == inputs.operands ? values[i % values.size()]
                                                    : values[random() % values.size()]);
  // Pairs of zeros are where most functions have a case of their own.
  for (unsigned i = 0; arity > 1 && isReal<T> && i < 4; ++i)
    for (unsigned k = 0; k < 3; ++k)
      inputs.operands[k][i] = T(i >> (k % 2) & 1 ? -0.0f : 0.0f);
  return inputs;
}

template <class T>
void check(const Device &device, const Operation<T> &operation, unsigned wanted,
           std::mt19937_64 &random) {
  const Inputs<T> inputs = draw<T>(operation.arity, wanted, random);
  const std::vector<unsigned> masks = masksOf(operation.arity);
  Kernel kernel{"constants", [&](Ptr<const T> x, Ptr<const T> y, Ptr<const T> z, Ptr<Word> out) {
                  auto lane = arange(0, lanes);
                  const Tile<T> known[3] = {load(x + lane), load(y + lane), load(z + lane)};
                  store(out + lane, operation.apply(known[0], known[1], known[2]));
                  for (std::size_t m = 0; m < masks.size(); ++m) {
                    Tile<Word> all = zeros<Word>(lanes);
                    for (unsigned i = 0; i < inputs.count; ++i) {
                      auto operand = [&](unsigned k) {
                        return masks[m] >> k & 1 ? full<T>(literal(inputs.operands[k][i]), lanes)
                                                 : known[k];
                      };
                      all = where(lane == static_cast<int>(i),
                                  operation.apply(operand(0), operand(1), operand(2)), all);
                    }
                    store(out + (static_cast<int>(m + 1) * lanes + lane), all);
                  }
                }};
  auto out = device.allocate<Word>(lanes * (masks.size() + 1));
  kernel.launch(device.stream(), 1, device.upload(inputs.operands[0]),
                device.upload(inputs.operands[1]), device.upload(inputs.operands[2]), out,
                {.warps = 1});
  const std::vector<Word> got = out.download();
  for (std::size_t m = 0; m < masks.size(); ++m)
    for (unsigned i = 0; i < inputs.count; ++i) {
      const Word fromMemory = got[i], folded = got[(m + 1) * lanes + i];
      EXPECT_LE(operation.apart(fromMemory, folded), operation.bound)
          << operation.name << " of " << name_of(dtype_of<T>) << " "
          << inputs.describe(i, operation.arity) << " with constants " << masks[m] << ": "
          << std::hex << folded << ", from memory " << fromMemory;
    }
}

template <class T> void checkAll(const Device &device, const Operations<T> &operations) {
  std::mt19937_64 random(sizeof(T) + 7);
  for (unsigned round = 0; round < count(1, 20); ++round)
    for (const Operation<T> &operation : operations)
      check(device, operation, operation.bound ? 10 : 20, random);
}

template <class T> void checkCastsOf8Bits(const Device &device) {
  Operations<T> operations;
  addCasts(operations);
  std::mt19937_64 random(5);
  for (const Operation<T> &operation : operations)
    check(device, operation, 20, random);
}

} // namespace

TEST_P(Constants, Floats) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  checkAll(device, operationsOfReals<float>());
}
TEST_P(Constants, Doubles) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  checkAll(device, operationsOfReals<double>());
}
TEST_P(Constants, Halves) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  checkAll(device, operationsOfReals<half>());
}
TEST_P(Constants, BFloats) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  checkAll(device, operationsOfReals<bfloat16>());
}
TEST_P(Constants, FloatsOf8Bits) {
  checkCastsOf8Bits<float8_e4m3>(device);
  checkCastsOf8Bits<float8_e5m2>(device);
  checkCastsOf8Bits<float8_e4m3fnuz>(device);
  checkCastsOf8Bits<float8_e5m2fnuz>(device);
  checkCastsOf8Bits<float8_e4m3b11fnuz>(device);
}
TEST_P(Constants, Integers) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  checkAll(device, operationsOfIntegers<std::int8_t>());
  checkAll(device, operationsOfIntegers<std::uint32_t>());
  checkAll(device, operationsOfIntegers<std::int64_t>());
}
TEST_P(Constants, OtherIntegers) {
  if (count(0, 1) == 0)
    GTEST_SKIP() << "only with --all";
  checkAll(device, operationsOfIntegers<std::uint8_t>());
  checkAll(device, operationsOfIntegers<std::int16_t>());
  checkAll(device, operationsOfIntegers<std::uint16_t>());
  checkAll(device, operationsOfIntegers<std::int32_t>());
  checkAll(device, operationsOfIntegers<std::uint64_t>());
}
