// What both fuzzers are told on the command line.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unistd.h>

namespace sectile::fuzz {

struct Options {
  uint64_t seed = 0;      ///< --seed: the first number
  uint64_t count = 0;     ///< --count: how many; or
  double minutes = 0;     ///< --minutes: for how long
  std::string keep = "."; ///< --keep: the folder for what is found
  unsigned seconds = 60;  ///< --limit: of CPU time, for one number
  unsigned jobs = 1;      ///< --jobs: processes side by side, each with numbers of its own
};

/// Exits with a message when the command line is wrong. `more` are further options with a value.
Options parseOptions(int argc, char **argv, const std::map<std::string, std::string *> &more = {});

/// Does the work in as many processes as there are jobs, with a part of the numbers each, and gives
/// the worst of what they return. Those of `count` numbers divide them; else each has 2^32 of its
/// own.
int runJobs(const Options &options, const std::function<int(const Options &)> &work);

/// Says when to stop, and how it goes every minute.
class Clock {
public:
  Clock(const Options &options, std::string name) : options(options), name(std::move(name)) {}
  bool goesOn(uint64_t number);

private:
  using Time = std::chrono::steady_clock;
  const Options &options;
  std::string name;
  Time::time_point start = Time::now(), said = start;
  const int process = ::getpid(); ///< its children keep silent
};

} // namespace sectile::fuzz
