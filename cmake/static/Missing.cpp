// Two functions that LLVM's archives refer to, for the library that has LLVM inside and runs on
// glibc 2.34.
#include "llvm/Passes/PassBuilder.h"
#include <cstdint>
#include <cstdlib>
#if __has_include("llvm/Plugins/PassPlugin.h")
#include "llvm/Plugins/PassPlugin.h"
#else
#include "llvm/Passes/PassPlugin.h"
#endif
#include <sys/random.h>

// glibc has it from 2.36 on.
extern "C" std::uint32_t arc4random() {
  std::uint32_t number;
  // So few bytes come whole, or not at all.
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    std::abort();
  return number;
}

// Debian's LLVM offers Polly's passes to optimisation at link time, which code objects do not have.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "0", [](llvm::PassBuilder &) {}};
}
