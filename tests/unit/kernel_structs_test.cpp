// Structs of traced values as parameters of kernels and functions: results, keys, tuning, owners.
// Fields are found with SECTILE_STRUCT and without it.
#include "ops/Devices.h"
#include "tests/unit/Message.h"
#include <gmock/gmock.h>
#include <sectile/autotune.h>
#include <sectile/gemm.h>
#include <sectile/sectile.h>
#include <set>

namespace sc = sectile;
using sc::test::message;
using testing::HasSubstr;

namespace {

struct Matrix {
  sc::View<const sc::half, 2> values;
  sc::View<const float, 1> scales;
  sc::Int offset;
};
SECTILE_STRUCT(Matrix, values, scales, offset)

template <class T> struct Outputs {
  sc::Ptr<T> first;
  sc::View<T, 2> second;
};
template <class T>
SECTILE_STRUCT(Outputs<T>, first, second)

struct Nothing {};
SECTILE_STRUCT(Nothing)

template <class T, int N> struct Shifted {
  sc::View<const T, N> values;
  Nothing nothing;
  sc::Tile<T> shift;
};
template <class T, int N>
SECTILE_STRUCT((Shifted<T, N>), values, nothing, shift)

struct Numbers {
  sc::Float factor;
  sc::Bool negate;
};

struct Everything {
  Numbers numbers;
  Outputs<float> outputs;
  sc::Tile<std::int16_t> step;
};

struct Cursor {
  sc::Ptr<const float> at;
  sc::Int left;
};

struct Walk {
  Cursor cursor;
};

struct Block {
  int size = 16;
};

using Mixed = sc::detail::Signature<decltype([](sc::Int, Matrix, const Everything &, Matrix,
                                                const Block &) {})>;
// n; a: 0 to 2; all: two numbers, a pointer, a view, a number; b.
static_assert(Mixed::args_count == 4 && Mixed::args.size() == 1 + 3 + 5 + 3);
static_assert(Mixed::first == std::array<std::size_t, 5>{0, 1, 10, 19, 28});
static_assert(Mixed::args[1].readonly && Mixed::args[1].rank == 2 && !Mixed::args[7].readonly);
static_assert(Mixed::args[3].kind == sc::detail::ArgKind::index);
static_assert(Mixed::args[8].dtype == sc::DType::int16);

using Empty = sc::detail::Signature<decltype([](Nothing, Shifted<float, 1>, Nothing) {})>;
static_assert(Empty::args_count == 3 && Empty::args.size() == 2);
static_assert(Empty::first == std::array<std::size_t, 4>{0, 0, 4, 4});

class KernelStructs : public sc::test::OnDevice {
protected:
  sc::Stream stream = device.stream();
  template <class T> static std::vector<T> count(std::size_t size, float from) {
    std::vector<T> values(size);
    for (std::size_t i = 0; i < size; ++i)
      values[i] = static_cast<T>(from + static_cast<float>(i % 64));
    return values;
  }
};
SECTILE_INSTANTIATE_ON(KernelStructs);

// Two structs of one type, with what is in braces and what is kept.
sc::Kernel combine{"combine", [](Matrix a, Matrix b, sc::View<float, 2> c, sc::Float alpha) {
                     auto scaled = [](const Matrix &m) {
                       return sc::cast<float>(m.values.tile(16, 16).load(0, 0)) *
                                  sc::expand(m.scales.tile(16).load(0), 1) +
                              m.offset;
                     };
                     c.tile(16, 16).store(0, 0, scaled(a) - alpha * scaled(b));
                   }};

TEST_P(KernelStructs, TwoOfOneType) {
  const auto x = count<sc::half>(256, 1), y = count<sc::half>(256, -20);
  const auto s = count<float>(16, 3), t = count<float>(16, -5);
  const auto left = sc::tensor(device.upload(x), {16, 16}),
             right = sc::tensor(device.upload(y), {16, 16});
  const auto ofLeft = device.upload(s), ofRight = device.upload(t);
  const auto c = sc::tensor(device.allocate<float>(256), {16, 16});
  const sc::Arguments<Matrix> kept{left, ofLeft, 7};
  auto copied = kept;
  for (int launch = 0; launch < 2; ++launch) {
    if (launch == 0)
      combine.launch(stream, 1, copied, {right.transpose(), ofRight, -2}, c, 0.5f);
    else // the other way round
      combine.launch(stream, 1, {right.transpose(), ofRight, -2}, kept, c, 0.5f);
    const std::vector<float> got = c.download();
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 16; ++j) {
        const float a = static_cast<float>(x[16 * i + j]) * s[i] + 7;
        const float b = static_cast<float>(y[16 * j + i]) * t[i] - 2;
        ASSERT_EQ(got[16 * i + j], launch ? b - 0.5f * a : a - 0.5f * b) << i << ", " << j;
      }
  }
}

TEST_P(KernelStructs, NestedWithSeveralOutputs) {
  sc::Kernel kernel{
      "nested", [](sc::Ptr<const float> x, Everything all, sc::Int n, const Block &block) {
        const auto i = sc::arange(0, block.size);
        const auto value = sc::load(x + i, i < n) * all.numbers.factor + all.step;
        sc::store(all.outputs.first + i, sc::where(all.numbers.negate, -value, value), i < n);
        all.outputs.second.tile(4, 4).store(0, 0, sc::reshape(value, 4, 4));
      }};
  const auto x = count<float>(16, 0);
  const auto from = device.upload(x);
  const auto first = device.allocate<float>(16);
  const auto second = sc::tensor(device.allocate<float>(16), {4, 4});
  const sc::Arguments<Outputs<float>> outputs{first, second};
  auto check = [&](bool negate, float step) {
    const auto a = first.download(), b = second.download();
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(a[i], (negate ? -1 : 1) * (3 * x[i] + step));
      EXPECT_EQ(b[i], 3 * x[i] + step);
    }
  };
  kernel.launch(stream, 1, from, {{3, true}, {first, second}, 5}, 16);
  check(true, 5);
  kernel.launch(stream, 1, from, {{3, false}, outputs, -6}, 16, {.size = 16});
  check(false, -6);
  const sc::Arguments<Everything> all{{3, true}, outputs, 9};
  kernel.launch(stream, 1, from, all, 16, {}, {.warps = 1});
  check(true, 9);
  sc::PreparedLaunch again(device, kernel.bind(1, from, {{3, true}, outputs, 11}, 16));
  again.launch(stream);
  check(true, 11);
}

TEST_P(KernelStructs, MembersAreAssignedInLoops) {
  sc::Kernel kernel{"walk", [](Walk walk, sc::Ptr<float> out) {
                      const Walk start = walk;
                      Cursor copy = walk.cursor;
                      sc::Float total = 0;
                      sc::loop_while([&] { return copy.left > 0; },
                                     [&] {
                                       total += sc::load(copy.at);
                                       copy = {copy.at + 2, copy.left - 2};
                                     });
                      for (auto i : sc::range(walk.cursor.left)) {
                        walk.cursor.at += 1;
                        walk.cursor.left = i;
                      }
                      sc::store(out, total);
                      sc::store(out + 1, sc::load(walk.cursor.at - 1) + walk.cursor.left);
                      sc::store(out + 2, sc::load(start.cursor.at) + start.cursor.left);
                    }};
  const auto out = device.allocate<float>(3);
  const auto x = device.upload(count<float>(10, 1)); // 1 to 10
  kernel.launch(stream, 1, {{x, 10}}, out);
  EXPECT_EQ(out.download(), (std::vector<float>{1 + 3 + 5 + 7 + 9, 10 + 9, 1 + 10}));
}

const sc::Function step{"step", [](Walk walk, int by) {
                          walk.cursor.at += by;
                          walk.cursor.left -= by;
                          return walk;
                        }};
const sc::Function halves{"halves", [](const Cursor &cursor, sc::Float scale) {
                            const auto middle = cursor.left / 2;
                            return std::tuple(Cursor{cursor.at, middle}, scale * 2,
                                              Cursor{cursor.at + middle, cursor.left - middle});
                          }};

TEST_P(KernelStructs, ParametersAndResultsOfFunctions) {
  sc::Kernel kernel{"functions", [](Cursor cursor, sc::Ptr<float> out) {
                      const auto stepped = step(step({cursor}, 1), 2).cursor;
                      sc::store(out, sc::load(stepped.at) + stepped.left);
                      auto [low, scale, high] = halves(cursor, 4);
                      sc::store(out + 1, sc::load(low.at) + low.left);
                      sc::store(out + 2, (sc::load(high.at) + high.left) * scale);
                    }};
  const auto out = device.allocate<float>(3);
  const auto x = device.upload(count<float>(9, 1)); // 1 to 9
  kernel.launch(stream, 1, {x, 9}, out);
  EXPECT_EQ(out.download(), (std::vector<float>{4 + 6, 1 + 4, 8 * (5 + 5)}));
}

// An empty struct has no arguments, and its functions get it all the same.
sc::Function passed{"passed", [](Nothing nothing, Shifted<float, 1> shifted) {
                      return std::tuple(shifted, nothing);
                    }};

TEST_P(KernelStructs, EmptyOnesAndThoseOfTwoParameters) {
  sc::Kernel kernel{"shift", [](Nothing nothing, Shifted<float, 1> x, sc::View<float, 1> out) {
                      auto [shifted, none] = passed(nothing, x);
                      passed(none, shifted);
                      out.tile(16).store(0, shifted.values.tile(16).load(0) + shifted.shift);
                    }};
  const auto values = count<float>(16, 1);
  const auto x = device.upload(values), out = device.allocate<float>(16);
  kernel.launch(stream, 1, {}, {x, {}, 2.5f}, out);
  const std::vector<float> got = out.download();
  for (std::size_t i = 0; i < 16; ++i)
    ASSERT_EQ(got[i], values[i] + 2.5f) << i;
}

// Keys

sc::Kernel sum{"sum", [](Cursor a, Cursor b, sc::Ptr<float> out) {
                 sc::store(out, sc::load(a.at) + sc::load(b.at) + (a.left - b.left));
               }};

TEST(KernelStructKeys, SayWhatTheFieldsAreSpecialisedTo) {
  const sc::Device device = sc::Device::open("virtual:sm_90a");
  const auto x = device.upload(std::vector<float>(64, 1));
  const auto out = device.allocate<float>(1);
  auto key = [&](const sc::Arguments<Cursor> &a, const sc::Arguments<Cursor> &b) {
    return sum.cache_key(device, a, b, out);
  };
  const std::string aligned = key({x, 3}, {x, 3});
  EXPECT_EQ(key({x, 3}, {x, 3}), aligned);
  EXPECT_EQ(key({x, 5}, {x, 7}), aligned) << "other values of one kind";
  const std::string first = key({x.slice(1, 8), 3}, {x, 3}),
                    second = key({x, 3}, {x.slice(1, 8), 3}), integer = key({x, 16}, {x, 3});
  const std::set<std::string> all{aligned, first, second, integer, key({x, 3}, {x, 16})};
  EXPECT_EQ(all.size(), 5u);
}

TEST(KernelStructKeys, CodeOfOneKindIsNotThatOfAnother) {
  const sc::Device device = sc::Device::open("virtual:sm_90a");
  const auto x = device.upload(std::vector<float>{1, 2, 3, 4});
  const auto out = device.allocate<float>(1);
  auto run = [&](const sc::Arguments<Cursor> &a, const sc::Arguments<Cursor> &b) {
    sum.launch(device.stream(), 1, a, b, out);
    return out.download()[0];
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(run({x, 1}, {x, 3}), 1 + 1 + 1 - 3);
    EXPECT_EQ(run({x, 16}, {x.slice(1, 2), 1}), 1 + 2 + 16 - 1);
    EXPECT_EQ(run({x.slice(1, 2), 1}, {x, 16}), 2 + 1 + 1 - 16);
    EXPECT_EQ(run({x.slice(3, 1), (std::int64_t{1} << 31) + 2}, {x, std::int64_t{1} << 31}),
              4 + 1 + 2);
  }
}

// Owners

TEST(KernelStructOwners, MessagesCountFieldsOneByOne) {
  const sc::Device device = sc::Device::open("virtual:sm_90a"),
                   other = sc::Device::open("virtual:sm_80");
  const auto here = device.upload(std::vector<float>(4, 1)),
             there = other.upload(std::vector<float>(4, 1));
  const auto result = device.allocate<float>(1);
  auto run = [&](const sc::Arguments<Cursor> &a, const sc::Arguments<Cursor> &b,
                 const sc::Buffer<float> &out) {
    return message<sc::LaunchError>([&] { sum.launch(device.stream(), 1, a, b, out); });
  };
  EXPECT_EQ(run({there, 1}, {here, 1}, result),
            "kernel 'sum': argument 0 lies on virtual:sm_80, the stream is one of virtual:sm_90a");
  EXPECT_THAT(run({here, 1}, {there, 1}, result), HasSubstr("argument 2 lies on virtual:sm_80"));
  EXPECT_THAT(run({here, 1}, {here, 1}, there), HasSubstr("argument 4 lies on virtual:sm_80"));
  EXPECT_EQ(run({here, 1}, {here, 1}, result), "nothing was thrown");
  // Memory after a number.
  sc::Kernel last{"last", [](Everything all) { sc::store(all.outputs.first, all.numbers.factor); }};
  const auto wrong = other.allocate<float>(16);
  EXPECT_THAT(message<sc::LaunchError>([&] {
                last.launch(device.stream(), 1,
                            {{1, false}, {result, sc::tensor(wrong, {4, 4})}, 1});
              }),
              HasSubstr("argument 3 lies on virtual:sm_80"));
  EXPECT_THAT(
      message<sc::LaunchError>([&] { const sc::Arguments<Cursor> large{here, ~std::uint64_t{0}}; }),
      HasSubstr("does not fit into i64"));
}

// Tuning

struct Guess {
  int size = 16, error = 0;
};

struct Copy {
  sc::Ptr<const float> from;
  sc::Int n;
  sc::Ptr<float> to;
};

TEST(KernelStructTuning, FindsOutputsInStructs) {
  sc::Kernel kernel{"tuned_copies", [](Copy a, Copy b, const Guess &guess) {
                      const auto i = sc::program_id(0) * guess.size + sc::arange(0, guess.size);
                      sc::store(a.to + i, sc::load(a.from + i, i < a.n), i < a.n);
                      sc::store(b.to + i, sc::load(b.from + i, i < b.n) + float(guess.error),
                                i < b.n);
                    }};
  const sc::Device device = sc::Device::open("virtual:sm_90a");
  const auto x = device.upload(std::vector<float>(64, 3)),
             y = device.upload(std::vector<float>(64, 4)),
             z = device.upload(std::vector<float>(64, 5));
  const sc::Arguments<Copy> first{x, 64, y}, second{x, 64, z};
  auto grid = [](const Guess &guess) { return 64 / guess.size; };
  sc::AutotuneOptions options;
  options.quiet = true;
  options.mode = sc::AutotuneMode::on;
  auto verdicts = [&](std::optional<std::vector<std::size_t>> outputs) {
    options.outputs = std::move(outputs);
    sc::Autotuner tuned{kernel, sc::space(&Guess::error, {0, 1}), options};
    std::vector<sc::TuneVerdict> result;
    const sc::TuneReport report = tuned.tune(device.stream(), grid, first, second);
    EXPECT_EQ(report.bucket, (sc::NamedExtents{{"1", 64}, {"4", 64}}));
    for (const auto &row : report.rows)
      result.push_back(row.verdict);
    EXPECT_EQ(y.download(), std::vector<float>(64, 4));
    EXPECT_EQ(z.download(), std::vector<float>(64, 5));
    return result;
  };
  using enum sc::TuneVerdict;
  EXPECT_EQ(verdicts(std::nullopt), (std::vector{good, wrong}));
  EXPECT_EQ(verdicts({{2, 5}}), (std::vector{good, wrong}));
  EXPECT_THAT(message<sc::LaunchError>([&] { verdicts({{4}}); }),
              HasSubstr("argument 4 is named as an output, but is no Ptr or View"));

  options.outputs.reset();
  sc::Autotuner own{kernel, sc::space(&Guess::size, {16, 32}), options};
  own.launch(device.stream(), grid, first, {x, 64, z});
  EXPECT_EQ(y.download(), std::vector<float>(64, 3));
  EXPECT_EQ(z.download(), std::vector<float>(64, 3));
}

// gemm

struct Bias {
  sc::View<const float, 1> columns;
  sc::Float factor;
};

TEST(KernelStructGemm, OperandsOfEpilogues) {
  const sc::Device device = sc::Device::open("virtual:sm_90a");
  const auto a = sc::tensor(device.upload(std::vector<sc::half>(64 * 32, sc::half(0.5f))),
                            {64, 32}),
             b = sc::tensor(device.upload(std::vector<sc::half>(32 * 64, sc::half(2.f))), {32, 64});
  const auto c = sc::tensor(device.allocate<float>(64 * 64), {64, 64});
  std::vector<float> bias(64);
  for (std::size_t j = 0; j < 64; ++j)
    bias[j] = static_cast<float>(j);
  sc::gemm(
      device.stream(), a, b, c,
      [](const sc::Tile<float> &sums, const sc::GemmPosition &at, const Bias &bias) {
        return sums * bias.factor + at.per_column(bias.columns);
      },
      sc::Arguments<Bias>{device.upload(bias), 3});
  const std::vector<float> got = c.download();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], 3 * 32 + bias[i % 64]) << i;
}

} // namespace
