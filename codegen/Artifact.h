// Artifact: one compiled kernel for one target, as code generation hands it on, the cache keeps it
// and a device loads it.
#ifndef SECTILE_CODEGEN_ARTIFACT_H
#define SECTILE_CODEGEN_ARTIFACT_H

#include "codegen/DebugSite.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sectile {

/// What the code takes of a chip, as far as it is known before a driver has compiled it: of PTX
/// next to nothing.
struct Resources {
  unsigned registers = 0;         ///< of one thread; 0 where nobody knows
  unsigned spillBytes = 0;        ///< of one thread
  unsigned staticSharedBytes = 0; ///< of one block, beside what is given at the launch

  friend bool operator==(const Resources &, const Resources &) = default;
};

struct Artifact {
  std::string target;       ///< "sm_90a"
  std::string kind;         ///< "ptx", "cubin", "hsaco", or "virtual" for a vgpu::VirtualObject
  std::string entry;        ///< the kernel's symbol
  std::string bytes;        ///< the code, in the form that kind says
  unsigned threads = 0;     ///< of one block
  unsigned sharedBytes = 0; ///< of one block, given at the launch
  Resources resources;
  std::string irHash;             ///< of the IR it was compiled from, without source locations
  double compileMilliseconds = 0; ///< that the compile took
  /// Where it asserts or prints: it then takes the debug log's address and a number for the launch
  /// as two more arguments.
  std::vector<DebugSite> debugSites;
};

/// The artifact as bytes: a magic number, the format's version, a checksum, and the fields.
std::string serialize(const Artifact &artifact);

/// The artifact that these bytes hold, or nothing when they are not what serialize() wrote.
std::optional<Artifact> deserialize(std::string_view bytes);

} // namespace sectile

#endif
