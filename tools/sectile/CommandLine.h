// A command's words, taken apart and checked against what the command knows.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sectile::tool {

struct Flag {
  std::string_view name;       // "--device"
  std::string_view value = {}; // what follows, as "DEV"; empty: nothing. NAME=... may be repeated
  std::string_view doc = {};
};

class CommandLine;

struct Command {
  std::string_view name;
  std::vector<std::string_view> positional; // "[X]" where it may be left out
  std::string_view summary;
  std::vector<Flag> flags;
  int (*run)(const CommandLine &);
  std::string_view example; // as one types it, after "sectile "
  bool hidden = false;      // from the help: for the build and for shells
};

// Throws InputError for words the command does not know, with those that it does.
class CommandLine {
public:
  CommandLine(const Command &command, std::span<const std::string_view> words);

  bool has(std::string_view flag) const { return values.contains(flag); }
  std::optional<std::string> value(std::string_view flag) const;
  // All NAME=VALUE given to a flag, in order. A name without '=' has an empty name and the whole as
  // its value where `bareAllowed`.
  std::vector<std::pair<std::string, std::string>> assignments(std::string_view flag,
                                                               bool bareAllowed = false) const;
  // A whole number from `least` on.
  std::optional<long> number(std::string_view flag, long least) const;
  // Seconds above 0; 0 where the flag is not given.
  double seconds(std::string_view flag) const;
  std::optional<std::string> argument(std::size_t index) const;

private:
  const Command &command;
  std::map<std::string_view, std::vector<std::string>, std::less<>> values;
  std::vector<std::string> arguments;
};

std::string usage(const Command &command); // with all its flags

} // namespace sectile::tool
