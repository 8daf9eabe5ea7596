// Writing progress to standard error.
#include "autotune/Progress.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace sectile::autotune {

Progress::Style Progress::usualStyle() {
  const char *terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) && terminal && std::strcmp(terminal, "dumb") != 0 ? Style::Bar
                                                                                 : Style::Lines;
}

Progress::Progress(Style style, std::string what) : style(style), what(std::move(what)) {}

Progress::~Progress() {
  if (open)
    write("\r\x1b[K");
}

void Progress::show(const char *part, size_t done, size_t total, const std::string &best) {
  if (style == Style::Silent || total == 0)
    return;
  const std::string counts = std::to_string(done) + " of " + std::to_string(total) + " " + part;
  const std::string tail = best.empty() ? "" : ", best " + best;
  if (style == Style::Bar) {
    const auto now = std::chrono::steady_clock::now();
    if (open && done != total && now - last < std::chrono::milliseconds(50))
      return;
    last = now;
    open = true;
    constexpr size_t width = 24;
    const size_t full = width * done / total;
    return write("\r\x1b[K" + what + " [" + std::string(full, '#') +
                 std::string(width - full, '.') + "] " + counts + tail);
  }
  // A line for every tenth, and for the last.
  const size_t tenth = 10 * done / total;
  if (lastPart == part && tenth == lastTenth)
    return;
  lastPart = part;
  lastTenth = tenth;
  write("sectile: " + what + ": " + counts + tail + "\n");
}

void Progress::write(const std::string &text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

} // namespace sectile::autotune
