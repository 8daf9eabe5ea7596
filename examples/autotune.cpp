// A matrix multiplication that finds its own tile: tuned once for a shape, looked up afterwards.
#include <cstdio>
#include <sectile/autotune.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct MatmulTile {
  int m = 64, n = 64, k = 32;
};

template <class T>
sc::Kernel matmul{
    "tuned_matmul",
    [](sc::View<const T, 2> a, sc::View<const T, 2> b, sc::View<T, 2> c, const MatmulTile &tile) {
      auto i = sc::program_id(0), j = sc::program_id(1);
      auto acc = sc::zeros<float>(tile.m, tile.n);
      for (auto k : sc::range(0, sc::cdiv(a.extent(1), tile.k)))
        acc = sc::dot(a.tile(tile.m, tile.k).load(i, k), b.tile(tile.k, tile.n).load(k, j), acc);
      c.tile(tile.m, tile.n).store(i, j, acc);
    }};

int main() {
  const int m = 128, n = 96, k = 64;
  auto device = sc::Device::best();
  auto a = sc::tensor(device.upload(std::vector<sc::half>(m * k, sc::half(1.0f))), {m, k});
  auto b = sc::tensor(device.upload(std::vector<sc::half>(k * n, sc::half(2.0f))), {k, n});
  auto buffer = device.allocate<sc::half>(m * n);
  auto c = sc::tensor(buffer, {m, n});

  // [tune]
  auto space = (sc::space(&MatmulTile::m, {16, 32, 64}) * sc::space(&MatmulTile::n, {16, 32, 64}) *
                sc::warps({2, 4}) * sc::stages({2, 3}))
                   .where([](const MatmulTile &tile, const sc::LaunchOptions &options) {
                     return tile.m * tile.n >= 256 * int(options.warps);
                   });
  sc::Autotuner tuned{matmul<sc::half>, space};

  auto grid = [&](const MatmulTile &tile) {
    return sc::Grid(sc::cdiv(m, tile.m), sc::cdiv(n, tile.n));
  };
  tuned.tune(device.stream(), grid, a, b, c);   // measures what is not known yet
  tuned.launch(device.stream(), grid, a, b, c); // looks up the best for such shapes
  // [/tune]

  const auto best = tuned.best(device.stream(), a, b, c);
  int wrong = 0;
  for (float value : buffer.download())
    wrong += value != 2 * k;
  std::printf("autotune on %s: %s warps=%u stages=%u, %d of %d elements wrong\n",
              device.name().c_str(), sc::describe(best.config).c_str(), best.options.warps,
              best.options.stages, wrong, m * n);
  return wrong != 0;
}
