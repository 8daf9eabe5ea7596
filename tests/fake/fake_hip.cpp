// HIP on host memory: the fake CUDA driver under HIP's names and rules. Its two devices are a
// gfx942 and one that no version of Sectile knows.
#include "tests/fake/fake_cuda.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>

extern "C" {

// Of fake_cuda.cpp, which is part of this library.
int cuInit(unsigned);
int cuDriverGetVersion(int *);
int cuDeviceGetCount(int *);
int cuCtxPushCurrent_v2(void *);
int cuCtxSynchronize();
int cuMemGetInfo_v2(size_t *, size_t *);
int cuMemAlloc_v2(uint64_t *, size_t);
int cuMemFree_v2(uint64_t);
int cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
int cuMemcpyDtoH_v2(void *, uint64_t, size_t);
int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t, void *);
int cuMemcpyPeerAsync(uint64_t, void *, uint64_t, void *, size_t, void *);
int cuDevicePrimaryCtxReset_v2(int);
int cuMemsetD8Async(uint64_t, unsigned char, size_t, void *);
int cuMemsetD16Async(uint64_t, unsigned short, size_t, void *);
int cuMemsetD32Async(uint64_t, unsigned, size_t, void *);
int cuStreamCreate(void **, unsigned);
int cuStreamDestroy_v2(void *);
int cuStreamSynchronize(void *);
int cuStreamGetFlags(void *, unsigned *);
int cuThreadExchangeStreamCaptureMode(int *);
int cuStreamGetCaptureInfo_v2(void *, int *, uint64_t *, void **, const void ***, size_t *);
int cuStreamWaitEvent(void *, void *, unsigned);
int cuStreamBeginCapture_v2(void *, int);
int cuStreamEndCapture(void *, void **);
int cuGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cuGraphLaunch(void *, void *);
int cuGraphDestroy(void *);
int cuGraphExecDestroy(void *);
int cuEventCreate(void **, unsigned);
int cuEventDestroy_v2(void *);
int cuEventRecord(void *, void *);
int cuEventSynchronize(void *);
int cuEventQuery(void *);
int cuEventElapsedTime(float *, void *, void *);
struct PoolProperties;
struct PoolAccess;
int cuMemPoolCreate(void **, const PoolProperties *);
int cuMemPoolSetAttribute(void *, int, void *);
int cuMemPoolGetAttribute(void *, int, void *);
int cuMemPoolTrimTo(void *, size_t);
int cuDeviceCanAccessPeer(int *, int, int);
int cuMemPoolSetAccess(void *, const PoolAccess *, size_t);
int cuMemAllocFromPoolAsync(uint64_t *, size_t, void *, void *);
int cuMemFreeAsync(uint64_t, void *);
int cuMemHostAlloc(void **, size_t, unsigned);
int cuMemFreeHost(void *);
int cuMemcpyHtoDAsync_v2(uint64_t, const void *, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, uint64_t, size_t, void *);
int cuUserObjectCreate(void **, void *, void (*)(void *), unsigned, unsigned);
int cuUserObjectRelease(void *, unsigned);
int cuGraphRetainUserObject(void *, void *, unsigned, unsigned);
int cuModuleLoadDataEx(void **, const void *, unsigned, int *, void **);
int cuModuleUnload(void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void *, void **, void **);

static thread_local int device = 0;

// A HIP call: on the thread's current device.
static uint64_t number(void *address) { return reinterpret_cast<uint64_t>(address); }
#define ON_DEVICE cuCtxPushCurrent_v2(reinterpret_cast<void *>(static_cast<intptr_t>(device + 1)))

const char *hipGetErrorName(int error) {
  return error == 2 ? "hipErrorOutOfMemory" : "hipErrorSomething";
}
const char *hipGetErrorString(int) { return "as the fake HIP says"; }
int hipInit(unsigned flags) { return cuInit(flags); }
int hipDriverGetVersion(int *version) { return cuDriverGetVersion(version); }
int hipGetDeviceCount(int *count) { return cuDeviceGetCount(count); }
int hipGetDevice(int *current) { return *current = device, 0; }
int hipSetDevice(int wanted) {
  if (wanted < 0 || wanted > 1)
    return 101;
  device = wanted;
  ON_DEVICE;
  return 0;
}
int hipGetDevicePropertiesR0600(void *properties, int which) {
  std::memset(properties, 0, 1472);
  // Some products are called as an architecture is.
  std::strcpy(static_cast<char *>(properties), which ? "gfx90a" : "Fake MI");
  std::strcpy(static_cast<char *>(properties) + 1160, which ? "gfx9999" : "gfx942:sramecc+:xnack-");
  return 0;
}
int hipDeviceSynchronize() { return ON_DEVICE, cuCtxSynchronize(); }
int hipMemGetInfo(size_t *free, size_t *total) { return ON_DEVICE, cuMemGetInfo_v2(free, total); }
int hipMalloc(void **address, size_t bytes) {
  return ON_DEVICE, cuMemAlloc_v2(reinterpret_cast<uint64_t *>(address), bytes);
}
int hipFree(void *address) { return ON_DEVICE, cuMemFree_v2(number(address)); }
int hipMemcpyHtoD(void *to, const void *from, size_t bytes) {
  return ON_DEVICE, cuMemcpyHtoD_v2(number(to), from, bytes);
}
int hipMemcpyDtoH(void *to, void *from, size_t bytes) {
  return ON_DEVICE, cuMemcpyDtoH_v2(to, number(from), bytes);
}
int hipMemcpyDtoDAsync(void *to, void *from, size_t bytes, void *stream) {
  return ON_DEVICE, cuMemcpyDtoDAsync_v2(number(to), number(from), bytes, stream);
}
int hipMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
                       void *stream) {
  const auto context = [](int of) {
    return reinterpret_cast<void *>(static_cast<intptr_t>(of + 1));
  };
  return ON_DEVICE,
         cuMemcpyPeerAsync(number(to), context(toDevice), number(const_cast<void *>(from)),
                           context(fromDevice), bytes, stream);
}
int hipDeviceReset() { return cuDevicePrimaryCtxReset_v2(device); }
int hipMemsetD8Async(void *to, unsigned char value, size_t count, void *stream) {
  return ON_DEVICE, cuMemsetD8Async(number(to), value, count, stream);
}
int hipMemsetD16Async(void *to, unsigned short value, size_t count, void *stream) {
  return ON_DEVICE, cuMemsetD16Async(number(to), value, count, stream);
}
int hipMemsetD32Async(void *to, int value, size_t count, void *stream) {
  return ON_DEVICE, cuMemsetD32Async(number(to), static_cast<unsigned>(value), count, stream);
}
int hipStreamCreateWithFlags(void **stream, unsigned flags) {
  return ON_DEVICE, cuStreamCreate(stream, flags);
}
int hipStreamDestroy(void *stream) { return ON_DEVICE, cuStreamDestroy_v2(stream); }
int hipStreamSynchronize(void *stream) { return ON_DEVICE, cuStreamSynchronize(stream); }
int hipStreamGetFlags(void *stream, unsigned *flags) {
  return ON_DEVICE, cuStreamGetFlags(stream, flags);
}
int hipThreadExchangeStreamCaptureMode(int *mode) {
  return cuThreadExchangeStreamCaptureMode(mode);
}
int hipStreamGetCaptureInfo_v2(void *stream, int *status, uint64_t *id, void **graph,
                               const void ***nodes, size_t *count) {
  return ON_DEVICE, cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}
int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
  return ON_DEVICE, cuStreamWaitEvent(stream, event, flags);
}
int hipStreamBeginCapture(void *stream, int mode) {
  return ON_DEVICE, cuStreamBeginCapture_v2(stream, mode);
}
int hipStreamEndCapture(void *stream, void **graph) {
  return ON_DEVICE, cuStreamEndCapture(stream, graph);
}
int hipGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) {
  return ON_DEVICE, cuGraphInstantiateWithFlags(executable, graph, flags);
}
int hipGraphLaunch(void *graph, void *stream) { return ON_DEVICE, cuGraphLaunch(graph, stream); }
int hipGraphDestroy(void *graph) { return ON_DEVICE, cuGraphDestroy(graph); }
int hipGraphExecDestroy(void *graph) { return ON_DEVICE, cuGraphExecDestroy(graph); }
int hipEventCreateWithFlags(void **event, unsigned flags) {
  return ON_DEVICE, cuEventCreate(event, flags);
}
int hipEventDestroy(void *event) { return ON_DEVICE, cuEventDestroy_v2(event); }
int hipEventRecord(void *event, void *stream) { return ON_DEVICE, cuEventRecord(event, stream); }
int hipEventSynchronize(void *event) { return ON_DEVICE, cuEventSynchronize(event); }
int hipEventQuery(void *event) { return ON_DEVICE, cuEventQuery(event); }
int hipEventElapsedTime(float *milliseconds, void *from, void *to) {
  return ON_DEVICE, cuEventElapsedTime(milliseconds, from, to);
}
int hipMemPoolCreate(void **pool, const PoolProperties *properties) {
  return ON_DEVICE, cuMemPoolCreate(pool, properties);
}
int hipMemPoolSetAttribute(void *pool, int attribute, void *value) {
  return ON_DEVICE, cuMemPoolSetAttribute(pool, attribute, value);
}
int hipMemPoolGetAttribute(void *pool, int attribute, void *value) {
  return ON_DEVICE, cuMemPoolGetAttribute(pool, attribute, value);
}
int hipMemPoolTrimTo(void *pool, size_t bytes) { return ON_DEVICE, cuMemPoolTrimTo(pool, bytes); }
int hipDeviceCanAccessPeer(int *can, int from, int to) {
  return cuDeviceCanAccessPeer(can, from, to);
}
int hipMemPoolSetAccess(void *pool, const PoolAccess *access, size_t count) {
  return ON_DEVICE, cuMemPoolSetAccess(pool, access, count);
}
int hipMallocFromPoolAsync(void **address, size_t bytes, void *pool, void *stream) {
  return ON_DEVICE,
         cuMemAllocFromPoolAsync(reinterpret_cast<uint64_t *>(address), bytes, pool, stream);
}
int hipFreeAsync(void *address, void *stream) {
  return ON_DEVICE, cuMemFreeAsync(number(address), stream);
}
int hipHostMalloc(void **address, size_t bytes, unsigned flags) {
  return ON_DEVICE, cuMemHostAlloc(address, bytes, flags);
}
int hipHostFree(void *address) { return ON_DEVICE, cuMemFreeHost(address); }
int hipMemcpyHtoDAsync(void *to, void *from, size_t bytes, void *stream) {
  return ON_DEVICE, cuMemcpyHtoDAsync_v2(number(to), from, bytes, stream);
}
int hipMemcpyDtoHAsync(void *to, void *from, size_t bytes, void *stream) {
  return ON_DEVICE, cuMemcpyDtoHAsync_v2(to, number(from), bytes, stream);
}
int hipUserObjectCreate(void **object, void *pointer, void (*end)(void *), unsigned count,
                        unsigned flags) {
  return cuUserObjectCreate(object, pointer, end, count, flags);
}
int hipUserObjectRelease(void *object, unsigned count) {
  return cuUserObjectRelease(object, count);
}
int hipGraphRetainUserObject(void *graph, void *object, unsigned count, unsigned flags) {
  return cuGraphRetainUserObject(graph, object, count, flags);
}
int hipModuleLoadData(void **module, const void *image) {
  static const bool takesCode = std::getenv("FAKE_HIP_TAKES_CODE");
  if (takesCode && std::memcmp(image,
                               "\x7f"
                               "ELF",
                               4) == 0) // what a compiler made
    image = ".entry of any name";
  return ON_DEVICE, cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}
int hipModuleUnload(void *module) { return ON_DEVICE, cuModuleUnload(module); }
int hipModuleGetFunction(void **function, void *module, const char *name) {
  return ON_DEVICE, cuModuleGetFunction(function, module, name);
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned tx,
                          unsigned ty, unsigned tz, unsigned shared, void *stream, void **arguments,
                          void **extra) {
  return ON_DEVICE,
         cuLaunchKernel(function, gx, gy, gz, tx, ty, tz, shared, stream, arguments, extra);
}
}
