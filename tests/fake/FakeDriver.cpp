// The fake CUDA driver's state, and the order of work in its streams.
#include "tests/fake/FakeDriver.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fake {

const Device devices[2] = {{"Fake H", 9, 0, 132, 232448}, {"Fake A", 8, 6, 84, 101376}};

Driver &driver() {
  static auto *theDriver = new Driver;
  return *theDriver;
}
thread_local std::vector<int> &contexts = *new std::vector<int>;
thread_local int captureMode = 0;
static thread_local bool inCallback = false;

UserObject::~UserObject() {
  inCallback = true;
  end(pointer);
  inCallback = false;
}

int numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

static int launchesOf(Driver &driver) {
  return driver.calls["cuLaunchKernel"] + driver.calls["cuLaunchKernelEx"];
}

bool endless() {
  static const int launch = numberIn("FAKE_CUDA_ENDLESS_LAUNCH");
  return launch && launchesOf(driver()) >= launch;
}

// Ends this process where a driver would wait for a kernel that never ends, or ends or stops it at
// the launch that a test says.
static void endProcess(const char *symbol) {
  static const int deadly = numberIn("FAKE_CUDA_KILLED_AT_LAUNCH");
  if (deadly && launchesOf(driver()) == deadly)
    std::raise(SIGKILL);
  static const int stopped = numberIn("FAKE_CUDA_STOPPED_AT_LAUNCH");
  if (stopped && launchesOf(driver()) == stopped)
    std::raise(SIGSTOP);
  static const std::set<std::string> waiting = {
      "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
      "cuMemAlloc_v2",    "cuMemFree_v2",        "cuMemcpyHtoD_v2",
      "cuMemcpyDtoH_v2",  "cuModuleLoadDataEx",  "cuModuleUnload"};
  if (endless() && waiting.count(symbol)) {
    std::fprintf(stderr, "fake CUDA: %s waits for ever\n", symbol);
    std::abort();
  }
}

int enter(const char *symbol, bool needsContext) {
  Driver &d = driver();
  ++d.calls[symbol];
  if (inCallback) {
    ++d.calls["in a callback"];
    return notPermitted;
  }
  endProcess(symbol);
  if (auto found = d.failures.find(symbol); found != d.failures.end()) {
    const int error = found->second.first;
    if (--found->second.second == 0)
      d.failures.erase(found);
    return error;
  }
  // After so many launches a kernel faults, as it seems, and the context is of no more use.
  static const char *const launches = std::getenv("FAKE_CUDA_LOST_AFTER_LAUNCHES");
  if (launches && needsContext && launchesOf(d) > std::atoi(launches))
    return illegalAddress;
  if (!d.initialized && std::strcmp(symbol, "cuInit") != 0)
    return notInitialized;
  if (needsContext && contexts.empty())
    return invalidContext;
  return needsContext && d.broken.count(contexts.back()) ? illegalAddress : success;
}

bool inBounds(int device, uint64_t address, size_t bytes) {
  auto &memory = driver().memory;
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    return false;
  const auto &[start, allocation] = *std::prev(after);
  return allocation.device == device && allocation.there &&
         address + bytes <= start + allocation.bytes;
}
bool inBounds(uint64_t address, size_t bytes) { return inBounds(contexts.back(), address, bytes); }

Stream &legacy(int device) {
  return driver().defaults.try_emplace(device, Stream{device, 0, {}, nullptr, false}).first->second;
}
Stream *streamOf(void *handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= 2)
    return &legacy(contexts.back());
  auto *stream = known<Stream>(handle);
  return stream && stream->device == contexts.back() ? stream : nullptr;
}

// Runs the work of a stream that was given before a piece.
static void runUntil(Stream &stream, uint64_t number) {
  while (!stream.queue.empty() && stream.queue.front().number < number)
    step(stream);
}
void step(Stream &stream) {
  const uint64_t number = stream.queue.front().number;
  if (&stream == &legacy(stream.device)) {
    for (Stream *other : driver().streams)
      if (other->device == stream.device && !(other->flags & nonBlocking))
        runUntil(*other, number);
  } else if (!(stream.flags & nonBlocking)) {
    runUntil(legacy(stream.device), number);
  }
  const Work work = std::move(stream.queue.front().work);
  stream.queue.pop_front();
  if (const int error = work(); error && !driver().fault)
    driver().fault = error;
}
int takeFault() { return std::exchange(driver().fault, success); }
void run(Stream &stream) {
  while (!stream.queue.empty())
    step(stream);
}
void runAll(int device) {
  for (Stream *stream : driver().streams)
    if (stream->device == device)
      run(*stream);
  run(legacy(device));
}
void pass(const Mark &mark) {
  while (!mark.passed && mark.stream && !mark.stream->queue.empty())
    step(*mark.stream);
}

int forbidden(bool blockingOnly, int error) {
  int result = success;
  for (Stream *stream : driver().streams)
    if (stream->capture && stream->device == contexts.back() &&
        !(blockingOnly && stream->flags & nonBlocking)) {
      stream->capture->invalid = true;
      result = error;
    }
  return result;
}
int unsafe() {
  return captureMode == relaxedCapture ? success : forbidden(false, captureUnsupported);
}

bool isIdle(const Stream &stream) {
  if (&stream == &legacy(stream.device))
    for (const Stream *other : driver().streams)
      if (other->device == stream.device && !(other->flags & nonBlocking) && !other->queue.empty())
        return false;
  return stream.queue.empty();
}

int submit(void *handle, Work work) {
  Stream *stream = streamOf(handle);
  if (!stream)
    return invalidHandle;
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
    return success;
  }
  if (stream == &legacy(stream->device)) {
    if (const int error = forbidden(true, captureImplicit))
      return error;
  }
  stream->queue.push_back({++driver().given, std::move(work)});
  return success;
}

} // namespace fake
