// The fuzzers' command line.
#include "tests/fuzz/Options.h"
#include <cstdlib>
#include <iostream>

namespace sectile::fuzz {

Options parseOptions(int argc, char **argv, const std::map<std::string, std::string *> &more) {
  Options options;
  auto fail = [&](const std::string &why) {
    std::cerr
        << argv[0] << ": " << why
        << "\nuse: [--seed FIRST] [--count N | --minutes M] [--keep FOLDER] [--limit SECONDS]";
    for (const auto &[name, value] : more)
      std::cerr << " [" << name << " VALUE]";
    std::cerr << '\n';
    std::exit(2);
  };
  for (int i = 1; i < argc; i += 2) {
    std::string name = argv[i];
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
    else
      fail("what is " + name + "?");
  }
  if (!options.count && options.minutes == 0)
    options.count = 1000;
  return options;
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
