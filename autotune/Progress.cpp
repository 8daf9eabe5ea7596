// Writing progress to standard error.
#include "autotune/Progress.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
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
  const auto now = Clock::now();
  const bool isLast = done == total;
  if (style == Style::Bar) {
    if (open && !isLast && now - last < std::chrono::milliseconds(50))
      return;
    last = now;
    open = true;
    constexpr size_t width = 24;
    const size_t full = width * done / total;
    std::string line = what + " [" + std::string(full, '#') + std::string(width - full, '.') +
                       "] " + counts + tail;
    // What is longer than the terminal is wide would stay there.
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
      line.resize(std::min<size_t>(line.size(), size.ws_col - 1u));
    return write("\r\x1b[K" + line);
  }
  // Of what takes long a line now and then, and how it ended.
  if (now - last < std::chrono::seconds(2) && !(isLast && !best.empty()))
    return;
  last = now;
  write("sectile: " + what + ": " + counts + tail + "\n");
}

void Progress::write(const std::string &text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

} // namespace sectile::autotune
