// activation, swiglu and geglu, forward and backward.
#include "KernelTest.h"
#include "kernels/blocks/Activations.h"
#include <bit>
#include <cmath>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_ON_DEVICES(Activations);
class ActivationsOnChips : public OnDevice {};
SECTILE_INSTANTIATE_ON(ActivationsOnChips, "virtual:sm_80,virtual:sm_90a");

namespace {

/// Every kernel with every function.
std::vector<std::pair<const char *, Assignments>> variants() {
  std::vector<std::pair<const char *, Assignments>> all{{"swiglu", {}}, {"swiglu_backward", {}}};
  for (const std::string &name : activationNames())
    for (const char *kernel : {"activation", "activation_backward"})
      all.push_back({kernel, {{"kind", name}}});
  for (const char *way : {"none", "tanh"})
    for (const char *kernel : {"geglu", "geglu_backward"})
      all.push_back({kernel, {{"approximate", way}}});
  return all;
}

} // namespace

TEST_P(Activations, EveryFunction) {
  const char *dtypes[] = {"f32", "f16", "bf16"};
  int i = 0;
  for (const auto &[kernel, options] : variants())
    expectRight(device, {kernel, {{"...", 1000}}, options, {}, dtypes[i++ % 3]});
}

TEST_P(ActivationsOnChips, AnyLength) {
  for (const char *kernel : {"activation", "activation_backward", "swiglu", "swiglu_backward"})
    for (std::int64_t n : {0, 1, 1023, 1024, 1025, 5000}) {
      expectRight(device, {kernel, {{"...", n}}, {}, {}, "f16"});
      expectRightWithStrides(device, {kernel, {{"...", n}}});
    }
}

// As the formulas in float64 have it: -inf * 0 is NaN, and what only overflows on the way is not.
TEST_P(ActivationsOnChips, InfinitiesNanAndHugeNumbers) {
  for (const auto &[kernel, options] : variants())
    for (const char *dtype : {"f32", "bf16"})
      expectRight(device, {.kernel = kernel,
                           .extents = {{"...", 16}},
                           .options = options,
                           .dtype = dtype,
                           .prepare = [](const Invocation &, auto &in) {
                             std::vector<double> values = in[0].to_double();
                             const double special[] = {0,    -0.0,  INFINITY, -INFINITY, NAN,
                                                       1e30, -1e30, 90,       -90,       1e-30};
                             std::copy(std::begin(special), std::end(special), values.begin());
                             in[0].assign(values);
                           }});
}

// x f(x) is a normal number for some x below which f is none.
TEST_P(ActivationsOnChips, NormalNumbersAreNotLost) {
  std::vector<bfloat16> values;
  for (unsigned bits = 0xc000; bits <= 0xc2c8; ++bits) // -2 to -100
    values.push_back(bfloat16(std::bit_cast<float>(bits << 16)));
  const auto length = static_cast<std::int64_t>(values.size());
  const auto x = tensor(device.upload(values), {length}),
             one =
                 tensor(device.upload(std::vector<bfloat16>(values.size(), bfloat16(1))), {length});
  const auto expectClose = [&](const AnyTensor &got, auto exact, const char *what) {
    const auto numbers = Buffer<bfloat16>(got.memory).download();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double at = static_cast<float>(values[i]), want = exact(at);
      if (std::abs(want) >= std::numeric_limits<float>::min()) {
        EXPECT_NEAR(static_cast<float>(numbers[i]), want, std::abs(want) * 0x1p-7)
            << what << " of " << at;
      }
    }
  };
  const Stream &stream = device.stream();
  for (const char *name : {"silu", "gelu_tanh", "sigmoid"}) {
    const Activation kind = activationOf(name);
    const auto value = [&](double at) { return activate(kind, at); };
    const auto slope = [&](double at) { return activationDerivative(kind, at); };
    expectClose(run_kernel(stream, "activation", {{"x", x}}, {{"kind", name}}).at("y"), value,
                name);
    expectClose(run_kernel(stream, "activation_backward", {{"x", x}, {"dy", one}}, {{"kind", name}})
                    .at("dx"),
                slope, name);
  }
  const auto silu = [](double at) { return activate(Activation::silu, at); };
  expectClose(run_kernel(stream, "swiglu", {{"gate", x}, {"up", one}}).at("y"), silu, "swiglu");
  expectClose(
      run_kernel(stream, "swiglu_backward", {{"gate", x}, {"up", one}, {"dy", one}}).at("dup"),
      silu, "dup");
}

// The halves of one array, columns of a transposed one.
TEST_P(ActivationsOnChips, AnyStrides) {
  constexpr std::int64_t m = 37, n = 50;
  std::vector<float> values(2 * m * n);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 23) - 11;
  const auto both = device.upload(values);
  auto at = [&](std::int64_t first, std::int64_t step, std::int64_t next) {
    return Tensor<float, 2>(both.data() + first, {m, n}, {step, next}, both.memory());
  };
  for (const auto &[gate, up] :
       {std::pair(at(0, 2 * n, 1), at(n, 2 * n, 1)), std::pair(at(0, 1, m), at(m * n, n, 1))}) {
    const auto y = run_kernel(device.stream(), "swiglu", {{"gate", gate}, {"up", up}}).at("y");
    const std::vector<float> result = Buffer<float>(y.memory).download();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        auto value = [&](const Tensor<float, 2> &from) {
          return values[static_cast<std::size_t>(from.data() - both.data() + i * from.stride(0) +
                                                 j * from.stride(1))];
        };
        const float expected = value(gate) / (1 + std::exp(-value(gate))) * value(up);
        EXPECT_NEAR(result[static_cast<std::size_t>(i * n + j)], expected,
                    1e-5f * (1 + std::abs(expected)));
      }
  }
}

TEST_P(ActivationsOnChips, PackedHalves) {
  const std::vector<float> values{0, 1, 2, 3, 4, 5, 6, 7}; // [2, 4]: gate beside up
  // [packed]
  auto both = device.upload(values);
  auto half = [&](std::int64_t first) {
    return Tensor<float, 2>(both.data() + first, {2, 2}, {4, 1}, both.memory());
  };
  auto out = run_kernel(device.stream(), "swiglu", {{"gate", half(0)}, {"up", half(2)}});
  auto y = out.at("y").as<float, 2>(); // [2, 2]
  // [/packed]
  const std::vector<float> result = Buffer<float>(y.memory()).download();
  EXPECT_EQ(y.extents(), (std::array<std::int64_t, 2>{2, 2}));
  for (std::size_t i = 0; i < 4; ++i) {
    const double gate = values[i + i / 2 * 2], up = values[i + i / 2 * 2 + 2];
    EXPECT_NEAR(result[i], gate / (1 + std::exp(-gate)) * up, 1e-5 * (1 + up * gate)) << i;
  }
}

TEST(ActivationGradients, AgainstCentralDifferences) {
  for (const std::string &kind : activationNames())
    expectGradients({"activation", {{"...", 20}}, {{"kind", kind}}}, "activation_backward");
  expectGradients({"swiglu", {{"...", 20}}}, "swiglu_backward");
  for (const char *way : {"none", "tanh"})
    expectGradients({"geglu", {{"...", 20}}, {{"approximate", way}}}, "geglu_backward");
}

// Published values: tanh(1), erf(1/sqrt(2)), 1/(1 + e), log(1 + e).
TEST(ActivationReference, ByHand) {
  auto value = [](Activation kind, double x) { return activate(kind, x); };
  EXPECT_EQ(value(Activation::relu, -2), 0);
  EXPECT_EQ(value(Activation::relu, 3), 3);
  EXPECT_EQ(value(Activation::relu_squared, 3), 9);
  EXPECT_NEAR(value(Activation::tanh, 1), 0.7615941559557649, 1e-15);
  EXPECT_NEAR(value(Activation::gelu, 1), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(value(Activation::gelu_tanh, 1), 0.8411919906082768, 1e-15);
  EXPECT_NEAR(value(Activation::sigmoid, -1), 0.2689414213699951, 1e-15);
  EXPECT_NEAR(value(Activation::silu, -1), -0.2689414213699951, 1e-15);
  EXPECT_NEAR(value(Activation::softplus, 1), 1.3132616875182228, 1e-15);
}

// The other gelu and its derivative; the halves the other way round.
TEST(ActivationJudge, PlantedMistakesAreSeen) {
  const auto kind = [](const char *kernel, const char *name) {
    return fill({kernel, {}, {{"kind", name}}});
  };
  expectMistakeIsSeen(kind("activation", "gelu"), kind("activation", "gelu_tanh"));
  expectMistakeIsSeen(kind("activation_backward", "gelu"),
                      kind("activation_backward", "gelu_tanh"));
  const FilledCall right = fill({"swiglu", {}, {}, {}, "bf16"});
  FilledCall wrong = right;
  std::swap(wrong.inputs[0], wrong.inputs[1]);
  expectMistakeIsSeen(right, wrong);
}
