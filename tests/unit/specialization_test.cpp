// The table of specialisations: many keys, many threads, and no allocation on the way to a known
// one.
#include "count_allocations.h"
#include "runtime/Specialization.h"
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;

static std::shared_ptr<LoadedKernel> kernel(const std::string &name) {
  Artifact artifact;
  artifact.entry = name;
  return std::make_unique<LoadedKernel>(artifact);
}

TEST(Specialization, FindsWhatWasPutInAndNothingElse) {
  SpecializationTable table;
  std::mt19937_64 random(1);
  std::vector<std::vector<uint64_t>> keys;
  for (int i = 0; i < 1000; ++i) {
    std::vector<uint64_t> key(1 + random() % 5);
    for (uint64_t &word : key)
      word = random() % 50;
    const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
    ASSERT_EQ(table.find(key) != nullptr, known);
    if (known)
      continue;
    table.insert(key, kernel(std::to_string(keys.size())));
    keys.push_back(key);
  }
  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(table.find(keys[i])->name, std::to_string(i));
}

TEST(Specialization, TheFirstOfTwoStays) {
  SpecializationTable table;
  const uint64_t key[] = {1, 2};
  const LoadedKernel *first = table.insert(key, kernel("first"));
  EXPECT_EQ(table.insert(key, kernel("second")), first);
  EXPECT_EQ(table.find(key)->name, "first");
}

TEST(Specialization, FindingAllocatesNothing) {
  SpecializationTable table;
  const uint64_t key[] = {1, 2, 3, 4, 5, 6, 7, 8};
  table.insert(key, kernel("k"));
  const size_t before = allocations;
  for (int i = 0; i < 100; ++i)
    ASSERT_NE(table.find(key), nullptr);
  EXPECT_EQ(allocations, before);
}

TEST(Specialization, ReadersAndWritersAtOnce) {
  SpecializationTable table;
  constexpr uint64_t count = 2000;
  std::atomic<uint64_t> inserted = 0;
  std::thread writer([&] {
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t key[] = {i, ~i};
      table.insert(key, kernel(std::to_string(i)));
      inserted.store(i + 1, std::memory_order_release);
    }
  });
  std::vector<std::thread> readers;
  for (int r = 0; r < 2; ++r)
    readers.emplace_back([&, r] {
      std::mt19937_64 random(static_cast<uint64_t>(r));
      while (inserted.load(std::memory_order_acquire) < count) {
        const uint64_t known = inserted.load(std::memory_order_acquire);
        const uint64_t i = random() % count, key[] = {i, ~i};
        const LoadedKernel *found = table.find(key);
        if (i < known) {
          ASSERT_NE(found, nullptr);
        }
        if (found) {
          ASSERT_EQ(found->name, std::to_string(i));
        }
      }
    });
  writer.join();
  for (std::thread &reader : readers)
    reader.join();
}
