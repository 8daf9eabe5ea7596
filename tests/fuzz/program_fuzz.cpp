// Random kernels through the whole compiler, run on virtual GPUs with their checks on, against the
// interpreter.
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/Options.h"
#include "tests/fuzz/programs/Reduce.h"
#include "tests/fuzz/programs/Run.h"
#include <fstream>
#include <iostream>
#include <sys/resource.h>

using namespace mlir;
using namespace sectile;
using namespace sectile::fuzz;

namespace {

class Fuzzer {
public:
  Fuzzer(const Options &options, std::string target, std::string file, std::chrono::seconds most)
      : options(options), target(std::move(target)), file(std::move(file)), reduction(most) {}

  int run() {
    Clock clock(options, "program_fuzz");
    Counts counts = runIsolated(
        options.seed, [&](uint64_t seed) { return clock.goesOn(seed); },
        [&](uint64_t seed) {
          ContextLease context;
          OwningOpRef<ModuleOp> module = make(context.get(), seed);
          return examine(*module, seed);
        },
        [&](const Finding &finding) { report(finding); }, limits());
    std::cout << "program_fuzz: " << counts.done << " programs from seed " << options.seed
              << " on, " << counts.deep << " of them run, " << findings << " findings" << std::endl;
    return findings != 0;
  }

private:
  Limits limits() const {
    Limits limits;
    limits.seconds = options.seconds;
    limits.batch = 100;
    if (Setting::isChip(target)) // Drivers set addresses aside for all memory there is.
      limits.bytes = RLIM_INFINITY;
    return limits;
  }

  static GeneratorOptions optionsFor(uint64_t seed) {
    GeneratorOptions options;
    options.programs = 1 + seed % 2;
    options.cluster = seed % 4 == 3 ? 2 : 1;
    options.exact = seed % 3 == 0;
    options.memory = seed / 6 % 3 != 0;
    using enum Focus;
    static constexpr Focus focuses[] = {None,     Nests,     None,     Integers, HandOvers,
                                        Products, Constants, Integers, Chains};
    options.focus = focuses[seed / 12 % std::size(focuses)];
    if (options.focus == HandOvers || options.focus == Chains)
      options.exact = true; // sums become integers again
    if (options.focus == HandOvers) {
      options.programs = options.cluster == 2 ? 2 : 2 + seed % 2;
    }
    return options;
  }

  std::string targetFor(uint64_t seed) const {
    static constexpr const char *targets[] = {"sm_80",   "gfx942", "sm_90",  "sm_89",
                                              "gfx1100", "sm_120", "gfx90a", "gfx1201",
                                              "sm_100",  "gfx950", "sm_86",  "sm_90a"};
    if (!target.empty())
      return target;
    // Copies by engines and by warps of their own are some targets'.
    const Focus focus = optionsFor(seed).focus;
    static constexpr const char *withEngine[] = {"sm_90a", "sm_90", "sm_90a", "sm_120a"};
    if ((focus == Focus::Products || focus == Focus::Chains) && seed % 5 < 3)
      return "sm_90a"; // what its dots do beside other work
    if ((focus == Focus::Nests || focus == Focus::HandOvers) && seed % 5 < 2)
      return withEngine[seed / 5 % std::size(withEngine)];
    return targets[seed % std::size(targets)];
  }

  OwningOpRef<ModuleOp> make(MLIRContext *context, uint64_t seed) const {
    if (!file.empty())
      return parseSourceFile<ModuleOp>(file, context);
    return Generator(context, seed, optionsFor(seed)).make();
  }

  /// What is wrong with a program, or nothing.
  std::optional<std::string> examine(ModuleOp module, uint64_t seed) const {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    noteInput(text);
    if (failed(verify(module)))
      return "the program does not verify";
    Inputs inputs = makeInputs(module.getContext(), seed, optionsFor(seed));
    auto expected = interpret(module, inputs);
    if (!expected)
      return "interpreter: " + llvm::toString(expected.takeError());
    if (!*expected)
      return std::nullopt;
    reachedDepth();
    return difference(module, inputs, **expected, Setting::of(seed, targetFor(seed)));
  }

  /// What two findings of one bug have in common.
  static std::string kindOf(const Finding &finding) {
    for (const char *kind : {"wrong", "interpreter", "assertion", "signal", "no end"})
      if (finding.what.rfind(kind, 0) == 0)
        return kind;
    return finding.what.substr(0, 60);
  }

  void report(const Finding &finding) {
    ++findings;
    std::string path = options.keep + "/program-" + std::to_string(finding.seed) + ".mlir";
    std::string setting = Setting::of(finding.seed, targetFor(finding.seed)).text();
    std::ofstream(path) << finding.input;
    std::cout << "FOUND " << finding.what << "\n  " << setting
              << "; again with: program_fuzz --seed " << finding.seed << " --count 1 --target "
              << targetFor(finding.seed) << " --program " << path << "\n"
              << finding.output << std::endl;
    ContextLease context;
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(finding.input, context.get());
    if (!module)
      return;
    auto until = std::chrono::steady_clock::now() + reduction;
    auto failsToo = [&](ModuleOp smaller) {
      if (std::chrono::steady_clock::now() > until)
        return false;
      auto again = runOnce([&] { return examine(smaller, finding.seed); }, limits());
      return again && kindOf(*again) == kindOf(finding);
    };
    const bool alone = optionsFor(finding.seed).programs == 1;
    OwningOpRef<ModuleOp> reduced = reduce(*module, alone, failsToo);
    std::string text;
    llvm::raw_string_ostream(text) << *reduced;
    std::ofstream(path) << "// " << setting << "\n" << text;
    std::cout << "cut down:\n" << text << std::endl;
  }

  const Options &options;
  std::string target, file;
  std::chrono::seconds reduction; ///< for each finding, at most
  unsigned findings = 0;
};

} // namespace

int main(int argc, char **argv) {
  std::string target, file, reduction = "120";
  Options options = parseOptions(
      argc, argv, {{"--target", &target}, {"--program", &file}, {"--reduce", &reduction}});
  std::chrono::seconds most(std::strtoul(reduction.c_str(), nullptr, 10));
  return runJobs(options,
                 [&](const Options &part) { return Fuzzer(part, target, file, most).run(); });
}
