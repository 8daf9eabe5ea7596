// `sectile help`: the commands, or one of them.
#include "tools/sectile/Commands.h"
#include "tools/sectile/Json.h"
#include "tools/sectile/Table.h"
#include <iostream>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;

static llvm::json::Object jsonOf(const Command &command) {
  llvm::json::Array arguments, flags;
  for (std::string_view word : command.positional)
    arguments.push_back(std::string(word));
  for (const Flag &flag : command.flags)
    flags.push_back(llvm::json::Object{{"name", std::string(flag.name)},
                                       {"value", std::string(flag.value)},
                                       {"doc", std::string(flag.doc)}});
  return llvm::json::Object{{"name", std::string(command.name)},
                            {"summary", std::string(command.summary)},
                            {"arguments", std::move(arguments)},
                            {"options", std::move(flags)},
                            {"example", "sectile " + std::string(command.example)}};
}

static void row(Table &table, const Command &command) {
  std::string words(command.name);
  for (std::string_view word : command.positional)
    words += " " + std::string(word);
  table.row({"  " + words, std::string(command.summary)});
}

int sectile::tool::runHelp(const CommandLine &line) {
  Table table;
  if (line.has("--json")) {
    const std::string name =
        line.argument(0).value_or("") + (line.argument(1) ? " " + *line.argument(1) : "");
    llvm::json::Array list;
    for (const Command &command : commands())
      if (!command.hidden &&
          (name.empty() || command.name == name || command.name.starts_with(name + " ")))
        list.push_back(jsonOf(command));
    if (list.empty())
      throw InputError("there is no command '" + name + "'; `sectile help` lists them");
    printJson(std::move(list));
    return 0;
  }
  if (auto name = line.argument(0)) {
    const std::string both = *name + " " + line.argument(1).value_or("");
    bool any = false;
    for (const Command &command : commands()) {
      if (command.name == *name || command.name == both) {
        std::cout << usage(command);
        return 0;
      }
      if (!line.argument(1) && command.name.starts_with(both)) {
        row(table, command);
        any = true;
      }
    }
    if (!any)
      throw InputError("there is no command '" + (line.argument(1) ? both : *name) +
                       "'; `sectile help` lists them");
    std::cout << "usage: sectile " << *name << " WORD [ARGUMENT...]\n\n";
    table.print(std::cout);
    return 0;
  }
  std::cout << "usage: sectile COMMAND [ARGUMENT...]\n\n";
  for (const Command &command : commands())
    if (!command.hidden)
      row(table, command);
  table.print(std::cout);
  std::cout << "\n  --load FILE  with any command: the kernels of a shared library too\n"
               "  --version    the versions of Sectile and of the LLVM inside it\n"
               "  --           ends the options: words after it are arguments\n"
               "\nExit status: 0 done, 1 the work failed, 2 the command line or an input was "
               "wrong.\n";
  return 0;
}
