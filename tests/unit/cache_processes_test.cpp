// Many processes at one compile cache: who compiles, who dies, what is evicted and moved meanwhile.
#include "CacheTest.h"
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <thread>

using namespace sectile;
using namespace sectile::runtime;
using namespace sectile::test;
namespace fs = std::filesystem;

namespace {

class CacheProcesses : public CacheTest {
protected:
  /// serves(), and a letter in a file for each compile.
  bool servesAndLogs(CompileCache &cache, const std::string &ir) const {
    const auto artifact = cache.get(key(ir), [&] {
      std::ofstream(root / "compiles", std::ios::app) << "x" << std::flush;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return compiled(ir);
    });
    return artifact->bytes == codeOf(ir);
  }
  uintmax_t compiles() const { return fs::file_size(root / "compiles"); }

  static std::string ir(unsigned i) { return "kernel " + std::to_string(i); }
};

} // namespace

TEST_F(CacheProcesses, OfSixtyFourWritersOfOneKeyOneCompiles) {
  expectAllWell(start(64, [&](unsigned) {
    CompileCache cache(folder);
    return servesAndLogs(cache, "the one") ? 0 : 1;
  }));
  EXPECT_EQ(compiles(), 1u);
  expectWhole(folder);
}

TEST_F(CacheProcesses, SixtyFourWritersOfManyKeysCompileEachOnce) {
  const unsigned keys = count(20, 200);
  auto children = start(64, [&](unsigned i) {
    CompileCache cache(folder);
    for (unsigned k = 0; k < keys; ++k) // each starts elsewhere
      if (const unsigned which = (k + i * 7) % keys; !servesAndLogs(cache, ir(which)))
        return 1;
      else
        cache.rememberLaunch("launch " + ir(which), key(ir(which)), "hash");
    return 0;
  });
  expectAllWell(std::move(children));
  EXPECT_EQ(compiles(), keys);
  expectWhole(folder);
  CompileCache cache(folder);
  for (unsigned k = 0; k < keys; ++k) {
    const auto launch = cache.findLaunch("launch " + ir(k));
    ASSERT_TRUE(launch);
    ASSERT_TRUE(cache.get(*launch));
  }
}

TEST_F(CacheProcesses, WritersAreKilledInMidWrite) {
  std::mt19937 random(4711);
  // What was there before must still be found afterwards.
  CompileCache before(folder);
  ASSERT_TRUE(serves(before, "kept"));
  for (unsigned kills = count(30, 1000); kills; --kills) {
    Child child([&] {
      CompileCache cache(folder);
      for (unsigned i = 0;; ++i) {
        const std::string name = ir(kills * 1000 + i);
        if (!serves(cache, name))
          return 1;
        cache.rememberLaunch("launch " + name, key(name), "hash");
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10000));
    child.kill(SIGKILL);
    ASSERT_EQ(child.wait(), -SIGKILL);
    // Its locks are gone with it, and the next process finds or makes what it was at.
    CompileCache cache(folder);
    ASSERT_TRUE(serves(cache, "kept"));
    ASSERT_EQ(cache.counts().diskHits, 1u);
    ASSERT_TRUE(serves(cache, ir(kills * 1000)));
    if (kills % 50 == 0) {
      expectWhole(folder);
      cache.disk()->prune(1 << 20);
      ASSERT_TRUE(serves(cache, "kept"));
      CompileCache again(folder);
      ASSERT_TRUE(serves(again, "kept"));
    }
  }
  expectWhole(folder);
}

TEST_F(CacheProcesses, EntriesAreEvictedWhileOthersRead) {
  constexpr unsigned keys = 40;
  const unsigned rounds = count(300, 5000);
  const uint64_t limit = 10 * 7000; // of the forty about ten
  auto children = start(4, [&](unsigned i) {
    std::mt19937 random(i);
    for (unsigned round = 0; round < rounds; ++round) {
      CompileCache cache(folder, limit); // a new one: nothing is known from before
      const std::string name = ir(random() % keys);
      if (!serves(cache, name))
        return 1;
      cache.rememberLaunch("launch " + name, key(name), "hash");
      if (const auto launch = cache.findLaunch("launch " + name))
        if (const auto artifact = cache.get(*launch); artifact && artifact->bytes != codeOf(name))
          return 2;
      if (round % 16 == i)
        cache.disk()->prune(0);
    }
    return 0;
  });
  expectAllWell(std::move(children));
  expectWhole(folder);
  DiskStore store(folder, limit);
  store.prune(limit);
  uint64_t bytes = 0;
  for (const DiskStore::Entry &entry : store.entries())
    bytes += entry.bytes;
  EXPECT_LE(bytes, limit);
}

TEST_F(CacheProcesses, TheFolderIsMovedWhileTheyRun) {
  const fs::path moved = root / "moved";
  constexpr unsigned keys = 30;
  {
    CompileCache cache(folder);
    for (unsigned k = 0; k < keys; ++k)
      ASSERT_TRUE(serves(cache, ir(k)));
  }
  int ends[2]; // the children run until it is closed
  ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  auto children = start(
      4,
      [&](unsigned i) {
        close(ends[1]);
        std::mt19937 random(i);
        char byte;
        while (::read(ends[0], &byte, 1) != 0) {
          CompileCache cache(folder); // the folder that is there now, or a new one
          for (int step = 0; step < 5; ++step)
            if (!serves(cache, ir(random() % (2 * keys))))
              return 1;
        }
        return 0;
      },
      /*quiet=*/true);
  close(ends[0]);
  unsigned moves = 0;
  for (unsigned move = 0; move < count(20, 300); ++move) {
    std::error_code error; // children write there still, or have not made it anew yet
    fs::remove_all(moved, error);
    fs::rename(folder, moved, error);
    moves += !error;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  close(ends[1]);
  expectAllWell(std::move(children));
  EXPECT_GT(moves, 5u);

  // Wherever it is taken, what is in it is found.
  fs::remove_all(moved);
  CompileCache last(folder);
  ASSERT_TRUE(serves(last, ir(1)));
  fs::rename(folder, moved);
  ASSERT_TRUE(serves(last, "written after the move"));
  EXPECT_FALSE(fs::exists(folder));
  expectWhole(moved);
  CompileCache elsewhere(moved);
  ASSERT_TRUE(serves(elsewhere, ir(1)));
  ASSERT_TRUE(serves(elsewhere, "written after the move"));
  EXPECT_EQ(elsewhere.counts().diskHits, 2u);
}
