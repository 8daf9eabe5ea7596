// Bundles that CMake's sectile_add_bundle links to a program: in it, or in a file beside it. They
// are opened at the first launch that needs code, so that a program which launches nothing starts
// without them, and a file that is missing is an error of a launch, which can be caught.
#include "runtime/Bundle.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <sectile/bundle.h>
#include <sectile/error.h>
#include <unistd.h>

namespace sectile::runtime {
namespace {

// Of the program or library that has this address, with the slash.
std::string folderOf(const void *address) {
  Dl_info info{};
  link_map *map = nullptr;
  std::string path;
  if (dladdr1(address, &info, reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) && map)
    path = map->l_name;
  if (path.empty()) { // the program
    char own[4096];
    const ssize_t size = readlink("/proc/self/exe", own, sizeof own);
    path.assign(own, size > 0 ? static_cast<size_t>(size) : 0);
  } else if (const std::unique_ptr<char, void (*)(void *)> whole(realpath(path.c_str(), nullptr),
                                                                 &std::free);
             whole) {
    path = whole.get(); // the current folder may be another one later
  }
  return path.substr(0, path.rfind('/') + 1);
}

std::string identityText(const unsigned char *bytes) {
  uint64_t words[2];
  std::memcpy(words, bytes, sizeof words);
  return bundleIdentityText(words);
}

class LinkedSource : public CodeSource {
public:
  explicit LinkedSource(const detail::LinkedBundle &linked)
      : linked(linked), path(linked.size             ? ""
                             : linked.file[0] == '/' ? linked.file
                                                     : folderOf(linked.bytes) + linked.file) {}

  std::shared_ptr<const Artifact> find(const CodeRequest &request) const override {
    const Bundle *bundle = opened();
    return bundle ? bundle->find(request) : nullptr;
  }
  std::string whyNone(const CodeRequest &request) const override {
    const Bundle *bundle = opened();
    return bundle ? bundle->whyNone(request) : problem;
  }
  std::span<const BundledChoice> choices() const override {
    const Bundle *bundle = opened();
    return bundle ? bundle->choices() : std::span<const BundledChoice>();
  }
  const Bundle *asBundle() const override { return opened(); }

private:
  const Bundle *opened() const {
    std::call_once(once, [&] {
      try {
        open();
      } catch (const InputError &error) {
        bundle = nullptr;
        problem = error.what();
      }
    });
    return bundle.get();
  }

  void open() const {
    if (linked.size) {
      bundle = Bundle::of({reinterpret_cast<const char *>(linked.bytes), linked.size},
                          std::string(linked.name) + ".sectile");
      return;
    }
    bundle = Bundle::open(path);
    if (const std::string wanted = identityText(linked.bytes); bundle->identity() != wanted)
      throw InputError("bundle '" + bundle->name() + "' is not the one that '" + linked.name +
                       "' was built with: its identity is " + bundle->identity() +
                       ", but should be " + wanted + ": take the file of the same build");
  }

  const detail::LinkedBundle linked;
  const std::string path; // of the file, if it is one
  mutable std::once_flag once;
  mutable std::shared_ptr<const Bundle> bundle;
  mutable std::string problem; // why there is none
};

} // namespace
} // namespace sectile::runtime

bool sectile::detail::addLinkedBundle(const LinkedBundle &bundle) {
  runtime::addCodeSource(std::make_shared<runtime::LinkedSource>(bundle));
  return true;
}
