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

struct Artifact {
  std::string target;       ///< "sm_90a"
  std::string kind;         ///< "ptx", "cubin", "hsaco", or "virtual" for a vgpu::VirtualObject
  std::string entry;        ///< the kernel's symbol
  std::string bytes;        ///< the code, in the form that kind says
  unsigned threads = 0;     ///< of one block
  unsigned sharedBytes = 0; ///< of one block, given at the launch
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
