// A CUDA driver on host memory, for tests of everything that talks to one: two devices, an sm_90
// and an sm_86. It is strict where a real driver is forgiving: no call works without the right
// context, and every address is checked. "Code" is text with `.entry NAME`; the kernel fake_add(x,
// y, z, n) really adds, fake_log(log, launch) prints and asserts, others do nothing. What
// FAKE_CUDA_... variables count are calls of cuLaunchKernel in a process.
//
// Streams are as late as a driver allows: work runs when something waits for it and not before. A
// copy to the device reads its source at once and writes the device's memory as work of the legacy
// stream. Blocking streams keep their order with that stream, non-blocking ones do not.
#include "tests/fake/fake_cuda.h"
#include "ir/DebugLog.h"
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

enum Result {
  success = 0,
  invalidValue = 1,
  outOfMemory = 2,
  notInitialized = 3,
  invalidDevice = 101,
  invalidImage = 200,
  invalidContext = 201,
  noBinaryForChip = 209,
  invalidPtx = 218,
  invalidHandle = 400,
  notFound = 500,
  notReady = 600,
  illegalAddress = 700,
  captureUnsupported = 900,
  captureInvalidated = 901,
  captureUnmatched = 903,
  captureImplicit = 906,
  capturedEvent = 907,
};
constexpr int relaxedCapture = 2; // of the modes
constexpr unsigned nonBlocking = 1;

struct Device {
  const char *name;
  int major, minor, multiprocessors, shared;
};
const Device devices[] = {{"Fake H", 9, 0, 132, 232448}, {"Fake A", 8, 6, 84, 101376}};
constexpr size_t memoryOfOne = size_t{1} << 30;

struct Module {
  std::string text;
};
struct Function {
  std::string name;
  int maxDynamicShared = 49152;
};
using Work = std::function<int()>;
struct Capture {
  uint64_t id;
  bool invalid = false;
  std::vector<Work> work;
};
struct Stream {
  int device;
  unsigned flags = 0;
  std::deque<Work> queue;
  std::shared_ptr<Capture> capture; // that it is part of
  bool began = false;               // the capture
};
struct Graph {
  std::vector<Work> work;
};
// What a record makes of an event; a later record makes another.
struct Mark {
  Stream *stream = nullptr; // that has not come to it
  std::chrono::steady_clock::time_point time;
  bool passed = false;
  std::shared_ptr<Capture> capture; // that it was recorded in
};
struct Event {
  std::shared_ptr<Mark> mark;
};
struct Allocation {
  size_t bytes;
  int device;
};

struct Driver {
  std::recursive_mutex mutex;
  bool initialized = false;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, int>> failures;
  std::map<uint64_t, Allocation> memory;
  size_t used[2] = {};
  std::set<void *> objects;
  std::vector<Stream *> streams; // never freed, so that no handle comes twice
  Stream defaults[2] = {{0, 0, {}, nullptr, false}, {1, 0, {}, nullptr, false}}; // legacy streams
  uint64_t captures = 0;
  int compiles = 0; // of PTX
  int fault = 0;    // of work that ran: the next wait tells of it, and the fake bears it
  FakeLaunch last{};
};
Driver &driver() {
  static auto *theDriver = new Driver;
  return *theDriver;
}
// Of this thread; a context is its device's number. Never destroyed: kernels that live as long as
// the program unload after the thread's objects are gone, which a driver bears.
thread_local std::vector<int> &contexts = *new std::vector<int>;
thread_local int captureMode = 0;

int numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

// This launch never ends, and nothing behind it.
bool endless() {
  static const int launch = numberIn("FAKE_CUDA_ENDLESS_LAUNCH");
  return launch && driver().calls["cuLaunchKernel"] >= launch;
}

// Ends this process where a driver would wait for a kernel that never ends, or at the launch that a
// test says.
void endProcess(const char *symbol) {
  static const int deadly = numberIn("FAKE_CUDA_KILLED_AT_LAUNCH");
  if (deadly && driver().calls["cuLaunchKernel"] == deadly)
    std::raise(SIGKILL);
  static const std::set<std::string> waiting = {
      "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize",
      "cuMemAlloc_v2",    "cuMemFree_v2",        "cuMemcpyHtoD_v2",
      "cuMemcpyDtoH_v2",  "cuModuleLoadDataEx",  "cuModuleUnload"};
  if (endless() && waiting.count(symbol)) {
    std::fprintf(stderr, "fake CUDA: %s waits for ever\n", symbol);
    std::abort();
  }
}

// Counts the call; the error that a test asked for, or that of a missing cuInit or context.
int enter(const char *symbol, bool needsContext) {
  Driver &d = driver();
  ++d.calls[symbol];
  endProcess(symbol);
  if (auto found = d.failures.find(symbol); found != d.failures.end()) {
    const int error = found->second.first;
    if (--found->second.second == 0)
      d.failures.erase(found);
    return error;
  }
  // After so many launches a kernel faults, as it seems, and the context is of no more use.
  static const char *const launches = std::getenv("FAKE_CUDA_LOST_AFTER_LAUNCHES");
  if (launches && needsContext && d.calls["cuLaunchKernel"] > std::atoi(launches))
    return illegalAddress;
  if (!d.initialized && std::strcmp(symbol, "cuInit") != 0)
    return notInitialized;
  return needsContext && contexts.empty() ? invalidContext : success;
}

bool inBounds(int device, uint64_t address, size_t bytes) {
  auto &memory = driver().memory;
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    return false;
  const auto &[start, allocation] = *std::prev(after);
  return allocation.device == device && address + bytes <= start + allocation.bytes;
}
bool inBounds(uint64_t address, size_t bytes) { return inBounds(contexts.back(), address, bytes); }

template <class T> T *known(void *handle) {
  return driver().objects.count(handle) ? static_cast<T *>(handle) : nullptr;
}
template <class T> void *keep(T *object) {
  driver().objects.insert(object);
  return object;
}
template <class T> int drop(void *handle) {
  if (!driver().objects.erase(handle))
    return invalidHandle;
  delete static_cast<T *>(handle);
  return success;
}

Stream &legacy(int device) { return driver().defaults[device]; }
// Null where there is none of this handle on the current device.
Stream *streamOf(void *handle) {
  if (reinterpret_cast<uintptr_t>(handle) <= 2)
    return &legacy(contexts.back());
  auto *stream = known<Stream>(handle);
  return stream && stream->device == contexts.back() ? stream : nullptr;
}

// Runs the next work of a stream.
void step(Stream &stream) {
  if (!(stream.flags & nonBlocking))
    for (Stream &first = legacy(stream.device); &first != &stream && !first.queue.empty();)
      step(first);
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (const int error = work(); error && !driver().fault)
    driver().fault = error;
}
int takeFault() { return std::exchange(driver().fault, success); }
void run(Stream &stream) {
  while (!stream.queue.empty())
    step(stream);
}
void runAll(int device, bool blockingOnly = false) {
  for (Stream *stream : driver().streams)
    if (stream->device == device && !(blockingOnly && stream->flags & nonBlocking))
      run(*stream);
  run(legacy(device));
}
void pass(const Mark &mark) {
  while (!mark.passed && mark.stream && !mark.stream->queue.empty())
    step(*mark.stream);
}

// The error that a call is where captures forbid it, which ends them.
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
// What a thread may do beside a capture only where it says so.
int unsafe() {
  return captureMode == relaxedCapture ? success : forbidden(false, captureUnsupported);
}

// Work in order, or part of the capture that its stream is part of.
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
    runAll(stream->device, /*blockingOnly=*/true);
  }
  stream->queue.push_back(std::move(work));
  return success;
}

template <class T> int set(void *handle, uint64_t target, size_t pitch, T value, size_t count) {
  if (!inBounds(target, count ? (count - 1) * pitch + sizeof value : 0))
    return invalidValue;
  return submit(handle, [=] {
    for (size_t i = 0; i < count; ++i)
      std::memcpy(reinterpret_cast<char *>(target) + i * pitch, &value, sizeof value);
    return success;
  });
}

// Each program prints its number and the next at site 0; from number 2 on it fails at site 1.
void writeLog(char *log, uint64_t launch, unsigned programs) {
  using namespace sectile::debuglog;
  auto *head = reinterpret_cast<Head *>(log);
  for (unsigned program = programs; program-- > 0;) {
    const Record record{sizeof(Record) + 16, 0, launch, {program, 0, 0}, 0};
    const unsigned values[] = {program, program + 1};
    char *entry = log + recordsAt + head->used;
    head->used += record.bytes;
    std::memcpy(entry, &record, sizeof record);
    std::memcpy(entry + sizeof record, values, sizeof values);
    if (program < 2)
      continue;
    const Failure failure{1, 3, launch, {program, 0, 0}, 1};
    std::memcpy(log + failuresAt + head->failures++ * sizeof failure, &failure, sizeof failure);
  }
}

} // namespace

// The head of every function of the driver.
#define ENTER(needsContext)                                                                        \
  std::lock_guard lock(driver().mutex);                                                            \
  if (const int error = enter(__func__, needsContext))                                             \
    return error;

extern "C" {

void fakeCudaFail(const char *symbol, int error, int times) {
  std::lock_guard lock(driver().mutex);
  if (times)
    driver().failures[symbol] = {error, times};
  else
    driver().failures.erase(symbol);
}
int fakeCudaCalls(const char *symbol) {
  std::lock_guard lock(driver().mutex);
  if (symbol)
    return driver().calls[symbol];
  int all = 0;
  for (const auto &[name, count] : driver().calls)
    all += count;
  return all;
}
int fakeCudaLive() { return static_cast<int>(driver().objects.size() + driver().memory.size()); }
int fakeCudaCompiles() { return driver().compiles; }
FakeLaunch fakeCudaLastLaunch() { return driver().last; }

int cuGetErrorName(int error, const char **name) {
  static const std::map<int, const char *> names = {
      {invalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {outOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {notInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {invalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {invalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {invalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {notFound, "CUDA_ERROR_NOT_FOUND"},
      {illegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {100, "CUDA_ERROR_NO_DEVICE"},
  };
  auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? success : invalidValue;
}
int cuGetErrorString(int, const char **text) {
  *text = "as the fake driver says";
  return success;
}

int cuInit(unsigned) {
  ENTER(false)

  driver().initialized = true;
  return success;
}
int cuDriverGetVersion(int *version) {
  ENTER(false)

  const int chosen = numberIn("FAKE_CUDA_VERSION");
  *version = chosen ? chosen : 99000; // no ptxas is of this release
  return success;
}
int cuDeviceGetCount(int *count) {
  ENTER(false)

  *count = 2;
  return success;
}
int cuDeviceGet(int *device, int ordinal) {
  ENTER(false)

  *device = ordinal;
  return ordinal < 2 ? success : invalidDevice;
}
int cuDeviceGetName(char *name, int length, int device) {
  ENTER(false)

  std::strncpy(name, devices[device].name, static_cast<size_t>(length));
  return success;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  ENTER(false)

  const Device &d = devices[device];
  switch (attribute) {
  case 1:
    *value = 1024;
    return success;
  case 5:
    *value = 0x7fffffff;
    return success;
  case 6:
  case 7:
    *value = 65535;
    return success;
  case 10:
    *value = 32;
    return success;
  case 16:
    *value = d.multiprocessors;
    return success;
  case 36: // memory clock, kHz
    *value = 2619000;
    return success;
  case 37: // memory bus, bits
    *value = 5120;
    return success;
  case 75:
    *value = d.major;
    return success;
  case 76:
    *value = d.minor;
    return success;
  case 97:
    *value = d.shared;
    return success;
  default:
    return invalidValue;
  }
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTER(false)

  *context = reinterpret_cast<void *>(static_cast<intptr_t>(device + 1));
  return success;
}
int cuCtxGetCurrent(void **context) {
  ENTER(false)

  *context =
      reinterpret_cast<void *>(static_cast<intptr_t>(contexts.empty() ? 0 : contexts.back() + 1));
  return success;
}
int cuCtxPushCurrent_v2(void *context) {
  ENTER(false)

  contexts.push_back(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
  return success;
}
int cuCtxPopCurrent_v2(void **) {
  ENTER(true)

  contexts.pop_back();
  return success;
}
int cuCtxSynchronize() {
  ENTER(true)

  if (const int error = forbidden(false, captureUnsupported))
    return error;
  runAll(contexts.back());
  return takeFault();
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(true)

  *free = memoryOfOne - driver().used[contexts.back()];
  *total = memoryOfOne;
  return success;
}
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  size_t &used = driver().used[contexts.back()];
  if (bytes == 0)
    return invalidValue;
  if (bytes > memoryOfOne - used)
    return outOfMemory;
  *address = reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  driver().memory[*address] = {bytes, contexts.back()};
  used += bytes;
  return success;
}
int cuMemFree_v2(uint64_t address) {
  ENTER(true)

  // It waits for the device, which no mode allows beside a capture.
  if (const int error = forbidden(false, captureUnsupported))
    return error;
  runAll(contexts.back());
  auto found = driver().memory.find(address);
  if (found == driver().memory.end())
    return invalidValue;
  driver().used[found->second.device] -= found->second.bytes;
  driver().memory.erase(found);
  std::free(reinterpret_cast<void *>(address));
  return success;
}
int cuMemcpyHtoD_v2(uint64_t target, const void *source, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  if (!inBounds(target, bytes))
    return invalidValue;
  const auto *from = static_cast<const char *>(source);
  return submit(nullptr, [target, staged = std::vector<char>(from, from + bytes)] {
    std::memcpy(reinterpret_cast<void *>(target), staged.data(), staged.size());
    return success;
  });
}
int cuMemcpyDtoH_v2(void *target, uint64_t source, size_t bytes) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  if (!inBounds(source, bytes))
    return invalidValue;
  const int error = submit(nullptr, [=] {
    std::memcpy(target, reinterpret_cast<const void *>(source), bytes);
    return success;
  });
  if (error)
    return error;
  run(legacy(contexts.back()));
  return takeFault();
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream) {
  ENTER(true)

  if (!inBounds(source, bytes) || !inBounds(target, bytes))
    return invalidValue;
  return submit(stream, [=] {
    std::memmove(reinterpret_cast<void *>(target), reinterpret_cast<const void *>(source), bytes);
    return success;
  });
}
int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream) {
  ENTER(true)

  return set(stream, target, 1, value, count);
}
int cuMemsetD16Async(uint64_t target, unsigned short value, size_t count, void *stream) {
  ENTER(true)

  return target % 2 ? invalidValue : set(stream, target, 2, value, count);
}
int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream) {
  ENTER(true)

  return target % 4 ? invalidValue : set(stream, target, 4, value, count);
}
int cuMemsetD2D32Async(uint64_t target, size_t pitch, unsigned value, size_t width, size_t height,
                       void *stream) {
  ENTER(true)

  return width != 1 || target % 4 ? invalidValue : set(stream, target, pitch, value, height);
}
int cuStreamCreate(void **stream, unsigned flags) {
  ENTER(true)

  auto *made = new Stream{contexts.back(), flags, {}, nullptr, false};
  driver().streams.push_back(made);
  *stream = keep(made);
  return success;
}
int cuStreamDestroy_v2(void *stream) {
  ENTER(true)
  return driver().objects.erase(stream) ? success : invalidHandle; // its work runs on
}
int cuStreamGetFlags(void *handle, unsigned *flags) {
  ENTER(true)

  const Stream *stream = streamOf(handle);
  if (!stream)
    return invalidHandle;
  *flags = stream->flags;
  return success;
}
int cuStreamSynchronize(void *handle) {
  ENTER(true)

  Stream *stream = streamOf(handle);
  if (!stream)
    return invalidHandle;
  if (stream->capture) {
    stream->capture->invalid = true;
    return captureUnsupported;
  }
  run(*stream);
  return takeFault();
}
int cuStreamWaitEvent(void *handle, void *event, unsigned) {
  ENTER(true)

  Stream *stream = streamOf(handle);
  const auto *known = ::known<Event>(event);
  if (!stream || !known)
    return invalidHandle;
  const std::shared_ptr<Mark> mark = known->mark;
  if (mark && mark->capture) {
    stream->capture = mark->capture;
    return success;
  }
  return submit(handle, [=] {
    if (mark)
      pass(*mark);
    return success;
  });
}
int cuThreadExchangeStreamCaptureMode(int *mode) {
  ENTER(false)

  std::swap(*mode, captureMode);
  return success;
}
int cuStreamBeginCapture_v2(void *handle, int) {
  ENTER(true)

  auto *stream = known<Stream>(handle);
  if (!stream || stream->capture)
    return invalidHandle;
  stream->capture = std::make_shared<Capture>(Capture{++driver().captures, false, {}});
  stream->began = true;
  return success;
}
int cuStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id, void **, const void ***,
                              size_t *) {
  ENTER(true)

  const Stream *stream = streamOf(handle);
  if (!stream)
    return invalidHandle;
  if (stream == &legacy(stream->device))
    for (const Stream *other : driver().streams)
      if (other->capture && other->device == stream->device && !(other->flags & nonBlocking))
        return captureImplicit;
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  if (*status == 1)
    *id = stream->capture->id;
  return success;
}
int cuStreamEndCapture(void *handle, void **graph) {
  ENTER(true)

  auto *stream = known<Stream>(handle);
  if (!stream || !stream->began)
    return captureUnmatched;
  stream->began = false;
  const std::shared_ptr<Capture> capture = stream->capture;
  for (Stream *part : driver().streams)
    if (part->capture == capture)
      part->capture = nullptr;
  if (capture->invalid)
    return captureInvalidated;
  *graph = keep(new Graph{std::move(capture->work)});
  return success;
}
int cuGraphInstantiateWithFlags(void **executable, void *handle, unsigned long long) {
  ENTER(true)

  auto *graph = known<Graph>(handle);
  if (!graph)
    return invalidHandle;
  *executable = keep(new Graph(*graph));
  return success;
}
int cuGraphLaunch(void *handle, void *stream) {
  ENTER(true)

  auto *graph = known<Graph>(handle);
  if (!graph)
    return invalidHandle;
  for (const Work &work : graph->work)
    if (int error = submit(stream, work))
      return error;
  return success;
}
int cuGraphDestroy(void *graph) {
  ENTER(true)
  return drop<Graph>(graph);
}
int cuGraphExecDestroy(void *graph) {
  ENTER(true)
  return drop<Graph>(graph);
}
int cuEventCreate(void **event, unsigned) {
  ENTER(true)

  *event = keep(new Event);
  return success;
}
int cuEventDestroy_v2(void *event) {
  ENTER(true)
  return drop<Event>(event);
}
int cuEventRecord(void *handle, void *at) {
  ENTER(true)

  auto *event = known<Event>(handle);
  Stream *stream = streamOf(at);
  if (!event || !stream)
    return invalidHandle;
  const auto mark = event->mark = std::make_shared<Mark>();
  if (stream->capture) {
    mark->capture = stream->capture;
    return success;
  }
  mark->stream = stream;
  const bool idle = stream->queue.empty();
  const int error = submit(at, [=] {
    mark->time = std::chrono::steady_clock::now();
    mark->passed = !endless();
    return success;
  });
  if (idle && !error) // A stream without work comes to it at once.
    run(*stream);
  return error;
}
int cuEventSynchronize(void *handle) {
  ENTER(true)

  const auto *event = known<Event>(handle);
  if (!event)
    return invalidHandle;
  if (!event->mark)
    return success;
  if (event->mark->capture)
    return capturedEvent;
  pass(*event->mark);
  return takeFault();
}
// Each question finds the stream one piece of work further.
int cuEventQuery(void *handle) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  const auto *event = known<Event>(handle);
  if (!event)
    return invalidHandle;
  const std::shared_ptr<Mark> mark = event->mark;
  if (!mark || mark->passed)
    return takeFault();
  if (mark->capture)
    return capturedEvent;
  if (!mark->stream->queue.empty())
    step(*mark->stream);
  return notReady;
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  ENTER(true)

  auto *a = known<Event>(from), *b = known<Event>(to);
  if (!a || !b || !a->mark || !b->mark || !a->mark->passed || !b->mark->passed)
    return invalidHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(b->mark->time - a->mark->time).count();
  return success;
}
// A fake cubin is "\x7fELF", the chip in a line of its own, and PTX.
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                       void **values) {
  ENTER(true)

  if (const int error = unsafe())
    return error;
  std::string text = static_cast<const char *>(image);
  if (text.rfind("\x7f", 0) == 0) {
    const Device &here = devices[contexts.back()];
    const std::string chip = "ELFsm_" + std::to_string(here.major) + std::to_string(here.minor);
    if (text.compare(1, chip.size(), chip) != 0)
      return noBinaryForChip;
  } else if (text.find(".entry") == text.npos) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "fake ptxas: no entry");
    return invalidPtx;
  } else {
    ++driver().compiles;
  }
  *module = keep(new Module{std::move(text)});
  return success;
}
int cuModuleUnload(void *module) {
  ENTER(true)
  return drop<Module>(module);
}
int cuModuleGetFunction(void **function, void *handle, const char *name) {
  ENTER(true)

  auto *module = known<Module>(handle);
  if (!module)
    return invalidHandle;
  if (module->text.find(std::string(".entry ") + name) == std::string::npos)
    return notFound;
  static auto *functions = new std::map<std::string, Function>;
  auto &entry = (*functions)[name];
  entry = {name, 49152};
  *function = &entry;
  return success;
}
int cuFuncGetAttribute(int *value, int attribute, void *) {
  ENTER(true)

  if (attribute != 3 && attribute != 4)
    return invalidValue;
  *value = attribute == 4 ? 24 : 0;
  return success;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  ENTER(true)

  if (attribute != 8 || value > devices[contexts.back()].shared)
    return invalidValue;
  static_cast<Function *>(function)->maxDynamicShared = value;
  return success;
}
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address,
                           const uint64_t *extents, const uint64_t *strides, const unsigned *box,
                           const unsigned *steps, int interleave, int swizzle, int, int fill) {
  ENTER(true)

  const auto place = reinterpret_cast<uint64_t>(address);
  if (rank < 2 || rank > 5 || place % 16 || interleave || fill)
    return invalidValue;
  for (unsigned i = 0; i < rank; ++i)
    if (!extents[i] || extents[i] > (1ull << 32) || !box[i] || box[i] > 256 || steps[i] != 1 ||
        (i + 1 < rank && (strides[i] % 16 || strides[i] >= (1ull << 40))))
      return invalidValue;
  const unsigned long long words[16] = {static_cast<unsigned long long>(type),
                                        rank,
                                        place,
                                        extents[0],
                                        extents[1],
                                        strides[0],
                                        box[0],
                                        box[1],
                                        static_cast<unsigned long long>(swizzle)};
  std::memcpy(map, words, sizeof words);
  return success;
}
static int launch(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned tx, unsigned ty,
                  unsigned tz, unsigned shared, void *stream, void **arguments, bool dependent) {
  auto *function = static_cast<Function *>(handle);
  if (!gx || !gy || !gz || tx * ty * tz > 1024 ||
      static_cast<int>(shared) > function->maxDynamicShared)
    return invalidValue;
  // Arguments are copied when the launch is made, as the real driver does.
  float *pointers[3] = {};
  int n = 0;
  const bool adds = function->name == "fake_add";
  if (adds) {
    for (int i = 0; i < 3; ++i)
      std::memcpy(&pointers[i], arguments[i], sizeof(float *));
    std::memcpy(&n, arguments[3], sizeof n);
  }
  char *log = nullptr;
  uint64_t launch = 0;
  if (function->name == "fake_log") {
    std::memcpy(&log, arguments[0], sizeof log);
    std::memcpy(&launch, arguments[1], sizeof launch);
  }
  driver().last = {{gx, gy, gz}, tx, shared, stream, dependent, {}};
  if (function->name == "fake_map")
    std::memcpy(driver().last.map, arguments[2], sizeof driver().last.map);
  return submit(stream, [=, device = contexts.back()] {
    if (log)
      writeLog(log, launch, gx);
    if (!adds)
      return success;
    for (float *pointer : pointers)
      if (!inBounds(device, reinterpret_cast<uint64_t>(pointer),
                    sizeof(float) * static_cast<size_t>(n)))
        return illegalAddress;
    for (int i = 0; i < std::min<int>(n, static_cast<int>(gx * tx)); ++i)
      pointers[2][i] = pointers[0][i] + pointers[1][i];
    return success;
  });
}
int cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned tx, unsigned ty,
                   unsigned tz, unsigned shared, void *stream, void **arguments, void **) {
  ENTER(true)

  return launch(handle, gx, gy, gz, tx, ty, tz, shared, stream, arguments, false);
}
// The layout of CUlaunchConfig and CUlaunchAttribute, written down once more.
struct LaunchAttribute {
  int id;
  char pad[4];
  int value[16];
};
struct LaunchConfig {
  unsigned grid[3], threads[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned count;
};
int cuLaunchKernelEx(const LaunchConfig *config, void *handle, void **arguments, void **) {
  ENTER(true)

  constexpr int programmaticStreamSerialization = 6;
  bool dependent = false;
  for (unsigned i = 0; i < config->count; ++i) {
    const LaunchAttribute &attribute = config->attributes[i];
    if (attribute.id != programmaticStreamSerialization)
      return invalidValue;
    dependent = attribute.value[0] == 1;
  }
  return launch(handle, config->grid[0], config->grid[1], config->grid[2], config->threads[0],
                config->threads[1], config->threads[2], config->shared, config->stream, arguments,
                dependent);
}
}
