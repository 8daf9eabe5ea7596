// A kernel of one's own, outside Sectile's tree: y = a x + y.
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 256;
};

sc::Kernel axpy{"axpy", [](sc::Float a, sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n,
                           const Block &block) {
                  auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                  auto inside = i < n;
                  sc::store(y + i, a * sc::load(x + i, inside) + sc::load(y + i, inside), inside);
                }};

int main() {
  const int n = 1000;
  std::vector<float> host_x(n), host_y(n);
  for (int i = 0; i < n; ++i) {
    host_x[i] = static_cast<float>(i);
    host_y[i] = 1;
  }
  try {
    auto device = sc::Device::best();
    auto x = device.upload(host_x), y = device.upload(host_y);
    axpy.launch(device.stream(), (n + 255) / 256, 2, x, y, n);
    const auto result = y.download();
    for (int i = 0; i < n; ++i)
      if (result[i] != 2 * host_x[i] + 1)
        return 1;
    std::printf("axpy on %s with Sectile %s: ok\n", device.name().c_str(), sc::version());
  } catch (const sc::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
