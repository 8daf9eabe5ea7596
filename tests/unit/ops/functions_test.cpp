// sc::Function, run: a call gives what its body computes.
#include "Devices.h"
#include <algorithm>

namespace sc = sectile;

namespace {

struct Scaling {
  int factor = 1;
  bool negate = false;
};
SECTILE_CONFIG(Scaling, factor, negate)

const sc::Function square{"square", [](sc::Tile<float> x) { return x * x; }};
const sc::Function scale{"scale", [](sc::Tile<float> x, const Scaling &by) {
                           auto y = x * by.factor;
                           return by.negate ? -y : y;
                         }};
const sc::Function minmax{"minmax", [](sc::Tile<float> a, sc::Tile<float> b) {
                            return std::tuple(sc::minimum(a, b), sc::maximum(a, b));
                          }};
const sc::Function sumOfSquares{"sum_of_squares", [](sc::Ptr<const float> p, sc::Int n) {
                                  sc::Float total = 0;
                                  for (auto i : sc::range(n))
                                    total += square(sc::load(p + i));
                                  return total;
                                }};
const sc::Function fill{"fill", [](sc::View<float, 1> out, sc::Int i, sc::Tile<float> x) {
                          sc::when(out.extent(0) > 0, [&] { out.tile(16).store(i, x); });
                        }};
const sc::Function tail{"tail", [](sc::View<float, 1> v, sc::Int from) {
                          return std::tuple(v.slice(0, from, v.extent(0) - from), v.ptr() + from);
                        }};

SECTILE_ON_DEVICES(Functions);

TEST_P(Functions, GiveWhatTheirBodiesCompute) {
  sc::Kernel kernel{"functions", [](sc::Ptr<const float> x, sc::View<float, 1> out, sc::Int n) {
                      auto a = sc::load(x + sc::arange(0, 16));
                      auto [low, high] = minmax(a, 3);
                      fill(out, 0, low);
                      fill(out, 1, scale(high, {2, true}));
                      auto [rest, at] = tail(out, 32);
                      fill(rest, 0, square(square(a)));
                      sc::store(at + 16, sumOfSquares(x, n));
                    }};
  std::vector<float> x(16);
  for (size_t i = 0; i < 16; ++i)
    x[i] = static_cast<float>(i) - 4;
  auto out = device.allocate<float>(49);
  kernel.launch(device.stream(), 1, device.upload(x), out, 10);
  const std::vector<float> got = out.download();
  float total = 0;
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(got[i], std::min(x[i], 3.0f));
    EXPECT_EQ(got[16 + i], -2 * std::max(x[i], 3.0f));
    EXPECT_EQ(got[32 + i], x[i] * x[i] * x[i] * x[i]);
    total += i < 10 ? x[i] * x[i] : 0;
  }
  EXPECT_EQ(got[48], total);
}

TEST_P(Functions, CarryThroughLoopsAndBranches) {
  // A loop carries what calls in it return, a loop of the function what calls in that return.
  static const sc::Function step{"step", [](sc::Tile<float> x, sc::Int i) {
                                   sc::when(i % 2 == 0, [&] { x = square(x); }, [&] { x -= 1; });
                                   return x;
                                 }};
  sc::Kernel kernel{"calls_in_loops", [](sc::Ptr<float> p, sc::Int n) {
                      auto at = p + sc::arange(0, 48);
                      auto x = sc::load(at);
                      for (auto i : sc::range(n))
                        x = step(x, i);
                      sc::store(at, x);
                    }};
  std::vector<float> x(48);
  for (size_t i = 0; i < 48; ++i)
    x[i] = 0.0625f * static_cast<float>(i);
  auto buffer = device.upload(x);
  kernel.launch(device.stream(), 1, buffer, 5);
  const std::vector<float> got = buffer.download();
  for (size_t i = 0; i < 48; ++i) {
    float want = x[i];
    for (int k = 0; k < 5; ++k)
      want = k % 2 == 0 ? want * want : want - 1;
    EXPECT_FLOAT_EQ(got[i], want);
  }
}

} // namespace
