// Finds the note that the linker left in the library.
#include "codegen/BuildId.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>
#include <link.h>

namespace {

const char anchor = 0; // somewhere in this library

std::string idInNotes(const char *note, const char *end) {
  while (note + sizeof(ElfW(Nhdr)) <= end) {
    ElfW(Nhdr) header;
    std::memcpy(&header, note, sizeof header);
    const char *name = note + sizeof header;
    const char *content = name + llvm::alignTo(header.n_namesz, 4);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && !std::memcmp(name, "GNU", 4))
      return llvm::toHex(llvm::StringRef(content, header.n_descsz), /*LowerCase=*/true);
    note = content + llvm::alignTo(header.n_descsz, 4);
  }
  return "";
}

int visit(dl_phdr_info *info, size_t, void *result) {
  bool ours = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    const char *start = reinterpret_cast<const char *>(info->dlpi_addr + segment.p_vaddr);
    if (segment.p_type == PT_LOAD)
      ours |= &anchor >= start && &anchor < start + segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty())
      id = idInNotes(start, start + segment.p_memsz);
  }
  if (ours)
    *static_cast<std::string *>(result) = id;
  return ours;
}

} // namespace

const std::string &sectile::libraryBuildId() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(visit, &found);
    return found;
  }();
  return id;
}
