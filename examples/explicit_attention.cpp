// The explicit level: attention in the order of FlashAttention-3. A partition copies, two others
// share its keys and values, and both products of a step are in flight beside its softmax.
// explicit_attention [DEVICE [LENGTH [HEADS]]] runs it on a virtual GPU, or times it on a device.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <random>
#include <sectile/bench.h>
#include <sectile/cta.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Tiles {
  int m = 64, n = 128, d = 128; // queries of a partition, keys of a step, width of a head
  int depth = 2;
  int warps = 4; // of a partition that computes
};

constexpr float infinity = std::numeric_limits<float>::infinity();

// [kernel]
using In = sc::View<const sc::half, 3>;
sc::Kernel attention{
    "attention", [](In q, In k, In v, sc::View<sc::half, 3> o, sc::Float scale, const Tiles &tile) {
      const sc::cta::TileOf<sc::half> rows{tile.m, tile.d}, block{tile.n, tile.d};
      sc::cta::Channel upper(1, rows), lower(1, rows);
      sc::cta::Channel keys(tile.depth, block), values(tile.depth, block);
      auto i = sc::program_id(0), head = sc::program_id(1);
      auto steps = sc::maximum(k.extent(1) / tile.n, 1); // whole blocks of keys

      sc::cta::partition({.warps = 4, .registers = 24, .others = 240}, [&] {
        auto copy = [&](auto &channel, const In &from, int extent, const sc::Int &row) {
          channel.acquire().copy(from.at(head).tile(extent, tile.d), row, 0);
          channel.commit();
        };
        copy(upper, q, tile.m, 2 * i);
        copy(lower, q, tile.m, 2 * i + 1);
        for (auto step : sc::range(0, steps)) {
          copy(keys, k, tile.n, step);
          copy(values, v, tile.n, step);
        }
      });

      auto attend = [&](auto &channel, const sc::Int &row) {
        auto query = channel.wait().read();
        auto top = sc::full<float>(-infinity, tile.m), total = sc::zeros<float>(tile.m);
        auto shrink = total;
        auto startScores = [&] {
          sc::cta::InFlight scores{sc::zeros<float>(tile.m, tile.n)};
          return sc::cta::dot_async(query, sc::trans(keys.wait().read()), scores);
        };
        auto weightsOf = [&](const sc::Tile<float> &scores) {
          auto before = top;
          top = sc::maximum(top, sc::max(scores, 1) * scale);
          shrink = sc::exp2(before - top);
          auto weights = sc::exp2(scores * scale - sc::expand(top, 1));
          total = total * shrink + sc::sum(weights, 1);
          return weights;
        };

        auto weights = sc::cast<sc::half>(weightsOf(sc::cta::wait(startScores())));
        keys.release();
        auto out = sc::zeros<float>(tile.m, tile.d);
        for ([[maybe_unused]] auto step : sc::range(1, steps)) {
          auto scores = startScores();
          sc::cta::InFlight sums{out};
          sums = sc::cta::dot_async(weights, values.wait().read(), sums); // from registers
          auto next = weightsOf(sc::cta::wait(scores)); // the other one is still in flight
          keys.release();
          out = sc::cta::wait(sums) * sc::expand(shrink, 1);
          values.release();
          weights = sc::cast<sc::half>(next);
        }
        out = sc::dot(weights, values.wait().read(), out);
        values.release();
        channel.release();
        o.at(head)
            .tile(tile.m, tile.d)
            .store(row, 0, sc::cast<sc::half>(out / sc::expand(total, 1)));
      };
      sc::cta::partition({.warps = tile.warps, .registers = 240},
                         [&] { attend(lower, 2 * i + 1); });
      attend(upper, 2 * i);
    }};
// [/kernel]

struct Inputs {
  int heads, length, width;
  std::vector<sc::half> q, k, v;
  float scale; // of scores, for powers of two

  Inputs(int heads, int length, int width)
      : heads(heads), length(length), width(width),
        scale(std::log2(std::exp(1.0f)) / std::sqrt(float(width))) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (auto *values : {&q, &k, &v})
      for (int i = 0; i < heads * length * width; ++i)
        values->push_back(static_cast<sc::half>(normal(random)));
  }

  double at(const std::vector<sc::half> &matrix, int head, int row, int column) const {
    return double(float(matrix[(std::size_t(head) * length + row) * width + column]));
  }

  /// One row of the result, in double.
  std::vector<double> row(int head, int i) const {
    std::vector<double> weights(length), result(width);
    double top = -infinity, total = 0;
    for (int j = 0; j < length; ++j) {
      for (int p = 0; p < width; ++p)
        weights[j] += at(q, head, i, p) * at(k, head, j, p) * double(scale);
      top = std::fmax(top, weights[j]);
    }
    for (double &weight : weights)
      total += weight = std::exp2(weight - top);
    for (int column = 0; column < width; ++column)
      for (int j = 0; j < length; ++j)
        result[column] += weights[j] / total * at(v, head, j, column);
    return result;
  }
};

int run(sc::Device device, int heads, int length, const Tiles &tile, bool timed) {
  const Inputs inputs(heads, length, tile.d);
  auto q = device.upload(inputs.q), k = device.upload(inputs.k), v = device.upload(inputs.v);
  auto o = device.allocate<sc::half>(inputs.q.size());
  auto view = [&](const auto &buffer) { return sc::tensor(buffer, {heads, length, tile.d}); };
  auto launch = [&] {
    attention.launch(device.stream(), {unsigned(length / (2 * tile.m)), unsigned(heads)}, view(q),
                     view(k), view(v), view(o), inputs.scale, tile);
  };
  launch();
  const auto result = o.download();
  double worst = 0;
  for (int head = 0; head < heads; ++head)
    for (int i = 0; i < length; i += timed ? length / 4 + 1 : 1) {
      const std::vector<double> want = inputs.row(head, i);
      for (int column = 0; column < tile.d; ++column)
        worst = std::fmax(worst, std::fabs(inputs.at(result, head, i, column) - want[column]));
    }
  std::printf("%d heads of %d x %d on %s: at most %.1e wrong\n", heads, length, tile.d,
              device.name().c_str(), worst);
  if (timed) {
    const double us = sc::bench::time(device.stream(), launch).median;
    std::printf("%d x %d x %d, depth %d: %.1f us, %.1f TFLOP/s\n", tile.m, tile.n, tile.d,
                tile.depth, us, 4.0 * heads * length * length * tile.d / us * 1e-6);
  }
  return worst > 2e-3;
}

int main(int argc, char **argv) try {
  if (argc > 1)
    return run(sc::Device::open(argv[1]), argc > 3 ? std::atoi(argv[3]) : 32,
               argc > 2 ? std::atoi(argv[2]) : 4096, {}, /*timed=*/true);
  return run(sc::Device::open("virtual:sm_90a"), 2, 256, {.n = 64, .d = 64}, /*timed=*/false);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
