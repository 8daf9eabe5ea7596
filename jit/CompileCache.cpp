// The compile cache. On disk an entry is a file named by the hash of its key; it holds the key,
// which is compared. Nothing in it depends on where the folder lies.
#include "jit/CompileCache.h"
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <iostream>

namespace sectile::runtime {
namespace {

constexpr std::chrono::seconds patience{60};
// Of keys with one hash so many are kept, NAME, NAME-1, …
constexpr unsigned maxCollisions = 8;

std::string candidate(EntryKind kind, const std::string &hash, unsigned number) {
  return hash + (number ? "-" + std::to_string(number) : "") + std::string(suffixOf(kind));
}

} // namespace

std::string CompileCache::defaultFolder() {
  if (const char *folder = std::getenv("SECTILE_CACHE_DIR"))
    return folder;
  if (const char *home = std::getenv("XDG_CACHE_HOME"); home && *home == '/')
    return std::string(home) + "/sectile";
  if (const char *home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/sectile";
  return "";
}

uint64_t CompileCache::defaultLimit() {
  static const uint64_t limit = [] {
    constexpr uint64_t usual = 1024, most = ~uint64_t{0} >> 20;
    const char *text = std::getenv("SECTILE_CACHE_LIMIT");
    if (!text || !*text)
      return usual << 20;
    const std::string_view digits = text;
    uint64_t mebibytes = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), mebibytes);
    // To take it for zero would empty the cache.
    if (end != digits.end() || error != std::errc()) {
      std::cerr << "sectile: warning: SECTILE_CACHE_LIMIT is '" << digits
                << "' and has to be a number of MiB: it is taken for " << usual << std::endl;
      mebibytes = usual;
    }
    return std::min(mebibytes, most) << 20;
  }();
  return limit;
}

CompileCache &CompileCache::get() {
  static auto *cache = [] { return new CompileCache(defaultFolder(), defaultLimit()); }();
  return *cache;
}

CompileCache::CompileCache(const std::string &folder, uint64_t maxBytes, Hash hash,
                           uint64_t memoryLimit)
    : memoryLimit(memoryLimit), hash(hash) {
  if (folder.empty())
    return;
  store = std::make_unique<DiskStore>(folder, maxBytes);
  if (!store->usable()) {
    warnOnce("the cache folder is not used: " + store->problem());
    store.reset();
  }
}

class CompileCache::SlotLease {
public:
  SlotLease(CompileCache &cache, const std::string &digest) : cache(cache), digest(digest) {
    std::lock_guard lock(cache.mutex);
    std::shared_ptr<Slot> &found = cache.slots[digest];
    if (!found)
      found = std::make_shared<Slot>();
    slot = found;
  }
  SlotLease(const SlotLease &) = delete;
  ~SlotLease() {
    std::lock_guard lock(cache.mutex);
    slot.reset();
    const auto entry = cache.slots.find(digest);
    const std::shared_ptr<Slot> &kept = entry->second;
    if (kept.use_count() > 1)
      return;              // who holds it last does what follows
    if (!kept->artifact) { // the compile failed
      cache.slots.erase(entry);
      return;
    }
    kept->lastUse = ++cache.uses;
    if (!kept->bytes) {
      kept->bytes = sizeof(Artifact) + kept->artifact->bytes.size();
      cache.bytesInMemory += kept->bytes;
    }
    while (cache.bytesInMemory > cache.memoryLimit && cache.forgetOldest())
      ;
  }
  Slot *operator->() const { return slot.get(); }

private:
  CompileCache &cache;
  const std::string digest;
  std::shared_ptr<Slot> slot;
};

// With the mutex held.
bool CompileCache::forgetOldest() {
  auto oldest = slots.end();
  for (auto slot = slots.begin(); slot != slots.end(); ++slot)
    if (slot->second.use_count() == 1 && slot->second->bytes &&
        (oldest == slots.end() || slot->second->lastUse < oldest->second->lastUse))
      oldest = slot;
  if (oldest == slots.end())
    return false;
  bytesInMemory -= oldest->second->bytes;
  slots.erase(oldest);
  return true;
}

uint64_t CompileCache::memoryBytes() {
  std::lock_guard lock(mutex);
  return bytesInMemory;
}

std::shared_ptr<const Artifact> CompileCache::get(const CacheKey &key,
                                                  const std::function<Artifact()> &compile,
                                                  const Recipe &recipe) {
  const std::string text = key.text();
  const SlotLease slot(*this, digestOf(text));
  std::lock_guard lock(slot->mutex);
  if (slot->artifact) {
    ++memoryHits;
    return slot->artifact;
  }
  const std::string name = store ? hash(text) : "";
  const auto wanted = [&](std::string_view other) { return other == text; };
  if ((slot->artifact = load(name, wanted)))
    return slot->artifact;
  // Somebody else may be compiling it: look again once the lock is ours.
  DiskStore::Lock diskLock;
  if (store) {
    diskLock = store->lock(name, patience);
    if ((slot->artifact = load(name, wanted)))
      return slot->artifact;
  }
  const auto start = std::chrono::steady_clock::now();
  StoredKernel kernel{compile(), recipe.options, recipe.source};
  kernel.artifact.compileMilliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  ++compiles;
  if (store)
    write(EntryKind::Kernel, name, text, encode(kernel));
  slot->artifact = std::make_shared<const Artifact>(std::move(kernel.artifact));
  return slot->artifact;
}

CompileCache::Place CompileCache::find(EntryKind kind, const std::string &hash,
                                       const std::function<bool(std::string_view key)> &wanted) {
  Place free;
  std::string last; // that this version may write over
  for (unsigned i = 0; i < maxCollisions; ++i) {
    Place place{candidate(kind, hash, i), nullptr, {}};
    std::optional<std::string> bytes = store->read(place.name);
    if (bytes) {
      place.bytes = std::make_shared<const std::string>(std::move(*bytes));
      const std::optional<DecodedEntry> entry = decodeEntry(*place.bytes);
      if (entry && entry->kind == kind) {
        if (wanted(entry->key)) {
          place.content = entry->content;
          return place;
        }
        last = place.name;
        continue;
      }
      if (isOfAnotherVersion(*place.bytes))
        continue;
      setAside(place.name);
    }
    if (free.name.empty())
      free.name = place.name;
    if (!bytes)
      break;
  }
  if (free.name.empty())
    free.name = last;
  return free;
}

std::shared_ptr<const Artifact>
CompileCache::load(const std::string &hash,
                   const std::function<bool(std::string_view key)> &wanted) {
  if (!store)
    return nullptr;
  const Place place = find(EntryKind::Kernel, hash, wanted);
  if (!place.bytes)
    return nullptr;
  if (std::optional<StoredKernel> kernel = decodeKernel(place.content)) {
    ++diskHits;
    return std::make_shared<const Artifact>(std::move(kernel->artifact));
  }
  setAside(place.name);
  return nullptr;
}

void CompileCache::write(EntryKind kind, const std::string &hash, const std::string &key,
                         const std::string &content) {
  const Place place = find(kind, hash, [&](std::string_view other) { return other == key; });
  if (place.name.empty())
    return; // all places are another version's
  if (!store->write(place.name, encodeEntry(kind, key, content)))
    warnOnce("compiled kernels cannot be kept: " + store->problem());
}

std::optional<LaunchRecord> CompileCache::findLaunch(const std::string &launchKey) {
  if (!store)
    return std::nullopt;
  const Place place = find(EntryKind::Launch, hash(launchKey),
                           [&](std::string_view key) { return key == launchKey; });
  if (!place.bytes)
    return std::nullopt;
  std::optional<LaunchRecord> record = decodeLaunch(place.content);
  if (!record)
    setAside(place.name);
  return record;
}

std::shared_ptr<const Artifact> CompileCache::get(const LaunchRecord &launch) {
  return load(launch.entry,
              [&](std::string_view key) { return digestOf(key) == launch.keyDigest; });
}

void CompileCache::rememberLaunch(const std::string &launchKey, const CacheKey &key,
                                  const std::string &irHash) {
  if (!store)
    return;
  const std::string text = key.text();
  const LaunchRecord record{hash(text), digestOf(text), irHash};
  if (findLaunch(launchKey) != record)
    write(EntryKind::Launch, hash(launchKey), launchKey, encode(record));
}

std::optional<std::string>
CompileCache::machineCode(const std::string &key,
                          const std::function<std::optional<std::string>()> &make) {
  if (!store)
    return std::nullopt;
  const std::string name = hash(key);
  const auto find = [&]() -> std::optional<std::string> {
    const Place place =
        this->find(EntryKind::Machine, name, [&](std::string_view other) { return other == key; });
    return place.bytes ? std::optional<std::string>(place.content) : std::nullopt;
  };
  if (std::optional<std::string> code = find())
    return code;
  const DiskStore::Lock lock = store->lock(candidate(EntryKind::Machine, name, 0), patience);
  if (std::optional<std::string> code = find())
    return code;
  std::optional<std::string> code = make();
  if (code)
    write(EntryKind::Machine, name, key, *code);
  return code;
}

void CompileCache::setAside(const std::string &name) {
  store->setAside(name);
  warnOnce("a damaged entry of the compile cache was set aside, its kernel is compiled anew: " +
           store->folder() + "/" + name + ".bad");
}

void CompileCache::warnOnce(const std::string &text) {
  if (!warned.exchange(true))
    std::cerr << "sectile: warning: " << text << std::endl;
}

} // namespace sectile::runtime
