// The compile cache: hits, damage, hostile folders, full disks, and many threads and processes at
// once.
#include "jit/CompileCache.h"
#include "tests/unit/Processes.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace sectile;
using namespace sectile::runtime;
using test::asOrdinaryUser;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

class CompileCacheTest : public testing::Test {
protected:
  CompileCacheTest() {
    char name[] = "/tmp/sectile-cache-XXXXXX";
    root = mkdtemp(name);
    folder = root / "kernels";
  }
  ~CompileCacheTest() override {
    chmod(folder.c_str(), 0700);
    fs::remove_all(root);
  }

  static CacheKey key(const std::string &ir = "module {}") {
    return {"k", "sm_90a", "warps=4", ir};
  }
  std::function<Artifact()> compiler(const std::string &code = "code") {
    return [this, code] {
      ++compiled;
      Artifact artifact;
      artifact.entry = "k";
      artifact.bytes = code;
      artifact.plan.wait = WaitPoint::ByHand;
      return artifact;
    };
  }
  std::vector<fs::path> entries(const char *extension = "") {
    std::vector<fs::path> found;
    for (const auto &item : fs::directory_iterator(folder))
      if (item.path().filename() != "lock" && item.path().extension() == extension)
        found.push_back(item.path());
    return found;
  }
  static void overwrite(const fs::path &file, size_t offset) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<std::streamoff>(offset);
    stream.seekg(place);
    const int byte = stream.get();
    stream.seekp(place);
    stream.put(static_cast<char>(~byte));
  }
  size_t files() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  fs::path root, folder;
  std::atomic<int> compiled = 0;
};

TEST_F(CompileCacheTest, MemoryThenDisk) {
  CompileCache first(folder);
  EXPECT_EQ(first.get(key(), compiler())->bytes, "code");
  EXPECT_EQ(first.get(key(), compiler())->bytes, "code");
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(first.counts().memoryHits, 1u);
  CompileCache second(folder);
  const auto found = second.get(key(), compiler());
  EXPECT_EQ(found->bytes, "code");
  EXPECT_EQ(found->plan.wait, WaitPoint::ByHand);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(second.counts().diskHits, 1u);
  struct stat info;
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(entries().at(0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(CompileCacheTest, EveryPartOfTheKeyCounts) {
  CompileCache cache(folder);
  CacheKey keys[5] = {key(), key(), key(), key(), key()};
  keys[1].kernel = "other";
  keys[2].target = "sm_80";
  keys[3].options = "warps=8";
  keys[4].ir = "module { }";
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(cache.get(keys[i], compiler(std::to_string(i)))->bytes, std::to_string(i));
  EXPECT_THAT(key().text(), HasSubstr("compiler sectile 0."));
  EXPECT_THAT(key().text(), HasSubstr("llvm 22"));
  EXPECT_GT(key().text().find("\n", key().text().find("build ")), key().text().find("build ") + 20)
      << "the library has no build ID";
}

TEST_F(CompileCacheTest, TheFolderCanBeMoved) {
  CompileCache(folder).get(key(), compiler());
  const fs::path moved = root / "moved";
  fs::rename(folder, moved);
  CompileCache(moved).get(key(), compiler());
  EXPECT_EQ(compiled, 1);
}

TEST_F(CompileCacheTest, ADamagedEntryIsSetAsideWithOneWarning) {
  const std::function<void(const fs::path &)> damages[] = {
      [](const fs::path &file) { fs::resize_file(file, 0); },
      [](const fs::path &file) { fs::resize_file(file, fs::file_size(file) / 2); },
      [](const fs::path &file) { overwrite(file, 20); },                       // in the key
      [](const fs::path &file) { overwrite(file, fs::file_size(file) - 30); }, // in the artifact
      [](const fs::path &file) { std::ofstream(file, std::ios::app) << "more"; },
  };
  for (const auto &damage : damages) {
    fs::remove_all(folder);
    CompileCache(folder).get(key(), compiler());
    CompileCache(folder).get(key("second"), compiler());
    for (const fs::path &file : entries())
      damage(file);
    testing::internal::CaptureStderr();
    CompileCache cache(folder);
    EXPECT_EQ(cache.get(key(), compiler())->bytes, "code");
    EXPECT_EQ(cache.get(key("second"), compiler())->bytes, "code");
    EXPECT_EQ(cache.counts().compiles, 2u);
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("set aside"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
    EXPECT_EQ(entries(".bad").size(), 2u);
    CompileCache again(folder);
    again.get(key(), compiler());
    EXPECT_EQ(again.counts().diskHits, 1u) << "the new entry is good";
  }
}

TEST_F(CompileCacheTest, WhatCompilingThrowsIsNotKept) {
  CompileCache cache(folder);
  EXPECT_THROW(cache.get(key(), []() -> Artifact { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_TRUE(entries().empty());
  EXPECT_EQ(cache.get(key(), compiler())->bytes, "code");
}

TEST_F(CompileCacheTest, WithoutAFolderMemoryServes) {
  CompileCache cache("");
  cache.get(key(), compiler());
  cache.get(key(), compiler());
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(cache.disk(), nullptr);
}

TEST_F(CompileCacheTest, MemoryIsBounded) {
  constexpr uint64_t limit = 100'000;
  CompileCache cache(folder, 1 << 30, contentHash, limit);
  const std::string code(9'000, 'x');
  std::shared_ptr<const Artifact> held = cache.get(key("held"), compiler(code));
  for (int i = 0; i < 100; ++i) {
    cache.get(key(std::to_string(i)), compiler(code));
    cache.get(key("used often"), compiler(code));
    EXPECT_LE(cache.memoryBytes(), limit);
    EXPECT_THROW(cache.get(key("fails"), []() -> Artifact { throw std::runtime_error("no"); }),
                 std::runtime_error);
  }
  EXPECT_EQ(compiled, 102);
  EXPECT_GT(cache.memoryBytes(), limit / 2);
  EXPECT_EQ(cache.counts().memoryHits, 99u) << "what is used stays";
  EXPECT_EQ(held->bytes, code) << "who has a kernel keeps it";
  cache.get(key("0"), compiler(code));
  EXPECT_EQ(cache.counts().diskHits, 1u);
  // One that is larger than the limit is served all the same.
  EXPECT_EQ(cache.get(key("large"), compiler(std::string(limit, 'y')))->bytes.size(), limit);
  EXPECT_LE(cache.memoryBytes(), limit);
}

// A folder that cannot be trusted or used: one warning with the reason, and everything works
// without it.
TEST_F(CompileCacheTest, BadFoldersAreNotUsed) {
  auto expectUnused = [&](const std::string &path, const char *reason) {
    testing::internal::CaptureStderr();
    CompileCache cache(path);
    EXPECT_EQ(cache.get(key(), compiler())->bytes, "code");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(reason)) << path;
    EXPECT_EQ(cache.disk(), nullptr);
  };
  const fs::path real = root / "real";
  fs::create_directory(real);
  fs::create_directory_symlink(real, root / "link");
  expectUnused(root / "link", "it is a symbolic link");
  expectUnused((root / "link/").string(), "it is a symbolic link");
  EXPECT_TRUE(fs::is_empty(real));

  fs::create_directory(root / "open");
  chmod((root / "open").c_str(), 0777);
  expectUnused(root / "open", "others can write to it");

  std::ofstream(root / "file") << "x";
  expectUnused(root / "file", "Not a directory");
  expectUnused(root / "file/below", "Not a directory");
  expectUnused("relative", "not an absolute path");
  if (geteuid() == 0) {
    fs::create_directory(root / "theirs");
    ASSERT_EQ(chown((root / "theirs").c_str(), 65534, 65534), 0);
    expectUnused(root / "theirs", "it belongs to another user");
  }
}

TEST_F(CompileCacheTest, PlantedEntriesAreNotRead) {
  CompileCache(folder).get(key(), compiler("good"));
  const fs::path file = entries().at(0), elsewhere = root / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_EQ(CompileCache(folder).get(key(), compiler("new"))->bytes, "new")
      << "a symbolic link was followed";
  EXPECT_FALSE(fs::is_symlink(file)) << "the entry was not written anew";
  chmod(file.c_str(), 0666);
  EXPECT_EQ(CompileCache(folder).get(key(), compiler("newer"))->bytes, "newer")
      << "anybody could have written it";
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(CompileCache(folder).get(key(), compiler("newest"))->bytes, "newest");
}

TEST_F(CompileCacheTest, AReadOnlyFolderIsReadAndNoMore) {
  asOrdinaryUser(root, [&] {
    CompileCache(folder).get(key(), compiler());
    chmod(folder.c_str(), 0500);
    testing::internal::CaptureStderr();
    CompileCache cache(folder);
    EXPECT_EQ(cache.get(key(), compiler())->bytes, "code");
    EXPECT_EQ(cache.counts().diskHits, 1u);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    cache.get(key("new"), compiler());
    cache.get(key("newer"), compiler());
    EXPECT_EQ(cache.counts().compiles, 2u);
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("cannot be kept: " + folder.string() + ": Permission denied"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
    EXPECT_EQ(files(), 2u);
  });
}

TEST_F(CompileCacheTest, AnUnreadableEntryIsAMiss) {
  asOrdinaryUser(root, [&] {
    CompileCache(folder).get(key(), compiler());
    chmod(entries().at(0).c_str(), 0);
    EXPECT_EQ(CompileCache(folder).get(key(), compiler("new"))->bytes, "new");
  });
}

TEST_F(CompileCacheTest, AFullDiskLeavesNothingBehind) {
  // A limit on the size of files stands for the disk's: the write stops halfway with an error.
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 4096;
  testing::internal::CaptureStderr();
  CompileCache cache(folder);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto artifact = cache.get(key(), compiler(std::string(100000, 'x')));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(artifact->bytes.size(), 100000u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be kept"));
  EXPECT_EQ(files(), 1u) << "only the lock file";
}

TEST_F(CompileCacheTest, OfManyThreadsOneCompiles) {
  CompileCache first(folder), second(folder); // two caches: the lock on disk counts as well
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      (i % 2 ? first : second).get(key(), [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return compiler()();
      });
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compiled, 1);
}

TEST_F(CompileCacheTest, OfManyProcessesOneCompiles) {
  const fs::path log = root / "log";
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i)
    if (children.push_back(fork()); children.back() == 0) {
      CompileCache cache(folder);
      for (const char *ir : {"a", "b"})
        cache.get(key(ir), [&] {
          std::ofstream(log, std::ios::app) << ir << std::flush;
          std::this_thread::sleep_for(std::chrono::milliseconds(30));
          return compiler(ir)();
        });
      _exit(cache.get(key("a"), compiler())->bytes == "a" ? 0 : 1);
    }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(fs::file_size(log), 2u);
}

TEST_F(CompileCacheTest, TwoKeysCompileAtOnce) {
  CompileCache cache(folder);
  std::atomic<int> inside = 0;
  auto together = [&] {
    ++inside;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (inside < 2 && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_EQ(inside, 2);
    return compiler()();
  };
  std::thread other([&] { cache.get(key("a"), together); });
  cache.get(key("b"), together);
  other.join();
}

TEST_F(CompileCacheTest, TheOldestGoWhenTheFolderIsFull) {
  DiskStore store(folder, 1000);
  const std::string bytes(300, 'x');
  for (const char *name : {"a", "b", "c"}) {
    ASSERT_TRUE(store.write(name, bytes));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  ASSERT_TRUE(store.read("a")); // used again: now b is the oldest
  std::this_thread::sleep_for(std::chrono::milliseconds(15));
  ASSERT_TRUE(store.write("d", bytes));
  EXPECT_TRUE(store.read("a"));
  EXPECT_FALSE(store.read("b"));
  EXPECT_TRUE(store.read("c"));
  EXPECT_TRUE(store.read("d"));
}

TEST_F(CompileCacheTest, TheTunersDatabaseIsNoEntry) {
  DiskStore store(folder, 1000);
  std::ofstream(folder / "tuning.sqlite") << std::string(2000, 'x');
  ASSERT_TRUE(store.write("a", "x"));
  store.prune(0);
  EXPECT_TRUE(store.entries().empty());
  EXPECT_TRUE(fs::exists(folder / "tuning.sqlite"));
}

TEST_F(CompileCacheTest, WhatADeadWriterLeftGoesAfterAnHour) {
  DiskStore store(folder, 1000);
  std::ofstream(folder / "old.1.tmp") << "x";
  std::ofstream(folder / "young.1.tmp") << "x";
  fs::last_write_time(folder / "old.1.tmp",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  store.prune(1000);
  EXPECT_FALSE(fs::exists(folder / "old.1.tmp"));
  EXPECT_TRUE(fs::exists(folder / "young.1.tmp"));
}

TEST_F(CompileCacheTest, TheFolderComesFromTheEnvironment) {
  const char *names[] = {"SECTILE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
  std::optional<std::string> before[3];
  for (int i = 0; i < 3; ++i)
    if (const char *value = getenv(names[i]))
      before[i] = value;
  setenv("HOME", "/h", 1);
  setenv("XDG_CACHE_HOME", "/x", 1);
  setenv("SECTILE_CACHE_DIR", "/s", 1);
  EXPECT_EQ(CompileCache::defaultFolder(), "/s");
  unsetenv("SECTILE_CACHE_DIR");
  EXPECT_EQ(CompileCache::defaultFolder(), "/x/sectile");
  setenv("XDG_CACHE_HOME", "not/absolute", 1);
  EXPECT_EQ(CompileCache::defaultFolder(), "/h/.cache/sectile");
  for (int i = 0; i < 3; ++i)
    before[i] ? setenv(names[i], before[i]->c_str(), 1) : unsetenv(names[i]);
}

} // namespace
