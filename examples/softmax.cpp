// Softmax along rows of any length: a view, a reduction, and a loop on the device.
#include <cmath>
#include <cstdio>
#include <limits>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 256;
};

constexpr float infinity = std::numeric_limits<float>::infinity();

// [kernel]
sc::Kernel softmax{
    "softmax", [](sc::View<const float, 2> x, sc::View<float, 2> y, const Block &block) {
      auto row = sc::program_id(0);
      auto from = x.at(row).tile(block.size).padding(-infinity);
      auto to = y.at(row).tile(block.size);
      auto blocks = sc::cdiv(x.extent(1), block.size);

      sc::Float largest = -infinity, total = 0;
      for (auto i : sc::range(0, blocks)) {
        auto values = from.load(i);
        auto before = largest;
        largest = sc::maximum(largest, sc::max(values, 0));
        total = total * sc::exp(before - largest) + sc::sum(sc::exp(values - largest), 0);
      }
      for (auto i : sc::range(0, blocks))
        to.store(i, sc::exp(from.load(i) - largest) / total);
    }};
// [/kernel]

int main() {
  const int rows = 8, length = 1000;
  std::vector<float> host_x(rows * length);
  for (int i = 0; i < rows * length; ++i)
    host_x[i] = std::sin(0.1f * i) * 5;

  auto device = sc::Device::best();
  auto x = device.upload(host_x);
  auto y = device.allocate<float>(rows * length);
  // [launch]
  softmax.launch(device.stream(), rows, sc::tensor(x, {rows, length}),
                 sc::tensor(y, {rows, length}));
  // [/launch]
  auto host_y = y.download();

  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    double total = 0;
    for (int i = 0; i < length; ++i)
      total += std::exp(double(host_x[row * length + i]));
    for (int i = 0; i < length; ++i)
      worst = std::fmax(worst, std::fabs(host_y[row * length + i] -
                                         std::exp(double(host_x[row * length + i])) / total));
  }
  std::printf("softmax on %s: largest error %.1e\n", device.name().c_str(), worst);
  return worst > 1e-6;
}
