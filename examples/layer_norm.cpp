// Layer normalisation: rows that fit a tile, and statistics stored beside them.
#include <cmath>
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 1024;
};

// [kernel]
sc::Kernel layer_norm{
    "layer_norm",
    [](sc::View<const float, 2> x, sc::View<const float, 1> w, sc::View<const float, 1> b,
       sc::View<float, 2> y, sc::Ptr<float> mean, sc::Float eps, const Block &block) {
      auto row = sc::program_id(0);
      auto n = x.extent(1);
      auto values = x.at(row).tile(block.size).load(0); // 0 beyond the end of the row
      auto average = sc::sum(values, 0) / sc::cast<float>(n);
      auto centred = sc::where(sc::arange(0, block.size) < n, values - average, 0.0f);
      auto variance = sc::sum(centred * centred, 0) / sc::cast<float>(n);
      auto normal = centred / sc::sqrt(variance + eps);
      y.at(row)
          .tile(block.size)
          .store(0, normal * w.tile(block.size).load(0) + b.tile(block.size).load(0));
      sc::store(mean + row, average);
    }};
// [/kernel]

int main() {
  const int rows = 16, length = 768;
  const float eps = 1e-5f;
  std::vector<float> host_x(rows * length), host_w(length), host_b(length);
  for (int i = 0; i < rows * length; ++i)
    host_x[i] = 100 + std::sin(0.37f * i);
  for (int i = 0; i < length; ++i) {
    host_w[i] = 1 + 0.001f * i;
    host_b[i] = 0.01f * i;
  }

  auto device = sc::Device::best();
  auto x = device.upload(host_x), w = device.upload(host_w), b = device.upload(host_b);
  auto y = device.allocate<float>(rows * length), mean = device.allocate<float>(rows);
  layer_norm.launch(device.stream(), rows, sc::tensor(x, {rows, length}), w, b,
                    sc::tensor(y, {rows, length}), mean, eps);
  auto host_y = y.download();

  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    const float *values = &host_x[row * length];
    double average = 0, variance = 0;
    for (int i = 0; i < length; ++i)
      average += values[i] / double(length);
    for (int i = 0; i < length; ++i)
      variance += (values[i] - average) * (values[i] - average) / length;
    for (int i = 0; i < length; ++i) {
      double exact = (values[i] - average) / std::sqrt(variance + eps) * host_w[i] + host_b[i];
      worst = std::fmax(worst, std::fabs(host_y[row * length + i] - exact));
    }
  }
  std::printf("layer_norm on %s: largest error %.1e\n", device.name().c_str(), worst);
  return worst > 1e-4;
}
