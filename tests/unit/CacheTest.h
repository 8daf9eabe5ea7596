// What the tests of the compile cache share: a folder of their own, and entries whose code follows
// from their key.
#pragma once
#include "jit/CacheInspection.h"
#include "jit/CompileCache.h"
#include "tests/unit/Processes.h"
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace sectile::test {

inline runtime::CacheKey key(const std::string &ir) { return {"k", "sm_90a", "warps=4", ir}; }
/// What a key is compiled to: no two to the same, some kilobytes of it.
inline std::string codeOf(const std::string &ir) {
  std::string code;
  while (code.size() < 5000)
    code += "code of " + ir + ";";
  return code;
}
inline Artifact compiled(const std::string &ir) {
  Artifact artifact;
  artifact.target = "sm_90a";
  artifact.kind = "ptx";
  artifact.entry = "k";
  artifact.bytes = codeOf(ir);
  return artifact;
}

/// A new folder, in memory where that can be: syncing thousands of files takes a disk minutes.
inline std::filesystem::path newFolder() {
  std::string name = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  name += "/sectile-cache-XXXXXX";
  return mkdtemp(name.data());
}

class CacheTest : public testing::Test {
protected:
  ~CacheTest() override { std::filesystem::remove_all(root); }

  /// Whether the cache gives the right code for a key, compiled or found.
  static bool serves(runtime::CompileCache &cache, const std::string &ir) {
    return cache.get(key(ir), [&] { return compiled(ir); })->bytes == codeOf(ir);
  }
  /// Every file that a reader would take for an entry is whole, and its code is its key's.
  static void expectWhole(const std::filesystem::path &folder) {
    const runtime::DiskStore store(folder, uint64_t{1} << 40);
    ASSERT_TRUE(store.usable()) << store.problem();
    for (const runtime::ListedEntry &entry : runtime::listCache(store)) {
      EXPECT_NE(entry.kind, runtime::ListedEntry::Damaged) << entry.name;
      EXPECT_NE(entry.kind, runtime::ListedEntry::SetAside) << entry.name;
      if (entry.kind == runtime::ListedEntry::Kernel) {
        EXPECT_EQ(runtime::readCachedKernel(store, entry.name)->artifact.bytes,
                  codeOf(entry.parts.ir));
      }
    }
  }

  const std::filesystem::path root = newFolder(), folder = root / "kernels";
};

/// So many processes, started together.
inline std::vector<Child> start(unsigned count, const std::function<int(unsigned)> &body,
                                bool quiet = false) {
  std::vector<Child> children;
  children.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    children.emplace_back([&, i] { return body(i); }, quiet);
  return children;
}
inline void expectAllWell(std::vector<Child> &&children) {
  for (Child &child : children)
    EXPECT_EQ(child.wait(), 0);
}

} // namespace sectile::test
