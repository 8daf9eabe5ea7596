// Launches: grids, options, binding, and what a kernel reads while it is traced.
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 256;
  bool doubled = false;
};

// [global]
float factor = 2; // read while the kernel is traced

sc::Kernel scale{"scale", [](sc::Ptr<float> x, sc::Int n, const Block &block) {
                   auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                   auto inside = i < n;
                   auto values = sc::load(x + i, inside) * factor;
                   if (block.doubled) // decided while tracing
                     values = values * 2.f;
                   sc::store(x + i, values, inside);
                 }};
// [/global]

// [struct]
struct Scaled { // values, and what they are multiplied by
  sc::Ptr<const float> values;
  sc::Float factor;
};

sc::Kernel add{"add", [](Scaled a, Scaled b, sc::Ptr<float> out, sc::Int n, const Block &block) {
                 auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                 auto inside = i < n;
                 auto scaled = [&](const Scaled &x) {
                   return sc::load(x.values + i, inside) * x.factor;
                 };
                 sc::store(out + i, scaled(a) + scaled(b), inside);
               }};
// [/struct]

// [varying]
sc::Kernel dither{"dither", [](sc::Varying<sc::View<float, 1>> x, sc::Varying<sc::Int> token,
                               sc::Scalar<std::uint64_t> seed, const Block &block) {
                    auto blocks = x.tile(block.size);
                    auto i = sc::program_id(0);
                    auto noise = sc::rand(seed + sc::cast<std::uint64_t>(token),
                                          i * block.size + sc::arange(0, block.size));
                    blocks.store(i, blocks.load(i) + noise);
                  }};
// [/varying]

int main() {
  const int n = 1000;
  auto device = sc::Device::best();
  auto stream = device.stream();
  auto x = device.upload(std::vector<float>(n, 1.f));

  // [launch]
  const Block block{.size = 128};
  scale.launch(stream, sc::cdiv(n, block.size), x, n, block); // traces, compiles, launches
  factor = 3;
  scale.launch(stream, sc::cdiv(n, block.size), x, n, block); // same kind: times 2 once more
  scale.launch(stream, sc::cdiv(n, block.size), x, n, {.size = 128, .doubled = true},
               {.warps = 2, .checked = true}); // other configuration and options: traced again
  // [/launch]

  // [bind]
  sc::PreparedLaunch again(device, scale.bind(sc::cdiv(n, block.size), x, n, block));
  again.launch(stream); // looks nothing up
  // [/bind]

  auto sums = device.allocate<float>(n);
  // [arguments]
  const sc::Arguments<Scaled> twice{x, 2}; // keeps the address of x and the 2
  add.launch(stream, sc::cdiv(n, block.size), twice, {x, 0.5f}, sums, n, block);
  // [/arguments]

  const float expected = 2.f * 2.f * (3.f * 2.f) * 2.f;
  int wrong = 0;
  for (float value : x.download())
    wrong += value != expected;
  for (float value : sums.download())
    wrong += value != 2.5f * expected;
  auto noisy = device.upload(std::vector<float>(n, 1.f));
  for (int token = 1; token <= 16; ++token) { // one version for all
    const int count = n - token;
    dither.launch(stream, sc::cdiv(count, block.size),
                  sc::Tensor<float, 1>(noisy.data(), {count}, {1}), token, 42, block);
  }
  for (float value : noisy.download())
    wrong += value < 1.f || value >= 17.f;

  std::printf("scale and add on %s: %d of %d elements wrong\n", device.name().c_str(), wrong,
              3 * n);
  return wrong != 0;
}
