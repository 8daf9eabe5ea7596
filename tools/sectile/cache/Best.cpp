// `sectile cache best`: who won for each shape, by how much, and how the others fare.
#include "autotune/Exchange.h"
#include "autotune/Svg.h"
#include "tools/File.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include "tools/sectile/cache/HeatMap.h"
#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;
using autotune::Measurement;
using autotune::Problem;
using autotune::Verdict;

namespace {

constexpr long rowsShown = 10;

// Each problem once, with what all databases together know of it.
std::vector<Problem> findProblems(const std::string &kernel,
                                  const std::optional<std::string> &device,
                                  const std::optional<std::string> &dtypes) {
  autotune::Database &database = autotune::Database::get();
  using Order = std::tuple<std::string, std::string, std::string, autotune::ShapeKey>;
  std::map<Order, Problem> found;
  for (const Problem &problem : database.problems(kernel)) {
    const autotune::TuningKey &key = problem.key;
    if ((!device || key.device == *device) && (!dtypes || key.dtypes == *dtypes))
      found.try_emplace({key.device, key.dtypes, key.code, key.shape},
                        Problem{key, database.lookup(key), ""});
  }
  std::vector<Problem> problems;
  problems.reserve(found.size());
  for (auto &[order, problem] : found)
    problems.push_back(std::move(problem));
  return problems;
}

size_t goodOnes(const Problem &problem) { // they come first
  return static_cast<size_t>(
      std::find_if(problem.measurements.begin(), problem.measurements.end(),
                   [](const Measurement &m) { return m.verdict != Verdict::Good; }) -
      problem.measurements.begin());
}

std::string percent(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", (ratio - 1) * 100);
  return text;
}

std::string times(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", ratio);
  return text;
}

// How much longer than the winner the second takes; nothing where there is none.
std::optional<double> lead(const Problem &problem) {
  if (goodOnes(problem) < 2 || problem.measurements[0].median <= 0)
    return std::nullopt;
  return problem.measurements[1].median / problem.measurements[0].median;
}

std::string remarks(const Problem &problem) {
  const Measurement &winner = problem.measurements.front();
  std::string text = winner.runs == 0 ? "cost model" : "";
  if (isStale(problem.key, winner))
    text += text.empty() ? "stale" : ", stale";
  return text;
}

// The configurations against the shapes of one device, dtypes and code: time over the best's.
void printComparison(std::span<const Problem> problems, long most) {
  std::map<std::string, std::vector<double>> ratios; // 0: not good
  for (size_t i = 0; i < problems.size(); ++i)
    for (size_t j = 0; j < goodOnes(problems[i]); ++j) {
      std::vector<double> &row = ratios[problems[i].measurements[j].config];
      row.resize(problems.size());
      row[i] = problems[i].measurements[j].median / problems[i].measurements[0].median;
    }
  // Those good for most shapes first, then by their geometric mean.
  std::vector<std::tuple<long, double, std::string>> order;
  for (const auto &[config, row] : ratios) {
    long missing = 0;
    double logs = 0;
    for (const double ratio : row)
      ratio > 0 ? logs += std::log(ratio) : ++missing;
    order.emplace_back(missing, logs, config);
  }
  std::sort(order.begin(), order.end());
  Table table;
  std::vector<std::string> heading{"configuration"};
  for (const Problem &problem : problems)
    heading.push_back(autotune::describe(problem.key.shape));
  table.row(heading);
  for (const auto &[missing, logs, config] : order) {
    if (most-- == 0)
      break;
    std::vector<std::string> cells{config};
    for (const double ratio : ratios[config])
      cells.push_back(ratio > 0 ? times(ratio) : "-");
    table.row(cells);
  }
  table.print(std::cout);
}

void print(std::span<const Problem> problems, long most) {
  const autotune::TuningKey &first = problems.front().key;
  std::cout << first.kernel << " on " << first.device << ", " << first.dtypes << ", code "
            << first.code.substr(0, 12) << "\n";
  Table table;
  table.row({"shape", "winner", "time", "spread", "margin", "measured", "good", ""});
  for (const Problem &problem : problems) {
    const size_t good = goodOnes(problem);
    const std::optional<double> second = lead(problem);
    const Measurement &winner = problem.measurements.front();
    table.row({autotune::describe(problem.key.shape), good ? winner.config : "none",
               good ? microseconds(winner.median) : "", good ? microseconds(winner.spread) : "",
               second ? percent(*second) : "-", std::to_string(problem.measurements.size()),
               std::to_string(good), good ? remarks(problem) : ""});
  }
  table.print(std::cout);
  std::cout << "\n";
  printComparison(problems, most);
}

llvm::json::Value json(const std::vector<Problem> &problems) {
  llvm::json::Array list;
  for (const Problem &problem : problems) {
    llvm::json::Value value = autotune::jsonOf(problem);
    llvm::json::Object &object = *value.getAsObject();
    const size_t good = goodOnes(problem);
    object["good"] = good;
    if (good) {
      object["winner"] = problem.measurements[0].config;
      object["stale"] = isStale(problem.key, problem.measurements[0]);
    }
    if (const std::optional<double> second = lead(problem))
      object["margin"] = *second - 1;
    list.push_back(std::move(value));
  }
  return list;
}

std::string page(const std::string &kernel, const std::vector<Problem> &problems) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>" +
         escapeXml(kernel) + "</title></head>\n<body>\n" + heatMap(problems) + "</body>\n</html>\n";
}

} // namespace

int sectile::tool::runCacheBest(const CommandLine &line) {
  cacheFolder();
  const std::string kernel = *line.argument(0);
  const long most = line.number("--top", 1).value_or(rowsShown);
  const std::optional<std::string> plot = line.value("--plot");
  if (plot) {
    if (!plot->ends_with(".svg") && !plot->ends_with(".html"))
      throw InputError("--plot: '" + *plot + "' ends neither in .svg nor in .html");
    checkWritable(*plot);
  }
  const std::vector<Problem> problems =
      findProblems(kernel, line.value("--device"), line.value("--dtypes"));
  if (problems.empty())
    throw InputError("nothing was measured of '" + kernel +
                     "': `sectile cache list` shows what there is");
  if (plot)
    writeFile(*plot, {plot->ends_with(".svg") ? heatMap(problems) : page(kernel, problems)});
  if (line.has("--json")) {
    printJson(json(problems));
    return 0;
  }
  for (size_t start = 0; start < problems.size();) {
    size_t end = start;
    auto group = [](const Problem &p) { return std::tie(p.key.device, p.key.dtypes, p.key.code); };
    while (end < problems.size() && group(problems[end]) == group(problems[start]))
      ++end;
    std::cout << (start ? "\n" : "");
    print(std::span(problems).subspan(start, end - start), most);
    start = end;
  }
  return 0;
}
