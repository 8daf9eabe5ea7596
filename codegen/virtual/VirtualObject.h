// A kernel compiled for the virtual GPU: a relocatable host object and what the machine must know
// beside it.
#pragma once
#include "codegen/virtual/MachineAbi.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::vgpu {

// One instruction the machine sees, and the user's source line it came from.
struct Site {
  SiteKind kind = SiteKind::GlobalLoad;
  uint32_t line = 0;
  uint32_t column = 0;
  std::string file; // empty where the module carries no location
  std::string name; // as in "load", "llvm.nvvm.shfl.sync.bfly.i32"
};

struct VirtualObject {
  std::string object;  // ELF
  std::string entry;   // symbol of: void entry(ThreadHeader *, void **args)
  std::string kernel;  // the kernel's own name, for messages
  std::string hostCpu; // what the object was compiled for
  uint32_t argumentCount = 0;
  uint32_t staticSharedBytes = 0; // shared variables of the module itself, before the dynamic part
  uint32_t stackBytes = 0;        // the largest stack frame
  uint32_t maxRegisters = 0;      // that the kernel states for each thread; 0: none
  std::vector<Site> sites;

  std::string serialize() const;
  // Nothing when the bytes are not a whole object of this version.
  static std::optional<VirtualObject> deserialize(std::string_view bytes);
};

} // namespace sectile::vgpu
