// gemm(): epilogues that are lambdas, in every schedule, against sums of whole numbers in float64.
#include "../ops/Devices.h"
#include "kernels/registry/Registry.h"
#include "tests/unit/LoopPlans.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <gmock/gmock.h>
#include <sectile/gemm.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

class Gemm : public test::OnDevice {};
SECTILE_INSTANTIATE_ON(Gemm, "interpreter,virtual:sm_90,virtual:sm_90a,virtual:gfx942");

// Whole numbers from -3 to 3, which every type of an operand has.
double number(std::int64_t index, int salt) {
  return (static_cast<std::uint32_t>(index) / 5 * 3 + static_cast<std::uint32_t>(salt) * 4) % 7 -
         3.0;
}

template <class T> std::vector<T> numbers(std::int64_t count, int salt) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<T>(static_cast<float>(number(i, salt))));
  return values;
}

struct Extents {
  std::int64_t m, n, k;
};

// The exact sum at (i, j) of numbers(…, 1) [M, K] times numbers(…, 2) [K, N].
double sumAt(const Extents &of, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t k = 0; k < of.k; ++k)
    sum += number(i * of.k + k, 1) * number(k * of.n + j, 2);
  return sum;
}

template <class T> Tensor<T, 2> left(const Device &device, const Extents &of) {
  return tensor(device.upload(numbers<T>(of.m * of.k, 1)), {of.m, of.k});
}
template <class T> Tensor<T, 2> right(const Device &device, const Extents &of) {
  return tensor(device.upload(numbers<T>(of.k * of.n, 2)), {of.k, of.n});
}
template <class T> Tensor<T, 2> poisoned(const Device &device, const Extents &of) {
  const auto buffer = device.allocate<T>(static_cast<std::size_t>(of.m * of.n));
  buffer.poison();
  return tensor(buffer, {of.m, of.n});
}

// Sums are exact: what is left is the rounding of the epilogue, in f32, and of the result.
template <class T, class Want>
void expectNear(const Tensor<T, 2> &c, const Want &want, const std::string &what) {
  const std::vector<T> got = Buffer<T>(c.memory()).download();
  const double half_unit = std::same_as<T, half>       ? 0x1p-11
                           : std::same_as<T, bfloat16> ? 0x1p-8
                                                       : 0x1p-20;
  for (std::int64_t i = 0; i < c.extent(0); ++i)
    for (std::int64_t j = 0; j < c.extent(1); ++j) {
      const double exact = want(i, j);
      const auto value = static_cast<double>(
          static_cast<float>(got[static_cast<std::size_t>(i * c.extent(1) + j)]));
      ASSERT_NEAR(value, exact, std::fabs(exact) * half_unit + 2e-5)
          << what << " at (" << i << ", " << j << ")";
    }
}

struct Way {
  const char *name;
  GemmOptions options;
};
// Each schedule on small tiles, the persistent one with fewer programs than tiles, and what the
// library chooses.
const std::vector<Way> &ways() {
  static const std::vector<Way> all = [] {
    std::map<std::string, std::int64_t> tile{{"m", 64},       {"n", 32},        {"k", 32},
                                             {"warps", 4},    {"stages", 3},    {"splits", 1},
                                             {"programs", 4}, {"persistent", 0}};
    auto with = [&](const char *field, std::int64_t value) {
      auto config = tile;
      config[field] = value;
      return config;
    };
    return std::vector<Way>{{"tiles", {.config = tile}},
                            {"persistent", {.config = with("persistent", 1)}},
                            {"splits", {.config = with("splits", 3)}},
                            {"copied", {.config = with("copy_first", 1)}},
                            {"stream_k", {GemmSchedule::stream_k, false, tile}},
                            {"defaults", {}}};
  }();
  return all;
}

const Extents odd{200, 136, 160}, uneven{131, 77, 101};

TEST_P(Gemm, BiasAndGelu) {
  for (const Extents &of : {odd, uneven})
    for (const Way &way : ways()) {
      const auto c = poisoned<half>(device, of);
      const auto bias = device.upload(numbers<half>(of.n, 3));
      gemm(
          device.stream(), way.options, left<half>(device, of), right<half>(device, of), c,
          [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias,
             Float scale) {
            const Tile<float> x = sums * scale + at.per_column(bias);
            return 0.5 * x * (1.0 + erf(x * 0.7071067811865476));
          },
          bias, 1.0 / 64);
      expectNear(
          c,
          [&](std::int64_t i, std::int64_t j) {
            const double x = sumAt(of, i, j) / 64 + number(j, 3);
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
          },
          way.name);
    }
}

// An epilogue that looks at a whole tile's columns says how many these are, and gets no fewer where
// programs share its sums.
TEST_P(Gemm, TilesOfTheExtentsThatTheCallerGives) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const auto &[m, n] : {std::pair(16, 64), std::pair(64, 64), std::pair(32, 48)}) {
    const Extents of{70, n, 160};
    const auto c = poisoned<float>(device, of);
    gemm(
        device.stream(),
        {.config = {{"m", m}, {"n", n}, {"k", 32}, {"warps", 4}, {"splits", 3}, {"persistent", 0}}},
        left<half>(device, of), right<half>(device, of), c,
        [](const Tile<float> &sums, const GemmPosition &) {
          return sums - expand(max(sums, 1), 1);
        });
    expectNear(
        c,
        [&](std::int64_t i, std::int64_t j) {
          double most = -std::numeric_limits<double>::infinity();
          for (std::int64_t other = 0; other < of.n; ++other)
            most = std::max(most, sumAt(of, i, other));
          return sumAt(of, i, j) - most;
        },
        "splits");
  }
}

TEST_P(Gemm, RowScale) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  for (const Way &way : ways()) {
    const auto c = poisoned<float>(device, odd);
    const auto scale = tensor(device.upload(numbers<float>(odd.m, 4)), {odd.m});
    gemm(
        device.stream(), way.options, left<bfloat16>(device, odd), right<bfloat16>(device, odd), c,
        [](const Tile<float> &sums, const GemmPosition &at, View<const float, 1> scale) {
          return sums * at.per_row(scale);
        },
        scale);
    expectNear(
        c, [&](std::int64_t i, std::int64_t j) { return sumAt(odd, i, j) * number(i, 4); },
        way.name);
  }
}

TEST_P(Gemm, MaskByIndices) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const Way &way : ways()) {
    const auto c = poisoned<half>(device, odd);
    gemm(
        device.stream(), way.options, left<half>(device, odd), right<half>(device, odd), c,
        [](const Tile<float> &sums, const GemmPosition &at, Int above) {
          return where(at.columns() <= at.rows() + above, sums, -1);
        },
        5);
    expectNear(
        c, [&](std::int64_t i, std::int64_t j) { return j <= i + 5 ? sumAt(odd, i, j) : -1; },
        way.name);
  }
}

// The matrix that is added is c itself, too.
TEST_P(Gemm, Residual) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  for (const bool inPlace : {false, true})
    for (const Way &way : ways()) {
      const auto residual = tensor(device.upload(numbers<half>(odd.m * odd.n, 5)), {odd.m, odd.n});
      const auto c = inPlace ? residual : poisoned<half>(device, odd);
      gemm(
          device.stream(), way.options, left<half>(device, odd), right<half>(device, odd), c,
          [](const Tile<float> &sums, const GemmPosition &at, View<const half, 2> residual,
             Float beta) { return sums + beta * at.load(residual); },
          residual, 0.5f);
      expectNear(
          c,
          [&](std::int64_t i, std::int64_t j) {
            return sumAt(odd, i, j) + 0.5 * number(i * odd.n + j, 5);
          },
          way.name);
    }
}

// Two results, one of them through a pointer.
TEST_P(Gemm, EpilogueThatStores) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  for (const Way &way : ways()) {
    const auto positive = poisoned<half>(device, odd);
    const auto squares = poisoned<float>(device, odd);
    gemm(
        device.stream(), way.options, left<half>(device, odd), right<half>(device, odd),
        [](const Tile<float> &sums, const GemmPosition &at, View<half, 2> positive,
           Ptr<float> squares) {
          at.store(positive, maximum(sums, 0));
          const Int rows = positive.extent(0), columns = positive.extent(1);
          store(squares + at.rows() * columns + at.columns(), sums * sums,
                at.rows() < rows && at.columns() < columns);
        },
        positive, squares.data());
    expectNear(
        positive, [&](std::int64_t i, std::int64_t j) { return std::fmax(sumAt(odd, i, j), 0); },
        way.name);
    expectNear(
        squares,
        [&](std::int64_t i, std::int64_t j) { return sumAt(odd, i, j) * sumAt(odd, i, j); },
        way.name);
  }
}

// One result, which is read where it is stored too, beside a vector and a number in a struct.
struct Added {
  View<float, 2> sum;
  View<const float, 1> bias;
  Float scale;
};
SECTILE_STRUCT(Added, sum, bias, scale)

TEST_P(Gemm, EpilogueThatAddsInPlace) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  for (const Extents &of : {odd, uneven})
    for (const Way &way : ways()) {
      const auto sum = tensor(device.upload(numbers<float>(of.m * of.n, 5)), {of.m, of.n});
      const auto bias = tensor(device.upload(numbers<float>(of.n, 3)), {of.n});
      gemm(
          device.stream(), way.options, left<half>(device, of), right<half>(device, of),
          [](const Tile<float> &sums, const GemmPosition &at, const Added &to) {
            at.store(to.sum, at.load(to.sum) + to.scale * (sums + at.per_column(to.bias)));
          },
          Arguments<Added>{sum, bias, 0.5f});
      expectNear(
          sum,
          [&](std::int64_t i, std::int64_t j) {
            return number(i * of.n + j, 5) + 0.5 * (sumAt(of, i, j) + number(j, 3));
          },
          way.name);
    }
}

// What is known when the kernel is traced: each value has code of its own.
struct Steps {
  int count = 1;
  bool negate = false;
};
SECTILE_CONFIG(Steps, count, negate)

TEST_P(Gemm, ConfigurationOfTheEpilogue) {
  const Extents of{70, 66, 40};
  auto epilogue = [](const Tile<float> &sums, const GemmPosition &, Float by, const Steps &steps) {
    Tile<float> x = sums;
    for (int i = 0; i < steps.count; ++i)
      x = x * by;
    return steps.negate ? -x : x;
  };
  auto expect = [&](double factor, const auto &...operands) {
    const auto c = poisoned<float>(device, of);
    gemm(device.stream(), left<half>(device, of), right<half>(device, of), c, epilogue,
         operands...);
    expectNear(c, [&](std::int64_t i, std::int64_t j) { return factor * sumAt(of, i, j); }, "");
  };
  expect(2, 2.0f);
  expect(8, 2.0f, Steps{.count = 3});
  expect(-4, 2.0f, Steps{2, true});
}

TEST_P(Gemm, TypesAndTransposedOperands) {
  const Extents of{70, 66, 100};
  auto run = [&]<class T>(T) {
    const auto a = left<T>(device, of), b = right<T>(device, of);
    // The same matrices, stored the other way round.
    std::vector<T> turned(static_cast<std::size_t>(of.k * of.n));
    for (std::int64_t k = 0; k < of.k; ++k)
      for (std::int64_t j = 0; j < of.n; ++j)
        turned[static_cast<std::size_t>(j * of.k + k)] =
            static_cast<T>(static_cast<float>(number(k * of.n + j, 2)));
    const auto alongK = tensor(device.upload(turned), {of.n, of.k}).transpose();
    for (const auto &second : {b, alongK})
      for (const bool exact : {false, true}) {
        const auto c = poisoned<float>(device, of);
        gemm(device.stream(), {.exact = exact}, a, second, c,
             [](const Tile<float> &sums, const GemmPosition &) { return sums + 1; });
        expectNear(
            c, [&](std::int64_t i, std::int64_t j) { return sumAt(of, i, j) + 1; },
            std::string(name_of(dtype_of<T>)));
      }
  };
  run(half());
  run(bfloat16());
  run(float());
  run(float8_e4m3());
  run(float8_e5m2());
  run(std::int8_t());
}

// Sums of int8 as they are, brought back to int8.
TEST_P(Gemm, IntegersToIntegers) {
  SECTILE_LEAVE_TO_OTHERS("virtual:gfx942");
  const Extents of{70, 66, 100};
  for (const Way &way : ways()) {
    const auto c = poisoned<std::int8_t>(device, of);
    gemm(
        device.stream(), way.options, left<std::int8_t>(device, of), right<std::int8_t>(device, of),
        c,
        [](const Tile<std::int32_t> &sums, const GemmPosition &at,
           View<const std::int32_t, 1> offsets) {
          return minimum(maximum((sums + at.per_column(offsets)) >> 2, -128), 127);
        },
        device.upload(numbers<std::int32_t>(of.n, 3)));
    expectNear(
        c,
        [&](std::int64_t i, std::int64_t j) {
          return std::clamp(std::floor((sumAt(of, i, j) + number(j, 3)) / 4), -128.0, 127.0);
        },
        way.name);
  }
}

// One b for all matrices; values for each matrix, and for all.
TEST_P(Gemm, Batches) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  const Extents of{70, 50, 40};
  const std::int64_t count = 3;
  const auto a = tensor(device.upload(numbers<half>(count * of.m * of.k, 1)), {count, of.m, of.k});
  const auto b = tensor(device.upload(numbers<half>(of.k * of.n, 2)), {1, of.k, of.n});
  const auto bias = tensor(device.upload(numbers<float>(count * of.n, 3)), {count, of.n});
  const auto added =
      tensor(device.upload(numbers<float>(count * of.m * of.n, 4)), {count, of.m, of.n});
  const auto shared = tensor(device.upload(numbers<float>(of.m * of.n, 5)), {of.m, of.n});
  for (const Way &way : ways()) {
    const auto buffer = device.allocate<float>(static_cast<std::size_t>(count * of.m * of.n));
    buffer.poison();
    gemm(
        device.stream(), way.options, a, b, tensor(buffer, {count, of.m, of.n}),
        [](const Tile<float> &sums, const GemmPosition &at, View<const float, 2> bias,
           View<const float, 3> added, View<const float, 2> shared) {
          return sums + at.per_column(bias) + at.load(added) * at.load(shared) +
                 cast<float>(at.batch) * 1000;
        },
        bias, added, shared);
    const std::vector<float> got = buffer.download();
    for (std::int64_t at = 0; at < count * of.m * of.n; ++at) {
      const std::int64_t batch = at / (of.m * of.n), i = at / of.n % of.m, j = at % of.n;
      double sum = number(batch * of.n + j, 3) + number(at, 4) * number(i * of.n + j, 5) +
                   static_cast<double>(batch) * 1000;
      for (std::int64_t k = 0; k < of.k; ++k)
        sum += number((batch * of.m + i) * of.k + k, 1) * number(k * of.n + j, 2);
      ASSERT_EQ(got[static_cast<std::size_t>(at)], sum) << way.name << " " << at;
    }
  }
}

TEST_P(Gemm, EmptyExtents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90");
  auto epilogue = [](const Tile<float> &sums, const GemmPosition &at) {
    return sums + cast<float>(at.rows() + at.columns());
  };
  for (const Way &way : ways()) {
    for (const Extents &of : {Extents{0, 5, 7}, Extents{5, 0, 7}, Extents{0, 0, 0}})
      gemm(device.stream(), way.options, left<half>(device, of), right<half>(device, of),
           poisoned<half>(device, of), epilogue);
    const Extents noSum{5, 70, 0}; // the epilogue remains
    const auto c = poisoned<half>(device, noSum);
    gemm(device.stream(), way.options, left<half>(device, noSum), right<half>(device, noSum), c,
         epilogue);
    expectNear(
        c, [](std::int64_t i, std::int64_t j) { return static_cast<double>(i + j); }, way.name);
  }
}

// A graph keeps the scratch memory of shared sums.
TEST_P(Gemm, InAGraph) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90", "virtual:gfx942");
  const Stream stream = device.new_stream();
  for (const Way &way : ways()) {
    const auto a = left<half>(device, odd), b = right<half>(device, odd);
    const auto c = poisoned<float>(device, odd);
    auto call = [&] {
      gemm(stream, way.options, a, b, c,
           [](const Tile<float> &sums, const GemmPosition &) noexcept { return -sums; });
    };
    call();
    device.synchronize();
    stream.begin_capture();
    call();
    const Graph graph = stream.end_capture();
    for (int i = 0; i < 2; ++i) {
      Buffer<float>(c.memory()).poison();
      device.synchronize();
      graph.launch(stream);
      expectNear(c, [&](std::int64_t i, std::int64_t j) { return -sumAt(odd, i, j); }, way.name);
    }
  }
}

// Two lambdas of one signature are two kernels.
TEST_P(Gemm, EachLambdaIsItsOwn) {
  const Extents of{33, 20, 40};
  auto expect = [&](double factor, auto epilogue) {
    const auto c = poisoned<float>(device, of);
    gemm(device.stream(), left<half>(device, of), right<half>(device, of), c, epilogue);
    expectNear(c, [&](std::int64_t i, std::int64_t j) { return factor * sumAt(of, i, j); }, "");
  };
  expect(2, [](const Tile<float> &sums, const GemmPosition &) { return sums * 2; });
  expect(3, [](const Tile<float> &sums, const GemmPosition &) { return sums * 3; });
}

// What the library chooses for a call of gemm(), without running more of it than copies of
// operands.
detail::GemmLaunch chosenFor(const Device &device, DType dtype, const Extents &of, bool bAlongK,
                             bool mayPersist = true) {
  detail::GemmCall call;
  call.a.dtype = call.b.dtype = dtype;
  call.a.extents = {of.m, of.k}, call.a.strides = {of.k, 1};
  call.b.extents = {of.k, of.n};
  call.b.strides =
      bAlongK ? std::vector<std::int64_t>{1, of.k} : std::vector{of.n, std::int64_t{1}};
  call.c.extents = {of.m, of.n}, call.c.strides = {of.n, 1};
  for (AnyTensor *tensor : {&call.a, &call.b, &call.c}) {
    const auto count = static_cast<std::size_t>(tensor->extents[0] * tensor->extents[1]);
    const auto buffer = device.allocate<std::uint8_t>(count * size_of(tensor->dtype));
    buffer.fill(0);
    tensor->memory = buffer.memory();
    tensor->address = buffer.memory().address();
  }
  call.mayPersist = mayPersist;
  std::vector<detail::GemmLaunch> launches;
  detail::launchGemm(device.stream(), call,
                     [&](const detail::GemmLaunch &chosen) { launches.push_back(chosen); });
  EXPECT_EQ(launches.size(), launches.front().config.splits > 1 ? 2u : 1u);
  return launches.front();
}

TEST(GemmDefaults, AreThoseOfMatmul) {
  const Device device = Device::open("virtual:sm_90a");
  for (const DType dtype : {DType::float16, DType::float32, DType::int8, DType::float8_e4m3})
    for (const Extents &of : {Extents{4096, 1024, 1024}, Extents{64, 64, 8192},
                              Extents{1, 4096, 4096}, Extents{300, 5000, 64}})
      for (const bool alongK : {false, true}) {
        const Invocation call = resolveTypical(findKernel("matmul"), std::string(name_of(dtype)),
                                               {{"M", of.m}, {"N", of.n}, {"K", of.k}},
                                               {{"trans_b", alongK ? "true" : "false"}});
        const Config want = call.kernel->defaults(call, device.target());
        const detail::GemmLaunch got = chosenFor(device, dtype, of, alongK);
        EXPECT_FALSE(got.a.copied);
        EXPECT_EQ((Config{{"m", got.config.m},
                          {"n", got.config.n},
                          {"k", got.config.k},
                          {"group", got.config.group},
                          {"warps", got.config.warps},
                          {"stages", got.config.stages},
                          {"cluster", got.config.cluster},
                          {"splits", got.config.splits},
                          {"persistent", got.config.persistent},
                          {"programs", want.at("programs")},
                          {"copy_first", got.b.copied}}),
                  want);
        EXPECT_FALSE(chosenFor(device, dtype, of, alongK, false).config.persistent);
      }
  EXPECT_TRUE(chosenFor(device, DType::float16, {4096, 4096, 1024}, false).config.persistent);
}

// The tiles of a persistent program go to c by the copy engine, whatever vectors the epilogue
// reads, while warps of their own load the next.
TEST(GemmCode, PersistentProgramsStoreByTheEngine) {
  SECTILE_NEEDS_LOOP_PLANS();
  auto epilogue = [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias) {
    return tanh(sums + at.per_column(bias));
  };
  detail::GemmConfig config{.m = 128, .n = 256, .k = 64, .warps = 8, .stages = 3};
  config.persistent = true;
  const Tensor<half, 3> x(nullptr, {1, 4096, 4096}, {0, 4096, 1});
  // A stream's programs count parts of tiles after each product, and copy nothing that is counted.
  for (const bool stream : {false, true}) {
    config.stream = stream;
    config.n = stream ? 128 : 256; // parts of tiles are loaded beside the ring
    const std::string code = detail::gemmKernel<half, decltype(epilogue), View<half, 3>>().emit(
        "sm_90a", "ptx", x, x, x, Tensor<half, 1>(nullptr, {4096}, {1}),
        Tensor<float, 3>(nullptr, {0, 128, 256}, {1, 256, 1}), static_cast<std::int32_t *>(nullptr),
        config);
    EXPECT_THAT(code, AllOf(HasSubstr("wgmma.mma_async"), HasSubstr("setmaxnreg"),
                            HasSubstr("global.shared::cta.tile.bulk_group"),
                            Not(HasSubstr("fence.proxy.async.global"))))
        << stream;
  }
}

// A bundle finds code by a kernel's name and the types of its arguments, which these share.
TEST(GemmCode, EachEpilogueHasANameOfItsOwn) {
  const auto nameOf = []<class E>(E) {
    return std::string(detail::gemmKernel<half, E, View<half, 3>>().name());
  };
  const auto relu = [](const Tile<float> &sums, const GemmPosition &) { return maximum(sums, 0); };
  const auto twice = [](const Tile<float> &sums, const GemmPosition &) { return sums * 2; };
  EXPECT_THAT(nameOf(relu), testing::MatchesRegex("gemm_[0-9a-f]{8}"));
  EXPECT_NE(nameOf(relu), nameOf(twice));
}

template <class T> Tensor<T, 2> nowhere(std::int64_t rows, std::int64_t columns) {
  return {nullptr, {rows, columns}, {columns, 1}};
}

// An epilogue that stores one matrix is in nobody's way, like one that returns it: the library's
// own choice is programs that go on to the next tile. Two matrices are too much beside the ring.
TEST(GemmCode, OneMatrixThatIsStoredLeavesProgramsPersistent) {
  SECTILE_NEEDS_LOOP_PLANS();
  const auto x = nowhere<half>(4096, 4096);
  const auto bias = Tensor<half, 1>(nullptr, {4096}, {1});
  const auto of = [](const std::vector<std::string> &codes) {
    EXPECT_EQ(codes.size(), 1u);
    return codes.front();
  };
  const auto persists = AllOf(HasSubstr("setmaxnreg"), HasSubstr("bulk_group"));
  EXPECT_THAT(of(emit_gemm(
                  "sm_90a", "ptx", x, x, x,
                  [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias) {
                    return sums + at.per_column(bias);
                  },
                  bias)),
              persists);
  EXPECT_THAT(of(emit_gemm(
                  "sm_90a", "ptx", x, x,
                  [](const Tile<float> &sums, const GemmPosition &at, View<half, 2> to,
                     View<const half, 1> bias) { at.store(to, sums + at.per_column(bias)); },
                  x, bias)),
              persists);
  EXPECT_THAT(of(emit_gemm(
                  "sm_90a", "ptx", x, x,
                  [](const Tile<float> &sums, const GemmPosition &at, View<half, 2> before,
                     View<half, 2> after) {
                    at.store(before, sums);
                    at.store(after, maximum(sums, 0));
                  },
                  x, x)),
              Not(HasSubstr("setmaxnreg")));
}

// A text for each kernel of the call, of the configuration that the caller gives.
TEST(GemmCode, IsThatOfEachLaunch) {
  const auto a = nowhere<half>(70, 1024), b = nowhere<half>(1024, 70), c = nowhere<half>(70, 70);
  // [emit]
  auto epilogue = [](const Tile<float> &sums, const GemmPosition &) { return tanh(sums); };
  std::vector<std::string> code = emit_gemm("sm_90a", "ptx", a, b, c, epilogue);
  // [/emit]
  EXPECT_THAT(code.at(0), HasSubstr(".target sm_90a"));
  const GemmOptions whole{.config = {{"m", 64}, {"n", 32}, {"splits", 1}, {"copy_first", 0}}};
  const auto one = emit_gemm("sm_80", "ptx", whole, a, b, c, epilogue);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_THAT(one[0], HasSubstr("mma.sync"));
  GemmOptions split = whole;
  split.config["splits"] = 4;
  const auto two = emit_gemm("sm_80", "ptx", split, a, b, c, epilogue);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_THAT(two[0], HasSubstr("mma.sync"));
  EXPECT_THAT(two[1], Not(HasSubstr("mma.sync")));
  // Rows of 140 bytes are copied before the copy engine takes them.
  GemmOptions copied = whole;
  copied.config["copy_first"] = 1;
  const auto three = emit_gemm("sm_90a", "ptx", copied, a, b, c, epilogue);
  ASSERT_EQ(three.size(), 2u);
  EXPECT_THAT(three[0], Not(HasSubstr("mma")));
  EXPECT_THAT(three[1], HasSubstr("wgmma.mma_async"));
  for (const char *form : {"tile", "cta", "llvm", "amdgcn"})
    EXPECT_EQ(emit_gemm("gfx942", form, whole, a, b, c, epilogue).size(), 1u) << form;
  EXPECT_THAT(emit_gemm("gfx942", "amdgcn", whole, a, b, c, epilogue)[0], HasSubstr("v_mfma"));
}

std::string refusal(const std::function<void()> &body) {
  try {
    body();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "accepted";
}

// Programs that run later would read what others have stored.
TEST(GemmErrors, MemoryThatResultsShare) {
  const Device device = Device::open("virtual:sm_80");
  const Stream &stream = device.stream();
  const Extents of{64, 32, 32};
  const auto a = left<half>(device, of), b = right<half>(device, of);
  const auto memory = device.upload(numbers<half>(of.m * of.n + of.n, 4));
  const auto c = tensor(memory, {of.m, of.n});
  const Tensor<half, 2> below(c.data() + of.n, {of.m, of.n}, {of.n, 1}, c.memory());
  const Tensor<half, 1> column(c.data(), {of.m}, {of.n}, c.memory());
  const auto add = [](const Tile<float> &sums, const GemmPosition &at, View<const half, 2> other) {
    return sums + at.load(other);
  };
  const auto addRow = [](const Tile<float> &sums, const GemmPosition &at,
                         View<const half, 1> other) { return sums + at.per_row(other); };
  const auto storeBoth = [](const Tile<float> &sums, const GemmPosition &at, Float by,
                            const Added &to, View<half, 2> other) {
    at.store(to.sum, sums * by);
    at.store(other, cast<half>(sums));
  };
  EXPECT_THAT(refusal([&] { gemm(stream, a, b, c, add, below); }),
              HasSubstr("gemm: argument 0 of the epilogue overlaps c in memory; it needs memory of "
                        "its own, or exactly the elements of c"));
  EXPECT_THAT(refusal([&] { gemm(stream, a, b, c, addRow, column); }),
              AllOf(HasSubstr("gemm: argument 0 of the epilogue overlaps c in memory; it needs "
                              "memory of its own"),
                    Not(HasSubstr("exactly"))));
  EXPECT_THAT(refusal([&] { gemm(stream, a, b, a, add, c); }),
              HasSubstr("gemm: c overlaps a in memory; it needs memory of its own"));
  const auto sum = poisoned<float>(device, of);
  const auto bias = tensor(device.upload(numbers<float>(of.n, 3)), {of.n});
  EXPECT_THAT(refusal([&] { gemm(stream, a, b, storeBoth, 2, Arguments<Added>{sum, bias, 1}, a); }),
              HasSubstr("gemm: argument 4 of the epilogue overlaps a in memory"));
  const Tensor<half, 2> rows(c.data(), {of.m, of.n}, {0, 1}, c.memory());
  EXPECT_THAT(
      refusal([&] { gemm(stream, a, b, storeBoth, 2, Arguments<Added>{sum, bias, 1}, rows); }),
      HasSubstr("gemm: elements of argument 4 of the epilogue lie at one address by its strides"));
  // The same matrix is right, and so are operands that are only read.
  gemm(stream, a, b, c, add, c);
  expectNear(
      c, [&](std::int64_t i, std::int64_t j) { return sumAt(of, i, j) + number(i * of.n + j, 4); },
      "in place");
  gemm(stream, a, b, storeBoth, 2, Arguments<Added>{sum, bias, 1}, c);
  gemm(stream, a, b, c, add, a);
}

TEST(GemmErrors, SaySo) {
  const Device device = Device::open("virtual:sm_80");
  const Stream &stream = device.stream();
  auto epilogue = [](const Tile<float> &sums, const GemmPosition &) { return sums; };
  const auto x = left<half>(device, {2, 0, 3});
  const auto c = poisoned<half>(device, {2, 2, 0});
  EXPECT_THAT(refusal([&] { gemm(stream, x, x, c, epilogue); }),
              HasSubstr("gemm: K is 2 in b [2, 3], but 3 in a [2, 3]"));
  EXPECT_THAT(refusal([&] { gemm(stream, x, x.transpose(), x, epilogue); }),
              HasSubstr("gemm: c is [2, 3], but a [2, 3] times b [3, 2] is [2, 2]"));
  const auto cubes = tensor(device.allocate<half>(8), {2, 2, 2});
  const auto three = tensor(device.allocate<half>(12), {3, 2, 2});
  EXPECT_THAT(refusal([&] { gemm(stream, cubes, three, cubes, epilogue); }),
              HasSubstr("gemm: B is 3 in b [3, 2, 2], but 2 in a [2, 2, 2]"));
  EXPECT_THAT(refusal([&] { gemm(stream, cubes, cubes, three, epilogue); }),
              HasSubstr("gemm: c is [3, 2, 2], but"));
  EXPECT_THAT(
      refusal([&] { gemm(stream, {.config = {{"tile", 64}}}, x, x.transpose(), c, epilogue); }),
      HasSubstr("gemm: there is no configuration field 'tile'"));
  EXPECT_THAT(refusal([&] { gemm(stream, {.config = {{"m", 0}}}, x, x.transpose(), c, epilogue); }),
              HasSubstr("gemm: configuration field 'm' is a whole number from 1 to"));
  EXPECT_THAT(refusal([&] {
                gemm(stream, x, x.transpose(), c,
                     [](const Tile<float> &sums, const GemmPosition &at) {
                       return sums + full<float>(0, at.m + 1, at.n);
                     });
              }),
              HasSubstr("gemm_test.cpp"));
  const auto bytes = poisoned<std::int8_t>(device, {2, 2, 0});
  EXPECT_THAT(refusal([&] { gemm(stream, x, x.transpose(), bytes, epilogue); }),
              HasSubstr("a tile stored to a view of f32 for memory of i8: convert it"));
  EXPECT_THAT(refusal([&] { emit_gemm("sm_17", "ptx", x, x.transpose(), c, epilogue); }),
              HasSubstr("'sm_17'"));
  EXPECT_THAT(refusal([&] { emit_gemm("gfx942", "ptx", x, x.transpose(), c, epilogue); }),
              HasSubstr("'ptx' cannot be emitted for gfx942"));
  EXPECT_THAT(refusal([&] { emit_gemm("sm_80", "ptx", x, x, c, epilogue); }),
              HasSubstr("gemm: K is 2 in b [2, 3], but 3 in a [2, 3]"));
  const Device other = Device::open("virtual:sm_90");
  EXPECT_THAT(refusal([&] { gemm(other.stream(), x, x.transpose(), c, epilogue); }),
              HasSubstr("lies on virtual:sm_80, the stream is one of virtual:sm_90"));
}

} // namespace
