// A program that launches kernels and has no compiler.
#include "kernels.h"
#include <cstdio>
#include <sectile/device.h>
#include <sectile/error.h>

namespace sc = sectile;

// Of adding n elements.
static int countWrong(const sc::Device &device, int n) {
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i)
    host[i] = static_cast<float>(i);
  const auto x = device.upload(host), z = device.allocate<float>(n);
  add(device.stream(), x, x, z, n);
  const std::vector<float> sums = z.download();
  int wrong = 0;
  for (int i = 0; i < n; ++i)
    wrong += sums[i] != 2 * host[i];
  return wrong;
}

// Of multiplying ones.
static int countWrongProducts(const sc::Device &device, int rows, int columns, int depth) {
  const auto ones = [&](int m, int n) {
    return sc::tensor(device.upload(std::vector<sc::half>(m * n, sc::half(1))), {m, n});
  };
  const auto product = ::product(device.stream(), ones(rows, depth), ones(depth, columns));
  int wrong = 0;
  for (const sc::half value : product.download())
    wrong += static_cast<float>(value) != static_cast<float>(depth);
  return wrong;
}

int main(int count, char **arguments) {
  try {
    const auto device = count > 1 ? sc::Device::open(arguments[1]) : sc::Device::best();
    int wrong = 0;
    for (const int n : {4096, 999}) {
      const int wrongSums = countWrong(device, n);
      std::printf("add of %d elements on %s: %d wrong\n", n, device.name().c_str(), wrongSums);
      wrong += wrongSums;
    }
    for (const int m : {64, 63}) {
      const int wrongProducts = countWrongProducts(device, m, 64, m + 32);
      std::printf("product of %d rows: %d wrong\n", m, wrongProducts);
      wrong += wrongProducts;
    }
    return wrong != 0;
  } catch (const sc::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
