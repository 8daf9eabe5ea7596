// Measures launches. The fastest batch counts: the others were disturbed by something else on the
// machine.
#include "bench/Launch.h"
#include "bench/NullDevice.h"
#include <algorithm>
#include <chrono>
#include <sectile/library.h>
#include <sectile/sectile.h>

namespace sectile::bench {
namespace {

struct Block {
  int size = 128;
};
SECTILE_CONFIG(Block, size)

const Kernel add{
    "add", [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n, const Block &block) {
      auto i = program_id(0) * block.size + arange(0, block.size);
      store(z + i, load(x + i, i < n) + load(y + i, i < n), i < n);
    }};

// The arguments of an attention kernel.
using In = View<const float, 4>;
const Kernel attention{"attention", [](In q, In k, In v, View<float, 4> o, View<float, 3> lse,
                                       Tile<float> scale, const Block &) {
                         store(o.ptr(), load(q.ptr()) * load(k.ptr()) + load(v.ptr()) * scale);
                         store(lse.ptr(), scale);
                       }};

template <class F> double fastest(F &&launch) {
  using Clock = std::chrono::steady_clock;
  constexpr int batches = 500, perBatch = 200;
  double best = 1e9;
  for (int batch = 0; batch < batches; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < perBatch; ++i)
      launch();
    best = std::min(best, std::chrono::duration<double, std::nano>(Clock::now() - start).count() /
                              perBatch);
  }
  return best;
}

} // namespace

std::vector<LaunchCost> measureLaunches() {
  const Device device = NullDevice::open("sm_90a");
  const auto x = device.allocate<float>(4096);
  const auto four = tensor(x, {2, 2, 16, 64});
  const auto three = tensor(x, {2, 2, 16});
  const auto operand = tensor(device.allocate<half>(64 * 64), {64, 64}),
             product = tensor(device.allocate<half>(64 * 64), {64, 64});
  const NamedTensors operands{{"a", operand}, {"b", operand}}, result{{"c", product}};
  const PreparedCall prepared = prepare_kernel(device, "matmul", operands, {}, result);
  return {
      {"add", 4, fastest([&] { add.launch(device.stream(), 1, x, x, x, 4096, {.size = 128}); })},
      {"attention", 44, fastest([&] {
         attention.launch(device.stream(), 1, four, four, four, four, three, 0.125f);
       })},
      {"matmul, prepared", 3, fastest([&] { prepared.launch(device.stream()); })},
      {"matmul, by name", 3,
       fastest([&] { run_kernel(device.stream(), "matmul", operands, {}, result); })},
  };
}

} // namespace sectile::bench
