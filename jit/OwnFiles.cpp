// Checks of owner and mode, on what was opened rather than on what its name stands for.
#include "jit/OwnFiles.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

namespace sectile::runtime {
namespace {

constexpr unsigned maxLinks = 40; // as the kernel has it

// Whether somebody is neither this user nor the system: root, or whoever has the root of the file
// system, which is what root is seen as where user IDs are mapped.
bool isStranger(uid_t owner) {
  struct stat top;
  return owner != geteuid() && owner != 0 && (stat("/", &top) != 0 || owner != top.st_uid);
}

// Why others could put something else in the place of what lies in this folder; empty where they
// cannot. In a sticky folder, as /tmp, each may rename only what is his own.
std::string distrustOnTheWay(const struct stat &folder) {
  if (isStranger(folder.st_uid))
    return "it belongs to another user";
  if ((folder.st_mode & S_IWOTH) && !(folder.st_mode & S_ISVTX))
    return "others can write to it";
  return "";
}

std::deque<std::string> namesOf(const std::string &path) {
  std::deque<std::string> names;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('/', start), path.size());
    if (end > start)
      names.push_back(path.substr(start, end - start));
    start = end + 1;
  }
  return names;
}

// What a name in a folder is; a folder is made where there is nothing.
bool inspect(int folder, const std::string &name, struct stat &info) {
  auto look = [&] { return fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0; };
  if (look())
    return true;
  return errno == ENOENT && (mkdirat(folder, name.c_str(), 0700) == 0 || errno == EEXIST) && look();
}

} // namespace

std::string reasonToReject(const struct stat &info, bool folderWanted) {
  if (folderWanted ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
    return std::string("it is not a ") + (folderWanted ? "folder" : "file");
  if (info.st_uid != geteuid())
    return "it belongs to another user";
  if (info.st_mode & 022)
    return "others can write to it";
  return "";
}

// Goes down the path a folder at a time, each reached through the one before it: nothing that was
// checked can be exchanged afterwards.
int openOwnFolder(std::string path, std::string &why) {
  if (path.empty() || path.front() != '/') {
    why = "'" + path + "' is not an absolute path";
    return -1;
  }
  auto fail = [&](const std::string &reason) {
    why = path + ": " + reason;
    return -1;
  };
  std::deque<std::string> names = namesOf(path);
  if (names.empty())
    names.push_back(".");
  Descriptor place(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::string shown = "/"; // where the place is
  for (unsigned links = 0;;) {
    struct stat info;
    if (!place || fstat(place, &info) != 0)
      return fail(std::strerror(errno));
    if (const std::string fault = distrustOnTheWay(info); !fault.empty())
      return fail("on the way to it, " + shown + ": " + fault);
    const std::string name = std::move(names.front());
    names.pop_front();
    if (!inspect(place, name, info))
      return fail(std::strerror(errno));
    if (names.empty()) { // the folder itself
      if (S_ISLNK(info.st_mode))
        return fail("it is a symbolic link");
      Descriptor folder(
          openat(place, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!folder || fstat(folder, &info) != 0)
        return fail(std::strerror(errno));
      const std::string fault = reasonToReject(info, true);
      return fault.empty() ? folder.release() : fail(fault);
    }
    const std::string inside = shown + (shown.size() > 1 ? "/" : "") + name;
    if (S_ISLNK(info.st_mode)) {
      char target[PATH_MAX];
      const ssize_t size = readlinkat(place, name.c_str(), target, sizeof target);
      if (size <= 0 || ++links > maxLinks)
        return fail(std::strerror(size < 0 ? errno : ELOOP));
      if (isStranger(info.st_uid))
        return fail("on the way to it, " + inside + ": it belongs to another user");
      const std::deque<std::string> onward = namesOf({target, static_cast<size_t>(size)});
      names.insert(names.begin(), onward.begin(), onward.end());
      if (target[0] == '/') {
        place = Descriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        shown = "/";
      }
      continue;
    }
    place = Descriptor(openat(place, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    shown = inside;
  }
}

bool isLocal(int folder) {
  constexpr unsigned long zfs = 0x2fc12fc1, jfs = 0x3153464a, bcachefs = 0xca451a4e;
  static constexpr unsigned long local[] = {EXT4_SUPER_MAGIC,
                                            XFS_SUPER_MAGIC,
                                            BTRFS_SUPER_MAGIC,
                                            F2FS_SUPER_MAGIC,
                                            TMPFS_MAGIC,
                                            RAMFS_MAGIC,
                                            OVERLAYFS_SUPER_MAGIC,
                                            ECRYPTFS_SUPER_MAGIC,
                                            REISERFS_SUPER_MAGIC,
                                            NILFS_SUPER_MAGIC,
                                            zfs,
                                            jfs,
                                            bcachefs};
  struct statfs info;
  return fstatfs(folder, &info) == 0 &&
         std::find(std::begin(local), std::end(local), static_cast<uint32_t>(info.f_type)) !=
             std::end(local);
}

std::optional<std::string> readAll(int file) {
  std::string bytes;
  char block[65536];
  for (;;) {
    const ssize_t got = read(file, block, sizeof block);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return std::nullopt;
    if (got == 0)
      return bytes;
    bytes.append(block, static_cast<size_t>(got));
  }
}

} // namespace sectile::runtime
