// Collects what a program launches, and writes it as a bundle.
#include "jit/BundleRecorder.h"
#include "jit/BundleWriter.h"
#include "jit/CodeSource.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <unistd.h>

namespace sectile::runtime {
namespace {

// What the environment said when the library was loaded. Processes that this one starts must not
// write the same file, so they do not get to see it.
const std::string &path = [] {
  const char *value = std::getenv("SECTILE_BUILD");
  auto *text = new std::string(value ? value : ""); // static objects may launch at the very end
  unsetenv("SECTILE_BUILD");
  return std::cref(*text);
}();

class Recorder {
public:
  Recorder() { std::atexit(writeAtEnd); }

  static Recorder &get() {
    static auto *recorder = new Recorder;
    return *recorder;
  }

  void add(const BundleKey &key, const Artifact &artifact) {
    std::lock_guard lock(mutex);
    writer.add(key, artifact);
  }

private:
  static void writeAtEnd() {
    Recorder &recorder = get();
    if (getpid() != recorder.process)
      return; // a fork of it
    std::lock_guard lock(recorder.mutex);
    const std::string bytes = recorder.writer.bytes(), beside = path + ".new";
    std::FILE *file = std::fopen(beside.c_str(), "wbe");
    bool isWritten = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    isWritten = file && std::fclose(file) == 0 && isWritten;
    if (!isWritten || std::rename(beside.c_str(), path.c_str()) != 0)
      std::fprintf(stderr, "sectile: SECTILE_BUILD: '%s' cannot be written: %s\n", path.c_str(),
                   std::strerror(errno));
  }

  const pid_t process = getpid();
  std::mutex mutex; // guards what follows
  BundleWriter writer{aboutBundles()};
};

} // namespace

void recordForBundle(const CodeRequest &request, const Artifact &artifact) {
  if (path.empty())
    return;
  // What was compiled for a virtual device runs on this machine alone.
  const bool isVirtual = artifact.kind == "virtual";
  Recorder::get().add(bundleKeyOf(request), isVirtual ? *codeForBundle(request) : artifact);
}

} // namespace sectile::runtime
