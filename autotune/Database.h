// Database: what was measured, kept for every process of the user in one SQLite file, over
// read-only databases that came with the system or a program. Like the compile cache, it is an aid:
// whatever goes wrong is a miss, and nothing here throws.
#ifndef SECTILE_AUTOTUNE_DATABASE_H
#define SECTILE_AUTOTUNE_DATABASE_H

#include "autotune/Lease.h"
#include "autotune/Records.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <vector>

namespace sectile::autotune {

class TuningStore;

/// A problem with what was measured of it, best first.
struct Problem {
  TuningKey key;
  std::vector<Measurement> measurements;
  std::string origin; ///< the database file it is from; empty for this process's memory
};

class Database {
public:
  /// The process's: in the compile cache's folder, over defaultLayers().
  static Database &get();
  /// The files of SECTILE_TUNING_PATH (separated by colons), else sectile/tuning.sqlite in the
  /// folders of XDG_DATA_DIRS where there is one.
  static std::vector<std::string> defaultLayers();

  /// `folder` empty: memory only. Layers are .sqlite or .json files, the first counts most; they
  /// are read when they are first needed.
  explicit Database(const std::string &folder, std::vector<std::string> layers = {});
  Database(const Database &) = delete;
  ~Database();

  /// All that is known of a problem: good measurements first, by their medians. Where several
  /// databases know a configuration, the user's own counts, then the layers' in order.
  std::vector<Measurement> lookup(const TuningKey &key);

  struct Neighbour {
    TuningKey key;
    double distance; ///< sum over the extents of |log2 of their ratio|
    std::vector<Measurement> measurements;
  };
  /// Visits the problems of the same kernel, code, device and dtypes, with the same extents by
  /// name, of which a good measurement is known: the nearest first, until `visit` says false. It
  /// must not use the database.
  void nearby(const TuningKey &key, const std::function<bool(const Neighbour &)> &visit);
  /// The nearest of these.
  std::optional<Neighbour> nearest(const TuningKey &key);

  /// Keeps a measurement, in place of an earlier one of the same configuration. False where it
  /// could not be kept for other processes: then this one knows it. Numbers must be finite.
  bool record(const TuningKey &key, const Measurement &measurement);

  /// The right to tune a problem, which one process (and one thread of it) has at a time. Waits for
  /// the one that has it, but no longer than `patience`. Who got it after waiting should look up
  /// again before tuning. It ends with the lease or with its process, however that dies.
  Lease claim(const TuningKey &key, std::chrono::milliseconds patience);

  /// Another number where more may be known than before, by whatever process. Others' files are
  /// looked at once in a second, so that every launch can ask.
  uint64_t generation();

  /// Everything, database by database; of one kernel where it is named.
  std::vector<Problem> problems(std::string_view kernel = {});
  using Predicate = std::function<bool(const TuningKey &, const Measurement &)>;
  /// Removes from the user's own database what `unwanted` says, and what is damaged. How many
  /// measurements went.
  size_t remove(const Predicate &unwanted);
  /// Measurements of the user's own database that are damaged, and what SQLite finds wrong with the
  /// file, in words (nothing where all is well). A file that cannot be read as a database is set
  /// aside, as always, and that is said as well.
  std::vector<std::string> verify();

  struct Imported {
    size_t added = 0, replaced = 0, kept = 0; ///< kept: the one here was measured later
  };
  /// Takes in what toJson() wrote: everything, or nothing where a word of it is wrong.
  llvm::Expected<Imported> import(std::string_view json);

  /// The user's own file; empty where memory serves.
  std::string file() const;
  /// Why the user's own file is not used, or could not be written; empty when all is well.
  std::string problem() const;

private:
  friend class ForkGuard;
  template <class Work> bool onDisk(bool writing, const Work &work);
  template <class Work> void everywhere(const Work &work);
  TuningStore *openDisk();
  void openFile(const std::string &folder);
  bool isDamaged(const std::string &folder);
  std::string folderNow() const;
  void setAside(const std::string &why);
  void closeDisk();
  void loadLayers();
  TuningStore &own();
  std::vector<Measurement> merged(const TuningKey &key);
  void warnOnce(const std::string &text);

  std::string path;         ///< the folder
  int directory = -1;       ///< -1: memory only
  LeaseTable leases;        ///< has a lock of its own
  mutable std::mutex mutex; ///< guards everything below
  std::string whyNot;
  std::string damage;                  ///< of the file that was set aside last
  bool unusable = false;               ///< the file, for good
  std::unique_ptr<TuningStore> disk;   ///< the user's file
  bool writable = false;               ///< disk is
  struct stat opened{};                ///< the file behind disk
  std::unique_ptr<TuningStore> memory; ///< instead of a file, and for what it could not take
  std::vector<std::string> layerPaths; ///< not yet read
  std::vector<std::unique_ptr<TuningStore>> layers;
  std::set<std::string> warned;

  std::atomic<uint64_t> changes = 0;
  std::atomic<std::chrono::steady_clock::rep> nextLook = 0;
  std::mutex looking; ///< guards what follows
  std::vector<std::pair<uint64_t, int64_t>> seen;
};

} // namespace sectile::autotune

#endif
