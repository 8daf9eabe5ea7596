// `sectile tune`: measures a kernel's configurations for one shape or a file of shapes.
#include "kernels/tuning/Tune.h"
#include "autotune/Exchange.h"
#include "tools/File.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;

namespace {

using Extents = std::map<std::string, std::int64_t>;
using Clock = std::chrono::steady_clock;

struct ShapeLine {
  Extents extents;
  std::string where; // "shapes.txt:3: ", or nothing
};

// One shape a line, AXIS=EXTENT,...; empty lines and what follows a # do not count.
std::vector<ShapeLine> readShapes(const std::string &path) {
  const std::string text = readFile(path);
  std::vector<ShapeLine> shapes;
  std::size_t number = 1;
  for (std::size_t start = 0; start < text.size(); ++number) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    std::string line = text.substr(start, end - start);
    line.erase(std::min(line.find('#'), line.size()));
    std::erase_if(line, [](unsigned char c) { return std::isspace(c); });
    const std::string where = path + ":" + std::to_string(number) + ":";
    if (!line.empty())
      shapes.push_back({parseShape(line, where), where + " "});
    start = end + 1;
  }
  if (shapes.empty())
    throw InputError("--file: '" + path + "' has no shapes");
  return shapes;
}

std::string shapeText(const NamedExtents &extents) {
  std::string text;
  for (const auto &[name, extent] : extents)
    text += (text.empty() ? "" : " ") + name + "=" + std::to_string(extent);
  return text;
}

// How many times faster the best is than the kernel's own choice, which is the first row.
std::string gain(const TuneReport &report) {
  const TuneReport::Row &first = report.rows.front(), &best = report.rows[report.best];
  if (first.verdict != TuneVerdict::good || best.microseconds <= 0)
    return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", first.microseconds / best.microseconds);
  return text;
}

std::size_t measuredNow(const TuneReport &report) {
  return static_cast<std::size_t>(
      std::count_if(report.rows.begin(), report.rows.end(), [](const TuneReport::Row &row) {
        return !row.known && row.verdict != TuneVerdict::does_not_fit;
      }));
}

void print(const std::vector<TuneReport> &reports) {
  if (reports.size() == 1)
    std::cout << reports.front().text() << "\n";
  Table table;
  table.row({"kernel", "shape", "candidates", "measured now", "best",
             !reports.empty() && isSimulated(reports.front().device) ? "time (simulated)" : "time",
             "over the default"});
  for (const TuneReport &report : reports) {
    const std::size_t now = measuredNow(report);
    const bool good = !report.rows.empty() && report.rows[report.best].verdict == TuneVerdict::good;
    table.row({report.kernel, shapeText(report.bucket), std::to_string(report.rows.size()),
               std::to_string(now), good ? report.rows[report.best].config : "none",
               good ? microseconds(report.rows[report.best].microseconds) : "",
               good ? gain(report) : ""});
  }
  table.print(std::cout);
}

} // namespace

int sectile::tool::runTune(const CommandLine &line) {
  const KernelSpec &kernel = findKernel(*line.argument(0));
  AutotuneOptions options;
  options.strategy = strategyNamed(line.value("--strategy").value_or("exhaustive"), "--strategy");
  options.candidates = static_cast<std::size_t>(line.number("--candidates", 1).value_or(0));
  options.quiet = line.has("--quiet");
  options.deadline = line.seconds("--deadline");
  const double budget = line.seconds("--budget");
  std::vector<ShapeLine> shapes{{parseShape(line), ""}};
  if (line.has("--file")) {
    if (line.has("--shape"))
      throw InputError("only one of --shape and --file can be given");
    shapes = readShapes(*line.value("--file"));
  }
  // All calls are resolved before the first is tuned: a mistake in the last line costs nothing.
  std::vector<Invocation> calls;
  calls.reserve(shapes.size());
  for (const ShapeLine &shape : shapes)
    try {
      calls.push_back(resolveTypical(kernel, line.value("--dtype").value_or(""), shape.extents,
                                     line.assignments("--opt"), withOf(line)));
    } catch (const InputError &error) {
      throw InputError(shape.where + error.what());
    }
  const Device device = openDevice(line.value("--device"));
  if (autotune::Database::get().file().empty())
    std::cerr << "sectile: there is no cache folder: what is measured is not kept\n";
  const auto start = Clock::now();
  std::vector<TuneReport> reports;
  bool stopped = false;
  std::size_t done = 0;
  for (const Invocation &call : calls) {
    if (budget > 0) {
      options.seconds = budget - std::chrono::duration<double>(Clock::now() - start).count();
      if (options.seconds <= 0)
        break;
    }
    for (TuneReport &report : tuneKernel(call, device, options))
      reports.push_back(std::move(report));
    const TuneReport &report = reports.back();
    ++done;
    stopped = report.interrupted || !report.problem.empty();
    if (stopped)
      break;
  }
  if (line.has("--json")) {
    llvm::json::Array all;
    for (const TuneReport &report : reports)
      all.push_back(autotune::jsonOf(report, isSimulated(report.device)));
    printJson(std::move(all));
  } else {
    print(reports);
  }
  if (stopped)
    std::cerr << "sectile: "
              << (reports.back().interrupted ? "interrupted" : reports.back().problem)
              << "; what was measured is kept\n";
  else if (done < calls.size())
    std::cerr << "sectile: the budget was spent after " << done << " of " << calls.size()
              << " shapes\n";
  return stopped ? 1 : 0;
}
