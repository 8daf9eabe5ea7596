// Cache and eviction hints change nothing of what a kernel does; volatile accesses all happen.
#include "Devices.h"

namespace sc = sectile;

namespace {

SECTILE_ON_DEVICES(CacheHints);

constexpr sc::Eviction evictions[] = {sc::Eviction::normal, sc::Eviction::first,
                                      sc::Eviction::last};
constexpr sc::Cache ofLoads[] = {sc::Cache::normal, sc::Cache::all_levels, sc::Cache::global,
                                 sc::Cache::streaming, sc::Cache::uncached};
constexpr sc::Cache ofStores[] = {sc::Cache::normal,     sc::Cache::global,
                                  sc::Cache::streaming,  sc::Cache::uncached,
                                  sc::Cache::write_back, sc::Cache::write_through};

TEST_P(CacheHints, ChangeNothing) {
  sc::Kernel kernel{
      "hints", [](sc::View<const float, 1> x, sc::Ptr<float> loads, sc::View<float, 2> stores) {
        auto i = sc::arange(0, 256);
        auto sum = sc::zeros<float>(256);
        int row = 0;
        for (sc::Eviction eviction : evictions) {
          for (sc::Cache cache : ofLoads) {
            sc::Access access{cache, eviction};
            sum += x.tile(256).access(access).load(0);
            sum += sc::load(x.ptr() + i, i < 250, 1, access);
          }
          for (sc::Cache cache : ofStores) {
            stores.tile(1, 256)
                .access({cache, eviction})
                .store(row, 0, sc::expand(sc::cast<float>(i * row), 0));
            ++row;
          }
        }
        sc::store(loads + i, sum);
      }};
  constexpr int rows = 3 * 6;
  std::vector<float> x(256);
  for (size_t i = 0; i < 256; ++i)
    x[i] = static_cast<float>(i * 3 % 17);
  auto given = device.upload(x);
  auto loads = device.allocate<float>(256), stores = device.allocate<float>(rows * 256);
  kernel.launch(device.stream(), 1, sc::tensor(given, {250}), loads,
                sc::tensor(stores, {rows, 256}));
  const std::vector<float> sums = loads.download(), written = stores.download();
  for (size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(sums[i], i < 250 ? 30 * x[i] : 15);
    for (size_t row = 0; row < rows; ++row)
      EXPECT_EQ(written[row * 256 + i], static_cast<float>(i * row));
  }
}

// A number that no two of the loads may share, because the kernel itself changes it between them;
// and numbers of rows, which several threads hold.
TEST_P(CacheHints, VolatileLoadsAllHappen) {
  sc::Kernel kernel{"volatile", [](sc::Ptr<int> x, sc::Ptr<int> out) {
                      sc::Access fresh{.cache = sc::Cache::uncached};
                      auto first = sc::load(x, fresh);
                      sc::store(x, first + 1, {.cache = sc::Cache::uncached});
                      sc::barrier();
                      auto second = sc::load(x, fresh);
                      auto i = sc::arange(0, 16);
                      auto few = sc::load(x + i + 1, i < 12, 9, fresh);
                      few += sc::load(x + i + 1, i < 0, fresh); // zeros
                      sc::store(out + sc::expand(i, 1) * 32 + sc::arange(0, 32),
                                sc::expand(few, 1) + sc::zeros<int>(16, 32) + second * first);
                    }};
  std::vector<int> x(17);
  for (int i = 0; i < 17; ++i)
    x[size_t(i)] = i + 10;
  auto memory = device.upload(x);
  auto out = device.allocate<int>(16 * 32);
  kernel.launch(device.stream(), 1, memory, out);
  const std::vector<int> got = out.download();
  for (int k = 0; k < 16 * 32; ++k)
    EXPECT_EQ(got[size_t(k)], (k / 32 < 12 ? k / 32 + 11 : 9) + 110);
  EXPECT_EQ(memory.download()[0], 11);
}

} // namespace
