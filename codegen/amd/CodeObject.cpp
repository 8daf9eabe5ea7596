// Links AMDGPU code objects with lld as a library.
#include "codegen/amd/CodeObject.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

Expected<std::string> sectile::linkCodeObject(StringRef object) {
  SmallString<128> input, output;
  int fd = -1;
  if (auto error = sys::fs::createTemporaryFile("sectile", "o", fd, input))
    return createStringError(error, "cannot write a temporary file for lld");
  scope_exit removeFiles([&] {
    sys::fs::remove(input);
    if (!output.empty())
      sys::fs::remove(output);
  });
  raw_fd_ostream(fd, /*shouldClose=*/true) << object;
  if (auto error = sys::fs::createTemporaryFile("sectile", "hsaco", output))
    return createStringError(error, "cannot write a temporary file for lld");

  std::string errors;
  {
    // lld keeps its state in globals.
    static std::mutex oneAtATime;
    std::lock_guard lock(oneAtATime);
    raw_string_ostream out(errors);
    // A chip has no library that could define what is missing.
    const char *arguments[] = {"ld.lld",      "-shared", "--no-undefined", "--threads=1",
                               input.c_str(), "-o",      output.c_str()};
    lld::Result result = lld::lldMain(arguments, out, out, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0 || !result.canRunAgain)
      return createStringError("lld failed: " + errors);
  }
  auto bytes = MemoryBuffer::getFile(output, /*IsText=*/false);
  if (!bytes)
    return createStringError(bytes.getError(), "lld wrote no code object");
  return (*bytes)->getBuffer().str();
}
