// Runs NVIDIA's assembler and reads what it reports.
#include "codegen/nvidia/Ptxas.h"
#include "runtime/PtxForms.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <mutex>

using namespace llvm;

namespace sectile {

std::optional<std::string> findPtxas() {
  if (const char *path = std::getenv("SECTILE_PTXAS"))
    return *path ? std::optional<std::string>(path) : std::nullopt;
  if (auto path = sys::findProgramByName("ptxas"))
    return *path;
  if (sys::fs::can_execute("/usr/local/cuda/bin/ptxas"))
    return "/usr/local/cuda/bin/ptxas";
  return std::nullopt;
}

static std::optional<PtxasVersion> askForVersion(const std::string &program) {
  SmallString<128> said;
  if (sys::fs::createTemporaryFile("sectile", "version", said))
    return std::nullopt;
  scope_exit removeFile([&] { sys::fs::remove(said); });
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(said), StringRef("")};
  if (sys::ExecuteAndWait(program, {program, "--version"}, std::nullopt, redirects) != 0)
    return std::nullopt;
  auto text = MemoryBuffer::getFile(said);
  if (!text)
    return std::nullopt;
  // "Cuda compilation tools, release 13.0, V13.0.88", and "Build ..." in the next line.
  const StringRef all = (*text)->getBuffer();
  const auto [release, rest] = all.split("release ").second.split(", ");
  const auto [number, further] = rest.split('\n');
  const StringRef build = further.split("Build ").second.split('\n').first;
  if (release.empty() || number.empty())
    return std::nullopt;
  return PtxasVersion{release.str(), (number.trim() + " " + build.trim()).str()};
}

std::optional<PtxasVersion> ptxasVersion() {
  static std::mutex mutex;
  static StringMap<std::optional<PtxasVersion>> known;
  const std::optional<std::string> program = findPtxas();
  if (!program)
    return std::nullopt;
  std::lock_guard lock(mutex);
  const auto [entry, isNew] = known.try_emplace(*program);
  if (isNew)
    entry->second = askForVersion(*program);
  return entry->second;
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

Expected<PtxasResult> assemble(StringRef ptx, const Target &target, unsigned sharedBytes) {
  Expected<PtxasResult> best = runPtxas(ptx, target);
  if (!best)
    return best;
  const auto spilt = [](const PtxasResult &result) {
    return result.spillStoreBytes + result.spillLoadBytes;
  };
  for (const std::string &form : runtime::otherForms(ptx)) {
    if (!spilt(*best))
      break;
    // A form that the assembler refuses is none to take.
    Expected<PtxasResult> other = runPtxas(form, target);
    if (!other)
      consumeError(other.takeError());
    else if (spilt(*other) < spilt(*best))
      best = std::move(other);
  }
  if (!spilt(*best))
    if (const auto form = runtime::formForTwo(ptx, best->registers, sharedBytes, target)) {
      Expected<PtxasResult> two = runPtxas(*form, target);
      if (!two)
        consumeError(two.takeError());
      else if (two->spillStoreBytes <= runtime::mostSpiltForTwo)
        best = std::move(two);
    }
  return best;
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
