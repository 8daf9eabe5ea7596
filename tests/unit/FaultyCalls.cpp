// Functions of the C library's names: they count, fail where they are to, and else call the real
// ones.
#undef _FORTIFY_SOURCE
#include "FaultyCalls.h"
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <ctime>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <iterator>
#include <sys/stat.h>
#include <unistd.h>

namespace sectile::test {

const char *const faultyCalls[] = {"fcntl",    "fdopendir", "fstat",  "fstatat", "fsync",
                                   "futimens", "mkdirat",   "openat", "read",    "readdir",
                                   "renameat", "unlinkat",  "write"};
const unsigned faultyCallCount = std::size(faultyCalls);

namespace {
thread_local const Fault *armed = nullptr;
thread_local unsigned counted = 0;
thread_local std::string called;
thread_local long secondsAhead = 0;

// Whether this call is one that does not do what it should.
bool hit(std::string_view call) {
  if (!armed || (!armed->call.empty() && armed->call != call))
    return false;
  const unsigned number = counted++;
  called.append(call).append(" ");
  return number >= armed->at && number - armed->at < armed->times;
}

// The same for calls that just fail, or that the process dies before.
bool fails(std::string_view call) {
  if (!hit(call))
    return false;
  if (armed->kill)
    raise(SIGKILL);
  errno = armed->error;
  return armed->error != 0;
}

template <class F> F real(F, const char *name) {
  static_assert(sizeof(F) == sizeof(void *));
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) real(&::name, #name)
} // namespace

Faulty::Faulty(const Fault &fault) {
  counted = 0;
  called.clear();
  armed = &fault;
}
Faulty::~Faulty() { armed = nullptr; }
unsigned Faulty::calls() { return counted; }
const std::string &Faulty::names() { return called; }

ClockAhead::ClockAhead(long seconds) { secondsAhead = seconds; }
ClockAhead::~ClockAhead() { secondsAhead = 0; }

} // namespace sectile::test

using namespace sectile::test;

extern "C" {
int openat(int folder, const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & (O_CREAT | O_TMPFILE)) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return fails("openat") ? -1 : REAL(openat)(folder, path, flags, mode);
}

int fcntl(int file, int command, ...) {
  va_list rest;
  va_start(rest, command);
  void *argument = va_arg(rest, void *);
  va_end(rest);
  return fails("fcntl") ? -1 : REAL(fcntl)(file, command, argument);
}

ssize_t read(int file, void *to, size_t size) {
  if (file > STDERR_FILENO && size > 0 && hit("read")) {
    if (armed->kill)
      raise(SIGKILL);
    if (armed->partly)
      return REAL(read)(file, to, 1);
    errno = armed->error;
    return -1;
  }
  return REAL(read)(file, to, size);
}

ssize_t write(int file, const void *from, size_t size) {
  if (file > STDERR_FILENO && size > 0 && hit("write")) {
    if (armed->partly)
      return REAL(write)(file, from, 1);
    if (armed->kill) {
      (void)!REAL(write)(file, from, size / 2);
      raise(SIGKILL);
    }
    errno = armed->error;
    return -1;
  }
  return REAL(write)(file, from, size);
}

int clock_gettime(clockid_t clock, timespec *time) {
  static const auto theirs = REAL(clock_gettime);
  const int result = theirs(clock, time);
  if (clock == CLOCK_REALTIME)
    time->tv_sec += secondsAhead;
  return result;
}

int fsync(int file) { return fails("fsync") ? -1 : REAL(fsync)(file); }
int fstat(int file, struct stat *info) { return fails("fstat") ? -1 : REAL(fstat)(file, info); }
int fstatat(int folder, const char *path, struct stat *info, int flags) {
  return fails("fstatat") ? -1 : REAL(fstatat)(folder, path, info, flags);
}
int futimens(int file, const timespec times[2]) {
  return fails("futimens") ? -1 : REAL(futimens)(file, times);
}
int mkdirat(int folder, const char *path, mode_t mode) {
  return fails("mkdirat") ? -1 : REAL(mkdirat)(folder, path, mode);
}
int renameat(int from, const char *old, int to, const char *path) {
  return fails("renameat") ? -1 : REAL(renameat)(from, old, to, path);
}
int unlinkat(int folder, const char *path, int flags) {
  return fails("unlinkat") ? -1 : REAL(unlinkat)(folder, path, flags);
}
DIR *fdopendir(int folder) { return fails("fdopendir") ? nullptr : REAL(fdopendir)(folder); }
dirent *readdir(DIR *folder) { return fails("readdir") ? nullptr : REAL(readdir)(folder); }
}
