// Puts the launch index's keys together.
#include "jit/LaunchKey.h"
#include "jit/CacheEntry.h"
#include "runtime/BuildId.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdlib>
#include <string_view>

namespace sectile::runtime {

LaunchIndexMode launchIndexMode() {
  static const LaunchIndexMode mode = [] {
    const char *value = std::getenv("SECTILE_LAUNCH_INDEX");
    const std::string_view text = value ? value : "";
    return text == "0"       ? LaunchIndexMode::Off
           : text == "check" ? LaunchIndexMode::Check
                             : LaunchIndexMode::On;
  }();
  return mode;
}

static constexpr std::string_view opening = "launch of kernel ";

std::optional<std::string> launchKey(const detail::KernelDesc &kernel, const std::string &target,
                                     const CompileOptions &options, unsigned longAxis,
                                     const std::string &specialization,
                                     std::span<const uint64_t> configWords) {
  if (!kernel.stateless)
    return std::nullopt;
  const auto *code = reinterpret_cast<const void *>(kernel.body);
  const auto place = placeOf(code);
  const auto objects = buildIdsBelow(code);
  if (!place || !objects)
    return std::nullopt;
  std::string text = std::string(opening) + onOneLine(kernel.name) + "\ntarget " + target +
                     "\noptions warps=" + std::to_string(options.warps) +
                     " stages=" + std::to_string(options.stages) +
                     " debug=" + std::to_string(options.debug) +
                     " checked=" + std::to_string(options.checked) + limitsText(options);
  if (!options.plans)
    text += " plans=0";
  if (longAxis)
    text += " long-axis=" + std::to_string(longAxis);
  text += "\nconfiguration";
  for (uint64_t word : configWords)
    text += " " + llvm::utohexstr(word, /*LowerCase=*/true);
  text += "\narguments" + specialization + "\ncompiler " + compilerVersion() + "\ndefined at " +
          kernel.where.file_name() + ":" + std::to_string(kernel.where.line()) + "\ntraced by " +
          place->buildId + "+" + llvm::utohexstr(place->offset, /*LowerCase=*/true) + "\nprogram";
  for (const std::string &id : *objects)
    text += "\n" + id;
  return text;
}

std::string kernelOfLaunch(std::string_view key) {
  if (!key.starts_with(opening))
    return "";
  key.remove_prefix(opening.size());
  return std::string(key.substr(0, key.find('\n')));
}

} // namespace sectile::runtime
