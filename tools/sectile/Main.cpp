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

static constexpr std::string_view device =
    "cuda:0, hip:0, virtual:sm_90, interpreter and so on; the best there is if not given";

const std::vector<Command> &sectile::tool::commands() {
  static const std::vector<Command> all{
      {"demo",
       {},
       "Runs five kernels and checks each against a float64 reference.",
       {{"--device", "DEV", device}},
       runDemo},
      {"info", {}, "Devices, targets, versions and the cache.", {}, runInfo},
      {"list",
       {"[KERNEL]"},
       "The kernels of the library; with a name its arguments, options and defaults.",
       {},
       runList},
      {"run",
       {"KERNEL"},
       "Runs a kernel on arrays from NumPy files.",
       {{"--in", "NAME=FILE", "an input, from a .npy file"},
        {"--out", "NAME=FILE", "write an output to a .npy file"},
        {"--opt", "KEY=VALUE", "an option of the kernel"},
        {"--config", "KEY=VALUE", "a field of its configuration"},
        {"--dtype", "[NAME=]DTYPE", "what raw u16 or u8 inputs hold: bf16, f16, f8e4m3, f8e5m2"},
        {"--device", "DEV", device},
        {"--repeat", "N", "run it N times and print the times"},
        {"--check", {}, "compare with a float64 reference and print the errors"}},
       runRun},
      {"compile",
       {"KERNEL"},
       "Gives a kernel's code for a target; needs no device.",
       {{"--target", "T", "sm_80, gfx942 and so on: `sectile info` lists them"},
        {"--emit", "KIND", "tile, cta, llvm, ptx, cubin, amdgcn or hsaco"},
        {"--output", "FILE", "where to (-o FILE is the same); standard output if not given"},
        {"--opt", "KEY=VALUE", "an option of the kernel"},
        {"--config", "KEY=VALUE", "a field of its configuration"},
        {"--dtype", "DTYPE", "of the arguments that have a choice"},
        {"--shape", "AXIS=EXTENT,...", "extents that the configuration is chosen for"}},
       runCompile},
      {"bench",
       {"[SUITE]"},
       "Measures compiles, launches and the virtual GPU: compile, launch, virtual, or all.",
       {{"--device", "DEV", "the virtual device to measure; virtual:sm_90 if not given"},
        {"--json", "FILE", "write the figures there, too"}},
       runBench},
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
