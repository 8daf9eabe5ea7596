// XXH3.
#include "runtime/Checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t sectile::checksumOf(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}
