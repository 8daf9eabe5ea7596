// Forms of PTX, as text.
#include "runtime/PtxForms.h"
#include <algorithm>

namespace sectile::runtime {

// Without what indexOfThread does beside reading the index.
static std::string withPlainIndex(std::string_view ptx) {
  constexpr std::string_view read = "mov.u32 index, %tid.x;", operation = "and.b32 ",
                             mask = ", index, 1023;";
  std::string form(ptx);
  const size_t at = form.find(read), from = form.find(operation, at), to = form.find(mask, from);
  if (at == form.npos || to == form.npos)
    return form;
  form.replace(to, mask.size(), ", index;");
  form.replace(from, operation.size(), "mov.b32 ");
  return form;
}

std::vector<std::string> otherForms(std::string_view ptx) {
  std::vector<std::string> forms{withPlainIndex(ptx)};
  std::string &form = forms.front();
  const bool isAnother = form != ptx;
  // The directives of the entry, up to its body.
  const size_t entry = form.find(".entry"), threads = form.find(".reqntid", entry),
               body = form.find("\n{", entry);
  const std::string_view directives = std::string_view(form).substr(
      std::min(entry, form.size()), body == form.npos || entry == form.npos ? 0 : body - entry);
  const bool isLimited = directives.find(".minnctapersm") != directives.npos ||
                         directives.find(".maxnreg") != directives.npos;
  // One block on a multiprocessor is what .reqntid alone asks for, too.
  if (directives.find(".reqntid") != directives.npos && !isLimited) {
    std::string limited = form;
    limited.insert(threads, ".minnctapersm 1\n");
    forms.push_back(std::move(limited));
  }
  if (!isAnother)
    forms.erase(forms.begin());
  return forms;
}

std::string spillRemark(unsigned registers, unsigned spillBytes) {
  return "the code spills: a thread has " + std::to_string(registers) + " registers and keeps " +
         std::to_string(spillBytes) +
         " bytes more in memory. Smaller tiles or more warps need fewer registers; max_registers "
         "and min_programs in LaunchOptions may have asked for few";
}

} // namespace sectile::runtime
