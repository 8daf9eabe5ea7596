// Device memory from a driver's pool, of which the driver keeps what was given back for the next
// who asks: allocating and giving back wait for nothing. Without pools it is the driver's plain
// memory.
#ifndef SECTILE_RUNTIME_DRIVERPOOL_H
#define SECTILE_RUNTIME_DRIVERPOOL_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace sectile::runtime {

/// Numbers and structures of pools, which are the same in CUDA and in HIP.
namespace driver {
struct PoolLocation {
  int type, id;
};
struct PoolProperties {
  int allocations, handles;
  PoolLocation location;
  void *security;
  unsigned char reserved[64];
};
static_assert(sizeof(PoolProperties) == 88);
struct PoolAccess {
  PoolLocation location;
  int flags;
};
static_assert(sizeof(PoolAccess) == 12);
inline constexpr int poolPinned = 1, poolOnDevice = 1, poolReadWrite = 3;
inline constexpr int poolReleaseThreshold = 4, poolReserved = 5, poolUsed = 7; // attributes
} // namespace driver

template <class Driver> class DriverPool {
public:
  /// To be called once, with the device current.
  void open(int device) {
    const Driver &table = Driver::get();
    const char *chosen = std::getenv("SECTILE_MEMORY_POOL");
    if ((chosen && std::strcmp(chosen, "0") == 0) || !table.memPoolCreate ||
        !table.memPoolSetAttribute || !table.memPoolGetAttribute || !table.memPoolTrimTo ||
        !table.memPoolSetAccess || !table.memAllocFromPoolAsync || !table.memFreeAsync ||
        !table.deviceCanAccessPeer)
      return;
    const driver::PoolLocation here{driver::poolOnDevice, device};
    const driver::PoolProperties properties{driver::poolPinned, 0, here, nullptr, {}};
    if (table.memPoolCreate(&pool, &properties)) { // The device has none.
      pool = nullptr;
      return;
    }
    uint64_t kept = mostKept;
    table.memPoolSetAttribute(pool, driver::poolReleaseThreshold, &kept);
    // Plain memory can be used by every device that may see it, as NCCL does between the devices of
    // one process. That of a pool only where the pool says so.
    std::vector<driver::PoolAccess> peers;
    int count = 0, can = 0;
    table.deviceGetCount(&count);
    for (int other = 0; other < count; ++other)
      if (other != device && !table.deviceCanAccessPeer(&can, other, device) && can)
        peers.push_back({{driver::poolOnDevice, other}, driver::poolReadWrite});
    if (!peers.empty())
      table.memPoolSetAccess(pool, peers.data(), peers.size());
  }

  /// Whether nothing waits when memory comes and goes, and captures bear it.
  bool isPool() const { return pool != nullptr; }

  /// The driver's error. All streams may use the memory: nothing but this runs in `stream`.
  int allocate(uint64_t *address, size_t bytes, void *stream) const {
    const Driver &table = Driver::get();
    if (!pool)
      return table.memAlloc(address, bytes);
    if (const int error = table.memAllocFromPoolAsync(address, bytes, pool, stream))
      return error;
    return table.streamSynchronize(stream);
  }
  /// No work may use it any more.
  int free(uint64_t address, void *stream) const {
    return pool ? Driver::get().memFreeAsync(address, stream) : Driver::get().memFree(address);
  }

  void trim(void *stream) const {
    if (!pool)
      return;
    Driver::get().streamSynchronize(stream);
    Driver::get().memPoolTrimTo(pool, 0);
  }
  size_t unusedBytes() const {
    uint64_t reserved = 0, used = 0;
    if (!pool || Driver::get().memPoolGetAttribute(pool, driver::poolReserved, &reserved) ||
        Driver::get().memPoolGetAttribute(pool, driver::poolUsed, &used))
      return 0;
    return reserved - used;
  }

private:
  /// What it keeps unused of the device's memory, which others in the process want, too.
  static constexpr uint64_t mostKept = uint64_t{256} << 20;

  void *pool = nullptr;
};

} // namespace sectile::runtime

#endif
