// What the virtual GPU counts: exact, and the same on every machine and for every schedule.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace sectile::vgpu {

struct AccessCounters {
  uint64_t requests = 0; // accesses of a warp: all its lanes' parts of one instruction together
  uint64_t bytes = 0;    // asked for by the lanes, repeats included
  // Global memory: 32-byte sectors touched, and the fewest that could hold the distinct bytes.
  uint64_t sectors = 0, idealSectors = 0;
  // Shared memory: passes through the banks, and the fewest that could move the distinct words.
  uint64_t wavefronts = 0, idealWavefronts = 0;

  AccessCounters &operator+=(const AccessCounters &other) {
    requests += other.requests;
    bytes += other.bytes;
    sectors += other.sectors;
    idealSectors += other.idealSectors;
    wavefronts += other.wavefronts;
    idealWavefronts += other.idealWavefronts;
    return *this;
  }
  bool operator==(const AccessCounters &) const = default;
};

// One instruction of the kernel.
struct SiteCounters {
  AccessCounters access;
  uint64_t executions = 0; // by a whole warp, for operations other than plain accesses
  bool operator==(const SiteCounters &) const = default;
};

// One source line of the kernel.
struct LineCounters {
  std::string file;
  uint32_t line = 0;
  AccessCounters globalLoad, globalStore, globalAtomic, asyncCopy, sharedLoad, sharedStore;
  uint64_t mma = 0, shuffles = 0, barriers = 0;
  bool operator==(const LineCounters &) const = default;
};

struct Counters {
  uint64_t blocks = 0;
  AccessCounters globalLoad, globalStore, globalAtomic;
  AccessCounters asyncCopy; // cp.async: sectors read and wavefronts written
  AccessCounters sharedLoad,
      sharedStore; // matrix loads and stores, and atomics as stores, included
  uint64_t mma = 0, shuffles = 0, warpOperations = 0, barriers = 0;
  uint64_t instructions = 0; // of the IR, by all threads
  struct Kind {
    std::string name;
    uint64_t count = 0;
    bool operator==(const Kind &) const = default;
  };
  std::vector<Kind> mmaKinds;      // by instruction, sorted by name
  std::vector<LineCounters> lines; // sorted by file and line
  bool operator==(const Counters &) const = default;

  // A table: a row per source line and kind of access, the totals last.
  std::string text() const;
};

// What was read of one allocation in global memory; where it lies is a run's own.
struct AllocationCounters {
  uint64_t address = 0;
  uint64_t sectorsRead = 0; // by loads and asynchronous copies
};

} // namespace sectile::vgpu
