// The compile cache. On disk an entry is a file named by the hash of its key; it holds the key,
// which is compared, and the artifact, which has a checksum. Nothing in it depends on where the
// folder lies.
#include "runtime/CompileCache.h"
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <iostream>
#include <link.h>
#include <sectile/version.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile::runtime {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'c'};
constexpr std::chrono::seconds patience{60};

std::string hexadecimal(const unsigned char *bytes, size_t size) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

// The build ID the linker gave this very library: two builds of one version do not share entries.
std::string buildId() {
  std::string id;
  struct Search {
    std::string *id;
    uintptr_t inside;
  } search{&id, reinterpret_cast<uintptr_t>(&buildId)};
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *data) {
        auto *search = static_cast<Search *>(data);
        bool here = false;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto &part = object->dlpi_phdr[i];
          const uintptr_t start = object->dlpi_addr + part.p_vaddr;
          here |= part.p_type == PT_LOAD && search->inside >= start &&
                  search->inside < start + part.p_memsz;
        }
        for (int i = 0; here && i < object->dlpi_phnum; ++i) {
          const auto &part = object->dlpi_phdr[i];
          if (part.p_type != PT_NOTE)
            continue;
          const auto *note =
              reinterpret_cast<const unsigned char *>(object->dlpi_addr + part.p_vaddr);
          const auto *end = note + part.p_memsz;
          while (note + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) header;
            std::memcpy(&header, note, sizeof header);
            const auto *content = note + sizeof header + (header.n_namesz + 3u) / 4 * 4;
            if (header.n_type == NT_GNU_BUILD_ID && content + header.n_descsz <= end)
              *search->id = hexadecimal(content, header.n_descsz);
            note = content + (header.n_descsz + 3u) / 4 * 4;
          }
        }
        return static_cast<int>(here);
      },
      &search);
  return id;
}

const std::string &compilerVersion() {
  static const std::string version =
      std::string(sectile::version()) + " llvm " + llvm_version() + " build " + buildId();
  return version;
}

std::string hashOf(std::string_view key) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(key.data(), key.size()));
  return hexadecimal(canonical.digest, sizeof canonical.digest);
}

std::string makeEntry(const std::string &key, const Artifact &artifact) {
  const uint64_t keySize = key.size();
  std::string entry(magic, sizeof magic);
  entry.append(reinterpret_cast<const char *>(&keySize), sizeof keySize);
  return entry + key + serialize(artifact);
}

// The artifact of an entry, if the entry is whole and is of this key.
std::optional<Artifact> readEntry(std::string_view entry, std::string_view key) {
  uint64_t keySize = 0;
  constexpr size_t headerSize = sizeof magic + sizeof keySize;
  if (entry.size() < headerSize || std::memcmp(entry.data(), magic, sizeof magic) != 0)
    return std::nullopt;
  std::memcpy(&keySize, entry.data() + sizeof magic, sizeof keySize);
  entry.remove_prefix(headerSize);
  if (keySize != key.size() || entry.substr(0, key.size()) != key)
    return std::nullopt;
  return deserialize(entry.substr(key.size()));
}

} // namespace

std::string CacheKey::text() const {
  return "kernel " + kernel + "\ntarget " + target + "\noptions " + options + "\ncompiler " +
         compilerVersion() + "\n\n" + ir;
}

std::string CompileCache::defaultFolder() {
  if (const char *folder = std::getenv("SECTILE_CACHE_DIR"))
    return folder;
  if (const char *home = std::getenv("XDG_CACHE_HOME"); home && *home == '/')
    return std::string(home) + "/sectile";
  if (const char *home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/sectile";
  return "";
}

CompileCache &CompileCache::get() {
  static auto *cache = [] {
    const char *limit = std::getenv("SECTILE_CACHE_LIMIT");
    const uint64_t mebibytes = limit ? std::strtoull(limit, nullptr, 10) : 1024;
    return new CompileCache(defaultFolder(), mebibytes << 20);
  }();
  return *cache;
}

CompileCache::CompileCache(const std::string &folder, uint64_t maxBytes) {
  if (folder.empty())
    return;
  store = std::make_unique<DiskStore>(folder, maxBytes);
  if (!store->usable()) {
    warnOnce("the cache folder is not used: " + store->problem());
    store.reset();
  }
}

std::shared_ptr<const Artifact> CompileCache::get(const CacheKey &key,
                                                  const std::function<Artifact()> &compile) {
  const std::string text = key.text();
  std::shared_ptr<Slot> slot;
  {
    std::lock_guard lock(mutex);
    std::shared_ptr<Slot> &found = slots[text];
    if (!found)
      found = std::make_shared<Slot>();
    slot = found;
  }
  std::lock_guard lock(slot->mutex);
  if (slot->artifact) {
    ++memoryHits;
    return slot->artifact;
  }
  const std::string name = store ? hashOf(text) : "";
  if ((slot->artifact = load(name, text)))
    return slot->artifact;
  // Somebody else may be compiling it: look again once the lock is ours.
  DiskStore::Lock diskLock;
  if (store) {
    diskLock = store->lock(name, patience);
    if ((slot->artifact = load(name, text)))
      return slot->artifact;
  }
  auto artifact = std::make_shared<const Artifact>(compile());
  ++compiles;
  if (store && !store->write(name, makeEntry(text, *artifact)))
    warnOnce("compiled kernels cannot be kept: " + store->problem());
  slot->artifact = artifact;
  return artifact;
}

std::shared_ptr<const Artifact> CompileCache::load(const std::string &name,
                                                   const std::string &key) {
  if (!store)
    return nullptr;
  const std::optional<std::string> entry = store->read(name);
  if (!entry)
    return nullptr;
  if (std::optional<Artifact> artifact = readEntry(*entry, key)) {
    ++diskHits;
    return std::make_shared<const Artifact>(std::move(*artifact));
  }
  store->setAside(name);
  warnOnce("a damaged entry of the compile cache was set aside, its kernel is compiled anew: " +
           store->folder() + "/" + name + ".bad");
  return nullptr;
}

void CompileCache::warnOnce(const std::string &text) {
  if (!warned.exchange(true))
    std::cerr << "sectile: warning: " << text << std::endl;
}

} // namespace sectile::runtime
