// The part of the fake CUDA driver that is about contexts: other people's, their end, errors inside
// kernels, copies from one to another.
#include "tests/fake/FakeDriver.h"
#include <cstdlib>
#include <cstring>

using namespace fake;

namespace {

// All that there is in a context.
void destroyAll(int context) {
  Driver &d = driver();
  std::erase_if(d.objects, [&](const auto &object) { return object.second == context; });
  for (auto at = d.memory.begin(); at != d.memory.end();)
    if (at->second.device == context) {
      std::free(reinterpret_cast<void *>(at->first));
      at = d.memory.erase(at);
    } else {
      ++at;
    }
  d.used.erase(context);
  for (Stream *stream : d.streams)
    if (stream->device == context)
      stream->queue.clear();
  legacy(context).queue.clear();
}

} // namespace

extern "C" {

void *fakeCudaContext(int device) {
  std::lock_guard lock(driver().mutex);
  driver().contexts.push_back(device);
  return reinterpret_cast<void *>(driver().contexts.size());
}
void fakeCudaDestroyContext(void *context) {
  std::lock_guard lock(driver().mutex);
  const int number = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  driver().gone.insert(number);
  destroyAll(number);
}
void fakeCudaBreak(int device) {
  std::lock_guard lock(driver().mutex);
  driver().broken.insert(device);
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  ENTER(false)

  if (driver().broken.count(device)) // for the rest of the process, reset or not
    return illegalAddress;
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

  const int number = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  if (driver().gone.count(number))
    return invalidContext;
  contexts.push_back(number);
  return success;
}
int cuCtxPopCurrent_v2(void **) {
  ENTER(true)

  contexts.pop_back();
  return success;
}
int cuDevicePrimaryCtxReset_v2(int device) {
  ENTER(false)

  destroyAll(device);
  return success;
}
int cuCtxGetDevice(int *device) {
  ENTER(true)

  *device = driver().contexts[static_cast<size_t>(contexts.back())];
  return success;
}
int cuMemcpyPeerAsync(uint64_t target, void *targetContext, uint64_t source, void *sourceContext,
                      size_t bytes, void *stream) {
  ENTER(true)

  const auto numberOf = [](void *context) {
    return static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  };
  return submit(stream, [=] {
    if (!inBounds(numberOf(targetContext), target, bytes) ||
        !inBounds(numberOf(sourceContext), source, bytes))
      return illegalAddress;
    std::memcpy(reinterpret_cast<void *>(target), reinterpret_cast<const void *>(source), bytes);
    return success;
  });
}
int cuStreamGetCtx(void *handle, void **context) {
  ENTER(true)

  const auto *stream = known<Stream>(handle);
  if (stream && stream->capture) {
    stream->capture->invalid = true;
    return captureUnsupported;
  }
  *context = reinterpret_cast<void *>(
      static_cast<intptr_t>((stream ? stream->device : contexts.back()) + 1));
  return success;
}
}
