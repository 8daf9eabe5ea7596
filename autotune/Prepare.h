// What a tuning does with its candidates before it measures them, on all cores: the static
// estimate, then compiling.
#ifndef SECTILE_AUTOTUNE_PREPARE_H
#define SECTILE_AUTOTUNE_PREPARE_H

#include "autotune/Session.h"
#include "runtime/DeviceImpl.h"
#include "runtime/Threads.h"
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>

namespace sectile::autotune {

/// What is known of one candidate.
struct Prepared {
  bool looked = false;
  std::string irHash;
  unsigned sharedBytes = 0, registers = 0, stages = 0, plainDots = 0;
  double cost =
      0; ///< microseconds, by the kernel's own model, or the cost model of what its IR foretells
  std::string excess;                                  ///< why the device cannot hold a block of it
  std::exception_ptr error;                            ///< of the trace, of compiling
  std::shared_ptr<const runtime::LoadedKernel> kernel; ///< loaded as long as this lives
  double compileMilliseconds = 0;                      ///< 0 where the compile cache had it
};

class Preparation {
public:
  /// `threads` 0: one for each core.
  Preparation(const TuningTask &task, const Device &device, unsigned threads);
  ~Preparation() { stop(); }

  /// Looks at these and returns. What cannot be traced gets an error. Where `isKnown` says so of a
  /// candidate and the hash of its IR, that is all that is found out. `over` ends it early.
  void estimate(const std::vector<size_t> &candidates,
                const std::function<bool(size_t, const std::string &)> &isKnown,
                const std::function<bool()> &over, const std::function<void(size_t)> &progress);
  /// Begins to compile these, in this order.
  void start(std::vector<size_t> order);
  /// Waits until one of them is compiled.
  void wait(size_t candidate);
  bool isDone(size_t candidate);
  /// Waits until all that were begun are compiled, or it is over.
  void finish(const std::function<bool()> &over);
  /// Begins no more.
  void stop();

  unsigned threadCount() const { return threads; }
  const Prepared &at(size_t candidate) const { return prepared[candidate]; }

private:
  void look(size_t candidate, const std::function<bool(size_t, const std::string &)> &isKnown);
  void compile(size_t candidate);

  const TuningTask &task;
  const Device device;
  const unsigned threads;
  std::vector<Prepared> prepared;

  std::vector<size_t> order;
  std::vector<bool> done; ///< guarded by the mutex
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<size_t> next = 0;
  std::atomic<bool> stopped = false;
  std::vector<std::jthread> workers;
};

} // namespace sectile::autotune

#endif
