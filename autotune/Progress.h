// What people see of a tuning while it goes on: a bar on a terminal, plain lines elsewhere.
#ifndef SECTILE_AUTOTUNE_PROGRESS_H
#define SECTILE_AUTOTUNE_PROGRESS_H

#include <chrono>
#include <string>

namespace sectile::autotune {

class Progress {
public:
  enum class Style { Silent, Lines, Bar };
  /// As standard error wants it.
  static Style usualStyle();

  /// `what` is the kernel and its bucket.
  Progress(Style style, std::string what);
  ~Progress();
  Progress(const Progress &) = delete;

  /// `done` of `total` in this part of the work, "looked at" or "measured"; `best` so far, or
  /// empty.
  void show(const char *part, size_t done, size_t total, const std::string &best);

private:
  void write(const std::string &text);

  using Clock = std::chrono::steady_clock;

  Style style;
  std::string what;
  Clock::time_point last = Clock::now();
  bool open = false; ///< a bar stands in the terminal's line
};

} // namespace sectile::autotune

#endif
