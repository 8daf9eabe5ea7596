// What the compile cache's folder withstands: errors of every call, damage to every byte, keys of
// one hash, disks that are full or read-only, folders that others could exchange.
#include "CacheTest.h"
#include "FaultyCalls.h"
#include <cerrno>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace sectile;
using namespace sectile::runtime;
using namespace sectile::test;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

class CacheFaults : public CacheTest {
protected:
  /// Everything that a process does with its cache; false where something is wrong.
  static bool use(const fs::path &folder, const std::string &newIr) {
    CompileCache cache(folder);
    bool right = serves(cache, "old") && serves(cache, newIr);
    if (const auto launch = cache.findLaunch("a launch of old"))
      if (const auto artifact = cache.get(*launch))
        right &= artifact->bytes == codeOf("old");
    cache.rememberLaunch("a launch of " + newIr, key(newIr), "hash");
    if (DiskStore *store = cache.disk()) {
      listCache(*store);
      store->prune(1 << 20);
    }
    return right;
  }
  void fill() {
    CompileCache cache(folder);
    serves(cache, "old");
    cache.rememberLaunch("a launch of old", key("old"), "hash");
  }
};

std::string fileBytes(const fs::path &file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void putBytes(const fs::path &file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

// As local and network file systems fail.
constexpr int errors[] = {EBUSY,  ESTALE, EIO,    ENOLCK, EACCES,   ENOSPC,
                          EDQUOT, EROFS,  ENOENT, EMFILE, ETIMEDOUT};

} // namespace

TEST_F(CacheFaults, AnErrorOfAnyCallIsAMiss) {
  fill();
  unsigned scenarios = 0;
  testing::internal::CaptureStderr();
  for (unsigned call = 0; call < faultyCallCount; ++call)
    for (int error : errors)
      for (unsigned at : {0u, 1u, 2u, 5u})
        for (unsigned times : {1u, Fault::always}) {
          Fault fault;
          fault.call = faultyCalls[call];
          fault.at = at;
          fault.times = times;
          fault.error = error;
          bool right = false;
          {
            Faulty faulty(fault);
            right = use(folder, "new " + std::to_string(scenarios++ % 50));
          }
          ASSERT_TRUE(right) << fault.call << " " << std::strerror(error) << " at " << at;
        }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(scenarios, 1000u);
  expectWhole(folder);
  CompileCache cache(folder);
  EXPECT_TRUE(serves(cache, "old"));
  EXPECT_EQ(cache.counts().diskHits, 1u) << "an entry that could not be read for a while is lost";
}

TEST_F(CacheFaults, CallsThatAreInterruptedOrDoLittleAreGoneOnWith) {
  fill();
  for (const char *call : {"read", "write"}) {
    Fault fault;
    fault.call = call;
    fault.partly = true;
    fault.times = 3000;
    Fault interrupted;
    interrupted.call = call;
    interrupted.error = EINTR;
    interrupted.times = 5;
    for (const Fault &each : {fault, interrupted}) {
      const Faulty faulty(each);
      ASSERT_TRUE(use(folder, std::string("new of ") + call + std::to_string(each.error)));
      EXPECT_GT(Faulty::calls(), 5u);
    }
  }
  expectWhole(folder);
  CompileCache cache(folder);
  EXPECT_TRUE(serves(cache, "old"));
  EXPECT_TRUE(serves(cache, "new of write" + std::to_string(EINTR)));
  EXPECT_EQ(cache.counts().compiles, 0u);
}

// What a loss of power would show: a name without the contents.
TEST_F(CacheFaults, AnEntryIsOnTheDiskBeforeItHasItsName) {
  CompileCache cache(folder);
  Fault none;
  none.at = Fault::always;
  const Faulty faulty(none);
  ASSERT_TRUE(serves(cache, "new"));
  EXPECT_THAT(Faulty::names(), HasSubstr("write fsync renameat "));
}

// A process is killed at each call in turn, a write half done.
TEST_F(CacheFaults, AProcessMayDieAtAnyCall) {
  unsigned deaths = 0;
  for (unsigned at = 0;; ++at) {
    fs::remove_all(folder);
    fill();
    Child child([&] {
      Fault fault;
      fault.at = at;
      fault.times = 1;
      fault.kill = true;
      const Faulty faulty(fault);
      return use(folder, "new") ? 0 : 1;
    });
    const int status = child.wait();
    expectWhole(folder);
    CompileCache cache(folder);
    ASSERT_TRUE(serves(cache, "old"));
    EXPECT_EQ(cache.counts().diskHits, 1u) << "an entry is lost after call " << at;
    ASSERT_TRUE(serves(cache, "new"));
    if (status == 0)
      break;
    ASSERT_EQ(status, -SIGKILL);
    ++deaths;
  }
  EXPECT_GT(deaths, 40u);
}

// Each byte in turn, and each length, of an entry of either kind.
TEST_F(CacheFaults, EveryFlippedByteAndEveryTruncationIsSeen) {
  fill();
  for (const char *suffix : {"", ".launch"}) {
    fs::path file;
    for (const auto &item : fs::directory_iterator(folder))
      if (item.path().extension() == suffix && item.path().filename() != "lock")
        file = item.path();
    ASSERT_FALSE(file.empty());
    const std::string good = fileBytes(file);
    auto check = [&](const std::string &bad, const std::string &what) {
      putBytes(file, bad);
      chmod(file.c_str(), 0600);
      CompileCache cache(folder);
      if (*suffix) {
        EXPECT_FALSE(cache.findLaunch("a launch of old")) << what;
      } else {
        EXPECT_TRUE(serves(cache, "old")) << what;
        EXPECT_EQ(cache.counts().compiles, 1u) << what;
      }
      EXPECT_TRUE(fs::exists(file.string() + ".bad")) << what;
    };
    testing::internal::CaptureStderr();
    for (size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
      check(bad, "byte " + std::to_string(i));
      check(good.substr(0, i), "cut to " + std::to_string(i));
    }
    check(good + "more", "longer");
    testing::internal::GetCapturedStderr();
    putBytes(file, good);
    EXPECT_TRUE(CompileCache(folder).findLaunch("a launch of old"));
  }
}

// Of a home that machines with several versions share: no version spoils another's entries.
TEST_F(CacheFaults, EntriesOfOtherVersionsAreLeftAlone) {
  // As version 3 wrote it, and as a later one will: the checksum covers the version since 4.
  auto entryOf = [](uint32_t version, uint64_t seed, bool damaged = false) {
    const std::string body = "in words that this version does not know";
    XXH128_canonical_t checksum;
    XXH128_canonicalFromHash(&checksum, XXH3_128bits_withSeed(body.data(), body.size(), seed));
    std::string bytes = "sectilec";
    bytes.append(reinterpret_cast<const char *>(&version), sizeof version);
    bytes.append(reinterpret_cast<const char *>(&checksum), sizeof checksum);
    return bytes + body + (damaged ? "!" : "");
  };
  const fs::path kernel = folder / contentHash(key("old").text()),
                 launch = folder / (contentHash("a launch of old") + ".launch");
  for (const std::string &foreign : {entryOf(3, 0), entryOf(6, 6)}) {
    fs::remove_all(folder);
    fs::create_directory(folder);
    chmod(folder.c_str(), 0700);
    for (const fs::path &file : {kernel, launch}) {
      putBytes(file, foreign);
      chmod(file.c_str(), 0600);
    }
    testing::internal::CaptureStderr();
    fill();
    CompileCache cache(folder);
    EXPECT_TRUE(serves(cache, "old"));
    EXPECT_TRUE(cache.findLaunch("a launch of old"));
    EXPECT_EQ(cache.counts().compiles, 0u) << "it was not kept beside the other";
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    unsigned others = 0;
    for (const ListedEntry &entry : listCache(*cache.disk()))
      others += entry.kind == ListedEntry::OtherVersion;
    EXPECT_EQ(others, 2u);
    for (const fs::path &file : {kernel, launch})
      EXPECT_EQ(fileBytes(file), foreign);
  }
  // All places taken: nothing is written over.
  for (int i = 0; i < 8; ++i) {
    const fs::path place = kernel.string() + (i ? "-" + std::to_string(i) : "");
    putBytes(place, entryOf(3, 0));
    chmod(place.c_str(), 0600);
  }
  CompileCache cache(folder);
  EXPECT_TRUE(serves(cache, "old"));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(fileBytes(kernel.string() + (i ? "-" + std::to_string(i) : "")), entryOf(3, 0));
  // What only says that it is of another version is damaged.
  for (const std::string &bad : {entryOf(3, 0, true), entryOf(6, 0), entryOf(6, 6, true)}) {
    putBytes(kernel, bad);
    testing::internal::CaptureStderr();
    CompileCache again(folder);
    EXPECT_TRUE(serves(again, "old"));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("set aside"));
  }
}

// An entry for what it says, in the place of another.
TEST_F(CacheFaults, AWholeEntryUnderAnotherNameIsNotTaken) {
  fill();
  CompileCache first(folder);
  ASSERT_TRUE(serves(first, "other"));
  const fs::path one = folder / contentHash(key("old").text()),
                 other = folder / contentHash(key("other").text());
  fs::copy_file(other, one, fs::copy_options::overwrite_existing);
  chmod(one.c_str(), 0600);
  CompileCache second(folder);
  const auto launch = second.findLaunch("a launch of old");
  ASSERT_TRUE(launch);
  EXPECT_FALSE(second.get(*launch)) << "another kernel's code was taken";
  EXPECT_TRUE(serves(second, "old"));
  EXPECT_TRUE(serves(second, "other"));
}

// All keys have one hash.
TEST_F(CacheFaults, KeysOfOneHashAreToldApart) {
  const auto same = [](std::string_view) { return std::string(32, '0'); };
  auto ir = [](int i) { return "kernel " + std::to_string(i); };
  {
    CompileCache cache(folder, 1 << 30, same);
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(serves(cache, ir(i)));
      cache.rememberLaunch("launch " + ir(i), key(ir(i)), ir(i));
    }
    EXPECT_EQ(cache.counts().compiles, 6u);
  }
  CompileCache again(folder, 1 << 30, same);
  for (int i = 5; i >= 0; --i) {
    const auto launch = again.findLaunch("launch " + ir(i));
    ASSERT_TRUE(launch);
    EXPECT_EQ(launch->irHash, ir(i));
    ASSERT_TRUE(again.get(*launch));
    EXPECT_EQ(again.get(*launch)->bytes, codeOf(ir(i)));
    ASSERT_TRUE(serves(again, ir(i)));
  }
  EXPECT_EQ(again.counts().compiles, 0u) << "an entry was lost to another of its hash";

  // More of them than are kept: some are compiled again, none is another's.
  for (int round = 0; round < 2; ++round) {
    CompileCache many(folder, 1 << 30, same);
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(serves(many, ir(i)));
      many.rememberLaunch("launch " + ir(i), key(ir(i)), ir(i));
      if (const auto launch = many.findLaunch("launch " + ir(i)))
        if (const auto artifact = many.get(*launch)) {
          EXPECT_EQ(artifact->bytes, codeOf(ir(i)));
        }
    }
  }
  expectWhole(folder);
}

//===-- Containers and file servers
//----------------------------------------------------------------===//

// The same process number as the writer that was killed.
TEST_F(CacheFaults, AContainerWritesAfterItsRestart) {
  auto run = [&](const Fault &fault) {
    return Child([&] {
             return inContainer([&] {
               CompileCache cache(folder);
               const Faulty faulty(fault);
               return serves(cache, "old") && cache.disk()->problem().empty() ? 0 : 1;
             });
           })
        .wait();
  };
  Fault killed, none;
  killed.call = "write";
  killed.kill = true;
  none.at = Fault::always;
  const int status = run(killed);
  if (status == noContainer)
    GTEST_SKIP() << "no containers can be made here";
  EXPECT_NE(status, 0);
  CompileCache before(folder);
  EXPECT_EQ(listCache(*before.disk()).at(0).kind, ListedEntry::Unfinished);
  EXPECT_EQ(run(none), 0);
  EXPECT_TRUE(serves(before, "old"));
  EXPECT_EQ(before.counts().compiles, 0u) << "the entry could not be written";
}

// On a file system without locks nothing but names keeps writers apart.
TEST_F(CacheFaults, SixtyFourContainersWriteOneKeyAtOnce) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  auto children = start(64, [&](unsigned) {
    close(ends[1]);
    return inContainer([&] {
      CompileCache cache(folder);
      Fault noLocks;
      noLocks.call = "fcntl";
      noLocks.error = ENOLCK;
      const Faulty faulty(noLocks);
      char byte;
      (void)!::read(ends[0], &byte, 1); // until all are there
      const bool right = serves(cache, "the one");
      return right && cache.disk()->problem().empty() ? 0 : 1;
    });
  });
  close(ends[0]);
  close(ends[1]);
  unsigned without = 0;
  for (Child &child : children)
    if (const int status = child.wait(); status == noContainer)
      ++without;
    else
      EXPECT_EQ(status, 0);
  if (without)
    GTEST_SKIP() << "no containers can be made here";
  expectWhole(folder);
}

// What is old a server's clock says, whose times the files have.
TEST_F(CacheFaults, AServersClockMayBeBehindOrAhead) {
  DiskStore store(folder, 1000);
  const fs::path young = folder / "young.tmp", old = folder / "old.tmp";
  const auto now = fs::file_time_type::clock::now();
  for (long ahead : {-7200L, 7200L}) {
    putBytes(young, "x");
    putBytes(old, "x");
    fs::last_write_time(old, now - std::chrono::hours(2));
    const ClockAhead clock(ahead);
    store.prune(1000);
    EXPECT_TRUE(fs::exists(young)) << "somebody is writing it; the clock is ahead by " << ahead;
    EXPECT_FALSE(fs::exists(old)) << "the clock is ahead by " << ahead;
  }
}

// The server's clock was wrong, and was put right.
TEST_F(CacheFaults, TimesToComeAreOldest) {
  DiskStore store(folder, 1000);
  const auto now = fs::file_time_type::clock::now();
  for (const char *name : {"a", "b", "c.tmp"}) {
    ASSERT_TRUE(store.write(name, std::string(300, 'x')));
    fs::last_write_time(folder / name, now + std::chrono::hours(*name == 'a' ? -1 : 240));
  }
  store.prune(300);
  EXPECT_TRUE(fs::exists(folder / "a"));
  EXPECT_FALSE(fs::exists(folder / "b")) << "it would never go";
  EXPECT_FALSE(fs::exists(folder / "c.tmp"));
}

//===-- Folders
//-----------------------------------------------------------------------------------===//

namespace {
std::string warningOf(const fs::path &folder) {
  testing::internal::CaptureStderr();
  CompileCache cache(folder);
  EXPECT_EQ(cache.disk(), nullptr) << folder;
  return testing::internal::GetCapturedStderr();
}
} // namespace

TEST_F(CacheFaults, AFolderThatOthersCouldExchangeIsNotUsed) {
  const fs::path open = root / "open";
  fs::create_directory(open);
  chmod(open.c_str(), 0777);
  EXPECT_THAT(warningOf(open / "kernels"),
              HasSubstr("on the way to it, " + open.string() + ": others can write to it"));
  EXPECT_FALSE(fs::exists(open / "kernels"));
  fs::create_directory(open / "private");
  chmod((open / "private").c_str(), 0700);
  EXPECT_THAT(warningOf(open / "private/kernels"), HasSubstr("others can write to it"));

  // A link in such a folder may lead elsewhere tomorrow, wherever it leads now.
  fs::create_directory(root / "real");
  fs::create_directory_symlink(root / "real", open / "link");
  fs::create_directory_symlink(open / "link", root / "linked");
  EXPECT_THAT(warningOf(root / "linked/kernels"), HasSubstr(open.string() + ": others can write"));
  EXPECT_TRUE(fs::is_empty(root / "real"));

  chmod(open.c_str(), 01777); // sticky, as /tmp is
  CompileCache sticky(open / "private/kernels"), linked(root / "linked/below/../kernels");
  EXPECT_TRUE(sticky.disk());
  EXPECT_TRUE(linked.disk());
  EXPECT_TRUE(fs::exists(root / "real/kernels"));

  fs::create_directory_symlink("loop", root / "loop");
  EXPECT_THAT(warningOf(root / "loop/kernels"), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(CacheFaults, AFolderOfSomebodyElseIsNotUsed) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give folders away";
  fs::create_directories(root / "theirs/kernels");
  ASSERT_EQ(chown((root / "theirs/kernels").c_str(), 65534, 65534), 0);
  EXPECT_THAT(warningOf(root / "theirs/kernels"), HasSubstr("it belongs to another user"));
  ASSERT_EQ(chown((root / "theirs/kernels").c_str(), 0, 0), 0);
  ASSERT_EQ(chown((root / "theirs").c_str(), 65534, 65534), 0);
  EXPECT_THAT(warningOf(root / "theirs/kernels"),
              HasSubstr((root / "theirs").string() + ": it belongs to another user"));
  fs::create_directory(root / "sticky");
  chmod((root / "sticky").c_str(), 01777);
  fs::create_directory(root / "real");
  fs::create_directory_symlink(root / "real", root / "sticky/link");
  ASSERT_EQ(lchown((root / "sticky/link").c_str(), 65534, 65534), 0);
  EXPECT_THAT(warningOf(root / "sticky/link/kernels"), HasSubstr("it belongs to another user"));
}

//===-- Disks
//-------------------------------------------------------------------------------------===//

TEST_F(CacheFaults, AFullDisk) {
  onDisk(folder, "size=128k,mode=700", [&] {
    testing::internal::CaptureStderr();
    CompileCache cache(folder);
    for (int i = 0; i < 60; ++i)
      ASSERT_TRUE(serves(cache, "kernel " + std::to_string(i)));
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("cannot be kept: " + folder.string() + ": No space left"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
    expectWhole(folder);
    size_t kernels = 0;
    for (const ListedEntry &entry : listCache(*cache.disk())) {
      EXPECT_EQ(entry.kind, ListedEntry::Kernel) << "something was left behind";
      ++kernels;
    }
    EXPECT_GT(kernels, 5u);
    EXPECT_LT(kernels, 60u);
    // Once there is room again, entries are kept again.
    cache.disk()->prune(20000);
    EXPECT_TRUE(serves(cache, "later"));
    CompileCache second(folder);
    EXPECT_TRUE(serves(second, "later"));
    EXPECT_EQ(second.counts().diskHits, 1u);
  });
}

TEST_F(CacheFaults, ADiskThatIsReadOnly) {
  onDisk(folder, "size=1m,mode=700", [&] {
    fill();
    ASSERT_EQ(mount("none", folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    testing::internal::CaptureStderr();
    CompileCache cache(folder);
    EXPECT_TRUE(serves(cache, "old"));
    EXPECT_EQ(cache.counts().diskHits, 1u);
    EXPECT_TRUE(cache.findLaunch("a launch of old"));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    EXPECT_TRUE(serves(cache, "new"));
    EXPECT_TRUE(serves(cache, "newer"));
    cache.disk()->prune(0);
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("Read-only file system"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1);
    EXPECT_TRUE(serves(cache, "old"));
  });
}
