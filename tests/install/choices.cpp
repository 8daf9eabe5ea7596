// A sealed program that prints which configuration products of some extents take on a device.
#include <cstdio>
#include <sectile/activity.h>
#include <sectile/kernels.h>
#include <sectile/sectile.h>

namespace sc = sectile;

int main(int, char **arguments) {
  try {
    const sc::Device device = sc::Device::open(arguments[1]);
    const sc::Listening listening([](const sc::Activity &activity) {
      if (activity.kind == sc::Activity::Kind::load)
        std::printf("%s\n", activity.configuration.c_str());
    });
    for (const int m : {64, 60, 2000}) {
      const auto a = sc::tensor(device.allocate<sc::half>(m * 96), {m, 96}),
                 b = sc::tensor(device.allocate<sc::half>(96 * 64), {96, 64});
      sc::prepare([&] { sc::matmul(device.stream(), a, b); });
      std::printf("%d rows: done\n", m);
    }
  } catch (const sc::Error &error) {
    std::printf("%s\n", error.what());
  }
}
