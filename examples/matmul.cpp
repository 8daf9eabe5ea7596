// Matrix multiplication on tensor cores: one kernel for several element types.
#include <cmath>
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

struct MatmulTile {
  int m = 64, n = 64, k = 32, group = 8;
  int warps = 4, stages = 3;
};

// [kernel]
template <class T>
sc::Kernel matmul{
    "matmul",
    [](sc::View<const T, 2> a, sc::View<const T, 2> b, sc::View<T, 2> c, const MatmulTile &tile) {
      auto [i, j] = sc::grouped_order(sc::program_id(0), c.tiles(tile.m, tile.n), tile.group);
      auto acc = sc::zeros<float>(tile.m, tile.n);
      for (auto k : sc::range(0, sc::cdiv(a.extent(1), tile.k)))
        acc = sc::dot(a.tile(tile.m, tile.k).load(i, k), b.tile(tile.k, tile.n).load(k, j), acc);
      c.tile(tile.m, tile.n).store(i, j, acc);
    }};
// [/kernel]

int main() {
  const int m = 200, n = 150, k = 100; // no multiples of the tile: the edges take care of it
  std::vector<sc::half> host_a(m * k), host_b(k * n);
  for (int i = 0; i < m * k; ++i)
    host_a[i] = static_cast<sc::half>(float(i % 7 - 3));
  for (int i = 0; i < k * n; ++i)
    host_b[i] = static_cast<sc::half>(float(i % 5 - 2));

  auto device = sc::Device::best();
  auto a = device.upload(host_a), b = device.upload(host_b);
  auto c = device.allocate<sc::half>(m * n);
  // [launch]
  const MatmulTile tile{.m = 64, .n = 32};
  const int programs = ((m + tile.m - 1) / tile.m) * ((n + tile.n - 1) / tile.n);
  matmul<sc::half>.launch(device.stream(), programs, sc::tensor(a, {m, k}), sc::tensor(b, {k, n}),
                          sc::tensor(c, {m, n}), tile);
  // [/launch]
  auto host_c = c.download();

  int wrong = 0; // small integers: the result is exact
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p)
        sum += host_a[i * k + p] * host_b[p * n + j];
      wrong += host_c[i * n + j] != sum;
    }
  std::printf("matmul on %s: %d of %d elements wrong\n", device.name().c_str(), wrong, m * n);
  return wrong != 0;
}
