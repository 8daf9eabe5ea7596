// Taking a command line apart.
#include "tools/sectile/CommandLine.h"
#include "runtime/Numerals.h"
#include "tools/sectile/Suggest.h"
#include <algorithm>
#include <charconv>
#include <sectile/error.h>

namespace sectile::tool {
namespace {

bool isRepeated(const Flag &flag) { return flag.value.find('=') != std::string_view::npos; }

std::string synopsis(const Command &command) {
  std::string text = "sectile " + std::string(command.name);
  for (std::string_view word : command.positional)
    text += " " + std::string(word);
  return text;
}

[[noreturn]] void refuse(const Command &command, const std::string &what) {
  throw InputError(what + " (see `sectile help " + std::string(command.name) + "`)");
}

} // namespace

CommandLine::CommandLine(const Command &command, std::span<const std::string_view> words)
    : command(command) {
  const Flag *open = nullptr; // a repeated flag, which takes further NAME=VALUE words too
  bool ended = false;         // by "--": all words after it are arguments
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    if (!ended && word == "--") {
      ended = true;
      open = nullptr;
      continue;
    }
    if (!ended && word == "-o")
      word = "--output";
    if (ended || !word.starts_with("-") || word == "-") {
      if (open && word.find('=') != std::string_view::npos) {
        values[open->name].emplace_back(word);
        continue;
      }
      if (arguments.size() == command.positional.size())
        refuse(command, "unexpected argument '" + std::string(word) + "'");
      arguments.emplace_back(word);
      open = nullptr;
      continue;
    }
    open = nullptr;
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    auto flag = std::find_if(command.flags.begin(), command.flags.end(),
                             [&](const Flag &f) { return f.name == name; });
    if (flag == command.flags.end()) {
      std::string known;
      std::vector<std::string_view> names;
      for (const Flag &f : command.flags) {
        known += (known.empty() ? "" : ", ") + std::string(f.name);
        names.push_back(f.name);
      }
      if (const std::string guess = suggestion(name, names); !guess.empty())
        refuse(command, "unknown option '" + std::string(name) + "'; " + guess);
      refuse(command, "unknown option '" + std::string(name) + "'; " + synopsis(command) +
                          (known.empty() ? " takes none" : " takes " + known));
    }
    std::string value;
    if (flag->value.empty()) {
      if (equals != std::string_view::npos)
        refuse(command, std::string(name) + " takes no value");
    } else if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    } else {
      if (i + 1 == words.size())
        refuse(command, std::string(name) + " needs a value: " + std::string(flag->value));
      value = words[++i];
    }
    if (!isRepeated(*flag) && has(flag->name))
      refuse(command, std::string(name) + " is given twice");
    values[flag->name].push_back(std::move(value));
    if (isRepeated(*flag))
      open = &*flag;
  }
  for (std::size_t i = arguments.size(); i < command.positional.size(); ++i)
    if (!command.positional[i].starts_with('['))
      refuse(command, std::string(command.positional[i]) + " is missing");
}

std::optional<std::string> CommandLine::value(std::string_view flag) const {
  auto found = values.find(flag);
  if (found == values.end())
    return std::nullopt;
  return found->second.front();
}

std::vector<std::pair<std::string, std::string>> CommandLine::assignments(std::string_view flag,
                                                                          bool bareAllowed) const {
  std::vector<std::pair<std::string, std::string>> pairs;
  auto found = values.find(flag);
  if (found == values.end())
    return pairs;
  for (const std::string &text : found->second) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos && bareAllowed) {
      pairs.emplace_back("", text);
      continue;
    }
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      refuse(command, std::string(flag) + " needs the form NAME=VALUE, not '" + text + "'");
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    for (std::size_t i = 0; i + 1 < pairs.size(); ++i)
      if (pairs[i].first == pairs.back().first)
        refuse(command, std::string(flag) + " gives '" + pairs.back().first + "' twice");
  }
  return pairs;
}

std::optional<long> CommandLine::number(std::string_view flag, long least) const {
  auto text = value(flag);
  if (!text)
    return std::nullopt;
  long number = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < least)
    refuse(command, std::string(flag) + " needs a whole number from " + std::to_string(least) +
                        " on, not '" + *text + "'");
  return number;
}

double CommandLine::seconds(std::string_view flag) const {
  if (!has(flag))
    return 0;
  const std::string text = *value(flag);
  const std::optional<double> seconds = runtime::numberIn(text);
  if (!seconds || !(*seconds > 0))
    throw InputError(std::string(flag) + " needs a number of seconds above 0, not '" + text + "'");
  return *seconds;
}

std::optional<std::string> CommandLine::argument(std::size_t index) const {
  if (index >= arguments.size())
    return std::nullopt;
  return arguments[index];
}

std::string usage(const Command &command) {
  std::string text = "usage: " + synopsis(command);
  if (!command.flags.empty())
    text += " [OPTION...]";
  text += "\n\n" + std::string(command.summary) + "\n";
  std::size_t width = 0;
  for (const Flag &flag : command.flags)
    width = std::max(width, flag.name.size() + 1 + flag.value.size());
  if (!command.flags.empty())
    text += "\n";
  for (const Flag &flag : command.flags) {
    std::string left = std::string(flag.name) + " " + std::string(flag.value);
    left.resize(width + 2, ' ');
    text += "  " + left + std::string(flag.doc) + "\n";
  }
  text += "\nexample: sectile " + std::string(command.example) + "\n";
  return text;
}

} // namespace sectile::tool
