// The addresses that generated objects link against.
#pragma once
#include <cstddef>

namespace sectile::vgpu {

struct Symbol {
  const char *name;
  void *address;
};

struct SymbolTable {
  const Symbol *begin;
  size_t count;
};

SymbolTable machineSymbols(); // sectile_vg_*: memory, warps, barriers
SymbolTable hostSymbols();    // sectile_vg_* arithmetic, and conversions the host's compiler calls

} // namespace sectile::vgpu
