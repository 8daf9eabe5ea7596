// A kernel compiled for the virtual GPU: a host object, relocatable where it was compiled for this
// process and shared where a bundle has it, and what the machine must know beside it.
#pragma once
#include "vgpu/MachineAbi.h"
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

// What an object defines besides its entry: its variables, {address, size} each and a zero pair
// last.
inline constexpr std::string_view globalsSymbol = "sectile_globals";
// A shared object calls functions of the machine and of the C library through slots, which the one
// who opens it fills: so it needs no library, and goes with either of those that have the machine.
struct Import {
  const char *name; // null in the last one
  void **slot;
};
inline constexpr std::string_view importsSymbol = "sectile_imports";

// The processor that shared objects are compiled for, as LLVM calls it, and as their `hostCpu`,
// with the version of the machine's ABI.
#if defined(__x86_64__)
inline constexpr char portableCpu[] = "x86-64-v3";
#else
inline constexpr char portableCpu[] = "generic";
#endif
std::string portableHost();
// Whether this machine has such a processor.
bool runsPortableCode();

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

  bool isShared() const;
  std::string serialize() const;
  // Nothing when the bytes are not a whole object of this version.
  static std::optional<VirtualObject> deserialize(std::string_view bytes);
};

} // namespace sectile::vgpu
