// Which folders and files are the user's own: what somebody else could have written is not trusted.
#ifndef SECTILE_JIT_OWNFILES_H
#define SECTILE_JIT_OWNFILES_H

#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace sectile::runtime {

/// An open file or folder, closed at its end; negative for none.
class Descriptor {
public:
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() {
    if (number >= 0)
      close(number);
  }
  explicit operator bool() const { return number >= 0; }
  operator int() const { return number; }
  int release() { return std::exchange(number, -1); }

private:
  int number;
};

/// Why a file (or a folder, where one is wanted) is not to be trusted; empty when it is: it must be
/// of that kind, the user's own and writable by nobody else.
std::string reasonToReject(const struct stat &info, bool folderWanted);

/// Makes the folder (mode 0700) where it is missing and opens it. -1, and `why` says why, where it
/// is not absolute, its last component is a symbolic link, it is not to be trusted, or others could
/// put another folder in its place: each folder that leads there, through symbolic links as well,
/// has to be the user's or the system's, and not writable by everybody unless it is sticky.
int openOwnFolder(std::string path, std::string &why);

/// Whether an open folder lies on a file system whose processes are all on this machine, so that
/// mapped memory and locks reach everybody. One that is not known to be like this is taken for a
/// network's.
bool isLocal(int folder);

/// All bytes of an open file from where it stands; nothing, and errno says why, where one cannot be
/// read.
std::optional<std::string> readAll(int file);

} // namespace sectile::runtime

#endif
