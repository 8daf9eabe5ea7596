// A library with a kernel that warm_start loads while it runs.
#include <sectile/sectile.h>

namespace sc = sectile;

static sc::Kernel timesThree{"times_three", [](sc::Ptr<float> x, sc::Int n) {
                               const auto i = sc::program_id(0) * 256 + sc::arange(0, 256);
                               sc::store(x + i, sc::load(x + i, i < n) * 3.0f, i < n);
                             }};

extern "C" bool runPlugin(const sc::Device *device) {
  auto x = device->upload(std::vector<float>(500, 2.0f));
  timesThree.launch(device->stream(), 2, x, 500);
  return x.download() == std::vector<float>(500, 6.0f);
}
