// Which databases are asked and in what order, which files are trusted, and what happens when one
// is damaged. Every StoreError ends here.
#include "autotune/Database.h"
#include "autotune/Exchange.h"
#include "autotune/TuningStore.h"
#include "jit/CompileCache.h"
#include "jit/OwnFiles.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <map>
#include <pthread.h>
#include <unistd.h>

namespace sectile::autotune {
namespace {

constexpr char fileName[] = "tuning.sqlite";
constexpr const char *companions[] = {"-wal", "-shm", "-journal"};
constexpr std::chrono::seconds openPatience{10};

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    if (!part.empty())
      parts.emplace_back(part);
  }
  return parts;
}

// SQLite and JSON hold UTF-8: bytes that are not become U+FFFD, wherever a text comes in.
std::string utf8(const std::string &text) {
  return llvm::json::isUTF8(text) ? text : llvm::json::fixUTF8(text);
}

TuningKey utf8(const TuningKey &key) {
  TuningKey result{utf8(key.kernel), utf8(key.code), utf8(key.device), utf8(key.dtypes), {}};
  for (const auto &[name, extent] : key.shape)
    result.shape.emplace_back(utf8(name), extent);
  return result;
}

Measurement utf8(Measurement m) {
  for (std::string *text :
       {&m.config, &m.message, &m.irHash, &m.numerics, &m.toolchain.compiler, &m.toolchain.driver})
    *text = utf8(*text);
  return m;
}

std::optional<double> distance(const ShapeKey &a, const ShapeKey &b) {
  if (a.size() != b.size())
    return std::nullopt;
  double sum = 0;
  for (const auto &[name, extent] : a) {
    const auto other =
        std::find_if(b.begin(), b.end(), [&](const auto &item) { return item.first == name; });
    if (other == b.end())
      return std::nullopt;
    auto log = [](int64_t x) { return std::log2(static_cast<double>(std::max<int64_t>(x, 1))); };
    sum += std::abs(log(extent) - log(other->second));
  }
  return sum;
}

std::string bytesOf(int folder, const char *path, bool administratorsToo) {
  const runtime::Descriptor file(openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!file || fstat(file, &info) != 0)
    throw StoreError{StoreError::Other, std::strerror(errno)};
  if (administratorsToo && info.st_uid == 0)
    info.st_uid = geteuid();
  if (std::string why = runtime::reasonToReject(info, false); !why.empty())
    throw StoreError{StoreError::Other, why};
  if (std::optional<std::string> bytes = runtime::readAll(file))
    return std::move(*bytes);
  throw StoreError{StoreError::Other, std::strerror(errno)};
}

bool sameFile(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool sameContent(const struct stat &a, const struct stat &b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

} // namespace

// SQLite's connections and its knowledge of its own locks do not survive a fork: they are closed
// before one, and parent and child open the file again when they need it.
class ForkGuard {
public:
  static void add(Database *database) {
    std::lock_guard lock(mutex());
    static const int registered = pthread_atfork(before, after, after);
    (void)registered;
    databases().insert(database);
  }
  static void remove(Database *database) {
    std::lock_guard lock(mutex());
    databases().erase(database);
  }

private:
  static std::mutex &mutex() {
    static auto *mutex = new std::mutex;
    return *mutex;
  }
  static std::set<Database *> &databases() {
    static auto *databases = new std::set<Database *>;
    return *databases;
  }
  static void before() {
    mutex().lock();
    for (Database *database : databases()) {
      database->mutex.lock();
      database->disk.reset();
    }
  }
  static void after() {
    for (Database *database : databases())
      database->mutex.unlock();
    mutex().unlock();
  }
};

std::vector<std::string> Database::defaultLayers() {
  if (const char *paths = std::getenv("SECTILE_TUNING_PATH"))
    return split(paths);
  const char *folders = std::getenv("XDG_DATA_DIRS");
  std::vector<std::string> layers;
  for (const std::string &folder :
       split(folders && *folders ? folders : "/usr/local/share:/usr/share"))
    if (const std::string layer = folder + "/sectile/" + fileName;
        folder.front() == '/' && access(layer.c_str(), F_OK) == 0)
      layers.push_back(layer);
  return layers;
}

Database &Database::get() {
  static auto *database = [] {
    // Closed at the end, so that the file holds everything and needs no log beside it; the object
    // stays for whoever runs later still.
    std::atexit([] {
      std::lock_guard lock(get().mutex);
      get().disk.reset();
    });
    return new Database(runtime::CompileCache::defaultFolder(), defaultLayers());
  }();
  return *database;
}

Database::Database(const std::string &folder, std::vector<std::string> layers)
    : path(folder), layerPaths(std::move(layers)) {
  if (folder.empty())
    return;
  directory = runtime::openOwnFolder(folder, whyNot);
  if (directory < 0)
    warnOnce("measurements are not kept: " + whyNot);
  else
    ForkGuard::add(this);
}

Database::~Database() {
  if (directory < 0)
    return;
  ForkGuard::remove(this);
  disk.reset();
  close(directory);
}

void Database::warnOnce(const std::string &text) {
  if (warned.insert(text).second)
    std::cerr << "sectile: warning: " << text << std::endl;
}

std::string Database::file() const { return directory < 0 ? "" : path + "/" + fileName; }

std::string Database::problem() const {
  std::lock_guard lock(mutex);
  return whyNot;
}

// Opens what is there, with the lock of opening held; throws StoreError.
void Database::openFile(const std::string &folder) {
  const bool folderWritable = faccessat(directory, ".", W_OK, AT_EACCESS) == 0;
  const std::string whyNotWritable = folderWritable ? "" : std::strerror(errno);
  struct stat info;
  if (fstatat(directory, fileName, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    // Made here, since SQLite would let others read it. Only a new file may be opened and closed
    // beside SQLite: closing one that it has open would lose its locks.
    const int made =
        openat(directory, fileName, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (made < 0)
      throw StoreError{StoreError::Other, std::strerror(errno)};
    fstat(made, &info);
    close(made);
  }
  std::string fault = runtime::reasonToReject(info, false);
  bool logged = false;
  for (const char *companion : companions) {
    struct stat other;
    if (fstatat(directory, (std::string(fileName) + companion).c_str(), &other,
                AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    logged |= other.st_size > 0;
    if (fault.empty())
      fault = runtime::reasonToReject(other, false);
  }
  if (!fault.empty()) {
    unusable = true;
    throw StoreError{StoreError::Other, fault};
  }
  opened = info;
  writable = folderWritable && faccessat(directory, fileName, W_OK, AT_EACCESS) == 0;
  const bool local = runtime::isLocal(directory);
  if (writable) {
    disk = TuningStore::inFile(folder + "/" + fileName, true, local);
  } else {
    whyNot = path + ": " + (folderWritable ? std::strerror(errno) : whyNotWritable);
    if (logged && !local)
      throw StoreError{StoreError::Other, "it has a log, which only who may write can read here"};
    // SQLite reads the log that a killed process left, but needs a log; bytes alone need none.
    disk = logged ? TuningStore::inFile(folder + "/" + fileName, false, local)
                  : TuningStore::ofBytes(bytesOf(directory, fileName, false));
  }
  disk->origin = path + "/" + fileName;
}

// The user's file if it can be used, opened anew where somebody put another one in its place.
TuningStore *Database::openDisk() {
  if (directory < 0 || unusable)
    return nullptr;
  struct stat now;
  if (disk && fstatat(directory, fileName, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
      sameFile(now, opened) && (writable || sameContent(now, opened)))
    return disk.get();
  disk.reset();
  for (int attempt = 0; attempt < 2 && !disk && !unusable; ++attempt) {
    const Lease opening = leases.claim(directory, "open", openPatience);
    try {
      openFile(folderNow());
    } catch (const StoreError &error) {
      disk.reset();
      whyNot = path + "/" + fileName + ": " + error.what;
      if (error.kind == StoreError::Damaged && isDamaged(folderNow()))
        setAside(error.what);
      else if (error.kind == StoreError::Newer || error.kind == StoreError::Logged)
        unusable = true;
      if (unusable)
        warnOnce("the database of measurements is not used: " + whyNot);
    }
  }
  return disk.get();
}

// Where the folder lies now, links resolved: SQLite opens by name, and follows no link.
std::string Database::folderNow() const {
  char folder[PATH_MAX];
  const ssize_t length =
      readlink(("/proc/self/fd/" + std::to_string(directory)).c_str(), folder, sizeof folder);
  return length > 0 ? std::string(folder, static_cast<size_t>(length)) : path;
}

// Whether a new connection finds the file that was opened last damaged, too: one error alone is
// none of the file, as a stale page from a file server or a statement that two processes met at.
bool Database::isDamaged(const std::string &folder) {
  if (!writable)
    return true; // as far as can be told; it stays where it is
  const std::string file = folder + "/" + fileName;
  try {
    const auto again = TuningStore::inFile(file, true, runtime::isLocal(directory));
    return !again->verifyStructure().empty();
  } catch (const StoreError &error) {
    return error.kind == StoreError::Damaged;
  }
}

// Takes the file that was opened last out of the way, with the lock of opening held.
void Database::setAside(const std::string &why) {
  struct stat now;
  if (fstatat(directory, fileName, &now, AT_SYMLINK_NOFOLLOW) != 0 || !sameFile(now, opened))
    return; // another process did
  const std::string bad = std::string(fileName) + ".bad";
  for (const char *companion : {"", companions[0], companions[1], companions[2]})
    if (renameat(directory, (std::string(fileName) + companion).c_str(), directory,
                 (bad + companion).c_str()) != 0 &&
        errno != ENOENT) {
      unusable = true;
      whyNot = path + "/" + fileName + ": " + why;
      return;
    }
  damage = bad + ", set aside: " + why;
  warnOnce("a damaged database of measurements was set aside, configurations are measured anew: " +
           path + "/" + bad + ": " + why);
}

// Does it with the user's file, if there is one; once more where that turned out to be damaged or
// to lie elsewhere. False, and whyNot says why, where it could not be done.
template <class Work> bool Database::onDisk(bool writing, const Work &work) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    TuningStore *store = openDisk();
    if (!store || (writing && !writable))
      return false;
    try {
      work(*store);
      return true;
    } catch (const StoreError &error) {
      whyNot = path + "/" + fileName + ": " + error.what;
      if (error.kind == StoreError::Busy)
        return false;
      disk.reset();
      if (error.kind == StoreError::Damaged) {
        const Lease opening = leases.claim(directory, "open", openPatience);
        if (isDamaged(folderNow()))
          setAside(error.what);
      }
    }
  }
  return false;
}

void Database::loadLayers() {
  for (const std::string &layer : std::exchange(layerPaths, {})) {
    try {
      if (layer.front() != '/')
        throw StoreError{StoreError::Other, "it is not an absolute path"};
      std::string bytes = bytesOf(AT_FDCWD, layer.c_str(), true);
      std::unique_ptr<TuningStore> store;
      if (llvm::StringRef(layer).ends_with(".json")) {
        llvm::Expected<std::vector<Problem>> problems = fromJson(bytes);
        if (!problems)
          throw StoreError{StoreError::Damaged, llvm::toString(problems.takeError())};
        store = TuningStore::inMemory();
        store->merge(*problems);
      } else {
        store = TuningStore::ofBytes(std::move(bytes));
      }
      store->origin = layer;
      layers.push_back(std::move(store));
    } catch (const StoreError &error) {
      warnOnce("a database of measurements is not used: " + layer + ": " + error.what);
    }
  }
}

// What this process knows beside the file.
TuningStore &Database::own() {
  if (!memory)
    memory = TuningStore::inMemory();
  return *memory;
}

// Asks every database, the one that counts most first.
template <class Work> void Database::everywhere(const Work &work) {
  loadLayers();
  if (memory)
    work(*memory);
  onDisk(false, work);
  std::erase_if(layers, [&](const std::unique_ptr<TuningStore> &layer) {
    try {
      work(*layer);
      return false;
    } catch (const StoreError &error) {
      warnOnce("a database of measurements is not used: " + layer->origin + ": " + error.what);
      return true;
    }
  });
}

std::vector<Measurement> Database::merged(const TuningKey &key) {
  std::map<std::string, Measurement> byConfig;
  everywhere([&](TuningStore &store) {
    for (Measurement &measurement : store.lookup(key))
      byConfig.try_emplace(measurement.config, std::move(measurement));
  });
  std::vector<Measurement> measurements;
  measurements.reserve(byConfig.size());
  for (auto &[config, measurement] : byConfig)
    measurements.push_back(std::move(measurement));
  sortBestFirst(measurements);
  return measurements;
}

std::vector<Measurement> Database::lookup(const TuningKey &key) {
  std::lock_guard lock(mutex);
  return merged(utf8(key));
}

void Database::nearby(const TuningKey &wanted,
                      const std::function<bool(const Neighbour &)> &visit) {
  std::lock_guard lock(mutex);
  const TuningKey key = utf8(wanted);
  std::map<std::pair<double, ShapeKey>, TuningKey> byDistance;
  everywhere([&](TuningStore &store) {
    for (TuningKey &sibling : store.siblings(key))
      if (const std::optional<double> far = distance(key.shape, sibling.shape))
        byDistance.try_emplace({*far, sibling.shape}, sibling);
  });
  for (const auto &[place, sibling] : byDistance) {
    std::vector<Measurement> measurements = merged(sibling);
    if (!measurements.empty() && measurements.front().verdict == Verdict::Good &&
        !visit({sibling, place.first, std::move(measurements)}))
      return;
  }
}

std::optional<Database::Neighbour> Database::nearest(const TuningKey &key) {
  std::optional<Neighbour> first;
  nearby(key, [&](const Neighbour &neighbour) {
    first = neighbour;
    return false;
  });
  return first;
}

bool Database::record(const TuningKey &wanted, const Measurement &given) {
  std::lock_guard lock(mutex);
  const TuningKey key = utf8(wanted);
  const Measurement measurement = utf8(given);
  if (!std::isfinite(measurement.median) || !std::isfinite(measurement.spread) ||
      !std::isfinite(measurement.compileMilliseconds))
    return false;
  const bool kept = onDisk(true, [&](TuningStore &store) { store.record(key, measurement); });
  ++changes;
  if (!kept || memory)
    own().record(key, measurement);
  if (!kept && directory >= 0)
    warnOnce("measurements cannot be kept: " + whyNot);
  return kept;
}

uint64_t Database::generation() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds pause{1};
  const auto now = Clock::now().time_since_epoch();
  if (directory >= 0 && now.count() >= nextLook.load(std::memory_order_relaxed)) {
    std::unique_lock lock(looking, std::try_to_lock);
    if (lock) {
      std::vector<std::pair<uint64_t, int64_t>> files;
      for (const char *companion : {"", companions[0]}) {
        struct stat info{};
        if (fstatat(directory, (std::string(fileName) + companion).c_str(), &info,
                    AT_SYMLINK_NOFOLLOW) != 0)
          continue;
        files.emplace_back(info.st_ino, info.st_size);
        files.emplace_back(info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
      }
      if (files != seen) {
        seen = std::move(files);
        ++changes;
      }
      nextLook = (now + pause).count();
    }
  }
  return changes.load(std::memory_order_acquire);
}

Lease Database::claim(const TuningKey &wanted, std::chrono::milliseconds patience) {
  const TuningKey key = utf8(wanted);
  std::string name = "tune";
  for (const std::string &part : {key.kernel, key.code, key.device, key.dtypes})
    name += " " + std::to_string(part.size()) + " " + part;
  for (const auto &[extent, value] : key.shape)
    name += " " + std::to_string(extent.size()) + " " + extent + " " + std::to_string(value);
  return leases.claim(directory, name, patience);
}

std::vector<Problem> Database::problems(std::string_view kernel) {
  std::lock_guard lock(mutex);
  std::map<std::string, std::vector<Problem>> byOrigin; // a second attempt replaces the first
  std::vector<std::string> origins;
  everywhere([&](TuningStore &store) {
    std::vector<Problem> problems = store.problems(kernel);
    if (byOrigin.insert_or_assign(store.origin, std::move(problems)).second)
      origins.push_back(store.origin);
  });
  std::vector<Problem> all;
  for (const std::string &origin : origins)
    for (Problem &problem : byOrigin[origin]) {
      sortBestFirst(problem.measurements);
      all.push_back(std::move(problem));
    }
  return all;
}

size_t Database::remove(const Predicate &unwanted) {
  std::lock_guard lock(mutex);
  size_t removed = 0;
  if (memory)
    removed = memory->remove(unwanted);
  size_t onFile = 0;
  onDisk(true, [&](TuningStore &store) { onFile = store.remove(unwanted); });
  ++changes;
  return removed + onFile;
}

std::vector<std::string> Database::verify() {
  std::lock_guard lock(mutex);
  std::vector<std::string> faults;
  damage.clear();
  const bool looked = onDisk(false, [&](TuningStore &store) { faults = store.verify(); });
  if (!damage.empty())
    faults.push_back(damage);
  if (!looked && directory >= 0)
    faults.push_back(whyNot);
  return faults;
}

llvm::Expected<Database::Imported> Database::import(std::string_view json) {
  llvm::Expected<std::vector<Problem>> problems = fromJson(json);
  if (!problems)
    return problems.takeError();
  std::lock_guard lock(mutex);
  Imported result;
  ++changes;
  if (directory < 0)
    return own().merge(*problems);
  if (!onDisk(true, [&](TuningStore &store) { result = store.merge(*problems); }))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "measurements cannot be kept: " + whyNot);
  return result;
}

} // namespace sectile::autotune
