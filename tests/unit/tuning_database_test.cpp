// The tuner's database: what it keeps and finds, damage, hostile folders, full disks, many
// processes at once, leases, layers and the exchange of measurements as JSON.
#include "autotune/Database.h"
#include "autotune/Exchange.h"
#include "tests/unit/DatabaseTest.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace sectile::autotune;
using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

namespace {

TEST_F(TuningDatabaseTest, TheNextProcessKnowsEveryMeasurement) {
  {
    Database database(folder);
    EXPECT_THAT(database.lookup(key()), IsEmpty());
    EXPECT_TRUE(database.record(key(), measured("slow", 20)));
    EXPECT_TRUE(database.record(key(), measured("fast", 10)));
    EXPECT_TRUE(database.record(key(), measured("wrong", 1, Verdict::Wrong)));
    EXPECT_TRUE(database.record(key(1024), measured("other", 5)));
  }
  Database database(folder);
  const std::vector<Measurement> found = database.lookup(key());
  ASSERT_THAT(configs(found), ElementsAre("fast", "slow", "wrong"));
  expectSame(found[0], measured("fast", 10));
  expectSame(found[2], measured("wrong", 1, Verdict::Wrong));
  EXPECT_EQ(database.problem(), "");
  struct stat info;
  for (const char *name : {"tuning.sqlite", "tuning.sqlite-wal", "tuning.sqlite-shm"}) {
    ASSERT_EQ(stat((folder / name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << name;
  }
}

TEST_F(TuningDatabaseTest, AConfigurationIsReplacedTheOthersStay) {
  Database database(folder);
  database.record(key(), measured("a", 10));
  database.record(key(), measured("b", 20));
  database.record(key(), measured("a", 30));
  const std::vector<Measurement> found = database.lookup(key());
  ASSERT_THAT(configs(found), ElementsAre("b", "a"));
  EXPECT_EQ(found[1].median, 30);
}

TEST_F(TuningDatabaseTest, EveryPartOfTheKeyCounts) {
  Database database(folder);
  std::vector<TuningKey> keys(7, key());
  keys[1].kernel = "matmuL";
  keys[2].code = "c0df";
  keys[3].device = "virtual:sm_80";
  keys[4].dtypes = "f16 bf16";
  keys[5].shape[1].first = "k";
  keys[6].shape[1].second = 65;
  for (size_t i = 0; i < keys.size(); ++i)
    database.record(keys[i], measured(std::to_string(i), 1));
  for (size_t i = 0; i < keys.size(); ++i)
    EXPECT_THAT(configs(database.lookup(keys[i])), ElementsAre(std::to_string(i)));
}

TEST_F(TuningDatabaseTest, TheNearestShapeServes) {
  Database database(folder);
  EXPECT_FALSE(database.nearest(key(1)));
  database.record(key(256), measured("256", 1));
  database.record(key(4096), measured("4096", 1));
  database.record(key(1024), measured("wrong", 1, Verdict::Wrong));
  TuningKey odd = key(1000);
  odd.shape.pop_back();
  database.record(odd, measured("fewer extents", 1));
  TuningKey other = key(1000);
  other.code = "other";
  database.record(other, measured("other code", 1));
  auto found = database.nearest(key(1000));
  ASSERT_TRUE(found);
  EXPECT_THAT(configs(found->measurements), ElementsAre("256"));
  EXPECT_NEAR(found->distance, 1.9658, 1e-4);
  EXPECT_EQ(found->key.shape, key(256).shape);
  EXPECT_EQ(database.nearest(key(1100))->key.shape, key(4096).shape);
  TuningKey both = key(2048);
  both.shape[1].second = 16;
  EXPECT_EQ(database.nearest(both)->distance, 3);
  EXPECT_EQ(database.nearest(key(0))->distance, 8) << "nothing counts as one";
}

TEST_F(TuningDatabaseTest, WithoutAFolderMemoryServes) {
  Database database("");
  EXPECT_FALSE(database.record(key(), measured("a", 10)));
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a"));
  EXPECT_EQ(database.nearest(key(1024))->distance, 1);
  EXPECT_EQ(database.file(), "");
  EXPECT_EQ(database.remove([](auto &...) { return true; }), 1u);
  EXPECT_THAT(database.lookup(key()), IsEmpty());
}

TEST_F(TuningDatabaseTest, NumbersThatAreNoneAreRefused) {
  Database database(folder);
  EXPECT_FALSE(database.record(key(), measured("a", std::nan(""))));
  EXPECT_THAT(database.lookup(key()), IsEmpty());
}

TEST_F(TuningDatabaseTest, RemovingTakesWhatIsNamed) {
  Database database(folder);
  for (int64_t m : {1, 2, 3})
    for (const char *config : {"a", "b"})
      database.record(key(m), measured(config, static_cast<double>(m)));
  EXPECT_EQ(database.remove([](const TuningKey &k, const Measurement &m) {
    return k.shape[0].second == 2 || m.config == "a";
  }),
            4u);
  EXPECT_EQ(database.problems().size(), 2u);
  EXPECT_THAT(configs(database.lookup(key(1))), ElementsAre("b"));
  EXPECT_THAT(database.lookup(key(2)), IsEmpty());
}

TEST_F(TuningDatabaseTest, StalenessIsSaidAndTheMeasurementStays) {
  EXPECT_EQ(staleness({"c1", "d1"}, {"c1", "d1"}), "");
  EXPECT_EQ(staleness({"c1", "d1"}, {"c1", "d2"}), "driver d1, now d2");
  EXPECT_EQ(staleness({"c1", "d1"}, {"c2", "d1"}), "compiler c1, now c2");
  Database database(folder);
  Measurement old = measured("a", 10);
  old.toolchain = {"older", "older"};
  database.record(key(), old);
  EXPECT_EQ(database.lookup(key()).at(0).toolchain, old.toolchain);
}

// Damage ------------------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, ADamagedFileIsSetAsideWithOneWarning) {
  const std::string noise(20000, '\x5a');
  const std::function<void()> damages[] = {
      [&] { fs::resize_file(file, 100); },
      [&] { fs::resize_file(file, 5000); },
      [&] { fs::resize_file(file, fs::file_size(file) / 2); },
      [&] { std::ofstream(file) << noise; },
      [&] { std::ofstream(file, std::ios::in | std::ios::out) << "not SQLite"; },
      [&] { // a page in the middle
        std::fstream stream(file, std::ios::in | std::ios::out);
        stream.seekp(4096).write(noise.data(), 4096);
      },
      [&] { // another program's database
        fs::remove(file);
        sqlite3 *other = nullptr;
        sqlite3_open(file.c_str(), &other);
        sqlite3_exec(other, "CREATE TABLE note (text)", nullptr, nullptr, nullptr);
        sqlite3_close(other);
        chmod(file.c_str(), 0600);
      },
      [&] { // our name, other tables
        sqlite3 *ours = nullptr;
        sqlite3_open(file.c_str(), &ours);
        EXPECT_EQ(sqlite3_exec(ours, "DROP TABLE measurement", nullptr, nullptr, nullptr), 0);
        sqlite3_close(ours);
      },
  };
  for (size_t i = 0; i < std::size(damages); ++i) {
    SCOPED_TRACE(i);
    fs::remove_all(folder);
    fill(folder);
    damages[i]();
    const std::string warning = expectWorks(folder);
    EXPECT_THAT(warning, HasSubstr("set aside"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
    EXPECT_TRUE(fs::exists(folder / "tuning.sqlite.bad"));
  }
}

TEST_F(TuningDatabaseTest, DamageMeetsAnOpenDatabase) {
  testing::internal::CaptureStderr();
  Database database(folder);
  for (int i = 0; i < 300; ++i)
    database.record(key(i), measured("a", 10));
  fs::remove(file); // and a file of noise in its place
  std::ofstream(file) << std::string(8192, 'x');
  chmod(file.c_str(), 0600);
  EXPECT_THAT(database.lookup(key(5)), IsEmpty());
  EXPECT_TRUE(database.record(key(), measured("b", 20)));
  EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("b"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("set aside"));
}

// SQLite does not see a changed value; the checksum does. Every byte of the file in turn.
TEST_F(TuningDatabaseTest, NoFlippedBitIsEverTakenForAMeasurement) {
  fill(folder);
  std::ifstream stream(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(stream)), {});
  ASSERT_GT(whole.size(), 4096u);
  testing::internal::CaptureStderr();
  size_t lost = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    if (whole[i] == 0 && i % 16) // empty parts of pages: a sample will do
      continue;
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    fs::remove_all(folder);
    fs::create_directory(folder);
    chmod(folder.c_str(), 0700);
    std::ofstream(file, std::ios::binary) << damaged;
    chmod(file.c_str(), 0600);
    Database database(folder);
    const std::vector<Measurement> found = database.lookup(key());
    if (found.empty())
      ++lost;
    else
      expectSame(found.at(0), measured("a", 10));
  }
  testing::internal::GetCapturedStderr();
  EXPECT_GT(lost, 100u);
}

TEST_F(TuningDatabaseTest, NoiseInTheLogIsNotRead) {
  fill(folder);
  for (const char *suffix : {"-wal", "-shm"}) {
    std::ofstream(file.string() + suffix) << std::string(40000, '\x37');
    chmod((file.string() + suffix).c_str(), 0600);
  }
  EXPECT_EQ(expectWorks(folder), "");
  EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("a", "b"));
}

TEST_F(TuningDatabaseTest, ALaterVersionsFileIsLeftAlone) {
  fill(folder);
  sqlite3 *later = nullptr;
  sqlite3_open(file.c_str(), &later);
  sqlite3_exec(later, "PRAGMA user_version = 3", nullptr, nullptr, nullptr);
  sqlite3_close(later);
  testing::internal::CaptureStderr();
  Database database(folder);
  EXPECT_THAT(database.lookup(key()), IsEmpty());
  EXPECT_FALSE(database.record(key(), measured("b", 20)));
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("b")) << "this process knows it";
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a later version of Sectile"));
  EXPECT_TRUE(fs::exists(file));
  EXPECT_FALSE(fs::exists(folder / "tuning.sqlite.bad"));
}

TEST_F(TuningDatabaseTest, TheFolderCanBeMovedWhileItIsOpen) {
  Database database(folder);
  database.record(key(), measured("a", 10));
  fs::rename(folder, root / "moved");
  EXPECT_TRUE(database.record(key(), measured("b", 20)));
  fill(folder); // another one where it was
  EXPECT_TRUE(database.record(key(), measured("c", 30)));
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a", "b", "c"));
  EXPECT_THAT(configs(Database(root / "moved").lookup(key())), ElementsAre("a", "b", "c"));
  EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("a"));
}

TEST_F(TuningDatabaseTest, TheFolderCanBeRemovedWhileItIsOpen) {
  testing::internal::CaptureStderr();
  Database database(folder);
  database.record(key(), measured("a", 10));
  fs::remove_all(folder);
  EXPECT_FALSE(database.record(key(), measured("b", 20)));
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("b"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be kept"));
}

// Folders and disks -------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, WhatOthersCouldHaveWrittenIsNotUsed) {
  auto expectUnused = [&](const fs::path &where, const char *reason) {
    testing::internal::CaptureStderr();
    Database database(where);
    EXPECT_FALSE(database.record(key(), measured("b", 20)));
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("b"));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(reason)) << where;
  };
  fill(folder);
  chmod(file.c_str(), 0666);
  expectUnused(folder, "others can write to it");
  chmod(file.c_str(), 0600);
  std::ofstream(file.string() + "-wal") << "x";
  chmod((file.string() + "-wal").c_str(), 0666);
  expectUnused(folder, "others can write to it");
  fs::remove(file.string() + "-wal");
  fs::rename(file, root / "elsewhere");
  fs::create_symlink(root / "elsewhere", file);
  expectUnused(folder, "it is not a file");
  fs::create_directory_symlink(folder, root / "link");
  expectUnused(root / "link", "it is a symbolic link");
  chmod(folder.c_str(), 0777);
  expectUnused(folder, "others can write to it");
  expectUnused("relative", "not an absolute path");
}

// Above the folder links are as good as anything: a home folder may be one.
TEST_F(TuningDatabaseTest, AFolderBehindALinkIsUsed) {
  fs::create_directory_symlink(root, root / "home");
  EXPECT_EQ(expectWorks(root / "home/cache"), "");
}

TEST_F(TuningDatabaseTest, AReadOnlyFolderIsReadAndNoMore) {
  asOrdinaryUser(root, [&] {
    fill(folder);
    chmod(folder.c_str(), 0500);
    testing::internal::CaptureStderr();
    Database database(folder);
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a"));
    EXPECT_EQ(database.nearest(key(1024))->distance, 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    EXPECT_FALSE(database.record(key(), measured("b", 20)));
    EXPECT_FALSE(database.record(key(), measured("c", 30)));
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a", "b", "c"));
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("cannot be kept: " + folder.string() + ": Permission denied"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
    EXPECT_TRUE(database.claim(key(), 0ms));
    EXPECT_FALSE(database.import(toJson(std::vector<Problem>{})));
  });
}

// What a killed process left in the log counts, even where nobody may write.
TEST_F(TuningDatabaseTest, AReadOnlyFolderIsReadWithItsLog) {
  asOrdinaryUser(root, [&] {
    Child writer([&] {
      Database database(folder);
      database.record(key(), measured("a", 10));
      return raise(SIGKILL);
    });
    EXPECT_EQ(writer.wait(), -SIGKILL);
    EXPECT_GT(fs::file_size(file.string() + "-wal"), 0u);
    chmod(folder.c_str(), 0500);
    EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("a"));
  });
}

TEST_F(TuningDatabaseTest, AnEmptyReadOnlyFolder) {
  asOrdinaryUser(root, [&] {
    fs::create_directory(folder);
    chmod(folder.c_str(), 0500);
    testing::internal::CaptureStderr();
    Database database(folder);
    EXPECT_THAT(database.lookup(key()), IsEmpty());
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    EXPECT_FALSE(database.record(key(), measured("b", 20)));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("Permission denied"));
  });
}

// A limit on the size of files stands for the disk's.
TEST_F(TuningDatabaseTest, AFullDiskLosesNothingThatWasThere) {
  fill(folder);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 40000;
  testing::internal::CaptureStderr();
  {
    Database database(folder);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool kept = true;
    for (int i = 0; i < 100; ++i)
      kept &= database.record(key(i), measured(std::string(5000, 'b'), 20));
    EXPECT_FALSE(kept);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(database.lookup(key(i)).size(), 1u) << "this process knows it";
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot be kept"));
  EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("a"));
  EXPECT_EQ(expectWorks(folder), "");
}

TEST_F(TuningDatabaseTest, AFullFileSystem) {
  onDisk(folder, "size=512k,mode=700", [&] {
    testing::internal::CaptureStderr();
    {
      Database database(folder);
      size_t kept = 0;
      for (int i = 0; i < 400; ++i)
        kept += database.record(key(i), measured(std::string(1000, 'b'), 20));
      EXPECT_GT(kept, 5u);
      EXPECT_LT(kept, 400u);
      for (int i = 0; i < 400; ++i)
        EXPECT_EQ(database.lookup(key(i)).size(), 1u);
    }
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("cannot be kept"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << warning;
    Database database(folder);
    EXPECT_THAT(database.verify(), IsEmpty());
    EXPECT_FALSE(database.problems().empty());
  });
}

TEST_F(TuningDatabaseTest, ADiskThatIsReadOnly) {
  onDisk(folder, "size=1m,mode=700", [&] {
    fill(folder);
    ASSERT_EQ(mount("none", folder.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    testing::internal::CaptureStderr();
    Database database(folder);
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a"));
    const Lease lease = database.claim(key(), 0ms);
    EXPECT_TRUE(lease);
    EXPECT_FALSE(database.claim(key(), 0ms));
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    testing::internal::CaptureStderr();
    EXPECT_FALSE(database.record(key(), measured("b", 20)));
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("Read-only file system"));
  });
}

// Many at once ------------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, ManyProcessesLoseNothing) {
  const int processes = static_cast<int>(count(24, 64)), each = 20;
  std::vector<Child> children;
  children.reserve(static_cast<size_t>(processes));
  for (int i = 0; i < processes; ++i)
    children.emplace_back([&, i] {
      Database database(folder); // all of them make it at once
      bool good = true;
      for (int j = 0; j < each; ++j)
        good &= database.record(key(j), measured(std::to_string(i), i + 1)) &&
                !database.lookup(key(j)).empty();
      return good ? 0 : 1;
    });
  for (Child &child : children)
    EXPECT_EQ(child.wait(), 0);
  Database database(folder);
  for (int j = 0; j < each; ++j)
    EXPECT_EQ(database.lookup(key(j)).size(), static_cast<size_t>(processes));
  EXPECT_THAT(database.verify(), IsEmpty());
}

TEST_F(TuningDatabaseTest, ManyThreadsLoseNothing) {
  Database first(folder), second(folder);
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      for (int j = 0; j < 20; ++j)
        (i % 2 ? first : second).record(key(j), measured(std::to_string(i), i));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(first.lookup(key(3)).size(), 8u);
}

TEST_F(TuningDatabaseTest, AForkedProcessUsesItToo) {
  Database database(folder);
  database.record(key(), measured("a", 10));
  std::vector<Child> children;
  children.reserve(4);
  for (int i = 0; i < 4; ++i)
    children.emplace_back([&, i] {
      bool good = database.lookup(key()).size() >= 1;
      for (int j = 0; j < 20; ++j)
        good &= database.record(key(), measured("child " + std::to_string(i), j));
      return good ? 0 : 1;
    });
  for (int j = 0; j < 20; ++j)
    EXPECT_TRUE(database.record(key(), measured("parent", j)));
  for (Child &child : children)
    EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(database.lookup(key()).size(), 6u);
  EXPECT_THAT(database.verify(), IsEmpty());
}

// Killed at any moment, a writer leaves what it had committed, and never half a measurement.
TEST_F(TuningDatabaseTest, KillingWritersLosesNoCommittedMeasurement) {
  for (unsigned round = 0; round < count(40, 1000); ++round) {
    int channel[2];
    ASSERT_EQ(pipe(channel), 0);
    Child writer([&] {
      Database database(folder);
      for (int j = 0;; ++j)
        if (!database.record(key(j % 50), measured(std::to_string(j), j)) ||
            write(channel[1], "x", 1) != 1)
          return 1;
    });
    close(channel[1]);
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 700 * (round % 20)));
    writer.kill(SIGKILL);
    EXPECT_EQ(writer.wait(), -SIGKILL);
    int committed = 0;
    char word;
    while (read(channel[0], &word, 1) == 1)
      ++committed;
    close(channel[0]);
    Database database(folder);
    for (int j = 0; j < committed; ++j)
      EXPECT_THAT(configs(database.lookup(key(j % 50))), testing::Contains(std::to_string(j)));
    EXPECT_THAT(database.verify(), IsEmpty());
  }
}

// Noise over the file while many use it: nobody crashes, nothing wrong is read, and it mends.
TEST_F(TuningDatabaseTest, DamageUnderManyProcesses) {
  fill(folder);
  std::vector<Child> children;
  children.reserve(6);
  for (int i = 0; i < 6; ++i)
    children.emplace_back(
        [&, i] {
          Database database(folder);
          bool good = true;
          for (int j = 0; j < static_cast<int>(count(150, 1500)); ++j) {
            database.record(key(j % 30), measured(std::to_string(j % 7), j % 7 + 1));
            for (const Measurement &m : database.lookup(key((j + i) % 30)))
              good &= m.config == "a" || m.median == std::stoi(m.config) + 1;
          }
          return good ? 0 : 1;
        },
        /*quiet=*/true);
  for (unsigned round = 0; round < count(10, 100); ++round) {
    std::this_thread::sleep_for(5ms);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(round % 3 * 4096 + round * 97 % 4096));
    stream << std::string(200 * (round % 4 + 1), static_cast<char>('a' + round));
  }
  for (Child &child : children)
    EXPECT_EQ(child.wait(), 0);
  testing::internal::CaptureStderr();
  Database(folder).problems(); // the last damage may be met only now
  testing::internal::GetCapturedStderr();
  Database database(folder);
  database.remove([](auto &...) { return false; });
  EXPECT_TRUE(database.record(key(), measured("b", 20)));
  EXPECT_THAT(configs(Database(folder).lookup(key())), testing::Contains("b"));
  EXPECT_THAT(database.verify(), IsEmpty());
}

// Leases ------------------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, OneAtATimeTunesAProblem) {
  for (const fs::path &where : {fs::path(), folder}) {
    SCOPED_TRACE(where);
    Database database(where);
    Lease lease = database.claim(key(), 0ms);
    EXPECT_TRUE(lease);
    EXPECT_FALSE(database.claim(key(), 0ms));
    EXPECT_FALSE(database.claim(key(), 20ms)) << "patience ends";
    EXPECT_TRUE(database.claim(key(1024), 0ms)) << "another problem";
    std::thread other([&] { EXPECT_TRUE(database.claim(key(), 10s)); });
    std::this_thread::sleep_for(20ms);
    lease = {};
    other.join();
    EXPECT_TRUE(database.claim(key(), 0ms));
  }
}

TEST_F(TuningDatabaseTest, OfManyProcessesOneTunes) {
  const fs::path log = root / "log";
  std::vector<Child> children;
  children.reserve(8);
  for (int i = 0; i < 8; ++i)
    children.emplace_back([&] {
      Database database(folder);
      const Lease lease = database.claim(key(), 30s);
      if (database.lookup(key()).empty()) {
        std::ofstream(log, std::ios::app) << "x" << std::flush;
        std::this_thread::sleep_for(30ms);
        database.record(key(), measured("a", 10));
      }
      return lease && configs(database.lookup(key())).at(0) == "a" ? 0 : 1;
    });
  for (Child &child : children)
    EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(fs::file_size(log), 1u);
}

TEST_F(TuningDatabaseTest, ADeadProcesssLeaseIsTakenOver) {
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  Child tuner([&] {
    Database database(folder);
    const Lease lease = database.claim(key(), 0ms);
    if (!lease || write(channel[1], "x", 1) != 1)
      return 1;
    for (;;)
      pause();
  });
  char word;
  ASSERT_EQ(read(channel[0], &word, 1), 1);
  Database database(folder);
  EXPECT_FALSE(database.claim(key(), 0ms));
  tuner.kill(SIGKILL);
  tuner.wait();
  EXPECT_TRUE(database.claim(key(), 10s));
  close(channel[0]);
  close(channel[1]);
}

TEST_F(TuningDatabaseTest, AForkedProcessDoesNotGiveItsParentsLeaseUp) {
  Database database(folder);
  auto lease = std::make_unique<Lease>(database.claim(key(), 0ms));
  Child child([&] {
    lease.reset();
    return database.claim(key(), 0ms) ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(database.claim(key(), 0ms));
}

// Layers ------------------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, LayersLieUnderTheUsers) {
  {
    Database system(root / "system");
    for (const char *config : {"a", "b", "c"})
      system.record(key(), measured(config, 1));
    system.record(key(2048), measured("2048", 1));
  }
  std::ofstream(root / "shipped.json")
      << toJson({Problem{key(), {measured("c", 2), measured("d", 2)}, ""}});
  const std::vector<std::string> layers = {root / "system/tuning.sqlite", root / "shipped.json"};
  Database database(folder, layers);
  database.record(key(), measured("a", 3));
  const std::vector<Measurement> found = database.lookup(key());
  ASSERT_THAT(configs(found), ElementsAre("b", "c", "d", "a"));
  EXPECT_EQ(found[1].median, 1) << "the first layer's";
  EXPECT_EQ(found[3].median, 3) << "the user's";
  EXPECT_EQ(database.nearest(key(2000))->key.shape, key(2048).shape);
  std::vector<std::string> origins;
  for (const Problem &problem : database.problems("matmul"))
    origins.push_back(problem.origin);
  EXPECT_THAT(origins, ElementsAre(file.string(), layers[0], layers[0], layers[1]));
  EXPECT_THAT(database.problems("softmax"), IsEmpty());
  database.remove([](auto &...) { return true; });
  EXPECT_EQ(database.lookup(key()).size(), 4u) << "layers are not written to";
  EXPECT_THAT(configs(Database("", layers).lookup(key(2048))), ElementsAre("2048"));
}

TEST_F(TuningDatabaseTest, LayersThatCannotBeUsedAreLeftOut) {
  fill(root / "good");
  fill(root / "open");
  const fs::path open = root / "open/tuning.sqlite";
  chmod(open.c_str(), 0666);
  std::ofstream(root / "noise.sqlite") << std::string(9000, 'x');
  std::ofstream(root / "noise.json") << "[";
  fill(root / "cut");
  fs::resize_file(root / "cut/tuning.sqlite", 4200);
  testing::internal::CaptureStderr();
  Database database(folder, {root / "none.sqlite", open, root / "noise.sqlite", root / "noise.json",
                             root / "cut/tuning.sqlite", "relative.json", root,
                             root / "good/tuning.sqlite"});
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a"));
  database.lookup(key());
  const std::string warnings = testing::internal::GetCapturedStderr();
  for (const char *word : {"none.sqlite: No such file", "others can write to it",
                           "noise.sqlite: file is not a database", "noise.json", "cut/tuning",
                           "relative.json: it is not an absolute path", "it is not a file"})
    EXPECT_THAT(warnings, HasSubstr(word));
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 7) << warnings;
}

TEST_F(TuningDatabaseTest, LayersComeFromTheEnvironment) {
  std::optional<std::string> before[2];
  const char *names[] = {"SECTILE_TUNING_PATH", "XDG_DATA_DIRS"};
  for (int i = 0; i < 2; ++i)
    if (const char *value = getenv(names[i]))
      before[i] = value;
  fill(root / "share/sectile");
  unsetenv(names[0]);
  const fs::path here = fs::current_path();
  fs::current_path(root); // "share" would be found there
  setenv(names[1], (root.string() + "/none:share:" + root.string() + "/share").c_str(), 1);
  EXPECT_THAT(Database::defaultLayers(), ElementsAre(root / "share/sectile/tuning.sqlite"));
  fs::current_path(here);
  setenv(names[0], "/a.json::/b.sqlite", 1);
  EXPECT_THAT(Database::defaultLayers(), ElementsAre("/a.json", "/b.sqlite"));
  setenv(names[0], "", 1);
  EXPECT_THAT(Database::defaultLayers(), IsEmpty());
  for (int i = 0; i < 2; ++i)
    before[i] ? setenv(names[i], before[i]->c_str(), 1) : unsetenv(names[i]);
}

// JSON --------------------------------------------------------------------------------------------

TEST_F(TuningDatabaseTest, StrangeNamesComeBackFromFileAndJson) {
  const std::vector<std::string> strange = {
      "",      "a\"b\\c",    "m=1,n=%3D%",           "\n\t\x01",
      "καλός", "'; DROP --", std::string("a\0b", 3), "\xff\xfe",
      "🐢"};
  std::string exported;
  {
    Database database(folder);
    for (const std::string &text : strange) {
      Measurement m = measured(text, 0.1);
      m.message = m.irHash = m.toolchain.driver = text;
      m.when = INT64_MAX;
      m.registers = UINT_MAX;
      database.record({text, text, text, text, {{text, INT64_MAX}, {text + "=", 0}}}, m);
    }
    exported = toJson(database.problems());
  }
  Database copy(root / "copy");
  auto imported = copy.import(exported);
  ASSERT_TRUE(static_cast<bool>(imported)) << llvm::toString(imported.takeError());
  EXPECT_EQ(imported->added, strange.size());
  Database original(folder);
  for (const std::string &text : strange) {
    const TuningKey where{text, text, text, text, {{text, INT64_MAX}, {text + "=", 0}}};
    ASSERT_EQ(original.lookup(where).size(), 1u) << text;
    ASSERT_EQ(copy.lookup(where).size(), 1u) << text;
    expectSame(original.lookup(where)[0], copy.lookup(where)[0]);
    if (text != "\xff\xfe") {
      EXPECT_EQ(copy.lookup(where)[0].config, text);
      EXPECT_EQ(copy.lookup(where)[0].message, text);
    }
  }
  EXPECT_EQ(toJson(copy.problems()), exported);
}

TEST_F(TuningDatabaseTest, ImportTakesWhatWasMeasuredLater) {
  Database database(folder);
  auto at = [](const char *config, int64_t when, double median) {
    Measurement m = measured(config, median);
    m.when = when;
    return m;
  };
  database.record(key(), at("older here", 10, 1));
  database.record(key(), at("newer here", 30, 1));
  auto result = database.import(toJson({Problem{
      key(), {at("older here", 20, 2), at("newer here", 20, 2), at("not here", 1, 2)}, ""}}));
  ASSERT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(result->added, 1u);
  EXPECT_EQ(result->replaced, 1u);
  EXPECT_EQ(result->kept, 1u);
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("newer here", "not here", "older here"));
}

TEST_F(TuningDatabaseTest, ImportRefusesTheWholeFileForOneWord) {
  Database database(folder);
  const std::string good =
      toJson({Problem{key(), {measured("a", 10)}, ""}, Problem{key(2), {measured("b", 10)}, ""}});
  auto refused = [&](const std::string &from, const std::string &to, const std::string &reason) {
    std::string text = good;
    const size_t at = text.rfind(from); // in the second problem, so that one is read before
    ASSERT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    auto result = database.import(text);
    ASSERT_FALSE(static_cast<bool>(result)) << from << " -> " << to;
    EXPECT_THAT(llvm::toString(result.takeError()), HasSubstr(reason));
    EXPECT_THAT(database.problems(), IsEmpty());
  };
  const std::string second = "problems[1].measurements[0]";
  refused("\"version\": 2", "\"version\": 3", "version is neither 1 nor 2");
  refused("\"numerics\"", "\"order\"", second + ".numerics is missing");
  refused("\"sectile measurements\"", "\"tuning\"", "format is not");
  refused("\"median_us\": 10", "\"median_us\": \"10\"", second + ".median_us is not a number");
  refused("\"median_us\": 10", "\"median_us\": -1", second + ".median_us is not a number");
  refused("\"median_us\": 10", "\"median_us\": 1e999", "");
  refused("\"median_us\"", "\"median\"", second + ".median_us is missing");
  refused("\"runs\": 20", "\"runs\": 20.5", second + ".runs is not a whole number");
  refused("\"runs\": 20", "\"runs\": 4294967296", second + ".runs is not a whole number");
  refused("\"good\"", "\"best\"", second + ".verdict is not known");
  refused("\"driver\"", "\"extra\": 1, \"driver\"", second + ".extra is not known");
  refused("\"kernel\": \"matmul\"", "\"kernel\": 7", "problems[1].kernel is not a string");
  refused("\"name\": \"n\"", "\"name\": \"m\"", "problems[1].shape[1].name is there twice");
  refused("\"extent\": 64", "\"extent\": -64", "problems[1].shape[1].extent is not a whole");
  refused("}", "", "");
  for (const char *open : {"[", "{\"a\":", "{\"problems\": ["}) {
    std::string deep;
    for (int i = 0; i < 1000000; ++i)
      deep += open;
    auto result = database.import(deep);
    ASSERT_FALSE(static_cast<bool>(result));
    EXPECT_THAT(llvm::toString(result.takeError()), HasSubstr("nested too deeply"));
  }
  auto whole = database.import(good);
  EXPECT_TRUE(static_cast<bool>(whole));
  EXPECT_EQ(database.problems().size(), 2u);
}

} // namespace
