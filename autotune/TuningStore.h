// TuningStore: one SQLite database of measurements, in a file, in memory, or read from bytes.
#ifndef SECTILE_AUTOTUNE_TUNINGSTORE_H
#define SECTILE_AUTOTUNE_TUNINGSTORE_H

#include "autotune/Database.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::autotune {

/// What the functions of a store throw.
struct StoreError {
  enum Kind {
    Damaged, ///< not a database, not of measurements, or not whole
    Newer,   ///< written by a later version, which knows better
    Busy,    ///< others did not let go of it in time
    Logged,  ///< others use it with a log, which this process cannot share
    Other,   ///< of the system: no space, no permission
  } kind;
  std::string what;
};

class TuningStore {
public:
  static std::unique_ptr<TuningStore> inMemory();
  /// Opens a file that exists, and fills an empty one if it may. No part of its path may be a
  /// symbolic link. Where it is not `local`, processes of several machines may use it at once.
  static std::unique_ptr<TuningStore> inFile(const std::string &path, bool writable, bool local);
  /// Of a file's bytes, for reading.
  static std::unique_ptr<TuningStore> ofBytes(std::string bytes);
  ~TuningStore();

  /// All measurements of a problem, in no order. Damaged ones are not among them.
  std::vector<Measurement> lookup(const TuningKey &key);
  /// The problems that differ from this one only in their shapes.
  std::vector<TuningKey> siblings(const TuningKey &key);
  void record(const TuningKey &key, const Measurement &measurement);
  std::vector<Problem> problems(std::string_view kernel);
  size_t remove(const Database::Predicate &unwanted);
  std::vector<std::string> verify();
  /// What SQLite finds wrong with the file.
  std::vector<std::string> verifyStructure();
  /// In one transaction: takes in those that are not known, or were measured earlier.
  Database::Imported merge(const std::vector<Problem> &problems);

  std::string origin; ///< its file, for people

private:
  struct Connection;
  TuningStore();
  void open(const std::string &path, int flags);
  void chooseJournal(const std::string &path, bool local);
  void checkSchema(bool writable);
  void prepare();
  void put(const TuningKey &key, const Measurement &measurement);

  std::unique_ptr<Connection> connection;
  std::string numericsColumn; ///< of the measurements, or what stands for it in version 1
};

} // namespace sectile::autotune

#endif
