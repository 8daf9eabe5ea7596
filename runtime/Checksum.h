// The checksum of what lies on disks.
#ifndef SECTILE_RUNTIME_CHECKSUM_H
#define SECTILE_RUNTIME_CHECKSUM_H

#include <cstdint>
#include <string_view>

namespace sectile {

/// XXH3, 64 bits. The library is made of inline functions of many kilobytes: one copy is enough.
uint64_t checksumOf(std::string_view bytes);

} // namespace sectile

#endif
