// Finds the notes that the linker left in what is loaded.
#include "runtime/BuildId.h"
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string_view>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <type_traits>

namespace {

const char anchor = 0; // somewhere in this library

constexpr size_t aligned(size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string inHexadecimal(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : bytes)
    text += {digits[byte / 16], digits[byte % 16]};
  return text;
}

std::string idInNotes(const char *note, const char *end) {
  while (note + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const char *name = note + sizeof header;
    const char *content = name + aligned(header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
      return inHexadecimal({content, header.n_descsz});
    note = content + aligned(header.n_descsz);
  }
  return "";
}

std::string idOf(const dl_phdr_info &object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object.dlpi_phdr[i];
    const char *start = reinterpret_cast<const char *>(object.dlpi_addr + segment.p_vaddr);
    if (segment.p_type == PT_NOTE)
      if (std::string id = idInNotes(start, start + segment.p_memsz); !id.empty())
        return id;
  }
  return "";
}

bool contains(const dl_phdr_info &object, uintptr_t address) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object.dlpi_phdr[i];
    const uintptr_t start = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && address >= start && address < start + segment.p_memsz)
      return true;
  }
  return false;
}

/// Calls `use` with everything that is loaded, until it says true.
template <class Use> void forEachObject(Use &&use) {
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *use) -> int {
        return (*static_cast<std::remove_reference_t<Use> *>(use))(*info);
      },
      &use);
}

/// Where the objects lie that were loaded when this library was.
const std::vector<uintptr_t> first = [] {
  std::vector<uintptr_t> found;
  forEachObject([&](const dl_phdr_info &object) {
    found.push_back(object.dlpi_addr);
    return false;
  });
  return found;
}();

bool isFirst(const dl_phdr_info &object) {
  return std::ranges::find(first, object.dlpi_addr) != first.end();
}

} // namespace

std::optional<sectile::CodePlace> sectile::placeOf(const void *code) {
  const auto address = reinterpret_cast<uintptr_t>(code);
  std::optional<CodePlace> place;
  forEachObject([&](const dl_phdr_info &object) {
    if (!contains(object, address))
      return false;
    if (std::string id = idOf(object); !id.empty())
      place = CodePlace{std::move(id), address - object.dlpi_addr};
    return true;
  });
  return place;
}

std::string sectile::buildOf(const void *code) {
  if (std::optional<CodePlace> place = placeOf(code))
    return place->buildId;
  Dl_info object;
  char path[PATH_MAX];
  struct stat info;
  // The name behind links has a driver's version in it.
  if (!dladdr(code, &object) || !realpath(object.dli_fname, path) || stat(path, &info) != 0)
    return "unknown";
  return std::string(path).substr(std::string_view(path).rfind('/') + 1) + ":" +
         std::to_string(info.st_size) + ":" + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

std::optional<std::vector<std::string>> sectile::buildIdsBelow(const void *code) {
  bool isPlugin = true;
  forEachObject([&](const dl_phdr_info &object) {
    const bool here = contains(object, reinterpret_cast<uintptr_t>(code));
    if (here)
      isPlugin = !isFirst(object);
    return here;
  });
  const uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
  std::vector<std::string> ids;
  bool all = true;
  forEachObject([&](const dl_phdr_info &object) {
    if ((vdso && contains(object, vdso)) || (!isPlugin && !isFirst(object)))
      return false;
    ids.push_back(idOf(object));
    all = !ids.back().empty();
    return !all;
  });
  if (!all)
    return std::nullopt;
  std::sort(ids.begin(), ids.end());
  return ids;
}

const std::string &sectile::runtimeBuildId() {
  static const std::string id = buildOf(&anchor);
  return id;
}
