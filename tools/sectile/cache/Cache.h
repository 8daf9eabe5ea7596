// The commands `sectile cache WORD`, and what they share.
#pragma once
#include "autotune/Database.h"
#include "jit/CacheInspection.h"
#include "tools/sectile/CommandLine.h"
#include "tools/sectile/Json.h"

namespace sectile::tool {

int runCacheList(const CommandLine &line);
int runCacheShow(const CommandLine &line);
int runCacheBest(const CommandLine &line);
int runCacheWhy(const CommandLine &line);
int runCacheVerify(const CommandLine &line);
int runCachePrune(const CommandLine &line);
int runCacheClear(const CommandLine &line);
int runCacheExport(const CommandLine &line);
int runCacheImport(const CommandLine &line);

// The folder of the compile cache. Throws InputError where there is none or it cannot be used.
runtime::DiskStore &cacheFolder();
/// The same; throws where it, or the measurements in it, cannot be written.
runtime::DiskStore &writableCacheFolder();
/// What the folder has beside measurements that are used: databases that were found damaged.
std::vector<runtime::ListedEntry> damagedMeasurements();

// The entry that is named so, or whose name alone begins so. Throws InputError.
runtime::CachedKernel findEntry(std::string_view name);

// Whether it was made with another compiler, or another driver than the device's; one of a device
// that is not here goes by the compiler alone.
bool isStale(const autotune::TuningKey &key, const autotune::Measurement &measurement);

std::string timeText(int64_t seconds); // "2026-03-01 17:05:09", UTC
std::string bytesText(uint64_t bytes); // "17 KiB"
std::string microseconds(double value);
// The options of a key without how its arguments were specialised.
std::string configuration(const runtime::CacheKey &key);

} // namespace sectile::tool
