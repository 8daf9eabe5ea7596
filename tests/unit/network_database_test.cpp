// The tuner's database on file systems of a network, and where SQLite reports an error that is none
// of the file.
#include "tests/unit/DatabaseTest.h"
#include <atomic>
#include <csignal>
#include <dlfcn.h>
#include <fstream>
#include <sqlite3.h>
#include <sys/vfs.h>
#include <thread>

using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// SQLite as it is but for a step that fails, and file systems that say they are others: in place of
// the libraries' functions for all of the process.
namespace {
std::atomic<int> oddError = 0, oddStep = 0; // the code, and how many steps from now; 0: none
std::atomic<long> fileSystem = 0;           // 0: what it is
} // namespace
extern "C" int sqlite3_step(sqlite3_stmt *statement) {
  static const auto real =
      reinterpret_cast<int (*)(sqlite3_stmt *)>(dlsym(RTLD_NEXT, "sqlite3_step"));
  return oddStep && --oddStep == 0 ? oddError.load() : real(statement);
}
extern "C" int fstatfs(int file, struct statfs *info) {
  static const auto real =
      reinterpret_cast<int (*)(int, struct statfs *)>(dlsym(RTLD_NEXT, "fstatfs"));
  const int result = real(file, info);
  if (fileSystem)
    info->f_type = fileSystem;
  return result;
}

namespace {

// As a file server's stale page, or a statement that two processes meet at.
TEST_F(TuningDatabaseTest, OneOddErrorSetsNothingAside) {
  fill(folder);
  testing::internal::CaptureStderr();
  for (int error : {SQLITE_ERROR, SQLITE_CONSTRAINT, SQLITE_MISMATCH, SQLITE_CORRUPT, SQLITE_NOTADB,
                    SQLITE_FORMAT})
    for (int step = 1; step <= 12; ++step) { // opening takes some of them
      oddError = error;
      {
        Database database(folder);
        oddStep = step;
        database.lookup(key());
        database.record(key(), measured("b", 20));
        oddStep = 0;
        EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a", "b"))
            << error << " at step " << step;
      }
      ASSERT_FALSE(fs::exists(folder / "tuning.sqlite.bad")) << error << " at step " << step;
    }
  testing::internal::GetCapturedStderr();
}

// Shared memory, which a log needs, does not reach other machines.
class NetworkDatabaseTest : public TuningDatabaseTest {
protected:
  static constexpr long nfs = 0x6969;
  NetworkDatabaseTest() { fileSystem = nfs; }
  ~NetworkDatabaseTest() override { fileSystem = 0; }

  // Byte 18 of the file: 2 where readers look into a log.
  bool usesLog() const {
    std::ifstream stream(file, std::ios::binary);
    return stream.seekg(18).get() == 2 || fs::exists(file.string() + "-wal");
  }
};

TEST_F(NetworkDatabaseTest, NoLogIsUsed) {
  for (long type : {nfs, 0xff534d42L /*CIFS*/, 0x65735546L /*FUSE*/, 0x0bd00bd0L /*Lustre*/,
                    0x01021997L /*9p*/, 0x12345678L /*who knows*/}) {
    fileSystem = type;
    fs::remove_all(folder);
    Database database(folder);
    EXPECT_TRUE(database.record(key(), measured("a", 10)));
    EXPECT_FALSE(usesLog()) << type;
    Database other(folder);
    EXPECT_TRUE(other.record(key(), measured("b", 20)));
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a", "b"));
    EXPECT_FALSE(usesLog()) << type;
    EXPECT_FALSE(fs::exists(file.string() + "-shm")) << type;
    struct stat info;
    ASSERT_EQ(stat((file.string() + "-journal").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  fileSystem = 0;
  Database local(folder);
  EXPECT_TRUE(local.record(key(), measured("c", 30)));
  EXPECT_TRUE(usesLog()) << "a local disk keeps its log";
}

TEST_F(NetworkDatabaseTest, AFileWithALogIsTakenOver) {
  fileSystem = 0;
  Child killed([&] { // a log is left behind
    Database database(folder);
    database.record(key(), measured("a", 10));
    raise(SIGKILL);
    return 1;
  });
  EXPECT_EQ(killed.wait(), -SIGKILL);
  ASSERT_TRUE(usesLog());
  fileSystem = nfs;
  Database database(folder);
  EXPECT_THAT(configs(database.lookup(key())), ElementsAre("a"));
  EXPECT_TRUE(database.record(key(), measured("b", 20)));
  EXPECT_FALSE(usesLog());
  EXPECT_THAT(database.verify(), IsEmpty());
}

// One that others use with a log is not used meanwhile, and neither spoiled nor set aside.
TEST_F(NetworkDatabaseTest, AFileThatOthersUseWithALogIsLeftAlone) {
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  Child other([&] {
    close(go[1]);
    fileSystem = 0;
    Database database(folder);
    bool good = database.record(key(), measured("a", 10));
    char byte = 'x';
    good &= write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1;
    good &= database.record(key(), measured("c", 30));
    return good && configs(database.lookup(key())) == std::vector<std::string>{"a", "c"} ? 0 : 1;
  });
  char byte = 'x';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  testing::internal::CaptureStderr();
  {
    Database database(folder);
    EXPECT_FALSE(database.record(key(), measured("b", 20)));
    EXPECT_THAT(configs(database.lookup(key())), ElementsAre("b")) << "this process knows it";
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("others use it with a log"));
  EXPECT_FALSE(fs::exists(folder / "tuning.sqlite.bad"));
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(NetworkDatabaseTest, SixtyFourProcessesLoseNothing) {
  const int each = static_cast<int>(count(3, 20));
  std::vector<Child> children;
  children.reserve(64);
  for (int i = 0; i < 64; ++i)
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
    EXPECT_EQ(database.lookup(key(j)).size(), 64u);
  EXPECT_THAT(database.verify(), IsEmpty());
  EXPECT_FALSE(usesLog());
}

TEST_F(NetworkDatabaseTest, AKilledWriterLeavesNothingByHalf) {
  for (unsigned round = 0; round < count(15, 300); ++round) {
    Child writer([&] {
      Database database(folder);
      for (int j = 0;; ++j)
        database.record(key(j % 50), measured("a", 10));
      return 1;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + 700 * (round % 20)));
    writer.kill(SIGKILL);
    EXPECT_EQ(writer.wait(), -SIGKILL);
    Database database(folder);
    EXPECT_TRUE(database.record(key(), measured("b", 20)));
    EXPECT_THAT(database.verify(), IsEmpty());
  }
  EXPECT_FALSE(fs::exists(folder / "tuning.sqlite.bad"));
}

} // namespace
