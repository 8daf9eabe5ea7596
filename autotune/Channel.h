// Channel: messages between a tuning and the process that measures for it.
#ifndef SECTILE_AUTOTUNE_CHANNEL_H
#define SECTILE_AUTOTUNE_CHANNEL_H

#include <optional>
#include <string>
#include <string_view>

namespace sectile::autotune {

/// What a measuring process is asked for. Each request is answered; the first byte of an answer is
/// an Answer.
enum class Request : unsigned char {
  Open,    ///< a device, for one build of the library
  Memory,  ///< regions of the user's memory, whose bytes lie in the file that both have open
  Outputs, ///< which of them launches write, and where in the file their bytes come and go
  Run,     ///< one candidate, once
  Time,    ///< one candidate, so many times
};
enum class Answer : unsigned char {
  Done,
  Late,    ///< it took longer than its deadline; the process ends
  Lost,    ///< an error of the device, which does nothing more; the process ends
  Device,  ///< an error of the device, which bears it
  Refused, ///< any other error
};

/// One end of a stream socket. Not owned.
class Channel {
public:
  enum class End { Closed, Late };

  explicit Channel(int socket) : socket(socket) {}
  /// False where nobody is at the other end.
  bool send(std::string_view message) const;
  /// Waits for one, no longer than that; negative: for ever.
  std::optional<std::string> receive(double seconds, End &why) const;

private:
  bool fill(char *bytes, size_t count, double end, End &why) const;

  int socket;
};

/// Reads and writes all of it, from this place of a file on. Throw DeviceError where the system
/// does not.
void readAt(int file, void *bytes, size_t count, size_t place);
void writeAt(int file, const void *bytes, size_t count, size_t place);

/// The measuring process: answers requests on the socket until its other end is closed.
int serveMeasurements(int socket, int file);

/// What a program is started with to be that, and the descriptors that it finds.
inline constexpr const char *measureWord = "--measure";
inline constexpr int measureSocket = 3, measureFile = 4;

} // namespace sectile::autotune

#endif
