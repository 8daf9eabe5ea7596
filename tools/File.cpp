// Reading and writing of whole files through the system's own calls, for their error codes.
#include "tools/File.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sectile/error.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sectile {
namespace {

[[noreturn]] void fail(const char *what, const std::string &path, int error) {
  throw InputError(std::string("cannot ") + what + " '" + path + "': " + std::strerror(error));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

// 0, or the error code.
int writeAll(int fd, std::initializer_list<std::string_view> pieces) {
  for (std::string_view piece : pieces)
    while (!piece.empty()) {
      ssize_t written = ::write(fd, piece.data(), piece.size());
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return written < 0 ? errno : EIO;
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  return 0;
}

} // namespace

std::string readFile(const std::string &path) {
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0)
    fail("read", path, errno);
  struct stat status;
  if (::fstat(file.fd, &status) != 0)
    fail("read", path, errno);
  if (S_ISDIR(status.st_mode))
    fail("read", path, EISDIR);
  std::string text(S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) : 0, '\0');
  std::size_t length = 0;
  for (;;) {
    if (length == text.size())
      text.resize(text.size() + 65536); // a pipe, a file that grows, or the read that finds the end
    ssize_t got = ::read(file.fd, text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      fail("read", path, errno);
    if (got == 0)
      break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

bool isReplaced(const std::string &path) {
  std::error_code ignored;
  return !std::filesystem::exists(path, ignored) || std::filesystem::is_regular_file(path, ignored);
}

void writeFile(const std::string &path, std::initializer_list<std::string_view> pieces) {
  namespace fs = std::filesystem;
  if (!isReplaced(path)) {
    Descriptor file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (file.fd < 0)
      fail("write", path, errno);
    if (int error = writeAll(file.fd, pieces))
      fail("write", path, error);
    return;
  }
  std::error_code ignored;
  // Through a symbolic link to the file itself, so that the link stays.
  fs::path target = fs::is_symlink(path, ignored) ? fs::weakly_canonical(path) : fs::path(path);
  std::string beside = target.string() + ".XXXXXX";
  Descriptor file{::mkostemp(beside.data(), O_CLOEXEC)};
  if (file.fd < 0)
    fail("write", path, errno);
  int error = writeAll(file.fd, pieces);
  mode_t mask = ::umask(0);
  ::umask(mask);
  if (!error && ::fchmod(file.fd, 0666 & ~mask) != 0)
    error = errno;
  // Some file systems report a full disk only here.
  if (::close(file.fd) != 0 && !error)
    error = errno;
  file.fd = -1;
  if (!error && ::rename(beside.c_str(), target.c_str()) != 0)
    error = errno;
  if (error) {
    ::unlink(beside.c_str());
    fail("write", path, error);
  }
}

void checkWritable(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    fail("write", path, EISDIR);
  fs::path needed = path;
  if (isReplaced(path))
    needed = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (::access(needed.c_str(), W_OK) != 0)
    fail("write", path, errno);
}

} // namespace sectile
