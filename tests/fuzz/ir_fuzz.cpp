// Feeds changed IR to the parser, the verifiers, the passes and code generation: errors are fine,
// crashes and endless loops are not.
#include "ir/Dialects.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/Options.h"
#include "tests/fuzz/ir/Actions.h"
#include "tests/fuzz/ir/Mutator.h"
#include "tests/fuzz/ir/Seeds.h"
#include "llvm/Support/CommandLine.h"
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

using namespace sectile;
using namespace sectile::fuzz;

namespace {

class Fuzzer {
public:
  Fuzzer(const Options &options, const std::vector<Seed> &seeds)
      : options(options), mutator(texts(seeds)) {
    for (const Seed &seed : seeds)
      (isIr(seed.text) ? valid : invalid).push_back(seed);
  }

  /// Seeds that are no IR to begin with are tests of errors, and some of them will do. Called in a
  /// child only, as looking whether a change leaves IR may crash.
  std::string make(uint64_t number) const {
    std::mt19937_64 random(number * 0x9e3779b97f4a7c15u + 1);
    auto pick = [&](unsigned n) { return random() % n; };
    const std::vector<Seed> &from = pick(16) ? valid : invalid;
    std::string text = from[random() % from.size()].text;
    unsigned changes = 1;
    while (changes < 8 && pick(3))
      ++changes;
    for (unsigned tries = 0; changes && tries < 40; ++tries) {
      std::string changed = mutator.mutate(text, random);
      if (isUpstreams(changed))
        continue;
      noteInput(changed);
      if (pick(12) && !isIr(changed))
        continue;
      text = std::move(changed);
      --changes;
    }
    return text;
  }

  static Action actionFor(uint64_t number) {
    std::mt19937_64 random(number);
    return someAction(random);
  }

  int run() {
    Clock clock(options, "ir_fuzz");
    Counts counts = runIsolated(
        options.seed, [&](uint64_t number) { return clock.goesOn(number); },
        [&](uint64_t number) {
          std::string text = make(number);
          noteInput(text);
          return perform(actionFor(number), text);
        },
        [&](const Finding &finding) { report(finding); }, limits());
    std::cout << "ir_fuzz: " << counts.done << " inputs from seed " << options.seed << " on, "
              << counts.deep << " of them IR, " << findings << " findings\n";
    return findings != 0;
  }

private:
  static std::vector<std::string> texts(const std::vector<Seed> &seeds) {
    std::vector<std::string> result;
    for (const Seed &seed : seeds)
      result.push_back(seed.text);
    return result;
  }
  Limits limits() const {
    Limits limits;
    limits.seconds = options.seconds;
    return limits;
  }

  /// What upstream's parser and printer do not survive, which is not ours to mend: an array of
  /// `index`, and a symbol without a name.
  static bool isUpstreams(llvm::StringRef text) {
    return text.contains("array<index") || text.contains("\"\"");
  }

  /// Lines are taken away for as long as what is left ends the same way.
  std::string shrink(const Finding &first) const {
    std::vector<std::string> lines;
    std::istringstream stream(first.input);
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line + "\n");
    auto joined = [&] {
      std::string text;
      for (const std::string &line : lines)
        text += line;
      return text;
    };
    auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (size_t chunk = std::max<size_t>(lines.size() / 2, 1);; chunk /= 2) {
      for (size_t at = 0; at < lines.size() && std::chrono::steady_clock::now() < until;) {
        std::vector<std::string> before = lines;
        lines.erase(lines.begin() + at, lines.begin() + std::min(at + chunk, lines.size()));
        auto finding = runOnce([&] { return perform(actionFor(first.seed), joined()); }, limits());
        if (!finding || signature(*finding) != signature(first)) {
          lines = std::move(before);
          at += chunk;
        }
      }
      if (chunk <= 1)
        return joined();
    }
  }

  /// What findings of one bug have in common: the assertion, or where it was.
  static std::string signature(const Finding &finding) {
    std::istringstream output(finding.output);
    std::string result = finding.what;
    unsigned frame = 0;
    for (std::string line; std::getline(output, line);) {
      if (line.find("Assertion") != std::string::npos ||
          line.find("runtime error") != std::string::npos || line.find("ERROR") == 0)
        return result + line;
      // Of a stack trace, the three functions above the signal's handlers.
      if (!std::isdigit(line.front()))
        continue;
      if (size_t at = line.find(" 0x"); at != std::string::npos && ++frame > 4 && frame < 8)
        result += "\n    at " + line.substr(std::min(at + 20, line.size()));
    }
    return result;
  }

  void report(const Finding &finding) {
    ++findings;
    if (unsigned times = ++signatures[signature(finding)]; times > 1) {
      std::cout << "FOUND again (" << times << "): seed " << finding.seed << std::endl;
      return;
    }
    Action action = actionFor(finding.seed);
    std::string text = shrink(finding);
    std::string file = options.keep + "/ir-" + std::to_string(finding.seed) + ".mlir";
    std::ofstream(file) << "// " << action.command("%s") << "\n// " << finding.what << "\n" << text;
    std::cout << "FOUND " << finding.what << "\n  seed " << finding.seed << "; cut down: " << file
              << "\n  " << action.command(file) << "\n"
              << finding.output << std::endl;
  }

  const Options &options;
  std::vector<Seed> valid, invalid;
  Mutator mutator;
  unsigned findings = 0;
  std::map<std::string, unsigned> signatures;
};

} // namespace

int main(int argc, char **argv) {
  std::string lit;
  Options options = parseOptions(argc, argv, {{"--lit", &lit}});
  if (lit.empty()) {
    std::cerr << "ir_fuzz: --lit names the folder of the lit tests, whose IR is changed\n";
    return 2;
  }
  registerSectilePasses();
  registerPipelines();
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  const std::vector<Seed> seeds = collectSeeds(context, lit);
  return runJobs(options, [&](const Options &part) { return Fuzzer(part, seeds).run(); });
}
