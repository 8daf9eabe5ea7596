// Runs NVIDIA's assembler and reads what it reports.
#include "codegen/nvidia/Ptxas.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>

using namespace llvm;

namespace sectile {

std::optional<std::string> findPtxas() {
  if (const char *path = std::getenv("SECTILE_PTXAS"))
    return path;
  if (auto path = sys::findProgramByName("ptxas"))
    return *path;
  if (sys::fs::can_execute("/usr/local/cuda/bin/ptxas"))
    return "/usr/local/cuda/bin/ptxas";
  return std::nullopt;
}

/// The number before or after a phrase of ptxas's report.
static unsigned numberBefore(StringRef text, StringRef phrase) {
  size_t at = text.find(phrase);
  if (at == StringRef::npos)
    return 0;
  StringRef before = text.take_front(at).rtrim();
  size_t start = before.find_last_not_of("0123456789");
  unsigned number = 0;
  before.substr(start == StringRef::npos ? 0 : start + 1).getAsInteger(10, number);
  return number;
}

Expected<PtxasResult> runPtxas(StringRef ptx, const Target &target) {
  std::optional<std::string> program = findPtxas();
  if (!program)
    return createStringError("ptxas was not found: set SECTILE_PTXAS or put it on the PATH");

  SmallString<128> input, output, log;
  int inputFd = -1;
  if (std::error_code error = sys::fs::createTemporaryFile("sectile", "ptx", inputFd, input))
    return createStringError(error, "cannot write a temporary file for ptxas");
  scope_exit removeFiles([&] {
    for (StringRef path : {input.str(), output.str(), log.str()})
      if (!path.empty())
        sys::fs::remove(path);
  });
  raw_fd_ostream(inputFd, /*shouldClose=*/true) << ptx;
  if (auto error = sys::fs::createTemporaryFile("sectile", "cubin", output))
    return createStringError(error, "cannot write a temporary file for ptxas");
  if (auto error = sys::fs::createTemporaryFile("sectile", "log", log))
    return createStringError(error, "cannot write a temporary file for ptxas");

  StringRef arguments[] = {*program, "-v", "-lineinfo", "-arch", target.cpu, input, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log), StringRef(log)};
  std::string why;
  int status = sys::ExecuteAndWait(*program, arguments, std::nullopt, redirects, 0, 0, &why);

  PtxasResult result;
  if (auto text = MemoryBuffer::getFile(log))
    result.log = (*text)->getBuffer().str();
  if (status != 0)
    return createStringError("ptxas failed: " + (why.empty() ? result.log : why));
  auto cubin = MemoryBuffer::getFile(output, /*IsText=*/false);
  if (!cubin)
    return createStringError(cubin.getError(), "ptxas wrote no cubin");
  result.cubin = (*cubin)->getBuffer().str();

  StringRef text = result.log;
  if (size_t at = text.find("Used "); at != StringRef::npos)
    result.registers = numberBefore(text.substr(at), " registers");
  result.spillStoreBytes = numberBefore(text, " bytes spill stores");
  result.spillLoadBytes = numberBefore(text, " bytes spill loads");
  result.sharedBytes = numberBefore(text, " bytes smem");
  result.serializedWgmma = text.contains("wgmma.mma_async instructions are serialized");
  return result;
}

} // namespace sectile
