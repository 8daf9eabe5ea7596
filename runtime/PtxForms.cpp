// Forms of PTX, as text.
#include "runtime/PtxForms.h"
#include <algorithm>
#include <charconv>

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

/// Where the directives of the entry say how many threads a block has, if they state no limit on
/// registers.
static std::optional<size_t> placeOfLimit(std::string_view ptx) {
  const size_t entry = ptx.find(".entry"), body = ptx.find("\n{", entry);
  if (entry == ptx.npos || body == ptx.npos)
    return std::nullopt;
  const std::string_view directives = ptx.substr(entry, body - entry);
  const size_t threads = directives.find(".reqntid");
  if (threads == directives.npos || directives.find(".minnctapersm") != directives.npos ||
      directives.find(".maxnreg") != directives.npos)
    return std::nullopt;
  return entry + threads;
}

/// With at least so many blocks on a multiprocessor.
static std::string withBlocks(std::string_view ptx, size_t place, unsigned blocks) {
  std::string form(ptx);
  form.insert(place, ".minnctapersm " + std::to_string(blocks) + "\n");
  return form;
}

std::vector<std::string> otherForms(std::string_view ptx) {
  std::vector<std::string> forms;
  const std::string plain = withPlainIndex(ptx);
  if (plain != ptx)
    forms.push_back(plain);
  // One block on a multiprocessor is what .reqntid alone asks for, too.
  if (const std::optional<size_t> place = placeOfLimit(plain))
    forms.push_back(withBlocks(plain, *place, 1));
  return forms;
}

std::optional<std::string> formForTwo(std::string_view ptx, unsigned registers,
                                      unsigned sharedBytes, const Chip &chip) {
  constexpr unsigned kept = 1024; // bytes of shared memory that each block takes besides
  const std::optional<size_t> place = placeOfLimit(ptx);
  if (!place || chip.sharedBytesPerUnit < 2 * (sharedBytes + kept))
    return std::nullopt;
  unsigned threads = 0;
  std::string_view number = ptx.substr(*place + std::string_view(".reqntid").size());
  number.remove_prefix(std::min(number.find_first_not_of(' '), number.size()));
  std::from_chars(number.data(), number.data() + number.size(), threads);
  // A warp's registers come in eights for each thread.
  const unsigned most = threads ? chip.registersPerUnit / 2 / threads / 8 * 8 : 0;
  if (registers <= most || 4 * registers > 5 * most)
    return std::nullopt;
  return withBlocks(ptx, *place, 2);
}

std::string spillRemark(unsigned registers, unsigned spillBytes) {
  return "the code spills: a thread has " + std::to_string(registers) + " registers and keeps " +
         std::to_string(spillBytes) +
         " bytes more in memory. Smaller tiles or more warps need fewer registers; max_registers "
         "and min_programs in LaunchOptions may have asked for few";
}

} // namespace sectile::runtime
