// Logs of assertions and prints: supplied to launches, read after waiting, decoded by the sites of
// the kernels that wrote them.
#include "runtime/DebugLogs.h"
#include "runtime/DebugFormat.h"
#include "runtime/DebugLog.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
#include <cstring>
#include <tuple>

namespace sectile::runtime {

using debuglog::Head, debuglog::Record;

namespace {

constexpr uint64_t capacity = 1 << 20;

/// Launches in order, then programs in the order of their numbers, then as they were written.
using Order = std::tuple<uint32_t, unsigned, unsigned, unsigned, size_t>;

Order orderOf(uint64_t launch, const ProgramId &program, size_t place) {
  return {static_cast<uint32_t>(launch), program[2], program[1], program[0], place};
}

} // namespace

struct DebugLogs::Log {
  uint64_t address = 0;
  void *stream = nullptr;
  bool orphaned = false;     ///< its stream is gone
  std::vector<void *> users; ///< streams with work that may have written since it was read
  uint32_t launches = 0;

  void use(void *by) {
    if (std::ranges::find(users, by) == users.end())
      users.push_back(by);
  }
};

/// What a log had, in order.
struct DebugLogs::Found {
  std::vector<std::pair<Order, std::string>> prints;
  std::vector<std::pair<Order, AssertionError::Failure>> failures;
  uint64_t failed = 0, dropped = 0;

  std::string text() {
    std::ranges::sort(prints, {}, [](const auto &print) { return print.first; });
    std::string all;
    for (const auto &print : prints)
      all += print.second;
    if (dropped)
      all += std::to_string(dropped) + (dropped == 1 ? " print was" : " prints were") +
             " dropped: the log of " + std::to_string(capacity >> 10) + " KiB was full\n";
    return all;
  }

  std::optional<AssertionError> error() const {
    if (failures.empty())
      return std::nullopt;
    const auto first =
        std::ranges::min_element(failures, {}, [](const auto &failure) { return failure.first; });
    return AssertionError(first->second, failed - 1);
  }
};

DebugLogs::DebugLogs(DeviceImpl &device) : device(device) {}
DebugLogs::~DebugLogs() = default;

DebugLogs::Log &DebugLogs::logOf(void *stream) {
  for (const auto &log : logs)
    if (!log->orphaned && log->stream == stream)
      return *log;
  for (const auto &log : logs)
    if (log->orphaned) {
      log->orphaned = false;
      log->stream = stream;
      return *log;
    }
  auto log = std::make_unique<Log>();
  log->stream = stream;
  log->address = device.allocate(debuglog::recordsAt + capacity);
  std::vector<char> empty(debuglog::recordsAt + capacity);
  const Head head{0, capacity, 0, 0};
  std::memcpy(empty.data(), &head, sizeof head);
  device.copyToDevice(log->address, empty.data(), empty.size());
  active.store(true, std::memory_order_release);
  return *logs.emplace_back(std::move(log));
}

void DebugLogs::launch(const LoadedKernel &kernel, const GridExtents &grid, void **arguments,
                       size_t count, void *stream) {
  Found found;
  std::unique_lock lock(mutex);
  Log &log = logOf(stream);
  if (!kernel.debug->number) {
    kernels.push_back(kernel.debug);
    kernel.debug->number = static_cast<uint32_t>(kernels.size());
  }
  uint64_t address = log.address;
  uint64_t number = uint64_t{kernel.debug->number} << 32 | log.launches++;
  arguments[count] = &address;
  arguments[count + 1] = &number;
  log.use(stream);
  try {
    device.launch(kernel, grid, arguments, stream);
  } catch (...) {
    // A fault of the kernel, as far as a launch tells of it: what was printed before may explain
    // it. A failed assertion is reported where it would be without the fault.
    try {
      drain(log, found);
    } catch (const Error &) { // The device is lost; the fault says so.
    }
    if (auto error = found.error())
      pending.push_back({stream, false, std::move(*error)});
    lock.unlock();
    deliverPrint(found.text());
    throw;
  }
}

void DebugLogs::prepare(void *stream) {
  std::lock_guard lock(mutex);
  logOf(stream);
}

void DebugLogs::post(void *stream, AssertionError error) {
  std::lock_guard lock(mutex);
  pending.push_back({stream, false, std::move(error)});
  active.store(true, std::memory_order_release);
}

void DebugLogs::reportOf(void *stream, bool all) {
  std::string text;
  std::optional<AssertionError> error;
  {
    std::lock_guard lock(mutex);
    std::erase_if(pending, [&](Pending &other) {
      const bool ours = all || (!other.orphaned && other.stream == stream);
      if (ours && !error)
        error = std::move(other.error);
      return ours;
    });
    for (const auto &log : logs)
      if (all || std::ranges::find(log->users, stream) != log->users.end()) {
        Found found;
        drain(*log, found);
        text += found.text();
        if (!error)
          error = found.error();
      }
  }
  deliverPrint(text);
  if (error)
    throw std::move(*error);
}

void DebugLogs::beginCapture(void *stream) {
  report(stream);
  std::lock_guard lock(mutex);
  // What kernels need of the device cannot be had during the capture.
  if (active.load(std::memory_order_acquire))
    logOf(stream);
  device.beginCapture(stream);
  capturing.push_back(stream);
}

DebugLogs::Log *DebugLogs::endCapture(void *stream) {
  std::lock_guard lock(mutex);
  std::erase(capturing, stream);
  for (const auto &log : logs)
    if (!log->orphaned && log->stream == stream)
      return std::ranges::find(log->users, stream) != log->users.end() ? log.get() : nullptr;
  return nullptr;
}

void DebugLogs::launchGraph(void *graph, Log *log, void *stream) {
  if (!log)
    return device.launchGraph(graph, stream);
  std::lock_guard lock(mutex);
  log->use(stream);
  device.launchGraph(graph, stream);
}

void DebugLogs::forget(void *stream) noexcept {
  if (!active.load(std::memory_order_acquire))
    return;
  Found found;
  try {
    {
      std::lock_guard lock(mutex);
      for (const auto &log : logs) {
        if (std::ranges::find(log->users, stream) != log->users.end())
          drain(*log, found);
        log->orphaned |= log->stream == stream;
        std::erase(log->users, stream); // its handle is of no more use
      }
      for (Pending &other : pending)
        other.orphaned |= other.stream == stream;
      if (auto error = found.error())
        pending.push_back({stream, true, std::move(*error)});
    }
    deliverPrint(found.text());
  } catch (const std::exception &) { // The device is lost: whoever uses it next is told.
  }
}

void DebugLogs::drain(Log &log, Found &found) {
  if (std::ranges::find_first_of(log.users, capturing) != log.users.end())
    return;
  for (void *stream : log.users)
    device.synchronizeStream(stream);
  Head head;
  device.copyToHost(&head, log.address, sizeof head);
  if (head.used || head.failures) {
    std::vector<char> bytes(debuglog::recordsAt + std::min(head.used, capacity));
    device.copyToHost(bytes.data(), log.address, bytes.size());
    decode(bytes, found);
    std::ranges::fill(bytes, 0);
    head = {0, capacity, 0, 0};
    std::memcpy(bytes.data(), &head, sizeof head);
    device.copyToDevice(log.address, bytes.data(), bytes.size());
  }
  log.users.clear();
}

const DebugSite *DebugLogs::siteOf(uint64_t launch, uint32_t site, bool isPrint) const {
  const uint64_t number = launch >> 32;
  if (number == 0 || number > kernels.size())
    return nullptr;
  const std::vector<DebugSite> &sites = kernels[number - 1]->sites;
  return site < sites.size() && sites[site].isPrint == isPrint ? &sites[site] : nullptr;
}

void DebugLogs::decode(const std::vector<char> &bytes, Found &found) const {
  auto kernelOf = [&](uint64_t launch) -> const DebugKernel & {
    return *kernels[(launch >> 32) - 1];
  };
  auto programOf = [&](const auto &what) {
    ProgramId program{what.program[0], what.program[1], what.program[2]};
    std::swap(program[0], program[kernelOf(what.launch).longAxis]);
    return program;
  };
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  found.dropped += head.dropped;
  found.failed += head.failures;
  for (uint64_t i = 0; i < std::min<uint64_t>(head.failures, debuglog::maxFailures); ++i) {
    debuglog::Failure failure;
    std::memcpy(&failure, bytes.data() + debuglog::failuresAt + i * sizeof failure, sizeof failure);
    const DebugSite *site = siteOf(failure.launch, failure.site, /*isPrint=*/false);
    if (!failure.written || !site)
      continue;
    const ProgramId program = programOf(failure);
    found.failures.emplace_back(
        orderOf(failure.launch, program, i),
        failureAt(kernelOf(failure.launch).name, program, *site, failure.index));
  }
  Record record;
  for (size_t at = debuglog::recordsAt; at + sizeof record <= bytes.size(); at += record.bytes) {
    std::memcpy(&record, bytes.data() + at, sizeof record);
    const DebugSite *site = siteOf(record.launch, record.site, /*isPrint=*/true);
    // A program that was stopped by a fault may have left the place empty.
    if (!site || record.bytes != sizeof record + valueStart(*site, site->values.size()) ||
        at + record.bytes > bytes.size())
      break;
    const ProgramId program = programOf(record);
    found.prints.emplace_back(orderOf(record.launch, program, at),
                              formatPrint(kernelOf(record.launch).name, program, *site,
                                          bytes.data() + at + sizeof record));
  }
}

} // namespace sectile::runtime
