// A virtual object loaded into this process, ready to launch.
#pragma once
#include "vgpu/Memory.h"
#include "vgpu/VirtualObject.h"
#include <memory>

namespace sectile::vgpu {

// Code in the memory of this process, which goes when this does.
class LoadedCode {
public:
  virtual ~LoadedCode() = default;
  // Where a symbol that the code defines lies; null for one that it does not.
  virtual void *find(const std::string &symbol) = 0;
};

// Links a relocatable object against the machine's functions. Throws std::runtime_error.
using ObjectLinker = std::unique_ptr<LoadedCode> (*)(const VirtualObject &object);
// A program that compiles has one: only what was compiled here is relocatable.
void setObjectLinker(ObjectLinker linker);
// Opens a shared object, whose imports it fills. Throws std::runtime_error.
std::unique_ptr<LoadedCode> openSharedObject(const VirtualObject &object);

class Program {
public:
  // Creates no LLVM IR. Throws std::runtime_error.
  static std::unique_ptr<Program> load(VirtualObject object);
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
  Program() = default;
  VirtualObject object;
  Entry entryPoint = nullptr;
  std::vector<MemoryRange> globalRanges;
  std::unique_ptr<LoadedCode> code;
};

} // namespace sectile::vgpu
