// The schema and every SQL statement. A row of `measurement` carries a checksum of itself and of
// its problem: SQLite tells a broken structure, but not a flipped bit in a value.
#include "autotune/TuningStore.h"
#include "autotune/Statement.h"
#include <charconv>
#include <cstring>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile::autotune {
namespace {

constexpr int applicationId = 0x53637454; // "SctT"
constexpr int schemaVersion = 2;          ///< 1 knows no numerics
constexpr int patienceMilliseconds = 10000, takeOverMilliseconds = 1000;

constexpr char createSchema[] = R"(
  CREATE TABLE problem (
    id INTEGER PRIMARY KEY,
    kernel TEXT NOT NULL, code TEXT NOT NULL, device TEXT NOT NULL, dtypes TEXT NOT NULL,
    shape TEXT NOT NULL,
    UNIQUE (kernel, code, device, dtypes, shape)
  ) STRICT;
  CREATE TABLE measurement (
    problem INTEGER NOT NULL REFERENCES problem (id),
    config TEXT NOT NULL,
    verdict INTEGER NOT NULL, message TEXT NOT NULL,
    median_us REAL NOT NULL, spread_us REAL NOT NULL, runs INTEGER NOT NULL,
    compile_ms REAL NOT NULL,
    registers INTEGER NOT NULL, spill_bytes INTEGER NOT NULL, shared_bytes INTEGER NOT NULL,
    ir TEXT NOT NULL, compiler TEXT NOT NULL, driver TEXT NOT NULL,
    time INTEGER NOT NULL, checksum INTEGER NOT NULL,
    numerics TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (problem, config)
  ) STRICT, WITHOUT ROWID;
)";

#define MEASUREMENT_COLUMNS                                                                        \
  "config, verdict, message, median_us, spread_us, runs, compile_ms, registers, spill_bytes, "     \
  "shared_bytes, ir, compiler, driver, time, checksum, "
constexpr int measurementColumns = 16;

// "m=512,n=512"; what could be taken for punctuation in a name is written %XX.
std::string encode(const ShapeKey &shape) {
  static const char digits[] = "0123456789ABCDEF";
  std::string text;
  for (const auto &[extent, value] : shape) {
    text += text.empty() ? "" : ",";
    for (const char c : extent) {
      if (c == '%' || c == '=' || c == ',') {
        text += '%';
        text += digits[c >> 4];
        text += digits[c & 15];
      } else {
        text += c;
      }
    }
    text += "=" + std::to_string(value);
  }
  return text;
}

// Damaged text gives another shape than it was made of, which its checksum does not fit.
ShapeKey decode(std::string_view text) {
  ShapeKey shape;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t equals = std::min(one.find('='), one.size());
    std::string name;
    for (size_t i = 0; i < equals; ++i) {
      char c = one[i];
      if (c == '%' && i + 2 < equals) {
        std::from_chars(one.data() + i + 1, one.data() + i + 3, reinterpret_cast<signed char &>(c),
                        16);
        i += 2;
      }
      name += c;
    }
    int64_t value = 0;
    if (equals < one.size())
      std::from_chars(one.data() + equals + 1, one.data() + one.size(), value);
    shape.emplace_back(std::move(name), value);
  }
  return shape;
}

// Bytes that are the same for the same values only.
class Digest {
public:
  Digest &operator<<(std::string_view text) {
    *this << static_cast<int64_t>(text.size());
    bytes += text;
    return *this;
  }
  Digest &operator<<(int64_t number) { return add(number); }
  Digest &operator<<(double number) { return add(number); }
  int64_t get() const { return static_cast<int64_t>(XXH3_64bits(bytes.data(), bytes.size())); }

private:
  template <class T> Digest &add(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes.append(raw, sizeof raw);
    return *this;
  }
  std::string bytes;
};

int64_t checksum(const TuningKey &key, const Measurement &m) {
  Digest digest;
  digest << key.kernel << key.code << key.device << key.dtypes << encode(key.shape);
  digest << m.config << static_cast<int64_t>(m.verdict) << m.message << m.median << m.spread
         << int64_t{m.runs} << m.compileMilliseconds << int64_t{m.registers}
         << int64_t{m.spillBytes} << int64_t{m.sharedBytes} << m.irHash << m.toolchain.compiler
         << m.toolchain.driver << m.when;
  if (!m.numerics.empty()) // else as version 1 has it
    digest << m.numerics;
  return digest.get();
}

// The measurement in a row from this column on, if it is whole.
std::optional<Measurement> readMeasurement(const Statement::Rows &row, int column,
                                           const TuningKey &key) {
  Measurement m;
  m.config = row.text(column);
  const int64_t verdict = row.integer(column + 1);
  m.verdict = static_cast<Verdict>(verdict);
  m.message = row.text(column + 2);
  m.median = row.number(column + 3);
  m.spread = row.number(column + 4);
  m.runs = static_cast<unsigned>(row.integer(column + 5));
  m.compileMilliseconds = row.number(column + 6);
  m.registers = static_cast<unsigned>(row.integer(column + 7));
  m.spillBytes = static_cast<unsigned>(row.integer(column + 8));
  m.sharedBytes = static_cast<unsigned>(row.integer(column + 9));
  m.irHash = row.text(column + 10);
  m.toolchain = {row.text(column + 11), row.text(column + 12)};
  m.when = row.integer(column + 13);
  m.numerics = row.text(column + 15);
  if (verdict < 0 || verdict > static_cast<int64_t>(Verdict::Unfinished) ||
      row.integer(column + 14) != checksum(key, m))
    return std::nullopt;
  return m;
}

TuningKey readKey(const Statement::Rows &row, int column) {
  return {row.text(column), row.text(column + 1), row.text(column + 2), row.text(column + 3),
          decode(row.text(column + 4))};
}

} // namespace

void throwStoreError(sqlite3 *database, int code) {
  const std::string words = database ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  switch (code & 0xff) {
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT:
  case SQLITE_ERROR: // our statements are right, so the tables are not
  case SQLITE_CONSTRAINT:
  case SQLITE_MISMATCH:
    throw StoreError{StoreError::Damaged, words};
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    throw StoreError{StoreError::Busy, words};
  default:
    throw StoreError{StoreError::Other, words};
  }
}

struct TuningStore::Connection {
  ~Connection() { sqlite3_close_v2(database); } // frees it when the statements have gone, too

  void execute(const char *sql) {
    const int code = sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
      throwStoreError(database, code);
  }
  int64_t number(const char *sql) {
    Statement statement;
    statement.prepare(database, sql);
    Statement::Rows rows = statement.run();
    return rows.next() ? rows.integer(0) : 0;
  }

  sqlite3 *database = nullptr;
  std::string bytes; ///< that the database lies in, where it is of bytes
  Statement lookup, siblings, all, addProblem, findProblem, put, time, remove, removeEmpty;
};

namespace {

// Nothing of a transaction stays that does not come to its end.
class Transaction {
public:
  explicit Transaction(sqlite3 *database) : database(database) { execute("BEGIN IMMEDIATE"); }
  Transaction(const Transaction &) = delete;
  ~Transaction() {
    if (!sqlite3_get_autocommit(database))
      sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  void commit() { execute("COMMIT"); }

private:
  void execute(const char *sql) {
    const int code = sqlite3_exec(database, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK)
      throwStoreError(database, code);
  }
  sqlite3 *database;
};

} // namespace

TuningStore::TuningStore() : connection(std::make_unique<Connection>()) {}
TuningStore::~TuningStore() = default;

void TuningStore::open(const std::string &path, int flags) {
  const int code = sqlite3_open_v2(path.c_str(), &connection->database,
                                   flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  if (code != SQLITE_OK)
    throwStoreError(connection->database, code);
  sqlite3_busy_timeout(connection->database, patienceMilliseconds);
  sqlite3_db_config(connection->database, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(connection->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
}

std::unique_ptr<TuningStore> TuningStore::inMemory() {
  std::unique_ptr<TuningStore> store(new TuningStore);
  store->open(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  store->checkSchema(true);
  store->prepare();
  return store;
}

void TuningStore::chooseJournal(const std::string &path, bool local) {
  Connection &c = *connection;
  if (local) {
    // Where a file system has no shared memory it stays as it is, and works all the same.
    c.execute("PRAGMA journal_mode = WAL");
    // A commit survives the process; the machine's end may take the last ones, never the rest.
    c.execute("PRAGMA synchronous = NORMAL");
    return;
  }
  // The index of a log lies in shared memory, which other machines do not see. A file that was
  // written with a log is opened without that memory, by one process, and has none from then on.
  const StoreError logged{StoreError::Logged, "others use it with a log, which takes a local disk"};
  const bool isLogged = access((path + "-wal").c_str(), F_OK) == 0;
  if (isLogged)
    sqlite3_busy_timeout(c.database, takeOverMilliseconds);
  try {
    c.execute("PRAGMA locking_mode = EXCLUSIVE");
    Statement truncate;
    truncate.prepare(c.database, "PRAGMA journal_mode = TRUNCATE");
    Statement::Rows rows = truncate.run();
    if (!rows.next() || rows.text(0) != "truncate")
      throw logged;
    c.execute("PRAGMA locking_mode = NORMAL");
  } catch (const StoreError &error) {
    if (isLogged && error.kind == StoreError::Busy)
      throw logged;
    throw;
  }
  sqlite3_busy_timeout(c.database, patienceMilliseconds);
}

std::unique_ptr<TuningStore> TuningStore::inFile(const std::string &path, bool writable,
                                                 bool local) {
  std::unique_ptr<TuningStore> store(new TuningStore);
  store->open(path,
              (writable ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) | SQLITE_OPEN_NOFOLLOW);
  if (writable)
    store->chooseJournal(path, local);
  store->checkSchema(writable);
  store->prepare();
  return store;
}

std::unique_ptr<TuningStore> TuningStore::ofBytes(std::string bytes) {
  // Bytes 18 and 19 say that there is a log beside the file (2) or not (1); here there is none.
  if (bytes.size() < 512)
    throw StoreError{StoreError::Damaged, "file is not a database"};
  for (const size_t i : {18, 19})
    if (bytes[i] == 2)
      bytes[i] = 1;
  std::unique_ptr<TuningStore> store(new TuningStore);
  store->open(":memory:", SQLITE_OPEN_READWRITE);
  std::string &kept = store->connection->bytes = std::move(bytes);
  const int code = sqlite3_deserialize(
      store->connection->database, "main", reinterpret_cast<unsigned char *>(kept.data()),
      static_cast<sqlite3_int64>(kept.size()), static_cast<sqlite3_int64>(kept.size()),
      SQLITE_DESERIALIZE_READONLY);
  if (code != SQLITE_OK)
    throwStoreError(store->connection->database, code);
  store->checkSchema(false);
  store->prepare();
  return store;
}

void TuningStore::checkSchema(bool writable) {
  Connection &c = *connection;
  auto isEmpty = [&] {
    return c.number("PRAGMA application_id") == 0 &&
           c.number("SELECT count(*) FROM sqlite_schema") == 0;
  };
  if (writable && isEmpty()) {
    Transaction transaction(c.database);
    if (isEmpty()) { // still
      c.execute(createSchema);
      c.execute(("PRAGMA application_id = " + std::to_string(applicationId)).c_str());
      c.execute(("PRAGMA user_version = " + std::to_string(schemaVersion)).c_str());
    }
    transaction.commit();
  }
  if (c.number("PRAGMA application_id") != applicationId)
    throw StoreError{StoreError::Damaged, "it is not a database of measurements"};
  int64_t version = c.number("PRAGMA user_version");
  if (version == 1 && writable) {
    Transaction transaction(c.database);
    version = c.number("PRAGMA user_version");
    if (version == 1) { // still
      c.execute("ALTER TABLE measurement ADD COLUMN numerics TEXT NOT NULL DEFAULT ''");
      c.execute(("PRAGMA user_version = " + std::to_string(schemaVersion)).c_str());
      version = schemaVersion;
    }
    transaction.commit();
  }
  numericsColumn = version == 1 ? "''" : "numerics";
  if (version > schemaVersion)
    throw StoreError{StoreError::Newer, "it was written by a later version of Sectile"};
  if (version != schemaVersion && version != 1)
    throw StoreError{StoreError::Damaged, "it has no version"};
}

void TuningStore::prepare() {
  auto prepare = [&](Statement &statement, const std::string &sql) {
    statement.prepare(connection->database, sql.c_str());
  };
  const std::string columns = MEASUREMENT_COLUMNS + numericsColumn;
  prepare(connection->lookup,
          "SELECT " + columns +
              " FROM measurement WHERE problem = (SELECT id FROM problem WHERE "
              "kernel = ? AND code = ? AND device = ? AND dtypes = ? AND shape = ?)");
  prepare(connection->siblings, "SELECT kernel, code, device, dtypes, shape FROM problem "
                                "WHERE kernel = ? AND code = ? AND device = ? AND dtypes = ?");
  prepare(connection->all, "SELECT " + columns +
                               ", kernel, code, device, dtypes, shape, id "
                               "FROM problem JOIN measurement ON problem = id "
                               "ORDER BY kernel, device, dtypes, code, id, config");
  prepare(connection->addProblem, "INSERT OR IGNORE INTO problem (kernel, code, device, dtypes, "
                                  "shape) VALUES (?, ?, ?, ?, ?)");
  prepare(connection->findProblem, "SELECT id FROM problem WHERE kernel = ? AND code = ? AND "
                                   "device = ? AND dtypes = ? AND shape = ?");
  if (numericsColumn == "numerics") // else it is read only
    prepare(connection->put,
            "INSERT OR REPLACE INTO measurement (" + columns +
                ", problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  prepare(connection->time,
          "SELECT " + columns + " FROM measurement WHERE problem = ? AND config = ?");
  prepare(connection->remove, "DELETE FROM measurement WHERE problem = ? AND config = ?");
  prepare(connection->removeEmpty,
          "DELETE FROM problem WHERE id NOT IN (SELECT problem FROM measurement)");
}

std::vector<Measurement> TuningStore::lookup(const TuningKey &key) {
  std::vector<Measurement> found;
  const std::string shape = encode(key.shape);
  Statement::Rows rows =
      connection->lookup.run(key.kernel, key.code, key.device, key.dtypes, shape);
  while (rows.next())
    if (std::optional<Measurement> measurement = readMeasurement(rows, 0, key))
      found.push_back(std::move(*measurement));
  return found;
}

std::vector<TuningKey> TuningStore::siblings(const TuningKey &key) {
  std::vector<TuningKey> found;
  Statement::Rows rows = connection->siblings.run(key.kernel, key.code, key.device, key.dtypes);
  while (rows.next())
    found.push_back(readKey(rows, 0));
  return found;
}

static int64_t problemId(Statement &add, Statement &find, const TuningKey &key) {
  const std::string shape = encode(key.shape);
  add.execute(key.kernel, key.code, key.device, key.dtypes, shape);
  Statement::Rows rows = find.run(key.kernel, key.code, key.device, key.dtypes, shape);
  if (!rows.next())
    throw StoreError{StoreError::Damaged, "a problem cannot be found again"};
  return rows.integer(0);
}

void TuningStore::put(const TuningKey &key, const Measurement &m) {
  const int64_t id = problemId(connection->addProblem, connection->findProblem, key);
  connection->put.execute(m.config, static_cast<int64_t>(m.verdict), m.message, m.median, m.spread,
                          m.runs, m.compileMilliseconds, m.registers, m.spillBytes, m.sharedBytes,
                          m.irHash, m.toolchain.compiler, m.toolchain.driver, m.when,
                          checksum(key, m), m.numerics, id);
}

void TuningStore::record(const TuningKey &key, const Measurement &measurement) {
  Transaction transaction(connection->database);
  put(key, measurement);
  transaction.commit();
}

std::vector<Problem> TuningStore::problems(std::string_view kernel) {
  std::vector<Problem> found;
  int64_t last = -1;
  Statement::Rows rows = connection->all.run();
  while (rows.next()) {
    const TuningKey key = readKey(rows, measurementColumns);
    if (!kernel.empty() && key.kernel != kernel)
      continue;
    std::optional<Measurement> measurement = readMeasurement(rows, 0, key);
    if (!measurement)
      continue;
    const int64_t id = rows.integer(measurementColumns + 5);
    if (std::exchange(last, id) != id || found.empty())
      found.push_back({key, {}, origin});
    found.back().measurements.push_back(std::move(*measurement));
  }
  return found;
}

size_t TuningStore::remove(const Database::Predicate &unwanted) {
  Transaction transaction(connection->database);
  std::vector<std::pair<int64_t, std::string>> doomed;
  {
    Statement::Rows rows = connection->all.run();
    while (rows.next()) {
      const TuningKey key = readKey(rows, measurementColumns);
      const std::optional<Measurement> measurement = readMeasurement(rows, 0, key);
      if (!measurement || unwanted(key, *measurement))
        doomed.emplace_back(rows.integer(measurementColumns + 5), rows.text(0));
    }
  }
  for (const auto &[problem, config] : doomed)
    connection->remove.execute(problem, config);
  connection->removeEmpty.execute();
  transaction.commit();
  return doomed.size();
}

std::vector<std::string> TuningStore::verifyStructure() {
  std::vector<std::string> faults;
  Statement check;
  check.prepare(connection->database, "PRAGMA integrity_check");
  Statement::Rows rows = check.run();
  while (rows.next())
    if (const std::string line = rows.text(0); line != "ok")
      faults.push_back(line);
  return faults;
}

std::vector<std::string> TuningStore::verify() {
  std::vector<std::string> faults = verifyStructure();
  Statement::Rows rows = connection->all.run();
  while (rows.next()) {
    const TuningKey key = readKey(rows, measurementColumns);
    if (!readMeasurement(rows, 0, key))
      faults.push_back("damaged: " + key.kernel + " " + describe(key.shape) + ", " + rows.text(0));
  }
  return faults;
}

Database::Imported TuningStore::merge(const std::vector<Problem> &problems) {
  Database::Imported result;
  Transaction transaction(connection->database);
  for (const Problem &problem : problems) {
    const int64_t id = problemId(connection->addProblem, connection->findProblem, problem.key);
    for (const Measurement &measurement : problem.measurements) {
      std::optional<Measurement> known;
      {
        Statement::Rows rows = connection->time.run(id, measurement.config);
        if (rows.next())
          known = readMeasurement(rows, 0, problem.key);
      }
      if (known && known->when >= measurement.when) {
        ++result.kept;
        continue;
      }
      ++(known ? result.replaced : result.added);
      put(problem.key, measurement);
    }
  }
  transaction.commit();
  return result;
}

} // namespace sectile::autotune
