// DiskStore: a folder of named entries that many processes share. Entries appear whole or not at
// all, no folder or file that somebody else could have written is trusted, and whatever goes wrong
// is a miss: nothing here throws.
#ifndef SECTILE_JIT_DISKSTORE_H
#define SECTILE_JIT_DISKSTORE_H

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sectile::runtime {

class DiskStore {
public:
  struct Entry {
    std::string name;
    uint64_t bytes;
    int64_t lastUsed; ///< nanoseconds since 1970
  };

  /// Holds the lock of one name until it ends.
  class Lock {
  public:
    Lock() = default;
    Lock(Lock &&other) noexcept : file(std::exchange(other.file, -1)) {}
    Lock &operator=(Lock &&other) noexcept {
      std::swap(file, other.file);
      return *this;
    }
    ~Lock();

  private:
    friend DiskStore;
    explicit Lock(int file) : file(file) {}
    int file = -1;
  };

  /// Opens the folder and makes it (mode 0700) where it is missing. The folder's last component may
  /// not be a symbolic link, and folder and files must be the user's own and writable by nobody
  /// else.
  DiskStore(std::string folder, uint64_t maxBytes);
  DiskStore(const DiskStore &) = delete;
  ~DiskStore();

  bool usable() const { return directory >= 0; }
  const std::string &folder() const { return path; }
  /// Why the folder is not used, or why the last entry could not be written; empty when all is
  /// well.
  std::string problem() const;

  /// The entry's bytes. A read marks the entry as used now.
  std::optional<std::string> read(std::string_view name);
  /// The same, without marking it.
  std::optional<std::string> peek(std::string_view name) const;
  /// Writes beside, syncs and renames. False, and problem() says why, when that could not be done.
  bool write(std::string_view name, std::string_view bytes);
  /// Takes a damaged entry out of the way; it stays in the folder as NAME.bad.
  void setAside(std::string_view name);
  /// Waits until no other process or thread holds the name, but no longer than this.
  Lock lock(std::string_view name, std::chrono::milliseconds patience);

  std::vector<Entry> entries() const;
  /// The time by the clock that sets lastUsed: a file server's, where the folder lies on one.
  /// Nothing where no file can be changed.
  std::optional<int64_t> now() const;
  void remove(std::string_view name);
  /// Removes the entries unused for longest until the rest fits, and what broken writers left.
  void prune(uint64_t maxBytes);

private:
  std::optional<std::string> read(std::string_view name, bool mark) const;
  bool fail(const std::string &why);

  std::string path;
  uint64_t maxBytes;
  int directory = -1;
  mutable std::mutex mutex; ///< guards what follows
  std::string whyNot;
  uint64_t writtenSincePrune = 0;
};

} // namespace sectile::runtime

#endif
