// Statement: an SQL statement prepared once, and the rows that a run of it gives.
#ifndef SECTILE_AUTOTUNE_STATEMENT_H
#define SECTILE_AUTOTUNE_STATEMENT_H

#include <cstdint>
#include <sqlite3.h>
#include <string>
#include <string_view>

namespace sectile::autotune {

/// Throws the StoreError that an error code of SQLite is.
[[noreturn]] void throwStoreError(sqlite3 *database, int code);

class Statement {
public:
  Statement() = default;
  Statement(const Statement &) = delete;
  ~Statement() { sqlite3_finalize(statement); }
  void prepare(sqlite3 *database, const char *sql) {
    const int code =
        sqlite3_prepare_v3(database, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK)
      throwStoreError(database, code);
  }

  /// A run of it; the statement is free again at its end.
  class Rows {
  public:
    explicit Rows(sqlite3_stmt *statement) : statement(statement) {}
    Rows(const Rows &) = delete;
    ~Rows() {
      sqlite3_reset(statement);
      sqlite3_clear_bindings(statement);
    }
    /// Goes to the next row, if there is one.
    bool next() {
      const int code = sqlite3_step(statement);
      if (code != SQLITE_ROW && code != SQLITE_DONE)
        throwStoreError(sqlite3_db_handle(statement), code);
      return code == SQLITE_ROW;
    }
    std::string text(int column) const {
      const auto *bytes = reinterpret_cast<const char *>(sqlite3_column_text(statement, column));
      return bytes
                 ? std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement, column)))
                 : std::string();
    }
    int64_t integer(int column) const { return sqlite3_column_int64(statement, column); }
    double number(int column) const { return sqlite3_column_double(statement, column); }

  private:
    sqlite3_stmt *statement;
  };

  /// Starts a run with these parameters, which must outlive it.
  template <class... Values> Rows run(const Values &...values) {
    int index = 0;
    (bind(++index, values), ...);
    return Rows(statement);
  }
  /// A run of which no rows are wanted.
  template <class... Values> void execute(const Values &...values) {
    Rows rows = run(values...);
    while (rows.next()) {
    }
  }

private:
  void bind(int index, std::string_view text) {
    sqlite3_bind_text64(statement, index, text.data() ? text.data() : "", text.size(),
                        SQLITE_STATIC, SQLITE_UTF8);
  }
  void bind(int index, double number) { sqlite3_bind_double(statement, index, number); }
  void bind(int index, int64_t number) { sqlite3_bind_int64(statement, index, number); }
  void bind(int index, unsigned number) { sqlite3_bind_int64(statement, index, number); }

  sqlite3_stmt *statement = nullptr;
};

} // namespace sectile::autotune

#endif
