// The explicit level: matrix products that state when their tiles are copied, multiplied and handed
// back. One has warps of one kind, the others have partitions: one that copies, two that multiply
// in turns, several of different sizes, one that copies on request, and one that decodes weights.
// explicit_matmul [DEVICE [N]] runs them on virtual GPUs, or times products of N x N on a device.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <random>
#include <sectile/bench.h>
#include <sectile/cta.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Tiles {
  int m = 128, n = 128, k = 64, depth = 4;
  int warps = 8;
  int cluster = 1;
};

// [partition]
sc::Kernel partitioned{
    "partitioned", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                      sc::View<sc::half, 2> c, const Tiles &tile) {
      sc::program_clusters(tile.cluster); // of 2: both copy the columns of b for each other
      sc::cta::Channel ring(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k},
                            sc::cta::TileOf<sc::half>{tile.k, tile.n});
      auto i = sc::program_id(0), j = sc::program_id(1);
      // The first product stands before the loop: of an empty K it is one of zeros.
      auto steps = sc::maximum(sc::cdiv(a.extent(1), tile.k), 1);

      sc::cta::partition({.warps = 4, .registers = 24, .others = 240}, [&] {
        for (auto k : sc::range(0, steps)) {
          auto [left, right] = ring.acquire(); // waits until the slot was handed back
          left.copy(a.tile(tile.m, tile.k), i, k);
          right.copy(b.tile(tile.k, tile.n), k, j);
          ring.commit();
        }
      });

      sc::cta::InFlight sums{sc::zeros<float>(tile.m, tile.n)};
      auto [left, right] = ring.wait();
      sums = sc::cta::dot_async(left.read(), right.read(), sums);
      for (auto k : sc::range(1, steps)) {
        auto [left, right] = ring.wait();
        sums = sc::cta::dot_async(left.read(), right.read(), sums);
        sc::cta::wait_for_dots(1); // the dot before has read its slot
        ring.release();
      }
      auto acc = sc::cta::wait(sums);
      ring.release();
      c.tile(tile.m, tile.n).store(i, j, sc::cast<sc::half>(acc));
    }};
// [/partition]

// [pipelined]
sc::Kernel pipelined{"pipelined", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                                     sc::View<sc::half, 2> c, const Tiles &tile) {
                       sc::cta::Channel ring(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k},
                                             sc::cta::TileOf<sc::half>{tile.k, tile.n});
                       auto i = sc::program_id(0), j = sc::program_id(1);
                       auto steps = sc::cdiv(a.extent(1), tile.k);
                       auto fetch = [&](sc::Int k) {
                         auto [left, right] = ring.acquire();
                         left.copy(a.tile(tile.m, tile.k), i, k, k < steps);
                         right.copy(b.tile(tile.k, tile.n), k, j, k < steps);
                         ring.commit();
                       };

                       for (int k = 0; k < tile.depth - 1; ++k)
                         fetch(k);
                       auto acc = sc::zeros<float>(tile.m, tile.n);
                       for (auto k : sc::range(0, steps)) {
                         auto [left, right] = ring.wait();
                         fetch(k + (tile.depth - 1));
                         acc = sc::dot(left.read(), right.read(), acc);
                         ring.release();
                       }
                       c.tile(tile.m, tile.n).store(i, j, sc::cast<sc::half>(acc));
                     }};
// [/pipelined]

// [turns]
sc::Kernel inTurns{
    "in_turns", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                   sc::View<sc::half, 2> c, const Tiles &tile) {
      auto ring = [&] {
        return sc::cta::Channel(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k},
                                sc::cta::TileOf<sc::half>{tile.k, tile.n});
      };
      auto upperRing = ring(), lowerRing = ring();
      sc::cta::Barrier upperTurn(2 * tile.warps), lowerTurn(2 * tile.warps);
      auto tiles = c.tiles(2 * tile.m, tile.n); // an upper and a lower one
      auto steps = sc::maximum(sc::cdiv(a.extent(1), tile.k), 1);
      auto mine = [&] {
        return sc::range(sc::program_id(0), tiles[0] * tiles[1], sc::num_programs(0));
      };

      sc::cta::partition({.warps = 4, .registers = 24, .others = 240}, [&] {
        for (auto t : mine())
          for (int lower : {0, 1})
            for (auto k : sc::range(0, steps)) {
              auto [left, right] = (lower ? lowerRing : upperRing).acquire();
              left.copy(a.tile(tile.m, tile.k), t / tiles[1] * 2 + lower, k);
              right.copy(b.tile(tile.k, tile.n), k, t % tiles[1]);
              (lower ? lowerRing : upperRing).commit();
            }
      });

      auto multiply = [&](int lower, auto &ring, sc::cta::Barrier &turn, sc::cta::Barrier &others) {
        for (auto t : mine()) {
          turn.sync(); // the other partition has begun its last product
          sc::cta::InFlight sums{sc::zeros<float>(tile.m, tile.n)};
          auto [left, right] = ring.wait();
          sums = sc::cta::dot_async(left.read(), right.read(), sums);
          for (auto k : sc::range(1, steps)) {
            auto [left, right] = ring.wait();
            sums = sc::cta::dot_async(left.read(), right.read(), sums);
            sc::cta::wait_for_dots(1);
            ring.release();
          }
          others.arrive(); // the other partition multiplies while this one stores
          auto acc = sc::cta::wait(sums);
          ring.release();
          c.tile(tile.m, tile.n)
              .store(t / tiles[1] * 2 + lower, t % tiles[1], sc::cast<sc::half>(acc));
        }
      };
      sc::cta::partition({.warps = tile.warps, .registers = 240}, [&] {
        upperTurn.arrive(); // the upper half begins
        multiply(1, lowerRing, lowerTurn, upperTurn);
      });
      multiply(0, upperRing, upperTurn, lowerTurn);
    }};
// [/turns]

// [sizes]
sc::Kernel sizes{
    "sizes", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                sc::View<sc::half, 2> c, const Tiles &tile) {
      const int low = 2 * tile.m; // rows of the lower part, for twice the warps
      sc::cta::Channel upperRows(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k});
      sc::cta::Channel lowerRows(tile.depth, sc::cta::TileOf<sc::half>{low, tile.k});
      sc::cta::Channel columns(tile.depth, sc::cta::TileOf<sc::half>{tile.k, tile.n});
      auto upper = sc::program_id(0) * (3 * tile.m), lower = upper + tile.m; // first rows
      auto j = sc::program_id(1);
      auto steps = sc::cdiv(a.extent(1), tile.k);

      sc::cta::partition({.warps = 1}, [&] {
        for (auto k : sc::range(0, steps)) {
          upperRows.acquire().copy_at(a.tile(tile.m, tile.k), upper, k * tile.k);
          upperRows.commit();
          lowerRows.acquire().copy_at(a.tile(low, tile.k), lower, k * tile.k);
          lowerRows.commit();
          columns.acquire().copy(b.tile(tile.k, tile.n), k, j);
          columns.commit();
        }
      });

      auto multiply = [&](auto &rows, int height, const sc::Int &row) {
        auto acc = sc::zeros<float>(height, tile.n);
        for ([[maybe_unused]] auto k : sc::range(0, steps)) {
          acc = sc::dot(rows.wait().read(), columns.wait().read(), acc);
          rows.release();
          columns.release();
        }
        c.tile(height, tile.n).store_at(row, j * tile.n, sc::cast<sc::half>(acc));
      };
      sc::cta::partition({.warps = 2 * tile.warps}, [&] { multiply(lowerRows, low, lower); });
      multiply(upperRows, tile.m, upper);
    }};
// [/sizes]

// [requests]
sc::Kernel onRequest{"on_request", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                                      sc::View<sc::half, 2> c, const Tiles &tile) {
                       sc::cta::Channel ring(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k},
                                             sc::cta::TileOf<sc::half>{tile.k, tile.n});
                       sc::cta::Mbarriers wanted(2, tile.warps); // each warp of the kernel arrives
                       auto i = sc::program_id(0), j = sc::program_id(1);
                       auto steps = sc::cdiv(a.extent(1), tile.k);

                       sc::cta::partition({.warps = 1}, [&] {
                         for (auto k : sc::range(0, steps)) {
                           wanted.wait(k, k / 2); // at mbarrier k % 2, its phase k / 2
                           auto [left, right] = ring.acquire();
                           left.copy(a.tile(tile.m, tile.k), i, k);
                           right.copy(b.tile(tile.k, tile.n), k, j);
                           ring.commit();
                         }
                       });

                       auto acc = sc::zeros<float>(tile.m, tile.n);
                       for (auto k : sc::range(0, steps)) {
                         wanted.arrive(k);
                         auto [left, right] = ring.wait();
                         acc = sc::dot(left.read(), right.read(), acc);
                         ring.release();
                       }
                       c.tile(tile.m, tile.n).store(i, j, sc::cast<sc::half>(acc));
                     }};
// [/requests]

// [decoded]
sc::Kernel decoded{"decoded", [](sc::View<const sc::half, 2> a, sc::View<const std::int8_t, 2> b,
                                 sc::View<sc::half, 2> c, const Tiles &tile) {
                     sc::cta::Channel ring(tile.depth, sc::cta::TileOf<sc::half>{tile.m, tile.k},
                                           sc::cta::TileOf<sc::half>{tile.k, tile.n});
                     auto i = sc::program_id(0), j = sc::program_id(1);
                     auto steps = sc::cdiv(a.extent(1), tile.k);

                     sc::cta::partition({.warps = tile.warps}, [&] {
                       for (auto k : sc::range(0, steps)) {
                         auto weights = b.tile(tile.k, tile.n).load(k, j); // before it waits
                         auto [left, right] = ring.acquire();
                         left.copy(a.tile(tile.m, tile.k), i, k);
                         right.store(sc::cast<sc::half>(weights));
                         ring.commit();
                       }
                     });

                     auto acc = sc::zeros<float>(tile.m, tile.n);
                     for (auto k : sc::range(0, steps)) {
                       auto [left, right] = ring.wait();
                       acc = sc::dot(left.read(), right.read(), acc);
                       ring.release();
                     }
                     c.tile(tile.m, tile.n).store(i, j, sc::cast<sc::half>(acc));
                   }};
// [/decoded]

/// How many elements of a · b differ from those of small integers, which are exact.
template <class B = sc::half, class Kernel>
int wrong(const char *name, Kernel &kernel, sc::Device &device, int m, int n, int k,
          const Tiles &tile, std::optional<sc::Grid> grid = {}) {
  std::vector<sc::half> host_a(m * k);
  std::vector<B> host_b(k * n);
  for (int i = 0; i < m * k; ++i)
    host_a[i] = static_cast<sc::half>(float(i % 7 - 3));
  for (int i = 0; i < k * n; ++i)
    host_b[i] = static_cast<B>(float(i % 5 - 2));
  auto a = device.upload(host_a);
  auto b = device.upload(host_b);
  auto c = device.allocate<sc::half>(m * n);
  if (!grid)
    grid = sc::Grid{unsigned((m + tile.m - 1) / tile.m), unsigned((n + tile.n - 1) / tile.n)};
  kernel.launch(device.stream(), *grid, sc::tensor(a, {m, k}), sc::tensor(b, {k, n}),
                sc::tensor(c, {m, n}), tile);
  const auto host_c = c.download();
  int count = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p)
        sum += double(float(host_a[i * k + p])) * double(float(host_b[p * n + j]));
      count += std::fabs(double(float(host_c[i * n + j])) - sum) > 0;
    }
  std::printf("%s on %s: %d of %d elements wrong\n", name, device.name().c_str(), count, m * n);
  return count;
}

/// Times products of normal random numbers.
template <class B = sc::half, class Kernel>
void timed(const char *name, Kernel &kernel, sc::Device &device, int n, const Tiles &tile,
           std::optional<sc::Grid> grid = {}) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  auto operand = [&](auto element) {
    std::vector<decltype(element)> values(std::size_t(n) * n);
    for (auto &value : values)
      value = static_cast<decltype(element)>(normal(random));
    return device.upload(values);
  };
  auto a = operand(sc::half());
  auto b = operand(B());
  auto c = device.allocate<sc::half>(std::size_t(n) * n);
  if (!grid)
    grid = sc::Grid{unsigned(n / tile.m), unsigned(n / tile.n)};
  const sc::bench::Timing timing = sc::bench::time(device.stream(), [&] {
    kernel.launch(device.stream(), *grid, sc::tensor(a, {n, n}), sc::tensor(b, {n, n}),
                  sc::tensor(c, {n, n}), tile);
  });
  std::printf("%-12s %3d x %3d x %3d, depth %d, %d warps, cluster %d: %9.1f us, %6.1f TFLOP/s\n",
              name, tile.m, tile.n, tile.k, tile.depth, tile.warps, tile.cluster, timing.median,
              2.0 * n * n * n / timing.median * 1e-6);
}

int timeAll(sc::Device device, int n) {
  const Tiles small{.m = 64, .n = 64, .k = 64, .depth = 2, .warps = 4};
  const int count = wrong("partitioned", partitioned, device, 512, 512, 512, {.cluster = 2}) +
                    wrong("in_turns", inTurns, device, 960, 512, 512, small, sc::Grid{13}) +
                    wrong<std::int8_t>("decoded", decoded, device, 512, 512, 512, small);
  for (const Tiles &tile : {Tiles{}, Tiles{.n = 256}, Tiles{.n = 256, .cluster = 2}})
    timed("partitioned", partitioned, device, n, tile);
  timed("pipelined", pipelined, device, n, {});
  for (const Tiles &tile :
       {Tiles{.depth = 2, .warps = 4}, Tiles{.m = 64, .n = 256, .depth = 2, .warps = 4}})
    timed("in_turns", inTurns, device, n, tile, sc::Grid{132}); // as many as an H100 has units
  timed<std::int8_t>("decoded", decoded, device, n, {.depth = 3, .warps = 4});
  return count != 0;
}

int main(int argc, char **argv) try {
  if (argc > 1)
    return timeAll(sc::Device::open(argv[1]), argc > 2 ? std::atoi(argv[2]) : 8192);
  int count = 0;
  // A chip without a copy engine runs the second kernel alone.
  auto hopper = sc::Device::open("virtual:sm_90a");
  count += wrong("partitioned", partitioned, hopper, 256, 256, 256, {});
  count += wrong("in_turns", inTurns, hopper, 320, 256, 192,
                 {.m = 64, .n = 64, .k = 64, .depth = 2, .warps = 4}, sc::Grid{3});
  const Tiles small{.m = 64, .n = 64, .k = 32, .depth = 2, .warps = 4};
  count += wrong("sizes", sizes, hopper, 300, 128, 96, small, sc::Grid{2, 2});
  count += wrong("on_request", onRequest, hopper, 128, 128, 160, small);
  count += wrong<std::int8_t>("decoded", decoded, hopper, 200, 152, 208,
                              {.m = 64, .n = 64, .k = 64, .depth = 2, .warps = 4});
  for (const char *name : {"virtual:sm_90a", "virtual:sm_80"}) {
    auto device = sc::Device::open(name);
    count += wrong("pipelined", pipelined, device, 200, 152, 104,
                   {.m = 64, .n = 64, .k = 32, .depth = 3, .warps = 4});
  }
  return count != 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
