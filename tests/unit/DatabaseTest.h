// What the tests of the tuner's database share: a folder of their own, and measurements to keep.
#pragma once
#include "autotune/Database.h"
#include "autotune/Exchange.h"
#include "tests/unit/Processes.h"
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace sectile::test {

using namespace sectile::autotune;
namespace fs = std::filesystem;

inline TuningKey key(int64_t m = 512) {
  return {"matmul", "c0de", "virtual:sm_90", "f16 f16", {{"m", m}, {"n", 64}}};
}

inline Measurement measured(const std::string &config, double median,
                            Verdict verdict = Verdict::Good) {
  Measurement m;
  m.config = config;
  m.verdict = verdict;
  m.message = verdict == Verdict::Good ? "" : "no good";
  m.median = median;
  m.spread = median / 8;
  m.runs = 20;
  m.compileMilliseconds = 31.25;
  m.registers = 168;
  m.spillBytes = 8;
  m.sharedBytes = 98304;
  m.irHash = "abc" + config;
  m.numerics = "the order of " + config;
  m.toolchain = {"0.1.0 llvm 22", "550.54"};
  m.when = 1700000000;
  return m;
}

inline std::vector<std::string> configs(const std::vector<Measurement> &measurements) {
  std::vector<std::string> found;
  found.reserve(measurements.size());
  for (const Measurement &m : measurements)
    found.push_back(m.config);
  return found;
}

inline void expectSame(const Measurement &a, const Measurement &b) {
  const Problem p{key(), {a}, ""}, q{key(), {b}, ""};
  EXPECT_EQ(toJson({p}), toJson({q}));
}

class TuningDatabaseTest : public testing::Test {
protected:
  TuningDatabaseTest() {
    // In memory where possible: thousands of databases are made, and a disk would sync each.
    std::string name = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    name += "/sectile-tuning-XXXXXX";
    root = mkdtemp(name.data());
    folder = root / "cache";
    file = folder / "tuning.sqlite";
  }
  ~TuningDatabaseTest() override {
    chmod(folder.c_str(), 0700);
    fs::remove_all(root);
  }
  void fill(const fs::path &where) { Database(where).record(key(), measured("a", 10)); }
  // What every fault must leave: what was there is known, or not, and new things are kept.
  static std::string expectWorks(const fs::path &where) {
    testing::internal::CaptureStderr();
    {
      Database database(where);
      for (const Measurement &m : database.lookup(key()))
        expectSame(m, measured(m.config, m.config == "a" ? 10 : 20));
      EXPECT_TRUE(database.record(key(), measured("b", 20)));
      EXPECT_THAT(configs(database.lookup(key())), testing::Contains("b"));
    }
    EXPECT_THAT(configs(Database(where).lookup(key())), testing::Contains("b"));
    EXPECT_THAT(Database(where).verify(), testing::IsEmpty());
    return testing::internal::GetCapturedStderr();
  }

  fs::path root, folder, file;
};

} // namespace sectile::test
