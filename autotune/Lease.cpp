// Leases are locks of open files: unlike those of processes they keep threads apart, too, and
// closing another descriptor of the file does not lose them.
#include "autotune/Lease.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <thread>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile::autotune {
namespace {

constexpr char lockFile[] = "tuning.lock";

// The byte of the lock file that stands for the name.
flock range(std::string_view name, short type) {
  flock result{};
  result.l_type = type;
  result.l_whence = SEEK_SET;
  result.l_start = static_cast<off_t>(XXH3_64bits(name.data(), name.size()) >> 2);
  result.l_len = 1;
  return result;
}

// Tries until it works or patience is at its end.
bool wait(std::chrono::milliseconds patience, const std::function<bool()> &attempt) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (auto pause = std::chrono::microseconds(200); !attempt();
       pause = std::min(2 * pause, std::chrono::microseconds(20000))) {
    if (std::chrono::steady_clock::now() >= end)
      return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

} // namespace

Lease LeaseTable::claim(int folder, std::string_view name, std::chrono::milliseconds patience) {
  Lease lease;
  const int file =
      folder < 0 ? -1 : openat(folder, lockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) {
    const std::string key(name);
    const bool ours = wait(patience, [&] {
      std::lock_guard lock(held->mutex);
      return held->names.insert(key).second;
    });
    if (ours)
      lease.release = std::shared_ptr<void>(held.get(), [table = held, key](void *) {
        std::lock_guard lock(table->mutex);
        table->names.erase(key);
      });
    return lease;
  }
  bool ours = false;
  wait(patience, [&] {
    flock wanted = range(name, F_WRLCK);
    ours = fcntl(file, F_OFD_SETLK, &wanted) == 0;
    // A file system without locks keeps nobody apart: then two may do the same work.
    const bool taken = errno == EAGAIN || errno == EACCES || errno == EINTR;
    return ours || (!taken && (ours = true));
  });
  if (!ours) {
    close(file);
    return lease;
  }
  // A forked process shares the open file: only who took the lock gives it up.
  lease.release = std::shared_ptr<void>(
      held.get(), [file, unlocked = range(name, F_UNLCK), owner = getpid()](void *) mutable {
        if (getpid() == owner)
          fcntl(file, F_OFD_SETLK, &unlocked);
        close(file);
      });
  return lease;
}

} // namespace sectile::autotune
