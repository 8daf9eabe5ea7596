// The folder is opened once and every file is reached through that descriptor, so that nobody can
// put another folder in its place between the check and the use.
#include "jit/DiskStore.h"
#include "jit/OwnFiles.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace sectile::runtime {
namespace {

constexpr std::string_view temporarySuffix = ".tmp", badSuffix = ".bad", lockName = "lock";
// The tuner's database shares the folder; its files are no entries, and nothing here removes them.
constexpr std::string_view databasePrefix = "tuning.";
constexpr unsigned temporaryNames = 100; // tried until one is free
constexpr int64_t second = 1'000'000'000, hour = 3600 * second;

bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

int64_t nanoseconds(const timespec &time) { return time.tv_sec * second + time.tv_nsec; }

// Process numbers do not tell containers apart that share a folder, nor a container from itself
// before its restart.
std::string randomLetters() {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuv";
  unsigned char bytes[12];
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    return "0"; // the next attempt asks again
  std::string text;
  for (const unsigned char byte : bytes)
    text += letters[byte % letters.size()];
  return text;
}

// The place in the lock file that stands for this name.
flock range(std::string_view name, short type) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  flock result{};
  result.l_type = type;
  result.l_whence = SEEK_SET;
  result.l_start = static_cast<off_t>(hash >> 2);
  result.l_len = 1;
  return result;
}

} // namespace

DiskStore::DiskStore(std::string folder, uint64_t maxBytes)
    : path(std::move(folder)), maxBytes(maxBytes) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  std::string why;
  directory = openOwnFolder(path, why);
  if (directory < 0)
    fail(why);
}

DiskStore::~DiskStore() {
  if (directory >= 0)
    close(directory);
}

std::string DiskStore::problem() const {
  std::lock_guard lock(mutex);
  return whyNot;
}

bool DiskStore::fail(const std::string &why) {
  std::lock_guard lock(mutex);
  whyNot = why;
  return false;
}

std::optional<std::string> DiskStore::read(std::string_view name) { return read(name, true); }
std::optional<std::string> DiskStore::peek(std::string_view name) const {
  return read(name, false);
}

std::optional<std::string> DiskStore::read(std::string_view name, bool mark) const {
  if (!usable())
    return std::nullopt;
  const std::string entry(name);
  const Descriptor file(
      openat(directory, entry.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file, &info) != 0 || !reasonToReject(info, false).empty())
    return std::nullopt;
  std::optional<std::string> bytes = readAll(file);
  if (mark && bytes)
    futimens(file, nullptr); // In a read-only folder the order of use is not kept: then nothing is
                             // removed either.
  return bytes;
}

bool DiskStore::write(std::string_view name, std::string_view bytes) {
  if (!usable())
    return false;
  const std::string entry(name);
  std::string temporary;
  // As mkostemp does it, in the folder that was opened.
  Descriptor file(-1);
  for (unsigned attempt = 0; !file && attempt < temporaryNames; ++attempt) {
    temporary = entry + "." + randomLetters() + std::string(temporarySuffix);
    file = Descriptor(openat(directory, temporary.c_str(),
                             O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file && errno != EEXIST)
      break;
  }
  if (!file)
    return fail(path + ": " + std::strerror(errno));
  if (!writeAll(file, bytes) || fsync(file) != 0 ||
      renameat(directory, temporary.c_str(), directory, entry.c_str()) != 0) {
    fail(path + ": " + std::strerror(errno));
    unlinkat(directory, temporary.c_str(), 0);
    return false;
  }
  // The first write of a process looks at the whole folder, later ones now and then.
  bool pruneNow;
  {
    std::lock_guard lock(mutex);
    pruneNow = writtenSincePrune == 0 || writtenSincePrune > maxBytes / 16;
    writtenSincePrune = (pruneNow ? 0 : writtenSincePrune) + bytes.size();
  }
  if (pruneNow)
    prune(maxBytes);
  return true;
}

void DiskStore::setAside(std::string_view name) {
  const std::string entry(name), bad = entry + std::string(badSuffix);
  renameat(directory, entry.c_str(), directory, bad.c_str());
}

DiskStore::Lock::~Lock() {
  if (file >= 0)
    close(file); // gives the lock up, too
}

DiskStore::Lock DiskStore::lock(std::string_view name, std::chrono::milliseconds patience) {
  if (!usable())
    return {};
  const std::string fileName(lockName);
  const int file =
      openat(directory, fileName.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  Lock lock(file);
  if (file < 0)
    return lock;
  // Locks of open files, unlike those of processes, keep two threads apart as well.
  const auto deadline = std::chrono::steady_clock::now() + patience;
  flock wanted = range(name, F_WRLCK);
  for (auto pause = std::chrono::microseconds(200); fcntl(file, F_OFD_SETLK, &wanted) != 0;
       pause = std::min(2 * pause, std::chrono::microseconds(20000))) {
    if ((errno != EAGAIN && errno != EINTR) || std::chrono::steady_clock::now() > deadline)
      break; // Then two may do the same work; the entry is right all the same.
    std::this_thread::sleep_for(pause);
  }
  return lock;
}

std::vector<DiskStore::Entry> DiskStore::entries() const {
  std::vector<Entry> found;
  if (!usable())
    return found;
  const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = copy < 0 ? nullptr : fdopendir(copy);
  if (!listing)
    return found;
  while (const dirent *item = readdir(listing)) {
    struct stat info;
    const std::string_view name = item->d_name;
    if (name == lockName || name.starts_with(databasePrefix) ||
        fstatat(directory, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
      continue;
    found.push_back(
        {std::string(name), static_cast<uint64_t>(info.st_size), nanoseconds(info.st_mtim)});
  }
  closedir(listing);
  return found;
}

void DiskStore::remove(std::string_view name) {
  if (usable())
    unlinkat(directory, std::string(name).c_str(), 0);
}

std::optional<int64_t> DiskStore::now() const {
  if (!usable())
    return std::nullopt;
  const Descriptor file(openat(directory, std::string(lockName).c_str(),
                               O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  struct stat info;
  if (!file || futimens(file, nullptr) != 0 || fstat(file, &info) != 0)
    return std::nullopt;
  return nanoseconds(info.st_mtim);
}

void DiskStore::prune(uint64_t limit) {
  std::vector<Entry> all = entries();
  const std::optional<int64_t> now = this->now();
  // A time to come was set by a clock that was wrong, and the entry was not used since.
  const auto rank = [&](const Entry &entry) {
    return now && entry.lastUsed > *now + hour ? 0 : entry.lastUsed;
  };
  std::sort(all.begin(), all.end(),
            [&](const Entry &a, const Entry &b) { return rank(a) < rank(b); });
  uint64_t total = 0;
  for (const Entry &entry : all)
    total += entry.bytes;
  for (const Entry &entry : all) {
    const bool temporary = entry.name.ends_with(temporarySuffix);
    // A young temporary file is being written; an old one was left by a process that died.
    if (temporary ? !now || std::abs(*now - entry.lastUsed) < hour : total <= limit)
      continue;
    // Somebody may have used it since the folder was read.
    struct stat info;
    if (fstatat(directory, entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        nanoseconds(info.st_mtim) != entry.lastUsed)
      continue;
    remove(entry.name);
    total -= entry.bytes;
  }
}

} // namespace sectile::runtime
