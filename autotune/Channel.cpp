// Messages over a socket, each behind its length, and bytes of a shared file.
#include "autotune/Channel.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <poll.h>
#include <sectile/error.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sectile::autotune {

static double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool Channel::send(std::string_view message) const {
  const uint64_t length = message.size();
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  bytes += message;
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(socket, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR)
      return false;
    at += sent > 0 ? static_cast<size_t>(sent) : 0;
  }
  return true;
}

bool Channel::fill(char *bytes, size_t count, double end, End &why) const {
  while (count) {
    const double left = end < 0 ? 1 : end - now();
    pollfd wait{socket, POLLIN, 0};
    // In steps, so that no number of milliseconds is too large.
    const int ready =
        left > 0 ? poll(&wait, 1, static_cast<int>(std::min(left, 1.0) * 1000) + 1) : 0;
    if (ready == 0 && left <= 0) {
      why = End::Late;
      return false;
    }
    if (ready <= 0)
      continue;
    const ssize_t got = recv(socket, bytes, count, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) {
      why = End::Closed;
      return false;
    }
    bytes += got > 0 ? got : 0;
    count -= got > 0 ? static_cast<size_t>(got) : 0;
  }
  return true;
}

std::optional<std::string> Channel::receive(double seconds, End &why) const {
  const double end = seconds < 0 ? -1 : now() + seconds;
  uint64_t length = 0;
  if (!fill(reinterpret_cast<char *>(&length), sizeof length, end, why))
    return std::nullopt;
  std::string message(length, '\0');
  if (!fill(message.data(), message.size(), end, why))
    return std::nullopt;
  return message;
}

void readAt(int file, void *bytes, size_t count, size_t place) {
  for (char *next = static_cast<char *>(bytes); count;) {
    const ssize_t got = pread(file, next, count, static_cast<off_t>(place));
    if (got == 0 || (got < 0 && errno != EINTR))
      throw DeviceError(std::string("reading shared memory: ") +
                        (got ? std::strerror(errno) : "it is too short"));
    next += got > 0 ? got : 0;
    place += got > 0 ? static_cast<size_t>(got) : 0;
    count -= got > 0 ? static_cast<size_t>(got) : 0;
  }
}

void writeAt(int file, const void *bytes, size_t count, size_t place) {
  for (const char *next = static_cast<const char *>(bytes); count;) {
    const ssize_t put = pwrite(file, next, count, static_cast<off_t>(place));
    if (put < 0 && errno != EINTR)
      throw DeviceError(std::string("writing shared memory: ") + std::strerror(errno));
    next += put > 0 ? put : 0;
    place += put > 0 ? static_cast<size_t>(put) : 0;
    count -= put > 0 ? static_cast<size_t>(put) : 0;
  }
}

} // namespace sectile::autotune
