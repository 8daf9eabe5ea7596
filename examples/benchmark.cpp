// A benchmark: two block sizes of one kernel over sizes, beside what the machine could do.
// benchmark [FILE.svg|FILE.csv|FILE.json]
#include <cstdio>
#include <exception>
#include <sectile/bench.h>
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 1024;
};

sc::Kernel add{"add", [](sc::Ptr<const float> x, sc::Ptr<const float> y, sc::Ptr<float> z,
                         sc::Int n, const Block &block) {
                 auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                 auto inside = i < n;
                 sc::store(z + i, sc::load(x + i, inside) + sc::load(y + i, inside), inside);
               }};

int main(int argc, char **argv) try {
  // [sweep]
  auto device = sc::Device::best();

  sc::bench::Sweep sweep;
  sweep.title = "vector add on " + device.name();
  sweep.axis = "n";
  sweep.values = sc::bench::powers_of_two(12, 18);
  sweep.metric = sc::bench::Metric::gigabytes;
  sweep.work = [](std::int64_t n) { return sc::bench::Work{double(n), 12.0 * double(n)}; };
  sweep.peak = sc::bench::peak_of(device);

  auto with_block = [&](int size) {
    return [&device, size](std::int64_t n) {
      auto x = device.upload(std::vector<float>(n, 1.f)), y = device.upload(std::vector<float>(n));
      auto z = device.allocate<float>(n);
      return sc::bench::time(device.stream(), [&] {
        add.launch(device.stream(), sc::cdiv(n, size), x, y, z, n, {.size = size});
      });
    };
  };
  auto results =
      sc::bench::run(sweep, {{"block 128", with_block(128)}, {"block 1024", with_block(1024)}});
  std::fputs(results.text().c_str(), stdout);
  if (argc > 1)
    results.write(argv[1]);
  // [/sweep]
  for (const auto &series : results.series())
    for (const auto &point : series.points)
      if (!point.timing)
        return 1;
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
