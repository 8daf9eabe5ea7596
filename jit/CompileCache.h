// CompileCache: compiled kernels by what they were compiled from, in memory and on disk.
#ifndef SECTILE_JIT_COMPILECACHE_H
#define SECTILE_JIT_COMPILECACHE_H

#include "jit/CacheEntry.h"
#include "jit/DiskStore.h"
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sectile::runtime {

/// What it takes to compile a kernel again, and is no part of its key.
struct Recipe {
  CompileOptions options;
  std::string source; ///< the IR with its locations
};

class CompileCache {
public:
  /// The process's cache, in SECTILE_CACHE_DIR, else XDG_CACHE_HOME/sectile, else ~/.cache/sectile.
  /// An empty SECTILE_CACHE_DIR keeps everything in memory; SECTILE_CACHE_LIMIT is the folder's
  /// size limit in MiB.
  static CompileCache &get();
  /// The folder get() uses; empty for none.
  static std::string defaultFolder();
  /// SECTILE_CACHE_LIMIT in bytes; 1024 MiB without it, and with a warning where it is no number.
  static uint64_t defaultLimit();

  using Hash = std::string (*)(std::string_view key);
  /// `folder` empty: memory only. `hash` names entries; keys that it gives one name are told apart
  /// all the same.
  /// `memoryLimit`: bytes of compiled kernels in memory; beyond it, those unused for longest go.
  explicit CompileCache(const std::string &folder, uint64_t maxBytes = uint64_t{1} << 30,
                        Hash hash = contentHash, uint64_t memoryLimit = uint64_t{64} << 20);

  /// The artifact for this key, compiled if neither memory nor disk has it. Of all threads and
  /// processes that ask for one key at once, one compiles. What `compile` throws goes to the
  /// caller, and nothing is kept.
  std::shared_ptr<const Artifact> get(const CacheKey &key, const std::function<Artifact()> &compile,
                                      const Recipe &recipe = {});

  /// What the launch index on disk says of a launch; `launchKey` is all that identifies it.
  std::optional<LaunchRecord> findLaunch(const std::string &launchKey);
  /// The kernel that a launch needs, if it is still there.
  std::shared_ptr<const Artifact> get(const LaunchRecord &launch);
  /// Makes findLaunch() find the kernel of this key.
  void rememberLaunch(const std::string &launchKey, const CacheKey &key, const std::string &irHash);

  /// Machine code on disk by all that it depends on; made, by one of those that ask at once, where
  /// it is not there. Nothing without a folder, or where `make` gives nothing.
  std::optional<std::string> machineCode(const std::string &key,
                                         const std::function<std::optional<std::string>()> &make);

  struct Counts {
    uint64_t memoryHits, diskHits, compiles;
  };
  Counts counts() const { return {memoryHits, diskHits, compiles}; }
  /// Bytes of compiled kernels in memory.
  uint64_t memoryBytes();

  /// The disk's part, or nullptr.
  DiskStore *disk() { return store.get(); }

private:
  struct Slot {
    std::mutex mutex;
    std::shared_ptr<const Artifact> artifact;
    uint64_t bytes = 0, lastUse = 0; ///< as the cache counts them
  };
  /// Of a key's digest; keeps what is in memory to its limit when it ends.
  class SlotLease;
  bool forgetOldest();

  /// Where the entry of a key is, with its content, or where it is to be written.
  struct Place {
    std::string name;
    std::shared_ptr<const std::string> bytes; ///< null where there is none
    std::string_view content;                 ///< within bytes
  };
  Place find(EntryKind kind, const std::string &hash,
             const std::function<bool(std::string_view key)> &wanted);
  std::shared_ptr<const Artifact> load(const std::string &hash,
                                       const std::function<bool(std::string_view key)> &wanted);
  void write(EntryKind kind, const std::string &hash, const std::string &key,
             const std::string &content);
  void setAside(const std::string &name);
  void warnOnce(const std::string &text);

  std::mutex mutex; ///< guards what follows, but not what is in a slot that somebody holds
  std::unordered_map<std::string, std::shared_ptr<Slot>> slots; ///< by the digest of the key's text
  uint64_t bytesInMemory = 0, uses = 0;
  const uint64_t memoryLimit;

  std::unique_ptr<DiskStore> store;
  const Hash hash;
  std::atomic<uint64_t> memoryHits = 0, diskHits = 0, compiles = 0;
  std::atomic<bool> warned = false;
};

} // namespace sectile::runtime

#endif
