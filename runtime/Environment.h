// Switches that come from environment variables.
#ifndef SECTILE_RUNTIME_ENVIRONMENT_H
#define SECTILE_RUNTIME_ENVIRONMENT_H

#include <cstdlib>
#include <cstring>

namespace sectile::runtime {

/// A variable that is 0 or 1.
inline bool isSet(const char *variable, bool otherwise) {
  const char *value = std::getenv(variable);
  return value && *value ? std::strcmp(value, "0") != 0 : otherwise;
}

} // namespace sectile::runtime

#endif
