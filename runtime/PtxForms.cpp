// Forms of PTX, as text.
#include "runtime/PtxForms.h"

namespace sectile::runtime {

std::vector<std::string> otherForms(std::string_view ptx) {
  // The directives of the entry, up to its body.
  const size_t entry = ptx.find(".entry"), threads = ptx.find(".reqntid", entry),
               body = ptx.find("\n{", entry);
  if (entry == ptx.npos || threads == ptx.npos || body == ptx.npos || threads > body)
    return {};
  const std::string_view directives = ptx.substr(entry, body - entry);
  if (directives.find(".minnctapersm") != directives.npos ||
      directives.find(".maxnreg") != directives.npos)
    return {};
  // One block on a multiprocessor is what .reqntid alone asks for, too.
  std::string form(ptx);
  form.insert(threads, ".minnctapersm 1\n");
  return {form};
}

std::string spillRemark(unsigned registers, unsigned spillBytes) {
  return "the code spills: a thread has " + std::to_string(registers) + " registers and keeps " +
         std::to_string(spillBytes) +
         " bytes more in memory. Smaller tiles or more warps need fewer registers; max_registers "
         "and min_programs in LaunchOptions may have asked for few";
}

} // namespace sectile::runtime
