// The program `sectile`: finds the command and turns what it throws into one sentence and an exit
// status: 0 done, 1 the work failed, 2 the command line or an input was wrong.
#include "autotune/Channel.h"
#include "runtime/DeviceImpl.h"
#include "tools/Programs.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Load.h"
#include "tools/sectile/Suggest.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sectile/error.h>
#include <sectile/version.h>

using namespace sectile;
using namespace sectile::tool;

static constexpr std::string_view device =
    "cuda:0, hip:0, virtual:sm_90a, interpreter and so on; the best there is if not given";

static const Flag json{"--json", {}, "print JSON instead of text"};

const std::vector<Command> &sectile::tool::commands() {
  static const std::vector<Command> all{
      {"demo",
       {},
       "Runs five kernels and checks each against a float64 reference.",
       {{"--device", "DEV", device}, json},
       runDemo,
       "demo --device virtual:sm_90a"},
      {"info", {}, "Devices, targets, versions and the cache.", {json}, runInfo, "info"},
      {"list",
       {"[KERNEL]"},
       "The kernels of the library; with a name its arguments, options and defaults.",
       {json},
       runList,
       "list matmul"},
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
        {"--check", {}, "compare with a float64 reference and print the errors"},
        json},
       runRun,
       "run softmax --in x=x.npy --out y=y.npy --check"},
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
        {"--remarks", {}, "say which hints have no effect, and what is slower than it could be"},
        json},
       runCompile,
       "compile matmul --target sm_90a --emit ptx -o matmul.ptx"},
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
       runTune,
       "tune matmul --shape m=512,n=512,k=512 --budget 60"},
      {"bench",
       {"[SUITE]"},
       "Measures a suite: compile, launch or virtual, all three if not given; or kernels.",
       {{"--device", "DEV", "the one to measure; virtual:sm_90a, for kernels the best there is"},
        {"--kernel", "NAMES", "kernels: only these, as matmul,softmax"},
        {"--file", "FILE",
         "kernels: KERNEL AXIS=EXTENT,... [dtype D] [with NAMES] [opt K=V...] [config K=V...]"},
        {"--small", {}, "kernels: small shapes instead of typical ones"},
        {"--dtype", "DTYPE", "kernels: of the inputs that may have it; f16 if not given"},
        {"--budget", "SECONDS", "kernels: begin none after this time"},
        {"--deadline", "SECONDS", "kernels: give up one that takes longer; 120 if not given"},
        json,
        {"--output", "FILE",
         "write the JSON there, too (-o FILE is the same); kernels: each second what there is"},
        {"--plot", "FILE", "draw them into a .svg file"}},
       runBench,
       "bench kernels --small --device virtual:sm_80 --kernel softmax"},
      {"cache list",
       {"[KERNEL]"},
       "Lists compiled kernels and measured problems; those of one kernel.",
       {json},
       runCacheList,
       "cache list matmul"},
      {"cache show",
       {"ENTRY"},
       "Shows an entry of the compile cache: its key, its IR, its code, what it needs.",
       {{"--ir", {}, "print the IR only"}, {"--code", {}, "print the code only"}, json},
       runCacheShow,
       "cache show 3f2a --ir"},
      {"cache best",
       {"KERNEL"},
       "Compares the measured configurations of a kernel, shape by shape.",
       {{"--device", "NAME", "measurements of this device only"},
        {"--dtypes", "DTYPES", "of these dtypes only, as \"f16 f16 f16\""},
        {"--top", "N", "rows of the comparison; 10 if not given"},
        {"--plot", "FILE", "draw the search spaces into a .svg or .html file"},
        json},
       runCacheBest,
       "cache best matmul --plot matmul.svg"},
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
       runCacheWhy,
       "cache why matmul --shape m=512,n=512,k=512 --device cuda:0"},
      {"cache verify",
       {},
       "Checks every entry and every measurement; status 1 where one is damaged.",
       {{"--recompile", {}, "compile every kernel from its entry and compare"}, json},
       runCacheVerify,
       "cache verify --recompile"},
      {"cache prune",
       {},
       "Removes what is damaged, was set aside, or is more than the size limit.",
       {{"--limit", "MIB", "the size limit; SECTILE_CACHE_LIMIT if not given"},
        {"--unused", "DAYS", "kernels unused for so long, too"},
        {"--stale", {}, "measurements made with another compiler or driver, too"},
        json},
       runCachePrune,
       "cache prune --limit 500 --unused 30"},
      {"cache clear",
       {"[KERNEL]"},
       "Removes all kernels and measurements; those of one kernel.",
       {{"--kernels", {}, "compiled kernels only"},
        {"--measurements", {}, "measurements only"},
        {"--yes", {}, "do not ask"},
        json},
       runCacheClear,
       "cache clear matmul --yes"},
      {"cache export",
       {"FILE", "[KERNEL]"},
       "Writes measurements into a .json file, or compiled kernels into any other.",
       {json},
       runCacheExport,
       "cache export measured.json matmul"},
      {"cache import",
       {"FILE"},
       "Takes over what export wrote. Compiled kernels will run: import those you trust.",
       {json},
       runCacheImport,
       "cache import measured.json"},
      {"build",
       {"[KERNEL]"},
       "Writes a bundle: code for some targets, for programs without the compiler.",
       {{"--target", "TARGETS", "sm_80,gfx942,virtual:sm_90a and so on: `sectile info` lists them"},
        {"--output", "FILE", "where to (-o FILE is the same)"},
        {"--file", "FILE", "calls instead of KERNEL, one a line, as for `bench kernels`"},
        {"--from", "FILE", "calls that a program made with SECTILE_RECORD=FILE, instead of KERNEL"},
        {"--exact", {}, "code for arguments like those of the calls only"},
        {"--tuning", "[TARGET=]FILE", "measurements that choose configurations: `cache export`"},
        {"--tuned-on", "NAMES", "the products whose measurements count; where FILE has several"},
        {"--compress", {}, "compress the code; programs then need libzstd.so.1"},
        {"--cubin", {}, "NVIDIA's machine code beside PTX, made by ptxas"},
        {"--header", "FILE", "a header of C with a function for each kernel and call, too"},
        {"--opt", "KEY=VALUE", "an option of the kernel"},
        {"--with", "NAMES", "optional inputs that there are, as bias,mask"},
        {"--config", "KEY=VALUE", "a field of its configuration"},
        {"--dtype", "DTYPE", "of the arguments that have a choice"},
        {"--shape", "AXIS=EXTENT,...", "extents that the code is for"},
        json},
       runBuild,
       "build matmul --shape M=64,N=4096,K=4096 --target sm_90a,gfx942 -o matmul.sectile"},
      {"bundle list",
       {"FILE", "[KERNEL]"},
       "The code in a bundle: kernels, targets, options, what the code assumes of its arguments.",
       {json},
       runBundleList,
       "bundle list app.sectile matmul"},
      {"bundle show",
       {"FILE"},
       "What a bundle is: its identity, who made it, its kernels, targets and sizes.",
       {json},
       runBundleShow,
       "bundle show app.sectile"},
      {"bundle verify",
       {"FILE"},
       "Checks a bundle; status 2, with the reason, where it is not whole or of another version.",
       {json},
       runBundleVerify,
       "bundle verify app.sectile"},
      {"bundle merge",
       {"OUT", "FILE", "OTHER"},
       "Writes a bundle with the code of two, equal code once.",
       {json},
       runBundleMerge,
       "bundle merge all.sectile nvidia.sectile amd.sectile"},
      {"bundle strip",
       {"FILE"},
       "Writes a bundle with the code for some targets only.",
       {{"--target", "TARGETS", "those that stay, as sm_90a,gfx942"},
        {"--output", "FILE", "where it goes, also -o; over the bundle itself if not given"},
        json},
       runBundleStrip,
       "bundle strip all.sectile --target gfx942 -o amd.sectile"},
      {"help",
       {"[COMMAND]", "[WORD]"},
       "What the commands are, or how one of them is used.",
       {json},
       runHelp,
       "help cache clear"},
      {"completion",
       {"WHAT"},
       "The completion script of bash or zsh; or the kernels, targets or devices that one offers.",
       {},
       runCompletion,
       "completion bash",
       true},
      {"man", {}, "The man page, as roff.", {}, runMan, "man", true},
  };
  return all;
}

static int dispatch(std::vector<std::string_view> words) {
  for (const std::string &file : takeLoads(words))
    loadKernels(file);
  if (words.empty() || words.front() == "--help" || words.front() == "-h")
    words = {"help"};
  if (words.front() == "--version") {
    std::cout << "sectile " << version() << " (LLVM " << llvm_version() << ")\n";
    return 0;
  }
  const auto end = std::find(words.begin(), words.end(), "--");
  const bool help = std::find_if(words.begin(), end, [](std::string_view word) {
                      return word == "--help" || word == "-h";
                    }) != end;
  const std::string first(words.front());
  const std::string two = words.size() > 1 ? first + " " + std::string(words[1]) : first;
  std::string known, below;
  std::vector<std::string_view> names, namesBelow;
  for (const Command &command : commands()) {
    if (command.name == first || command.name == two) {
      if (help)
        std::cout << usage(command);
      return help ? 0
                  : command.run(CommandLine(
                        command, std::span(words).subspan(command.name == first ? 1 : 2)));
    }
    if (command.hidden)
      continue;
    known += (known.empty() ? "" : ", ") + std::string(command.name);
    names.push_back(command.name.substr(0, command.name.find(' ')));
    if (command.name.starts_with(first + " ")) {
      namesBelow.push_back(command.name.substr(first.size() + 1));
      below += (below.empty() ? "" : ", ") + std::string(namesBelow.back());
    }
  }
  if (help && !below.empty())
    return dispatch({"help", words.front()});
  if (!below.empty() && words.size() == 1)
    throw InputError(first + " takes one of " + below);
  if (!below.empty()) {
    const std::string guess = suggestion(words[1], namesBelow);
    throw InputError("there is no command '" + two + "'; " +
                     (guess.empty() ? first + " takes one of " + below : guess));
  }
  const std::string guess = suggestion(first, names);
  throw InputError("there is no command '" + first + "'; " +
                   (guess.empty() ? "the commands are " + known : guess));
}

int sectile::tool::sectileMain(int argc, char **argv) {
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
