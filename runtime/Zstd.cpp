// libzstd, if it is there.
#include "runtime/Zstd.h"
#include <dlfcn.h>
#include <sectile/error.h>

namespace sectile::runtime {
namespace {

struct Library {
  size_t (*decompress)(void *to, size_t most, const void *from, size_t size) = nullptr;
  std::string missing; // why there is none

  static const Library &get() {
    static const Library library;
    return library;
  }

private:
  Library() {
    void *handle = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle)
      decompress = reinterpret_cast<decltype(decompress)>(dlsym(handle, "ZSTD_decompress"));
    if (!decompress)
      missing = dlerror();
  }
};

} // namespace

std::string decompressed(std::string_view frame, size_t size) {
  const Library &library = Library::get();
  if (!library.decompress)
    throw InputError("has compressed code, which needs libzstd: " + library.missing);
  std::string bytes(size, '\0');
  // An error is a number larger than any size.
  if (library.decompress(bytes.data(), size, frame.data(), frame.size()) != size)
    throw InputError("is damaged: a code cannot be decompressed");
  return bytes;
}

} // namespace sectile::runtime
