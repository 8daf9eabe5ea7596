// Opens the shared objects that bundles have for virtual devices.
#include "vgpu/Program.h"
#include "vgpu/Symbols.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <stdexcept>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <unordered_map>

namespace sectile::vgpu {
namespace {

class SharedCode : public LoadedCode {
public:
  explicit SharedCode(void *library) : library(library) {}
  ~SharedCode() override { dlclose(library); }
  void *find(const std::string &symbol) override { return dlsym(library, symbol.c_str()); }

private:
  void *const library;
};

// A file in memory: dlopen() takes nothing else, and a folder may forbid programs.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes) : descriptor(memfd_create("sectile", MFD_CLOEXEC)) {
    if (descriptor < 0)
      failed();
    while (!bytes.empty()) {
      const ssize_t count = write(descriptor, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) {
        close(descriptor);
        failed();
      }
      bytes.remove_prefix(count > 0 ? static_cast<size_t>(count) : 0);
    }
  }
  ~MemoryFile() { close(descriptor); }
  MemoryFile(const MemoryFile &) = delete;

  // Its name, another one for each file: the linker takes a name that it has seen for the library
  // that it loaded by it, and descriptors come again. Slashes may be many.
  std::string path() const {
    static std::atomic<unsigned> files = 0;
    std::string folder = "/proc/self/fd/";
    for (unsigned number = files++; number; number >>= 1)
      folder += number & 1 ? ".//" : "./";
    return folder + std::to_string(descriptor);
  }

private:
  [[noreturn]] static void failed() {
    throw std::runtime_error(std::string("a file in memory cannot be made: ") +
                             std::strerror(errno));
  }
  const int descriptor;
};

void *addressOf(std::string_view name) {
  static const auto *table = [] {
    auto *made = new std::unordered_map<std::string_view, void *>;
    for (const SymbolTable &symbols : {machineSymbols(), hostSymbols()})
      for (size_t i = 0; i < symbols.count; ++i)
        made->emplace(symbols.begin[i].name, symbols.begin[i].address);
    return made;
  }();
  const auto found = table->find(name);
  // The others are the C library's mathematics.
  return found != table->end() ? found->second : dlsym(RTLD_DEFAULT, std::string(name).c_str());
}

} // namespace

std::unique_ptr<LoadedCode> openSharedObject(const VirtualObject &object) {
  if (object.hostCpu != portableHost())
    throw std::runtime_error("it is for " + object.hostCpu + ", and this program runs code for " +
                             portableHost() + ": build the bundle again");
  if (!runsPortableCode())
    throw std::runtime_error(std::string("it needs a processor of the kind ") + portableCpu +
                             ", and this machine has an older one");
  const MemoryFile file(object.object);
  void *const library = dlopen(file.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    throw std::runtime_error(why ? why : "dlopen() failed");
  }
  auto code = std::make_unique<SharedCode>(library);
  const auto *imports = static_cast<const Import *>(code->find(std::string(importsSymbol)));
  if (!imports)
    throw std::runtime_error("it has no list of its imports");
  for (; imports->name; ++imports)
    if (!(*imports->slot = addressOf(imports->name)))
      throw std::runtime_error(std::string("it calls ") + imports->name +
                               ", which this program has not");
  return code;
}

} // namespace sectile::vgpu
