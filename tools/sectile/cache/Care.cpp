// `sectile cache verify`, `prune` and `clear`: what is damaged, what can go, what shall go.
#include "jit/CompileCache.h"
#include "tools/sectile/cache/Cache.h"
#include <iostream>
#include <sectile/error.h>
#include <unistd.h>

using namespace sectile;
using namespace sectile::tool;
using autotune::Database;
using runtime::ListedEntry;

namespace {

// What --kernels and --measurements leave in; both without either.
struct Parts {
  explicit Parts(const CommandLine &line)
      : kernels(!line.has("--measurements") || line.has("--kernels")),
        measurements(!line.has("--kernels") || line.has("--measurements")) {}
  bool kernels, measurements;
};

// Asks before anything goes that takes hours to measure again. Throws InputError for an answer
// other than yes.
void confirm(const CommandLine &line, const Parts &parts, const std::string &kernel,
             const std::string &folder) {
  if (line.has("--yes"))
    return;
  if (!::isatty(STDIN_FILENO) || !::isatty(STDERR_FILENO))
    throw InputError("cache clear removes what cannot be had back; without a terminal to ask at, "
                     "give --yes");
  std::cerr << "Remove all " << (parts.kernels ? "compiled kernels" : "")
            << (parts.kernels && parts.measurements ? " and " : "")
            << (parts.measurements ? "measurements" : "") << (kernel.empty() ? "" : " of " + kernel)
            << " in " << folder << "? [y/N] ";
  std::string answer;
  std::getline(std::cin, answer);
  if (answer != "y" && answer != "Y" && answer != "yes")
    throw InputError("nothing was removed");
}

int report(const CommandLine &line, size_t files, uint64_t bytes, size_t measurements) {
  if (line.has("--json"))
    printJson(
        llvm::json::Object{{"files", files}, {"bytes", bytes}, {"measurements", measurements}});
  else
    std::cout << "removed " << files << " files (" << bytesText(bytes) << ") and " << measurements
              << " measurements\n";
  return 0;
}

} // namespace

int sectile::tool::runCacheVerify(const CommandLine &line) {
  runtime::DiskStore &store = cacheFolder();
  std::vector<std::string> faults, unknown;
  size_t kernels = 0;
  for (const ListedEntry &entry : runtime::listCache(store)) {
    if (entry.kind == ListedEntry::Damaged)
      faults.push_back(entry.name + ": it is damaged");
    if (entry.kind != ListedEntry::Kernel)
      continue;
    ++kernels;
    if (!line.has("--recompile"))
      continue;
    const std::optional<runtime::CachedKernel> kernel = readCachedKernel(store, entry.name);
    if (!kernel)
      continue; // another process removed it
    const runtime::Verification result = runtime::verify(*kernel);
    if (result.verdict != runtime::Verification::Same)
      (result.verdict == runtime::Verification::Differs ? faults : unknown)
          .push_back(entry.name + ": " + result.message);
  }
  for (const std::string &fault : Database::get().verify())
    faults.push_back("measurements: " + fault);
  if (line.has("--json")) {
    printJson(llvm::json::Object{{"kernels", kernels},
                                 {"faults", llvm::json::Array(faults)},
                                 {"unknown", llvm::json::Array(unknown)}});
  } else {
    for (const std::string &fault : faults)
      std::cout << fault << "\n";
    for (const std::string &one : unknown)
      std::cout << one << "\n";
    std::cout << kernels << " kernels"
              << (line.has("--recompile") ? " compiled anew" : ", checksums and keys") << ": "
              << (faults.empty() ? "all is well" : std::to_string(faults.size()) + " faults")
              << (unknown.empty() ? "" : ", " + std::to_string(unknown.size()) + " not known")
              << "\n";
  }
  return faults.empty() ? 0 : 1;
}

int sectile::tool::runCachePrune(const CommandLine &line) {
  runtime::DiskStore &store = writableCacheFolder();
  const std::optional<long> limit = line.number("--limit", 0);
  const std::optional<long> days = line.number("--unused", 0);
  const int64_t oldest =
      days ? store.now().value_or(0) - std::chrono::nanoseconds(std::chrono::days(*days)).count()
           : 0;
  const auto before = store.entries();
  for (const ListedEntry &entry : runtime::listCache(store))
    if (entry.kind == ListedEntry::Damaged || entry.kind == ListedEntry::SetAside ||
        (entry.kind != ListedEntry::Unfinished && entry.lastUsed < oldest))
      store.remove(entry.name);
  store.prune(limit ? static_cast<uint64_t>(*limit) << 20 : runtime::CompileCache::defaultLimit());
  uint64_t bytes = 0;
  const auto after = store.entries();
  for (const auto &entry : before)
    bytes += entry.bytes;
  for (const auto &entry : after)
    bytes -= std::min(bytes, entry.bytes);
  size_t files = before.size() - std::min(before.size(), after.size());
  for (const ListedEntry &entry : damagedMeasurements()) {
    store.remove(entry.name);
    ++files;
    bytes += entry.bytes;
  }
  const bool stale = line.has("--stale");
  const size_t measurements =
      Database::get().remove([&](const autotune::TuningKey &key, const autotune::Measurement &m) {
        return stale && isStale(key, m);
      });
  return report(line, files, bytes, measurements);
}

int sectile::tool::runCacheClear(const CommandLine &line) {
  runtime::DiskStore &store = writableCacheFolder();
  const Parts parts(line);
  const std::string wanted = line.argument(0).value_or("");
  confirm(line, parts, wanted, store.folder());
  size_t files = 0, measurements = 0;
  uint64_t bytes = 0;
  if (parts.kernels)
    for (const ListedEntry &entry : runtime::listCache(store)) {
      const bool ofAll = entry.kind != ListedEntry::Unfinished; // somebody is writing that
      if (wanted.empty() ? ofAll : entry.parts.kernel == wanted) {
        store.remove(entry.name);
        ++files;
        bytes += entry.bytes;
      }
    }
  if (parts.measurements && wanted.empty())
    for (const ListedEntry &entry : damagedMeasurements()) {
      store.remove(entry.name);
      ++files;
      bytes += entry.bytes;
    }
  if (parts.measurements)
    measurements =
        Database::get().remove([&](const autotune::TuningKey &key, const autotune::Measurement &) {
          return wanted.empty() || key.kernel == wanted;
        });
  return report(line, files, bytes, measurements);
}
