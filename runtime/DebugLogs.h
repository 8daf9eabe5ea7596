// DebugLogs: where a device's kernels write what they print and which assertions failed, and how
// that comes to the host. A kernel that does neither never gets here.
//
// Each stream has a log of its own, made when a kernel first needs it. It is read when the host has
// waited for the stream, and then empty again.
#ifndef SECTILE_RUNTIME_DEBUGLOGS_H
#define SECTILE_RUNTIME_DEBUGLOGS_H

#include "runtime/DebugSite.h"
#include <atomic>
#include <memory>
#include <mutex>
#include <sectile/report.h>
#include <string>
#include <vector>

namespace sectile::runtime {

class DeviceImpl;
class LoadedKernel;
struct GridExtents;

/// What is known of a kernel that asserts or prints.
struct DebugKernel {
  std::string name;
  std::vector<DebugSite> sites;
  unsigned longAxis = 0; ///< as LoadedKernel has it
  uint32_t number = 0;   ///< among those of the device that were launched; 0 before
};

class DebugLogs {
public:
  explicit DebugLogs(DeviceImpl &device);
  DebugLogs(const DebugLogs &) = delete;
  ~DebugLogs();

  /// Launches a kernel that asserts or prints. `arguments` has room for two more than `count`.
  void launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments, size_t count,
              void *stream);

  /// Has all that such a launch in the stream needs.
  void prepare(void *stream);

  /// After the host has waited for a stream, or for all: delivers what was printed and throws the
  /// first AssertionError.
  void report(void *stream) {
    if (active.load(std::memory_order_acquire))
      reportOf(stream, /*all=*/false);
  }
  void reportAll() {
    if (active.load(std::memory_order_acquire))
      reportOf(nullptr, /*all=*/true);
  }
  /// An assertion that failed in a stream in another way than by a log; reported as the others.
  void post(void *stream, AssertionError error);

  /// Starts and ends a capture. What is in the stream before is reported. Gives the log that the
  /// captured kernels write to, or nullptr.
  struct Log;
  void beginCapture(void *stream);
  Log *endCapture(void *stream);
  /// Launches a graph that has captured kernels which write to `log`.
  void launchGraph(void *graph, Log *log, void *stream);

  /// Before a stream is destroyed: reads its log. Failures wait for who waits for the device.
  void forget(void *stream) noexcept;

private:
  struct Found;
  struct Pending {
    void *stream;
    bool orphaned; ///< the stream is gone
    AssertionError error;
  };

  void reportOf(void *stream, bool all);
  Log &logOf(void *stream);
  void drain(Log &log, Found &found);
  void decode(const std::vector<char> &bytes, Found &found) const;
  const DebugSite *siteOf(uint64_t launch, uint32_t site, bool isPrint) const;

  DeviceImpl &device;
  std::atomic<bool> active = false;
  std::mutex mutex; ///< guards what follows
  std::vector<std::unique_ptr<Log>> logs;
  std::vector<void *> capturing;
  std::vector<std::shared_ptr<const DebugKernel>> kernels; ///< by number - 1
  std::vector<Pending> pending;
};

} // namespace sectile::runtime

#endif
