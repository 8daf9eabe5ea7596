// A tuning's report as a table.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <sectile/tuning.h>
#include <tuple>

namespace sectile {

std::string_view name_of(TuneVerdict verdict) {
  constexpr std::string_view names[] = {"good",         "hopeless",  "wrong",     "failed",
                                        "does not fit", "timed out", "unfinished"};
  return names[static_cast<std::size_t>(verdict)];
}

std::string TuneReport::text() const {
  std::string table = kernel;
  for (const auto &[name, extent] : bucket)
    table += " " + name + "=" + std::to_string(extent);
  table += " on " + device + "\n";
  std::size_t width = 13;
  for (const Row &row : rows)
    width = std::max(width, row.config.size());
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(rows[a].verdict, rows[a].microseconds, rows[a].config) <
           std::tie(rows[b].verdict, rows[b].microseconds, rows[b].config);
  });
  char line[160];
  std::snprintf(line, sizeof line, "%12s %9s %5s %10s %9s %9s  %s\n", "us", "spread", "runs",
                "compile ms", "registers", "shared B", "verdict");
  table += std::string("configuration").append(width - 13, ' ') + line;
  for (std::size_t i : order) {
    const Row &row = rows[i];
    // What was not timed, or does not tell its registers, has none of these.
    if (row.microseconds > 0)
      std::snprintf(line, sizeof line, "%12.3f %9.3f %5u", row.microseconds, row.spread, row.runs);
    else
      std::snprintf(line, sizeof line, "%12s %9s %5s", "-", "-", "-");
    const std::string registers = row.registers ? std::to_string(row.registers) : "-";
    const std::size_t used = std::strlen(line);
    std::snprintf(line + used, sizeof line - used, " %10.1f %9s %9u  ", row.compile_milliseconds,
                  registers.c_str(), row.shared_bytes);
    table += row.config + std::string(width - row.config.size(), ' ') + line;
    table += name_of(row.verdict);
    table += i == best ? ", best" : "";
    table += row.message.empty() ? "\n" : ": " + row.message + "\n";
  }
  if (interrupted)
    table += "stopped by Ctrl-C\n";
  if (!problem.empty())
    table += problem + "\n";
  return table;
}

} // namespace sectile
