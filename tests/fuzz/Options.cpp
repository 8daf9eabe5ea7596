// The fuzzers' command line.
#include "tests/fuzz/Options.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>
#include <vector>

namespace sectile::fuzz {

Options parseOptions(int argc, char **argv, const std::map<std::string, std::string *> &more) {
  Options options;
  auto sayUse = [&](std::ostream &out) {
    out << "usage: " << argv[0]
        << " [--seed FIRST] [--count N | --minutes M] [--keep FOLDER] [--limit SECONDS] "
           "[--jobs N]";
    for (const auto &[name, value] : more)
      out << " [" << name << " VALUE]";
    out << '\n';
  };
  auto fail = [&](const std::string &why) {
    std::cerr << argv[0] << ": " << why << '\n';
    sayUse(std::cerr);
    std::exit(2);
  };
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
    if (name == "--help") {
      sayUse(std::cout);
      std::exit(0);
    }
    if (i + 1 == argc)
      fail(name + " lacks a value");
    std::string value = argv[i + 1];
    char *end = nullptr;
    double number = std::strtod(value.c_str(), &end);
    bool isNumber = !value.empty() && *end == '\0' && number >= 0;
    if (auto found = more.find(name); found != more.end())
      *found->second = value;
    else if (name == "--keep")
      options.keep = value;
    else if (!isNumber)
      fail(name + " needs a number, not '" + value + "'");
    else if (name == "--seed")
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--count")
      options.count = static_cast<uint64_t>(number);
    else if (name == "--minutes")
      options.minutes = number;
    else if (name == "--limit")
      options.seconds = static_cast<unsigned>(number);
    else if (name == "--jobs" && number >= 1)
      options.jobs = static_cast<unsigned>(number);
    else
      fail("what is " + name + "?");
  }
  if (!options.count && options.minutes == 0)
    options.count = 1000;
  return options;
}

int runJobs(const Options &options, const std::function<int(const Options &)> &work) {
  if (options.jobs == 1)
    return work(options);
  std::vector<pid_t> children;
  std::cout.flush();
  for (uint64_t i = 0; i < options.jobs; ++i) {
    pid_t child = ::fork();
    if (child < 0)
      std::abort();
    if (child == 0) {
      Options part = options;
      part.seed += options.count ? options.count * i / options.jobs : i << 32;
      if (options.count)
        part.count = options.count * (i + 1) / options.jobs - options.count * i / options.jobs;
      // None would mean no end.
      int result = options.count && !part.count ? 0 : work(part);
      std::cout.flush();
      ::_exit(result);
    }
    children.push_back(child);
  }
  int worst = 0;
  for (pid_t child : children) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
      ;
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  return worst;
}

bool Clock::goesOn(uint64_t number) {
  if (options.count && number >= options.seed + options.count)
    return false;
  Time::time_point now = Time::now();
  if (now - said > std::chrono::minutes(1) && ::getpid() == process) {
    std::cout << name << ": " << number - options.seed << " done, at seed " << number << std::endl;
    said = now;
  }
  std::chrono::duration<double> passed = now - start;
  return options.minutes == 0 || passed.count() < options.minutes * 60;
}

} // namespace sectile::fuzz
