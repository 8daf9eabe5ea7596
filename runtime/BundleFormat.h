// Bundles as bytes. All numbers are little-endian. A file is
//   a head of 64 bytes: "SECTILEB", the format, flags (0), the file's length, a checksum of what
//     follows it, the number of sections, the format of artifacts, the identity, the version
//     of Sectile that wrote it, zero;
//   a table of sections, each a kind, zero, and where its bytes begin and how many there are;
//   the sections. A reader skips those of kinds that it does not know.
// A code is its encoding, its bytes and, where these are compressed, how many they were. Kernels
// have a name and a signature. Variants have a kernel's number, the rest of the key, an artifact
// without its code, and the code's number. Choices are a kernel's name, a chip, the kind of a call,
// the bucket of its extents, and the configuration with its order of sums.
#ifndef SECTILE_RUNTIME_BUNDLEFORMAT_H
#define SECTILE_RUNTIME_BUNDLEFORMAT_H

#include "runtime/Artifact.h"
#include "runtime/ByteStream.h"
#include <bit>

namespace sectile::runtime::bundle {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::string_view magic = "SECTILEB";
inline constexpr uint32_t format = 2;
inline constexpr size_t headSize = 64, checkedFrom = 32, sectionSize = 24;
enum SectionKind : uint32_t { kernelsKind = 1, variantsKind, codesKind, aboutKind, choicesKind };
inline constexpr uint32_t debugFlag = 1, checkedFlag = 2;
inline constexpr uint32_t asIs = 0, zstdFrame = 1;        // how a code is kept
inline constexpr uint64_t mostOfCode = uint64_t(1) << 30; // bytes of one

/// Of the contents, a hash of 128 bits.
struct Identity {
  uint64_t words[2];
};

/// The format of serialize(), so that another is told from damage.
inline uint32_t artifactFormat() {
  const std::string bytes = serialize({});
  ByteReader in(std::string_view(bytes).substr(8));
  return in.number<uint32_t>();
}

} // namespace sectile::runtime::bundle

#endif
