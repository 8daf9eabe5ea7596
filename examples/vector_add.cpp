// Vector addition: a kernel, a launch, and a look at the result.
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

// [config]
struct Block {
  int size = 1024;
};
// [/config]

// [kernel]
sc::Kernel vector_add{"vector_add", [](sc::Ptr<const float> x, sc::Ptr<const float> y,
                                       sc::Ptr<float> z, sc::Int n, const Block &block) {
                        auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                        auto inside = i < n;
                        sc::store(z + i, sc::load(x + i, inside) + sc::load(y + i, inside), inside);
                      }};
// [/kernel]

// [main]
int main() {
  const int n = 100000;
  std::vector<float> host_x(n), host_y(n);
  for (int i = 0; i < n; ++i) {
    host_x[i] = 0.5f * i;
    host_y[i] = 3;
  }

  auto device = sc::Device::best(); // CUDA, else HIP, else the virtual GPU
  auto x = device.upload(host_x), y = device.upload(host_y);
  auto z = device.allocate<float>(n);
  const Block block{.size = 512};
  vector_add.launch(device.stream(), (n + block.size - 1) / block.size, x, y, z, n, block);
  std::vector<float> host_z = z.download(); // waits for the launch

  int wrong = 0;
  for (int i = 0; i < n; ++i)
    wrong += host_z[i] != host_x[i] + host_y[i];
  std::printf("vector_add on %s: %d of %d elements wrong\n", device.name().c_str(), wrong, n);
  return wrong != 0;
}
// [/main]
