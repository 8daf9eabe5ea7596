// Makes calls of the C library for files fail, or the process die in the midst of one, as disks and
// network file systems do. Linked into a test, it takes the place of the C library's for all of the
// process.
#pragma once
#include <string>
#include <string_view>

namespace sectile::test {

struct Fault {
  static constexpr unsigned always = ~0u;

  std::string_view call = ""; ///< "openat"; empty: any of them
  unsigned at = 0;            ///< which of its calls is the first to fail, from 0
  unsigned times = always;    ///< how many fail
  int error = 0;              ///< what they fail with
  bool partly = false;        ///< reads and writes do one byte, and all is well
  bool kill = false;          ///< the process is killed; a write writes its first half before
};

/// The names of the calls that can fail.
extern const char *const faultyCalls[];
extern const unsigned faultyCallCount;

/// While it lives calls by this thread fail, of files but the standard streams.
class Faulty {
public:
  explicit Faulty(const Fault &fault);
  Faulty(const Faulty &) = delete;
  ~Faulty();
  /// How many calls that could fail there were, and their names, with a space behind each.
  static unsigned calls();
  static const std::string &names();
};

/// While it lives this thread's clock of the day is so many seconds ahead of the file system's.
class ClockAhead {
public:
  explicit ClockAhead(long seconds);
  ClockAhead(const ClockAhead &) = delete;
  ~ClockAhead();
};

} // namespace sectile::test
