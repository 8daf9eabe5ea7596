// A CUDA driver on host memory, for tests of everything that talks to one: two devices, an sm_90
// and an sm_86. It is strict where a real driver is forgiving: no call works without the right
// context, and every address is checked. "Code" is text with `.entry NAME`; the kernel fake_add(x,
// y, z, n) really adds, fake_log(log, launch) prints and asserts, others do nothing. What
// FAKE_CUDA_... variables count are calls of cuLaunchKernel in a process; FAKE_CUDA_VERSION and
// FAKE_CUDA_CAPABILITY are what the driver and its devices say of themselves.
//
// Streams are as late as a driver allows: work runs when something waits for it and not before. A
// copy to the device reads its source at once and writes the device's memory as work of the legacy
// stream. Blocking streams keep their order with that stream, non-blocking ones do not. Memory of a
// pool is there when its stream has come to it, and gone as soon as its stream can come to that.
#include "runtime/DebugLog.h"
#include "tests/fake/FakeDriver.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace fake;

// Each program prints its number and the next at site 0; from number 2 on it fails at site 1.
static void writeLog(char *log, uint64_t launch, unsigned programs) {
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
int fakeCudaLive() {
  const Driver &d = driver();
  return static_cast<int>(d.objects.size() + d.memory.size() + d.hostMemory.size());
}
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
  case 76: {
    const int chosen = numberIn("FAKE_CUDA_CAPABILITY"); // 75 for 7.5
    const int capability = chosen ? chosen : d.major * 10 + d.minor;
    *value = attribute == 75 ? capability / 10 : capability % 10;
    return success;
  }
  case 97:
    *value = d.shared;
    return success;
  default:
    return invalidValue;
  }
}
int cuCtxSynchronize() {
  ENTER(true)

  if (const int error = forbidden(false, captureUnsupported))
    return error;
  runAll(contexts.back());
  return takeFault();
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
  if (stream->capture) {
    stream->capture->invalid = true;
    return captureUnsupported;
  }
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
  stream->capture = std::make_shared<Capture>(Capture{++driver().captures, false, {}, {}});
  stream->began = true;
  return success;
}
int cuStreamGetCaptureInfo_v2(void *handle, int *status, uint64_t *id, void **graph, const void ***,
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
  if (*status == 1 && graph)
    *graph = stream->capture.get();
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
  *graph = keep(new Graph{std::move(capture->work), std::move(capture->kept)});
  return success;
}
int cuUserObjectCreate(void **object, void *pointer, void (*end)(void *), unsigned count,
                       unsigned flags) {
  ENTER(false)

  if (count != 1 || flags != 1)
    return invalidValue;
  *object = keep(new std::shared_ptr<UserObject>(new UserObject{pointer, end}));
  return success;
}
int cuUserObjectRelease(void *object, unsigned) {
  ENTER(false)
  return drop<std::shared_ptr<UserObject>>(object);
}
// Of graphs that are being captured; the reference moves.
int cuGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) {
  ENTER(false)

  const auto *given = known<std::shared_ptr<UserObject>>(object);
  if (!given || count != 1 || flags != 1)
    return invalidValue;
  for (Stream *stream : driver().streams)
    if (stream->capture && stream->capture.get() == graph) {
      stream->capture->kept.push_back(*given);
      return drop<std::shared_ptr<UserObject>>(object);
    }
  return invalidHandle;
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
int cuEventCreate(void **event, unsigned flags) {
  ENTER(true)

  if (flags & ~2u)
    return invalidValue;
  *event = keep(new Event{nullptr, flags == 0});
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
  const bool idle = isIdle(*stream);
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
  if (!a || !b || !a->timed || !b->timed || !a->mark || !b->mark || !a->mark->passed ||
      !b->mark->passed)
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
    const Device &here = devices[driver().contexts[static_cast<size_t>(contexts.back())]];
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

  if (const int error = unsafe())
    return error;
  return drop<Module>(module);
}
int cuModuleGetFunction(void **function, void *handle, const char *name) {
  ENTER(true)

  auto *module = known<Module>(handle);
  if (!module)
    return invalidHandle;
  if (module->text.find(std::string(".entry ") + name) == std::string::npos &&
      module->text != ".entry of any name")
    return notFound;
  static auto *functions = new std::map<std::pair<void *, std::string>, Function>;
  auto &entry = (*functions)[{handle, name}];
  entry = {name, 49152, module->text.find(".minnctapersm 1") != std::string::npos};
  *function = &entry;
  return success;
}
// With FAKE_CUDA_SPILLS code spills 800 bytes, or 8 where one block has all registers.
int cuFuncGetAttribute(int *value, int attribute, void *function) {
  ENTER(true)

  if (attribute != 3 && attribute != 4)
    return invalidValue;
  const bool spills = numberIn("FAKE_CUDA_SPILLS");
  *value = attribute == 4                                       ? 24
           : !spills                                            ? 0
           : static_cast<Function *>(function)->hasAllRegisters ? 8
                                                                : 800;
  return success;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  ENTER(true)

  if (attribute != 8 ||
      value > devices[driver().contexts[static_cast<size_t>(contexts.back())]].shared)
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
