// `sectile help`: the commands, or one of them.
#include "kernels/InputError.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Table.h"
#include <iostream>

using namespace sectile;
using namespace sectile::tool;

int sectile::tool::runHelp(const CommandLine &line) {
  if (auto name = line.argument(0)) {
    for (const Command &command : commands())
      if (command.name == *name) {
        std::cout << usage(command);
        return 0;
      }
    throw InputError("there is no command '" + *name + "'; `sectile help` lists them");
  }
  std::cout << "usage: sectile COMMAND [ARGUMENT...]\n\n";
  Table table;
  for (const Command &command : commands()) {
    std::string words(command.name);
    for (std::string_view word : command.positional)
      words += " " + std::string(word);
    table.row({"  " + words, std::string(command.summary)});
  }
  table.print(std::cout);
  std::cout << "\n  --version    the versions of Sectile and of the LLVM inside it\n"
               "\nExit status: 0 done, 1 the work failed, 2 the command line or an input was "
               "wrong.\n";
  return 0;
}
