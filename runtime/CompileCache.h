// CompileCache: compiled kernels by what they were compiled from, in memory and on disk.
#ifndef SECTILE_RUNTIME_COMPILECACHE_H
#define SECTILE_RUNTIME_COMPILECACHE_H

#include "codegen/Artifact.h"
#include "runtime/DiskStore.h"
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sectile::runtime {

/// Everything that the compiled code depends on. Two keys are the same only if their texts are.
struct CacheKey {
  std::string kernel;  ///< name, for people
  std::string target;  ///< name and features
  std::string options; ///< configuration, specialisation, warps, stages
  std::string ir;      ///< printed without locations

  /// All of it and the compiler's version, as `sectile cache show` prints it.
  std::string text() const;
};

class CompileCache {
public:
  /// The process's cache, in SECTILE_CACHE_DIR, else XDG_CACHE_HOME/sectile, else ~/.cache/sectile.
  /// An empty SECTILE_CACHE_DIR keeps everything in memory; SECTILE_CACHE_LIMIT is the folder's
  /// size limit in MiB.
  static CompileCache &get();
  /// The folder get() uses; empty for none.
  static std::string defaultFolder();

  /// `folder` empty: memory only.
  explicit CompileCache(const std::string &folder, uint64_t maxBytes = uint64_t{1} << 30);

  /// The artifact for this key, compiled if neither memory nor disk has it. Of all threads and
  /// processes that ask for one key at once, one compiles. What `compile` throws goes to the
  /// caller, and nothing is kept.
  std::shared_ptr<const Artifact> get(const CacheKey &key,
                                      const std::function<Artifact()> &compile);

  struct Counts {
    uint64_t memoryHits, diskHits, compiles;
  };
  Counts counts() const { return {memoryHits, diskHits, compiles}; }

  /// The disk's part, or nullptr.
  DiskStore *disk() { return store.get(); }

private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const Artifact> artifact;
  };

  std::shared_ptr<const Artifact> load(const std::string &name, const std::string &key);
  void warnOnce(const std::string &text);

  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots; ///< by the key's whole text
  std::unique_ptr<DiskStore> store;
  std::atomic<uint64_t> memoryHits = 0, diskHits = 0, compiles = 0;
  std::atomic<bool> warned = false;
};

} // namespace sectile::runtime

#endif
