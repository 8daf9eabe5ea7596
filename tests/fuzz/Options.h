// What both fuzzers are told on the command line.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace sectile::fuzz {

struct Options {
  uint64_t seed = 0;      ///< --seed: the first number
  uint64_t count = 0;     ///< --count: how many; or
  double minutes = 0;     ///< --minutes: for how long
  std::string keep = "."; ///< --keep: the folder for what is found
  unsigned seconds = 60;  ///< --limit: of CPU time, for one number
};

/// Exits with a message when the command line is wrong. `more` are further options with a value.
Options parseOptions(int argc, char **argv, const std::map<std::string, std::string *> &more = {});

/// Says when to stop, and how it goes once in a while.
class Clock {
public:
  explicit Clock(const Options &options) : options(options) {}
  bool goesOn(uint64_t number) const;

private:
  using Time = std::chrono::steady_clock;
  const Options &options;
  Time::time_point start = Time::now();
};

} // namespace sectile::fuzz
