// What the library spends time on before a kernel runs - tracing, compiling, looking into caches,
// loading, tuning - told to whoever listens.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace sectile {

struct Activity {
  enum class Kind { cache, trace, compile, load, tune };
  Kind kind;
  // The step. cache: "index hit", "hit", "miss", and "store" after a compile. trace: "trace", and
  // "check" before a compile, which looks for host variables that bodies change. compile: the
  // compiler's stage, as "passes" or "ptx", or "failed", or "remark", with the remark as its note,
  // which code from the cache repeats. tune: "candidate", "lookup" or "wait".
  std::string name;
  std::string kernel, device;
  std::string configuration; // with warps and stages
  std::string note;          // what came of it, where there is more to say; else empty
  std::chrono::steady_clock::time_point start;
  std::chrono::nanoseconds duration;
};

// "cache", "trace", "compile", "load", "tune".
const char *name_of(Activity::Kind kind);

// Called on the thread that did the work, after it is done; calls come one at a time. What it
// throws goes to whoever had the work done, and the work is not lost. It may not launch kernels.
using ActivityListener = std::function<void(const Activity &)>;

// Listens for as long as it lives.
class [[nodiscard]] Listening {
public:
  explicit Listening(ActivityListener listener);

private:
  std::shared_ptr<void> registration_;
};

// With SECTILE_TRACE=FILE in the environment a process writes all activities to the file, in the
// format of Chrome's tracing (chrome://tracing, ui.perfetto.dev); "%p" in the name is the process's
// number. The file is whole after every activity, however the process ends.

} // namespace sectile
