// The program `sectile`: finds the command and turns what it throws into one sentence and an exit
// status: 0 done, 1 the work failed, 2 the command line or an input was wrong.
#include "kernels/InputError.h"
#include "tools/sectile/Commands.h"
#include <cstdio>
#include <iostream>
#include <new>
#include <sectile/version.h>

using namespace sectile;
using namespace sectile::tool;

const std::vector<Command> &sectile::tool::commands() {
  static const std::vector<Command> all{
      {"info", {}, "Devices, targets, versions and the cache.", {}, runInfo},
      {"list",
       {"[KERNEL]"},
       "The kernels of the library; with a name its arguments, options and defaults.",
       {},
       runList},
      {"help", {"[COMMAND]"}, "What the commands are, or how one of them is used.", {}, runHelp},
  };
  return all;
}

static int dispatch(std::vector<std::string_view> words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h")
    words = {"help"};
  if (words.front() == "--version") {
    std::cout << "sectile " << version() << " (LLVM " << llvm_version() << ")\n";
    return 0;
  }
  for (const Command &command : commands()) {
    if (command.name != words.front())
      continue;
    for (std::string_view word : words)
      if (word == "--help" || word == "-h") {
        std::cout << usage(command);
        return 0;
      }
    return command.run(CommandLine(command, std::span(words).subspan(1)));
  }
  std::string known;
  for (const Command &command : commands())
    known += (known.empty() ? "" : ", ") + std::string(command.name);
  throw InputError("there is no command '" + std::string(words.front()) + "'; the commands are " +
                   known);
}

int main(int argc, char **argv) {
  int status = 1;
  try {
    status = dispatch({argv + 1, argv + argc});
    std::cout.flush();
    if (!std::cout)
      throw InputError("cannot write to standard output");
  } catch (const InputError &error) {
    std::cerr << "sectile: " << error.what() << "\n";
    status = 2;
  } catch (const LaunchError &error) {
    std::cerr << "sectile: " << error.what() << "\n";
    status = 2;
  } catch (const std::bad_alloc &) {
    std::cerr << "sectile: out of memory\n";
  } catch (const std::exception &error) {
    std::cerr << "sectile: " << error.what() << "\n";
  }
  return status;
}
