// Finding the cache and its entries, and figures in words.
#include "tools/sectile/cache/Cache.h"
#include "autotune/Session.h"
#include "jit/CompileCache.h"
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <map>
#include <sectile/device.h>
#include <sectile/error.h>
#include <unistd.h>

namespace sectile::tool {

runtime::DiskStore &cacheFolder() {
  const std::string folder = runtime::CompileCache::defaultFolder();
  if (folder.empty())
    throw InputError("there is no cache folder: kernels and measurements are kept in memory only");
  static runtime::DiskStore store(folder, runtime::CompileCache::defaultLimit());
  if (!store.usable())
    throw InputError("the cache folder is not used: " + store.problem());
  return store;
}

runtime::DiskStore &writableCacheFolder() {
  runtime::DiskStore &store = cacheFolder();
  const std::string folder = runtime::CompileCache::defaultFolder();
  const std::string measurements = autotune::Database::get().file();
  for (const std::string &path : {folder, measurements})
    if (faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0 &&
        (path == folder || errno != ENOENT))
      throw InputError("'" + path +
                       "' cannot be written, and nothing was changed: " + std::strerror(errno));
  return store;
}

std::vector<runtime::ListedEntry> damagedMeasurements() {
  std::vector<runtime::ListedEntry> found;
  const std::filesystem::path file = autotune::Database::get().file();
  for (const char *ending : {".bad", ".bad-wal", ".bad-shm", ".bad-journal"}) {
    std::error_code missing;
    runtime::ListedEntry entry;
    entry.kind = runtime::ListedEntry::SetAside;
    entry.name = file.filename().string() + ending;
    entry.bytes = std::filesystem::file_size(file.string() + ending, missing);
    if (!missing)
      found.push_back(std::move(entry));
  }
  return found;
}

runtime::CachedKernel findEntry(std::string_view name) {
  runtime::DiskStore &store = cacheFolder();
  std::vector<std::string> found;
  for (const auto &entry : store.entries())
    if (runtime::namesKernel(entry.name) && entry.name.starts_with(name))
      found.push_back(entry.name);
  if (found.empty())
    throw InputError("the cache has no entry '" + std::string(name) +
                     "': `sectile cache list` shows what it has");
  if (found.size() > 1 && found.front() != name)
    throw InputError(std::to_string(found.size()) + " entries begin with '" + std::string(name) +
                     "': give more of the name");
  std::optional<runtime::CachedKernel> kernel = runtime::readCachedKernel(store, found.front());
  if (!kernel) {
    const std::optional<std::string> bytes = store.peek(found.front());
    throw InputError(
        "the entry '" + found.front() + "' is " +
        (bytes && runtime::isOfAnotherVersion(*bytes) ? "of another version" : "damaged"));
  }
  return std::move(*kernel);
}

// The drivers of the real devices here, by product.
static const std::map<std::string, std::string> &drivers() {
  static const auto *known = [] {
    auto *found = new std::map<std::string, std::string>;
    for (const Device &device : Device::all())
      if (const std::string driver = autotune::toolchainOf(device).driver; !driver.empty())
        found->emplace(device.description(), driver);
    return found;
  }();
  return *known;
}

bool isStale(const autotune::TuningKey &key, const autotune::Measurement &measurement) {
  autotune::Toolchain now{compilerVersion(), measurement.toolchain.driver};
  if (!now.driver.empty())
    if (const auto here = drivers().find(key.device); here != drivers().end())
      now.driver = here->second;
  return !autotune::staleness(measurement.toolchain, now).empty();
}

std::string timeText(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts;
  char text[32];
  if (!gmtime_r(&time, &parts) || !std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts))
    return std::to_string(seconds);
  return text;
}

std::string bytesText(uint64_t bytes) {
  if (bytes < 10240)
    return std::to_string(bytes) + " bytes";
  return bytes < 10240 * 1024 ? std::to_string(bytes >> 10) + " KiB"
                              : std::to_string(bytes >> 20) + " MiB";
}

std::string microseconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 100 ? "%.2f us" : "%.1f us", value);
  return text;
}

std::string configuration(const runtime::CacheKey &key) {
  return key.options.substr(0, key.options.find(" arguments"));
}

} // namespace sectile::tool
