// A virtual object loaded into this process, ready to launch.
#pragma once
#include "codegen/virtual/VirtualObject.h"
#include "jit/virtual/Memory.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace sectile::vgpu {

class Program {
public:
  // Links the object against the machine's functions. Creates no LLVM IR.
  static llvm::Expected<std::unique_ptr<Program>> load(VirtualObject object);
  ~Program();

  using Entry = void (*)(ThreadHeader *, void **);
  Entry entry() const { return entryPoint; }
  const std::string &kernel() const { return object.kernel; }
  const std::vector<Site> &sites() const { return object.sites; }
  uint32_t argumentCount() const { return object.argumentCount; }
  uint32_t staticSharedBytes() const { return object.staticSharedBytes; }
  uint32_t stackBytes() const { return object.stackBytes; }
  uint32_t maxRegisters() const { return object.maxRegisters; }
  // The module's own variables, which the kernel may access.
  const std::vector<MemoryRange> &globals() const { return globalRanges; }

private:
  struct Linked;
  Program() = default;
  VirtualObject object;
  Entry entryPoint = nullptr;
  std::vector<MemoryRange> globalRanges;
  std::unique_ptr<Linked> linked;
};

} // namespace sectile::vgpu
