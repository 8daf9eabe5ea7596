// The database of measurements as it was before, and as other processes change it.
#include "autotune/Database.h"
#include "autotune/Exchange.h"
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

using namespace sectile::autotune;
using testing::ElementsAre, testing::IsEmpty;

namespace {

TuningKey key(int64_t m = 512) {
  return {"matmul", "c0de", "virtual:sm_90", "f16 f16", {{"m", m}, {"n", 64}}};
}

Measurement measured(const std::string &config, double median) {
  Measurement m;
  m.config = config;
  m.median = median;
  m.irHash = "abc";
  m.numerics = "the order of " + config;
  m.toolchain = {"0.1.0 llvm 22", "550.54"};
  m.when = 1700000000;
  return m;
}

std::vector<std::string> configs(const std::vector<Measurement> &measurements) {
  std::vector<std::string> found;
  for (const Measurement &m : measurements)
    found.push_back(m.config);
  return found;
}

void expectSame(const Measurement &a, const Measurement &b) {
  EXPECT_EQ(toJson({Problem{key(), {a}, ""}}), toJson({Problem{key(), {b}, ""}}));
}

class TuningVersions : public testing::Test {
protected:
  TuningVersions() {
    std::string name = "/tmp/sectile-versions-XXXXXX";
    root = mkdtemp(name.data());
    folder = root / "cache";
    file = folder / "tuning.sqlite";
  }
  ~TuningVersions() override { std::filesystem::remove_all(root); }

  std::filesystem::path root, folder, file;
};

// Version 1 knew no numerics.
TEST_F(TuningVersions, AnEarlierVersionsFileIsReadAndTakenOver) {
  Measurement early = measured("a", 10);
  early.numerics.clear();
  Database(folder).record(key(), early);
  sqlite3 *earlier = nullptr;
  sqlite3_open(file.c_str(), &earlier);
  sqlite3_exec(earlier, "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
  EXPECT_EQ(sqlite3_exec(earlier, "ALTER TABLE measurement DROP COLUMN numerics", nullptr, nullptr,
                         nullptr),
            SQLITE_OK);
  sqlite3_exec(earlier, "PRAGMA user_version = 1", nullptr, nullptr, nullptr);
  sqlite3_close(earlier);
  {
    Database below(root / "above", {file.string()});
    ASSERT_EQ(below.lookup(key()).size(), 1u) << "a layer is read as it is";
    expectSame(below.lookup(key())[0], early);
  }
  Database database(folder);
  ASSERT_EQ(database.lookup(key()).size(), 1u) << database.problem();
  expectSame(database.lookup(key())[0], early);
  EXPECT_TRUE(database.record(key(), measured("b", 20)));
  EXPECT_THAT(configs(Database(folder).lookup(key())), ElementsAre("a", "b"));
  EXPECT_EQ(Database(folder).lookup(key())[1].numerics, "the order of b");
  EXPECT_THAT(database.verify(), IsEmpty());

  std::string text = toJson({Problem{key(4), {early}, ""}});
  const std::string field = "\"numerics\": \"\",";
  text.erase(text.find(field), field.size());
  const size_t version = text.find("\"version\": 2");
  text.replace(version, 12, "\"version\": 1");
  auto result = database.import(text);
  ASSERT_TRUE(static_cast<bool>(result)) << llvm::toString(result.takeError());
  EXPECT_EQ(result->added, 1u);
}

TEST_F(TuningVersions, GenerationsTellOfWhatOthersRecord) {
  Database database(folder), other(folder);
  database.record(key(), measured("a", 10));
  uint64_t before = database.generation();
  EXPECT_EQ(database.generation(), before);
  database.record(key(), measured("b", 10));
  EXPECT_NE(database.generation(), before) << "of this process at once";
  before = database.generation();
  other.record(key(), measured("c", 10));
  for (int i = 0; i < 1000 && database.generation() == before; ++i)
    usleep(20000);
  EXPECT_NE(database.generation(), before) << "of others soon";
}

} // namespace
