// A hash table that only grows. Readers see a slot empty or its whole entry; a table that has
// become too small is replaced as a whole.
#include "runtime/Specialization.h"
#include <algorithm>

namespace sectile::runtime {

static uint64_t hashOf(std::span<const uint64_t> key) noexcept {
  uint64_t hash = key.size();
  for (uint64_t word : key) {
    hash = (hash ^ word) * 0x9e37'79b9'7f4a'7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

SpecializationTable::SpecializationTable() {
  allSlots.push_back(std::make_unique<Slots>(16));
  current.store(allSlots.back().get(), std::memory_order_release);
}

const LoadedKernel *SpecializationTable::find(std::span<const uint64_t> key) const noexcept {
  const Slots *slots = current.load(std::memory_order_acquire);
  const uint64_t hash = hashOf(key);
  for (size_t i = hash & slots->mask;; i = (i + 1) & slots->mask) {
    const Entry *entry = slots->entries[i].load(std::memory_order_acquire);
    if (!entry)
      return nullptr;
    if (entry->hash == hash && std::ranges::equal(entry->key, key))
      return entry->kernel.get();
  }
}

void SpecializationTable::Slots::add(const Entry *entry) {
  size_t i = entry->hash & mask;
  while (entries[i].load(std::memory_order_relaxed))
    i = (i + 1) & mask;
  entries[i].store(entry, std::memory_order_release);
}

const LoadedKernel *SpecializationTable::insert(std::span<const uint64_t> key,
                                                std::shared_ptr<LoadedKernel> kernel) {
  std::lock_guard lock(mutex);
  if (const LoadedKernel *other = find(key))
    return other;
  entries.push_back(std::make_unique<Entry>(
      Entry{std::vector<uint64_t>(key.begin(), key.end()), hashOf(key), std::move(kernel)}));
  Slots *slots = allSlots.back().get();
  if (2 * entries.size() > slots->mask) {
    allSlots.push_back(std::make_unique<Slots>(2 * (slots->mask + 1)));
    slots = allSlots.back().get();
    for (const auto &entry : entries)
      slots->add(entry.get());
    current.store(slots, std::memory_order_release);
  } else {
    slots->add(entries.back().get());
  }
  return entries.back()->kernel.get();
}

} // namespace sectile::runtime
