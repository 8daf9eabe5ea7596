// DebugSite: what one assertion or print of a kernel says, and of which types the values are that
// the device writes for it.
#ifndef SECTILE_RUNTIME_DEBUGSITE_H
#define SECTILE_RUNTIME_DEBUGSITE_H

#include <cstdint>
#include <string>
#include <vector>

namespace sectile {

/// A printed value: `type` as messages name it ("f16", "u8", "bool", "ptr"), no shape for a number.
struct DebugValue {
  std::string type;
  std::vector<int64_t> shape;

  friend bool operator==(const DebugValue &, const DebugValue &) = default;
};

struct DebugSite {
  bool isPrint = false;
  bool hex = false;
  std::string text; ///< the assertion's message, the print's prefix
  std::string file;
  unsigned line = 0;
  /// What is printed; of an assertion the condition.
  std::vector<DebugValue> values;

  friend bool operator==(const DebugSite &, const DebugSite &) = default;
};

} // namespace sectile

#endif
