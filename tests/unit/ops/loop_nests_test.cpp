// Random nests of loops around products, whose bounds, steps and conditions are computed by any
// arithmetic.
#include "../Processes.h"
#include "Devices.h"
#include <cmath>
#include <functional>
#include <random>

namespace sc = sectile;

namespace {

struct Nest {
  int m = 64, n = 64, k = 32, warps = 4, special = 0, seed = 0;
};
SECTILE_CONFIG(Nest, m, n, k, warps, special, seed)

/// Draws integers from what is known where they are computed.
class Arithmetic {
public:
  Arithmetic(std::mt19937 &random, sc::Ptr<const int> p, std::vector<sc::Int> known)
      : known(std::move(known)), random(random), p(p) {}

  std::vector<sc::Int> known;

  int pick(int most) { return int(random() % unsigned(most)); }
  sc::Int make(int depth) {
    if (depth == 0 || pick(4) == 0)
      return known[size_t(pick(int(known.size())))];
    auto next = [&] { return make(depth - 1); };
    const sc::Int a = next(), b = next();
    switch (pick(20)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * 2;
    case 3:
      return a / 2;
    case 4:
      return a % 3;
    case 5:
      return sc::minimum(a, b);
    case 6:
      return sc::maximum(a, b);
    case 7:
      return sc::where(a < b, b, next());
    case 8:
      return sc::cast<sc::Index>(sc::load(p + (a & 7)));
    case 9:
      return sc::where(a == 0, b, next());
    case 10:
      return a & b;
    case 11:
      return a | b;
    case 12:
      return a ^ b;
    case 13:
      return a << (b & 3);
    case 14:
      return a >> (b & 3);
    case 15:
      return sc::abs(a);
    case 16:
      return sc::cast<sc::Index>(sc::popcount(sc::cast<int>(a)));
    case 17:
      return sc::cast<sc::Index>(sc::cast<float>(a) * 1.5f);
    case 18:
      return ~a;
    default:
      return a + 1;
    }
  }
  /// From 0 to `most`.
  sc::Int small(int most) {
    sc::Int value = make(2);
    return pick(2) ? sc::abs(value % (most + 1)) : sc::minimum(value & 7, most);
  }

private:
  std::mt19937 &random;
  sc::Ptr<const int> p;
};

sc::Kernel nests{
    "nests", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b, sc::View<float, 2> c,
                sc::Ptr<const int> p, sc::Int n1, sc::Int n2, const Nest &t) {
      std::mt19937 random(unsigned(t.seed));
      auto pid = sc::program_id(0);
      auto steps = sc::cdiv(a.extent(1), t.k);
      Arithmetic draw(random, p, {n1, n2, pid, steps, sc::Int(2)});
      auto acc = sc::zeros<float>(t.m, t.n);
      const std::function<void(int)> block = [&](int depth) {
        for (int i = 0, count = 1 + draw.pick(2); i < count; ++i) {
          const int what = draw.pick(depth == 0 ? 2 : 5);
          const sc::Int begin = draw.pick(2) ? sc::Int(0) : draw.small(2), end = draw.small(5);
          const sc::Int step = draw.pick(3) ? sc::Int(1) : draw.small(1) + 1;
          const sc::LoopOptions hints{.stages = 2 + draw.pick(3),
                                      .warp_specialize = bool(t.special)};
          if (what < 2) {
            sc::Int moved = draw.make(1);
            const bool moves = draw.pick(3) == 0, halves = draw.pick(4) == 0;
            for (auto k : sc::range(begin, end, step, hints)) {
              auto at = moves ? sc::abs(moved % steps) : sc::Int(k % steps);
              if (halves)
                acc = acc * 0.5f;
              acc = sc::dot(a.tile(t.m, t.k).load(0, at), b.tile(t.k, t.n).load(at, 0), acc);
              if (moves)
                moved = moved + 2;
            }
          } else if (what < 4) {
            for (auto outer : sc::range(begin, end)) {
              draw.known.push_back(outer);
              block(depth - 1);
              draw.known.pop_back();
            }
          } else {
            sc::when(draw.make(2) > draw.make(1), [&] { block(depth - 1); });
          }
        }
      };
      block(2);
      c.tile(t.m, t.n).store(pid, 0, acc);
    }};

// The check of channels follows the bounds of loops in all their copies, or leaves the kernel
// alone.
TEST(LoopNests, OfAnyArithmetic) {
  const int m = 64, n = 64, k = 32 * 7;
  std::vector<sc::half> a, b;
  for (int i = 0; i < m * k; ++i)
    a.push_back(sc::half(float(i * 7 % 5 - 2)));
  for (int i = 0; i < k * n; ++i)
    b.push_back(sc::half(float(i * 11 % 7 - 3)));
  const std::vector<int> p{3, 5, 1, 2, 0, 6, 4, 7};
  auto run = [&](const sc::Device &device, const Nest &t) {
    auto c = device.allocate<float>(2 * size_t(m) * n);
    nests.launch(device.stream(), 2, sc::tensor(device.upload(a), {m, k}),
                 sc::tensor(device.upload(b), {k, n}), sc::tensor(c, {2 * m, n}), device.upload(p),
                 3, 5, t);
    return c.download();
  };
  auto reference = sc::Device::open("interpreter"), device = sc::Device::open("virtual:sm_90a");
  for (unsigned seed = 0; seed < sectile::test::count(12, 400); ++seed)
    for (int special : {0, 1}) {
      const Nest t{.special = special, .seed = int(seed)};
      SCOPED_TRACE("seed " + std::to_string(seed) + ", special " + std::to_string(special));
      const std::vector<float> want = run(reference, t);
      std::vector<float> got;
      try {
        got = run(device, t);
      } catch (const std::exception &e) {
        ADD_FAILURE() << e.what();
        continue;
      }
      for (size_t i = 0; i < got.size(); ++i)
        if (!(std::abs(got[i] - want[i]) <= 1e-3f * (1 + std::abs(want[i])))) {
          ADD_FAILURE() << got[i] << " for " << want[i] << " at " << i;
          break;
        }
    }
}

} // namespace
