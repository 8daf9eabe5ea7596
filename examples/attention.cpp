// Causal attention that never holds a whole row of scores.
#include <cmath>
#include <cstdio>
#include <limits>
#include <sectile/sectile.h>

namespace sc = sectile;

struct AttentionTile {
  int m = 64, n = 32, d = 64; // queries, keys of one step, width of a head
  int warps = 4, stages = 2;
};

constexpr float infinity = std::numeric_limits<float>::infinity();

// [kernel]
using sc::half;
sc::Kernel attention{
    "attention", [](sc::View<const half, 3> q, sc::View<const half, 3> k, sc::View<const half, 3> v,
                    sc::View<half, 3> o, sc::Float scale, const AttentionTile &tile) {
      auto block = sc::program_id(0), head = sc::program_id(1);
      auto query = q.at(head).tile(tile.m, tile.d).load(block, 0);
      auto keys = k.at(head).tile(tile.n, tile.d), values = v.at(head).tile(tile.n, tile.d);
      auto i = sc::expand(block * tile.m + sc::arange(0, tile.m), 1);

      auto largest = sc::full<float>(-infinity, tile.m);
      auto total = sc::zeros<float>(tile.m);
      auto out = sc::zeros<float>(tile.m, tile.d);
      auto end = sc::minimum(k.extent(1), (block + 1) * tile.m); // no key beyond the last query
      for (auto step : sc::range(0, sc::cdiv(end, tile.n))) {
        auto j = sc::expand(step * tile.n + sc::arange(0, tile.n), 0);
        auto scores =
            sc::dot(query, sc::trans(keys.load(step, 0)), sc::zeros<float>(tile.m, tile.n));
        scores = sc::where(j <= i && j < k.extent(1), scores * scale, -infinity);
        auto before = largest;
        largest = sc::maximum(largest, sc::max(scores, 1));
        auto weights = sc::exp(scores - sc::expand(largest, 1));
        auto shrink = sc::exp(before - largest);
        total = total * shrink + sc::sum(weights, 1);
        out = sc::dot(sc::cast<half>(weights), values.load(step, 0), out * sc::expand(shrink, 1));
      }
      o.at(head).tile(tile.m, tile.d).store(block, 0, out / sc::expand(total, 1));
    }};
// [/kernel]

int main() {
  const int heads = 2, length = 100, d = 64;
  const float scale = 0.125f;
  std::vector<half> host_q(heads * length * d), host_k(host_q), host_v(host_q);
  for (int i = 0; i < heads * length * d; ++i) {
    host_q[i] = static_cast<half>(std::sin(0.7f * i));
    host_k[i] = static_cast<half>(std::cos(0.3f * i));
    host_v[i] = static_cast<half>(std::sin(0.11f * i));
  }

  auto device = sc::Device::best();
  auto q = device.upload(host_q), k = device.upload(host_k), v = device.upload(host_v);
  auto o = device.allocate<half>(host_q.size());
  auto view = [&](const auto &buffer) { return sc::tensor(buffer, {heads, length, d}); };
  const AttentionTile tile;
  attention.launch(device.stream(), {(length + tile.m - 1) / tile.m, heads}, view(q), view(k),
                   view(v), view(o), scale, tile);
  auto host_o = o.download();

  double worst = 0;
  for (int row = 0; row < heads * length; ++row) {
    const int first = row / length * length, visible = row - first + 1;
    std::vector<double> exact(d);
    double total = 0;
    for (int j = first; j < first + visible; ++j) {
      double score = 0;
      for (int p = 0; p < d; ++p)
        score += double(host_q[row * d + p]) * host_k[j * d + p];
      const double weight = std::exp(score * scale);
      total += weight;
      for (int p = 0; p < d; ++p)
        exact[p] += weight * host_v[j * d + p];
    }
    for (int p = 0; p < d; ++p)
      worst = std::fmax(worst, std::fabs(host_o[row * d + p] - exact[p] / total));
  }
  std::printf("attention on %s: largest error %.1e\n", device.name().c_str(), worst);
  return worst > 5e-3;
}
