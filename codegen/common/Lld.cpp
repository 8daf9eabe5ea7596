// Hands objects to lld in temporary files, and reads what it writes.
#include "codegen/common/Lld.h"
#include "lld/Common/Driver.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <deque>
#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace llvm;

Expected<std::string> sectile::linkShared(ArrayRef<StringRef> objects,
                                          ArrayRef<const char *> options) {
  std::deque<SmallString<128>> files;
  scope_exit removeFiles([&] {
    for (const SmallString<128> &file : files)
      sys::fs::remove(file);
  });
  const auto newFile = [&](int *descriptor) {
    SmallString<128> path;
    std::error_code error = descriptor
                                ? sys::fs::createTemporaryFile("sectile", "o", *descriptor, path)
                                : sys::fs::createTemporaryFile("sectile", "so", path);
    if (!error)
      files.push_back(path);
    return error;
  };
  for (const StringRef object : objects) {
    int descriptor = -1;
    if (auto error = newFile(&descriptor))
      return createStringError(error, "cannot write a temporary file for lld");
    raw_fd_ostream(descriptor, /*shouldClose=*/true) << object;
  }
  SmallVector<const char *> arguments = {"ld.lld", "-shared", "--no-undefined", "--threads=1"};
  arguments.append(options.begin(), options.end());
  for (SmallString<128> &file : files)
    arguments.push_back(file.c_str());
  if (auto error = newFile(nullptr))
    return createStringError(error, "cannot write a temporary file for lld");
  arguments.append({"-o", files.back().c_str()});

  std::string errors;
  {
    // lld keeps its state in globals.
    static std::mutex oneAtATime;
    std::lock_guard lock(oneAtATime);
    raw_string_ostream out(errors);
    lld::Result result = lld::lldMain(arguments, out, out, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0 || !result.canRunAgain)
      return createStringError("lld failed: " + errors);
  }
  auto bytes = MemoryBuffer::getFile(files.back(), /*IsText=*/false);
  if (!bytes)
    return createStringError(bytes.getError(), "lld wrote nothing");
  return (*bytes)->getBuffer().str();
}
