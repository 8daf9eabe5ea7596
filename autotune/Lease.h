// Lease: the right to do a piece of work, which at any time at most one holder has: one thread of
// one process.
#ifndef SECTILE_AUTOTUNE_LEASE_H
#define SECTILE_AUTOTUNE_LEASE_H

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

namespace sectile::autotune {

/// Where it is not held, somebody else has it. Ends with its life; a process that dies, of
/// whatever, gives its leases up (while no process that it forked lives on: that one may be at work
/// for it).
class Lease {
public:
  Lease() = default;
  Lease(Lease &&other) noexcept : release(std::move(other.release)) {}
  Lease &operator=(Lease &&other) noexcept {
    std::swap(release, other.release);
    return *this;
  }
  explicit operator bool() const { return release != nullptr; }

private:
  friend class LeaseTable;
  std::shared_ptr<void> release; ///< its deleter does
};

/// Locks of one file, if there is one: the system keeps them apart and takes them from the dead.
class LeaseTable {
public:
  /// `folder` is the descriptor of the folder of the lock file; -1: between the threads of this
  /// process only, as it is where the file cannot be made.
  Lease claim(int folder, std::string_view name, std::chrono::milliseconds patience);

private:
  struct Held {
    std::mutex mutex;
    std::unordered_set<std::string> names;
  };
  std::shared_ptr<Held> held = std::make_shared<Held>();
};

} // namespace sectile::autotune

#endif
