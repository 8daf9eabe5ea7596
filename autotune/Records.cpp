// Records in words and in order.
#include "autotune/Records.h"
#include <algorithm>
#include <iterator>
#include <tuple>

namespace sectile::autotune {

static constexpr std::string_view verdictNames[] = {
    "good", "hopeless", "wrong", "failed", "does not fit", "timed out", "unfinished"};

std::string staleness(const Toolchain &then, const Toolchain &now) {
  std::string text;
  auto compare = [&](const char *what, const std::string &before, const std::string &after) {
    if (before != after)
      text += (text.empty() ? "" : "; ") + std::string(what) + " " + before + ", now " + after;
  };
  compare("driver", then.driver, now.driver);
  compare("compiler", then.compiler, now.compiler);
  return text;
}

std::string numericsOf(std::string_view config, const std::vector<std::string> &neutral) {
  std::string text;
  while (!config.empty()) {
    const std::string_view word = config.substr(0, config.find(' '));
    config.remove_prefix(std::min(config.size(), word.size() + 1));
    const std::string_view field = word.substr(0, word.find('='));
    if (!field.empty() && std::find(neutral.begin(), neutral.end(), field) == neutral.end())
      text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text.empty() ? "-" : text;
}

std::string otherBits(const std::string &numerics) { return numerics + ", but other bits"; }

std::string describe(const ShapeKey &shape) {
  std::string text;
  for (const auto &[extent, value] : shape)
    text += (text.empty() ? "" : " ") + extent + "=" + std::to_string(value);
  return text;
}

std::string_view name(Verdict verdict) { return verdictNames[static_cast<size_t>(verdict)]; }

std::optional<Verdict> parseVerdict(std::string_view name) {
  const auto *found = std::find(std::begin(verdictNames), std::end(verdictNames), name);
  if (found == std::end(verdictNames))
    return std::nullopt;
  return static_cast<Verdict>(found - std::begin(verdictNames));
}

void sortBestFirst(std::vector<Measurement> &measurements) {
  std::sort(
      measurements.begin(), measurements.end(), [](const Measurement &a, const Measurement &b) {
        return std::tie(a.verdict, a.median, a.config) < std::tie(b.verdict, b.median, b.config);
      });
}

} // namespace sectile::autotune
