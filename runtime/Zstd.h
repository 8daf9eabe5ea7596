// Decompressing code of bundles, by the system's libzstd, which is opened when it is first needed.
#ifndef SECTILE_RUNTIME_ZSTD_H
#define SECTILE_RUNTIME_ZSTD_H

#include <string>
#include <string_view>

namespace sectile::runtime {

/// What a zstd frame holds: `size` bytes. Throws InputError, to follow a bundle's name, for a frame
/// that holds something else, and where there is no libzstd.
std::string decompressed(std::string_view frame, size_t size);

} // namespace sectile::runtime

#endif
