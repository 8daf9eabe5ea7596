// The program `sectile`: finds the command and turns what it throws into one sentence and an exit
// status: 0 done, 1 the work failed, 2 the command line or an input was wrong.
#include "autotune/Channel.h"
#include "kernels/InputError.h"
#include "runtime/DeviceImpl.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sectile/version.h>

using namespace sectile;
using namespace sectile::tool;

static constexpr std::string_view device =
    "cuda:0, hip:0, virtual:sm_90a, interpreter and so on; the best there is if not given";

static const Flag json{"--json", {}, "print JSON"};

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
        {"--with", "NAMES", "optional inputs that there are, as bias,mask"},
        {"--part", "NAME", "one of its launches; all of them if not given"},
        {"--config", "KEY=VALUE", "a field of its configuration"},
        {"--dtype", "DTYPE", "of the arguments that have a choice"},
        {"--shape", "AXIS=EXTENT,...", "extents that the configuration is chosen for"},
        json},
       runCompile},
      {"tune",
       {"KERNEL"},
       "Finds the fastest configuration for a shape or a file of shapes, and keeps it.",
       {{"--shape", "AXIS=EXTENT,...", "extents; typical ones for those not given"},
        {"--file", "FILE", "shapes, AXIS=EXTENT,... one a line"},
        {"--dtype", "DTYPE", "of the arguments that have a choice"},
        {"--opt", "KEY=VALUE", "an option of the kernel"},
        {"--with", "NAMES", "optional inputs that there are, as bias,mask"},
        {"--device", "DEV", device},
        {"--budget", "SECONDS", "begin no candidate after this time"},
        {"--deadline", "SECONDS",
         "give up a candidate that runs longer; if not given, 100 times the fastest, 10 at least"},
        {"--candidates", "N", "measure at most so many for each shape"},
        {"--strategy", "NAME", "exhaustive (if not given), random or halving"},
        {"--quiet", {}, "no progress"},
        json},
       runTune},
      {"bench",
       {"[SUITE]"},
       "Measures compiles, launches and the virtual GPU: compile, launch, virtual, or all three; "
       "or "
       "the library's kernels on a device: kernels.",
       {{"--device", "DEV", "the one to measure; virtual:sm_90a, for kernels the best there is"},
        {"--kernel", "NAMES", "kernels: only these, as matmul,softmax"},
        {"--file", "FILE",
         "kernels: KERNEL AXIS=EXTENT,... [dtype D] [with NAMES] [opt KEY=VALUE...] "
         "[config KEY=VALUE...]"},
        {"--small", {}, "kernels: small shapes instead of typical ones"},
        {"--dtype", "DTYPE", "kernels: of the inputs that may have it; f16 if not given"},
        {"--budget", "SECONDS", "kernels: begin none after this time"},
        {"--deadline", "SECONDS", "kernels: give up one that takes longer; 120 if not given"},
        {"--json", "FILE", "write the figures there, too"},
        {"--plot", "FILE", "draw them into a .svg file"}},
       runBench},
      {"cache list",
       {"[KERNEL]"},
       "Lists compiled kernels and measured problems; those of one kernel.",
       {json},
       runCacheList},
      {"cache show",
       {"ENTRY"},
       "Shows an entry of the compile cache: its key, its IR, its code, what it needs.",
       {{"--ir", {}, "print the IR only"}, {"--code", {}, "print the code only"}, json},
       runCacheShow},
      {"cache best",
       {"KERNEL"},
       "Compares the measured configurations of a kernel, shape by shape.",
       {{"--device", "NAME", "measurements of this device only"},
        {"--dtypes", "DTYPES", "of these dtypes only, as \"f16 f16 f16\""},
        {"--top", "N", "rows of the comparison; 10 if not given"},
        {"--plot", "FILE", "draw the search spaces into a .svg or .html file"},
        json},
       runCacheBest},
      {"cache why",
       {"KERNEL"},
       "Says whether a launch would compile, and what sets it apart from the nearest entry.",
       {{"--in", "NAME=FILE", "an input, as for run; or, without any,"},
        {"--shape", "AXIS=EXTENT,...", "extents"},
        {"--opt", "KEY=VALUE", "an option of the kernel"},
        {"--with", "NAMES", "optional inputs that there are, as bias,mask"},
        {"--part", "NAME", "which of its launches, where it has several"},
        {"--config", "KEY=VALUE", "a field of its configuration"},
        {"--dtype", "[NAME=]DTYPE", "what raw inputs hold; without --in, of all arguments"},
        {"--device", "DEV", device},
        json},
       runCacheWhy},
      {"cache verify",
       {},
       "Checks every entry and every measurement; status 1 where one is damaged.",
       {{"--recompile", {}, "compile every kernel from its entry and compare"}, json},
       runCacheVerify},
      {"cache prune",
       {},
       "Removes what is damaged, was set aside, or is more than the size limit.",
       {{"--limit", "MIB", "the size limit; SECTILE_CACHE_LIMIT if not given"},
        {"--unused", "DAYS", "kernels unused for so long, too"},
        {"--stale", {}, "measurements made with another compiler or driver, too"},
        json},
       runCachePrune},
      {"cache clear",
       {"[KERNEL]"},
       "Removes all kernels and measurements; those of one kernel.",
       {{"--kernels", {}, "compiled kernels only"},
        {"--measurements", {}, "measurements only"},
        json},
       runCacheClear},
      {"cache export",
       {"FILE", "[KERNEL]"},
       "Writes measurements into a .json file, or compiled kernels into any other.",
       {},
       runCacheExport},
      {"cache import",
       {"FILE"},
       "Takes over what export wrote. Compiled kernels will run: import those you trust.",
       {},
       runCacheImport},
      {"help",
       {"[COMMAND]", "[WORD]"},
       "What the commands are, or how one of them is used.",
       {},
       runHelp},
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
  const bool help = std::find_if(words.begin(), words.end(), [](std::string_view word) {
                      return word == "--help" || word == "-h";
                    }) != words.end();
  const std::string first(words.front());
  const std::string two = words.size() > 1 ? first + " " + std::string(words[1]) : first;
  std::string known, below;
  for (const Command &command : commands()) {
    if (command.name == first || command.name == two) {
      if (help)
        std::cout << usage(command);
      return help ? 0
                  : command.run(CommandLine(
                        command, std::span(words).subspan(command.name == first ? 1 : 2)));
    }
    known += (known.empty() ? "" : ", ") + std::string(command.name);
    if (command.name.starts_with(first + " "))
      below += (below.empty() ? "" : ", ") + std::string(command.name.substr(first.size() + 1));
  }
  if (help && !below.empty())
    return dispatch({"help", words.front()});
  if (!below.empty())
    throw InputError((words.size() > 1 ? "there is no command '" + two + "'; " : "") + first +
                     " takes one of " + below);
  throw InputError("there is no command '" + first + "'; the commands are " + known);
}

int main(int argc, char **argv) {
  // The library starts this program to measure for another process.
  if (argc == 2 && std::string_view(argv[1]) == autotune::measureWord)
    return autotune::serveMeasurements(autotune::measureSocket, autotune::measureFile);
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
  // A driver may wait at the end of a process for a kernel that has none.
  if (runtime::DeviceImpl::anyIsLost()) {
    std::cout.flush();
    std::_Exit(status);
  }
  return status;
}
