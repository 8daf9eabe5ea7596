// Runs work that may crash or hang in child processes, so that the fuzzer goes on and says what
// did.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sectile::fuzz {

/// How the work on one number ended badly.
struct Finding {
  uint64_t seed;
  std::string what;   ///< "signal 11", "no end", or what the work itself says is wrong
  std::string input;  ///< what noteInput() was told last
  std::string output; ///< the last of what the child wrote to stderr
};

struct Limits {
  unsigned seconds = 20;       ///< of CPU time for one number
  uint64_t bytes = 4ull << 30; ///< of address space; not held where a sanitizer runs
  unsigned batch = 500;        ///< numbers that one child does one after the other
};

/// What was done.
struct Counts {
  uint64_t done = 0;
  uint64_t deep = 0; ///< of them, those whose work called reachedDepth()
};

/// Said by work that got to what is worth testing, so that a fuzzer that tests nothing shows.
void reachedDepth();

/// Said by work before it does what may crash; texts beyond 256 KiB are cut.
void noteInput(llvm::StringRef text);

/// Does `work` for each number from `first` on for as long as `next` says so, in children. `work`
/// gives a text when something is wrong. `found` is called in this process, for every finding.
Counts runIsolated(uint64_t first, const std::function<bool(uint64_t seed)> &next,
                   const std::function<std::optional<std::string>(uint64_t seed)> &work,
                   const std::function<void(const Finding &)> &found, const Limits &limits = {});

/// The same for one piece of work.
std::optional<Finding> runOnce(const std::function<std::optional<std::string>()> &work,
                               const Limits &limits = {});

} // namespace sectile::fuzz
