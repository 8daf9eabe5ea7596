// Who hears the compiler's remarks: standard error where SECTILE_REMARKS asks for it, and callers.
#ifndef SECTILE_JIT_REMARKS_H
#define SECTILE_JIT_REMARKS_H

#include "runtime/Remark.h"
#include <span>
#include <string>
#include <vector>

namespace sectile::runtime {

/// Whether SECTILE_REMARKS asks for remarks on standard error.
bool printsRemarks();
/// Prints each to standard error, unless this process has printed the same text before.
void print(std::span<const Remark> remarks);

/// While it lives, what this thread emits adds its remarks to `remarks`.
class RecordRemarks {
public:
  explicit RecordRemarks(std::vector<Remark> &remarks);
  ~RecordRemarks();
  RecordRemarks(const RecordRemarks &) = delete;
  /// Where this thread's go; null: nobody records them.
  static std::vector<Remark> *current();

private:
  std::vector<Remark> *before;
};

} // namespace sectile::runtime

#endif
