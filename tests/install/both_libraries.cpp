// A program that has loaded both libsectile and libsectile_kernels: the compiler's kernels are the
// ones that it finds, in whichever order it loads them, and its own that are sealed are refused.
#include <cstdio>
#include <sectile/kernels.h>
#include <sectile/sectile.h>

namespace sc = sectile;

sc::Kernel ones{"ones", [](sc::Ptr<float> x) { sc::store(x + sc::arange(0, 64), 1.0f); }};

int main() {
  const sc::Device device = sc::Device::open("virtual:sm_80");
  const int n = 16;
  const auto a = device.upload(std::vector<sc::half>(n * n, sc::half(2))),
             b = device.upload(std::vector<sc::half>(n * n, sc::half(3)));
  const auto c = sc::matmul(device.stream(), sc::tensor(a, {n, n}), sc::tensor(b, {n, n}));
  for (const sc::half value : c.download())
    if (static_cast<float>(value) != 2 * 3 * n)
      return std::puts("matmul: wrong"), 1;
  std::puts("matmul: right");
  try {
    const auto x = device.allocate<float>(64);
    ones.launch(device.stream(), 1, x);
    std::puts("ones: done");
  } catch (const sc::Error &error) {
    std::printf("ones: %s\n", error.what());
  }
}
