// What the parts of the fake CUDA driver share: its state, streams and the order of their work.
#pragma once
#include "tests/fake/fake_cuda.h"
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

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
  notPermitted = 800,
};
constexpr int relaxedCapture = 2; // of the modes
constexpr unsigned nonBlocking = 1;

struct Device {
  const char *name;
  int major, minor, multiprocessors, shared;
};
extern const Device devices[2];
constexpr size_t memoryOfOne = size_t{1} << 30;

struct Module {
  std::string text;
};
struct Function {
  std::string name;
  int maxDynamicShared = 49152;
  bool hasAllRegisters = false; ///< one block of it may have all of a multiprocessor's
};
using Work = std::function<int()>;
// Ends with the last graph that keeps it. A callback of a driver must not call it.
struct UserObject {
  void *pointer;
  void (*end)(void *);
  ~UserObject();
};
using Kept = std::vector<std::shared_ptr<UserObject>>;
struct Capture {
  uint64_t id;
  bool invalid = false;
  std::vector<Work> work;
  Kept kept;
};
struct Queued {
  uint64_t number; // in the order in which all work was given
  Work work;
};
struct Stream {
  int device;
  unsigned flags = 0;
  std::deque<Queued> queue;
  std::shared_ptr<Capture> capture; // that it is part of
  bool began = false;               // the capture
};
struct Graph {
  std::vector<Work> work;
  Kept kept;
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
  bool timed = true;
};
struct Allocation {
  size_t bytes;
  int device;
  bool pooled = false;
  bool there = true; // its stream has come to it
};
struct Pool {
  int device;
  std::vector<int> peers = {};
};

struct Driver {
  std::recursive_mutex mutex;
  bool initialized = false;
  std::map<std::string, int> calls;
  std::map<std::string, std::pair<int, int>> failures;
  std::map<uint64_t, Allocation> memory;
  std::map<void *, size_t> hostMemory;
  uint64_t given = 0;                 // pieces of work
  std::vector<int> contexts = {0, 1}; // the device of each; the first two are primary ones
  std::set<int> broken;               // contexts after an error inside a kernel
  std::set<int> gone;                 // and those that were destroyed
  std::map<int, size_t> used;
  std::map<void *, int> objects;  // and the context of each
  std::vector<Stream *> streams;  // never freed, so that no handle comes twice
  std::map<int, Stream> defaults; // legacy streams
  uint64_t captures = 0;
  int compiles = 0; // of PTX
  int fault = 0;    // of work that ran: the next wait tells of it, and the fake bears it
  FakeLaunch last{};
};
Driver &driver();
// Of this thread. What is called a device of memory and streams is a context. Never destroyed:
// kernels that live as long as the program unload after the thread's objects are gone, which a
// driver bears.
extern thread_local std::vector<int> &contexts;
extern thread_local int captureMode;

// 0 where it is not set.
int numberIn(const char *variable);
// This launch never ends, and nothing behind it.
bool endless();
// Counts the call; the error that a test asked for, or that of a missing cuInit or context.
int enter(const char *symbol, bool needsContext);

bool inBounds(int device, uint64_t address, size_t bytes);
bool inBounds(uint64_t address, size_t bytes);

template <class T> T *known(void *handle) {
  return driver().objects.count(handle) ? static_cast<T *>(handle) : nullptr;
}
template <class T> void *keep(T *object) {
  driver().objects[object] = contexts.back();
  return object;
}
template <class T> int drop(void *handle) {
  if (!driver().objects.erase(handle))
    return invalidHandle;
  delete static_cast<T *>(handle);
  return success;
}

// The legacy stream.
Stream &legacy(int device);
// Null where there is none of this handle on the current device.
Stream *streamOf(void *handle);
// Runs the next work of a stream.
void step(Stream &stream);
void run(Stream &stream);
void runAll(int device);
void pass(const Mark &mark);
int takeFault();
// Whether a stream comes to what it is given at once.
bool isIdle(const Stream &stream);
// Work in order, or part of the capture that its stream is part of.
int submit(void *handle, Work work);

// The error that a call is where captures forbid it, which ends them.
int forbidden(bool blockingOnly, int error);
// What a thread may do beside a capture only where it says so.
int unsafe();

} // namespace fake

// The head of every function of the driver.
#define ENTER(needsContext)                                                                        \
  std::lock_guard lock(fake::driver().mutex);                                                      \
  if (const int error = fake::enter(__func__, needsContext))                                       \
    return error;
