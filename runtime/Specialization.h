// SpecializationTable: the kernels that are loaded for a Kernel, by the words of what they were
// specialised to. Finding one takes no lock and allocates nothing.
#ifndef SECTILE_RUNTIME_SPECIALIZATION_H
#define SECTILE_RUNTIME_SPECIALIZATION_H

#include "runtime/DeviceImpl.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sectile::runtime {

class SpecializationTable {
public:
  SpecializationTable();
  SpecializationTable(const SpecializationTable &) = delete;

  /// The kernel for this key, or nullptr. Any number of threads at once, with or without one in
  /// insert().
  const LoadedKernel *find(std::span<const uint64_t> key) const noexcept;

  /// Keeps a kernel; of two for one key the first stays. Returns the one that stayed.
  const LoadedKernel *insert(std::span<const uint64_t> key, std::shared_ptr<LoadedKernel> kernel);

private:
  struct Entry {
    std::vector<uint64_t> key;
    uint64_t hash;
    std::shared_ptr<const LoadedKernel> kernel; ///< graphs keep it, too
  };
  /// Open addressing, never more than half full, so that every search ends at an empty slot.
  struct Slots {
    explicit Slots(size_t count) : mask(count - 1), entries(count) {}
    size_t mask;
    std::vector<std::atomic<const Entry *>> entries;
    void add(const Entry *entry);
  };

  std::atomic<const Slots *> current;
  std::mutex mutex; ///< of insert(); it guards what follows
  std::vector<std::unique_ptr<Slots>>
      allSlots; ///< the ones outgrown too: somebody may be reading them
  std::vector<std::unique_ptr<Entry>> entries;
};

} // namespace sectile::runtime

#endif
