// `sectile completion` and `sectile man`: shell completions and the man page, made from the help.
#include "ir/Target.h"
#include "kernels/registry/Registry.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/hip/HipDevice.h"
#include "tools/sectile/Commands.h"
#include <iostream>
#include <sectile/error.h>
#include <sectile/version.h>
#include <set>

using namespace sectile;
using namespace sectile::tool;

namespace {

std::vector<const Command *> shown() {
  std::vector<const Command *> all;
  for (const Command &command : commands())
    if (!command.hidden)
      all.push_back(&command);
  return all;
}

std::string replaced(std::string_view text, std::string_view special, std::string_view before) {
  std::string result;
  for (const char c : text) {
    if (special.find(c) != special.npos)
      result += before;
    result += c;
  }
  return result;
}

// "cache" and "list" of "cache list"; the second is empty where the command is one word.
std::pair<std::string, std::string> wordsOf(const Command &command) {
  const std::string name(command.name);
  const std::size_t space = name.find(' ');
  return space == name.npos ? std::pair{name, std::string()}
                            : std::pair{name.substr(0, space), name.substr(space + 1)};
}

bool takesKernel(const Command &command) {
  for (std::string_view word : command.positional)
    if (word == "KERNEL" || word == "[KERNEL]")
      return true;
  return false;
}

std::string firstWords() {
  std::string text;
  std::set<std::string> seen;
  for (const Command *command : shown())
    if (const std::string first = wordsOf(*command).first; seen.insert(first).second)
      text += (text.empty() ? "" : " ") + first;
  return text;
}

std::string wordsBelow(const std::string &first) {
  std::string text;
  for (const Command *command : shown())
    if (const auto words = wordsOf(*command); words.first == first && !words.second.empty())
      text += (text.empty() ? "" : " ") + words.second;
  return text;
}

// Commands that have words of their own.
std::set<std::string> groups() {
  std::set<std::string> names;
  for (const Command *command : shown())
    if (const auto words = wordsOf(*command); !words.second.empty())
      names.insert(words.first);
  return names;
}

void printBash() {
  // --load FILE may stand anywhere; what is left has the command first.
  std::cout << "# bash completion of sectile, made by `sectile completion bash`.\n"
               "_sectile() {\n"
               "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
               "  local -a line=(sectile) load=()\n"
               "  local i words=\n"
               "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
               "    if [[ ${COMP_WORDS[i]} == --load ]]; then\n"
               "      ((++i < COMP_CWORD)) && load+=(--load \"${COMP_WORDS[i]}\")\n"
               "    else\n"
               "      line+=(\"${COMP_WORDS[i]}\")\n"
               "    fi\n"
               "  done\n"
               "  local command=${line[1]-}\n"
               "  COMPREPLY=()\n"
               "  if [[ $before == --load ]]; then\n"
               "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
               "    return\n"
               "  fi\n"
               "  if ((${#line[@]} == 1)); then\n"
               "    COMPREPLY=($(compgen -W \""
            << firstWords() << " --load --version --help\" -- \"$current\"))\n"
            << "    return\n  fi\n";
  for (const std::string &group : groups())
    std::cout << "  if [[ $command == " << group << " ]]; then\n"
              << "    if ((${#line[@]} == 2)); then\n      COMPREPLY=($(compgen -W \""
              << wordsBelow(group) << "\" -- \"$current\"))\n      return\n    fi\n"
              << "    command+=\" ${line[2]}\"\n  fi\n";
  std::cout << "  case $before in\n"
               "    --device) words=$(sectile completion devices 2>/dev/null) ;;\n"
               "    --target) words=$(sectile completion targets 2>/dev/null) ;;\n"
               "    --emit) words='tile cta llvm ptx cubin amdgcn hsaco' ;;\n"
               "    --output|-o|--file|--plot)\n"
               "      COMPREPLY=($(compgen -f -- \"$current\"))\n"
               "      return ;;\n"
               "    *)\n"
               "      case $command in\n";
  for (const Command *command : shown()) {
    std::cout << "        '" << command->name << "') words='--help";
    for (const Flag &flag : command->flags)
      std::cout << " " << flag.name;
    std::cout << "'";
    if (takesKernel(*command))
      std::cout
          << "\n          [[ $current == -* ]] || words+=\" $(sectile \"${load[@]}\" completion "
             "kernels 2>/dev/null)\"";
    if (command->name == "help")
      std::cout << "\n          words+=' " << firstWords() << "'";
    if (command->name == "bench")
      std::cout << "\n          words+=' compile launch virtual kernels'";
    std::cout << " ;;\n";
  }
  std::cout << "      esac ;;\n"
               "  esac\n"
               "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
               "  ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -f -- \"$current\"))\n"
               "}\n"
               "complete -F _sectile sectile\n";
}

// What zsh offers as the value of an option.
std::string zshAction(const Flag &flag) {
  if (flag.name == "--device")
    return "_sectile_words devices";
  if (flag.name == "--target")
    return "_sectile_words targets";
  if (flag.name == "--emit")
    return "(tile cta llvm ptx cubin amdgcn hsaco)";
  return flag.value == "FILE" || flag.value == "NAME=FILE" ? "_files" : " ";
}

// Inside '…' of zsh's _arguments.
std::string zshText(std::string_view text) {
  std::string result;
  for (const char c : replaced(text, "[]:\\", "\\"))
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result;
}

void printZsh() {
  std::cout << "#compdef sectile\n"
               "# zsh completion of sectile, made by `sectile completion zsh`.\n"
               "_sectile_words() {\n"
               "  local -a found\n"
               "  found=(${(f)\"$(sectile $sectile_load completion $1 2>/dev/null)\"})\n"
               "  compadd -a found\n"
               "}\n"
               "_sectile() {\n"
               "  local -a sectile_load\n"
               "  local i=2\n"
               "  while ((i < CURRENT)); do\n"
               "    if [[ $words[i] != --load ]]; then\n"
               "      ((++i))\n"
               "    elif ((i + 1 == CURRENT)); then\n"
               "      _files\n"
               "      return\n"
               "    else\n"
               "      sectile_load+=(--load $words[i+1])\n"
               "      words[i,i+1]=()\n"
               "      ((CURRENT -= 2))\n"
               "    fi\n"
               "  done\n"
               "  local command=$words[2]\n"
               "  if ((CURRENT == 2)); then\n"
               "    compadd "
            << firstWords() << " --load --version --help\n    return\n  fi\n"
            << "  local skipped=1\n";
  for (const std::string &group : groups())
    std::cout << "  if [[ $command == " << group << " ]]; then\n"
              << "    if ((CURRENT == 3)); then\n      compadd " << wordsBelow(group)
              << "\n      return\n    fi\n"
              << "    command+=\" $words[3]\"\n    skipped=2\n  fi\n";
  std::cout << "  shift $skipped words\n"
               "  ((CURRENT -= skipped))\n"
               "  case $command in\n";
  for (const Command *command : shown()) {
    std::cout << "    '" << command->name << "')\n      _arguments";
    for (const Flag &flag : command->flags) {
      const bool repeated = flag.value.find('=') != flag.value.npos;
      std::cout << " \\\n        '" << (repeated ? "*" : "") << flag.name << "["
                << zshText(flag.doc) << "]";
      if (!flag.value.empty())
        std::cout << ":" << zshText(flag.value) << ":" << zshAction(flag);
      std::cout << "'";
    }
    if (takesKernel(*command))
      std::cout << " \\\n        '*:kernel:_sectile_words kernels'";
    else if (command->name == "bench")
      std::cout << " \\\n        '1:suite:(compile launch virtual kernels)'";
    else if (command->name == "help")
      std::cout << " \\\n        '1:command:(" << firstWords() << ")'";
    else
      std::cout << " \\\n        '*:file:_files'";
    std::cout << "\n      ;;\n";
  }
  std::cout << "  esac\n"
               "}\n"
               "_sectile \"$@\"\n";
}

std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text)
    result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  // A line that begins so would be a request.
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

void printMan() {
  std::cout << ".TH SECTILE 1 \"\" \"Sectile " << roff(std::string(version())) << "\"\n"
            << ".SH NAME\nsectile \\- runs, compiles, tunes and measures GPU kernels\n"
               ".SH SYNOPSIS\n.B sectile\n.I COMMAND\n.RI [ ARGUMENT ...]\n"
               ".SH COMMANDS\n";
  for (const Command *command : shown()) {
    std::cout << ".SS sectile " << roff(command->name);
    for (std::string_view word : command->positional)
      std::cout << " " << roff(word);
    std::cout << "\n" << roff(command->summary) << "\n";
    for (const Flag &flag : command->flags) {
      std::cout << ".TP\n.B " << roff(flag.name);
      if (!flag.value.empty())
        std::cout << " " << roff(flag.value);
      std::cout << "\n" << roff(flag.doc) << "\n";
    }
    std::cout << ".PP\nExample:\n.PP\n.EX\n"
              << roff("sectile " + std::string(command->example)) << "\n.EE\n";
  }
  std::cout << ".SH OPTIONS\n.TP\n.B \\-\\-load FILE\nwith any command: the kernels of a shared "
               "library too\n"
               ".TP\n.B \\-\\-version\nprint the versions of Sectile and of LLVM\n"
               ".TP\n.B \\-\\-\nends the options: words after it are arguments\n"
               ".SH EXIT STATUS\n0: done; 1: the work failed; 2: the command line or an input was "
               "wrong.\n";
}

} // namespace

int sectile::tool::runCompletion(const CommandLine &line) {
  const std::string what = *line.argument(0);
  if (what == "bash") {
    printBash();
  } else if (what == "zsh") {
    printZsh();
  } else if (what == "kernels") {
    for (const KernelSpec &kernel : kernelRegistry())
      std::cout << kernel.name << "\n";
  } else if (what == "targets") {
    for (llvm::StringRef name : Target::names())
      std::cout << name.str() << "\n";
  } else if (what == "devices") {
    for (unsigned i = 0; i < runtime::cudaDeviceCount(); ++i)
      std::cout << "cuda:" << i << "\n";
    for (unsigned i = 0; i < runtime::hipDeviceCount(); ++i)
      std::cout << "hip:" << i << "\n";
    for (llvm::StringRef name : Target::names())
      std::cout << "virtual:" << name.str() << "\n";
    std::cout << "interpreter\n";
  } else {
    throw InputError("completion: '" + what + "' is none of bash, zsh, kernels, targets, devices");
  }
  return 0;
}

int sectile::tool::runMan(const CommandLine &) {
  printMan();
  return 0;
}
