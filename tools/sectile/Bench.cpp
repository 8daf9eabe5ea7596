// `sectile bench`: benchmark suites, as tables and as JSON.
#include "bench/Compile.h"
#include "bench/Launch.h"
#include "bench/Virtual.h"
#include "tools/File.h"
#include "tools/sectile/BarChart.h"
#include "tools/sectile/BenchKernels.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Json.h"
#include "tools/sectile/Table.h"
#include "llvm/Support/FormatVariadic.h"
#include <iostream>
#include <sectile/error.h>
#include <sstream>

using namespace sectile;
using namespace sectile::tool;

namespace {

std::string fixed(double value, int digits) {
  return llvm::formatv(digits == 0 ? "{0:f0}" : digits == 1 ? "{0:f1}" : "{0:f2}", value).str();
}

llvm::json::Array benchCompile(std::vector<BarPanel> &panels, std::ostream &out) {
  out << "compile: milliseconds of a warm compile by stage\n";
  llvm::json::Array results;
  Table table;
  BarPanel panel{"Milliseconds of a warm compile, by stage", {}};
  std::string columns; // vendors have different stages: a heading wherever they change
  for (const bench::CompileCost &cost : bench::measureCompiles()) {
    std::vector<std::string> heading{"kernel", "target"}, row{cost.kernel, cost.target};
    llvm::json::Object stages;
    double ours = 0, total = 0;
    for (const auto &[stage, milliseconds] : cost.stages) {
      heading.push_back(stage);
      row.push_back(fixed(milliseconds, 1));
      stages[stage] = milliseconds;
      total += milliseconds;
      if (stage != "ptxas" && stage != "lld")
        ours += milliseconds;
    }
    heading.insert(heading.end(), {"trace to LLVM", "total"});
    row.insert(row.end(), {fixed(ours, 1), fixed(total, 1)});
    std::string now;
    for (const std::string &column : heading)
      now += column + " ";
    if (now != columns)
      table.row(heading);
    columns = now;
    table.row(row);
    panel.bars.push_back({cost.kernel + ", " + cost.target, {}});
    for (const auto &[stage, milliseconds] : cost.stages)
      panel.bars.back().parts.emplace_back(stage, milliseconds);
    results.push_back(llvm::json::Object{
        {"kernel", cost.kernel}, {"target", cost.target}, {"milliseconds", std::move(stages)}});
  }
  panels.push_back(std::move(panel));
  table.print(out);
  return results;
}

llvm::json::Array benchLaunch(std::vector<BarPanel> &panels, std::ostream &out) {
  out << "launch: host time of a launch beyond the driver's call\n";
  llvm::json::Array results;
  Table table;
  table.row({"kernel", "arguments", "ns"});
  BarPanel panel{"Nanoseconds of a launch beyond the driver's call", {}};
  for (const bench::LaunchCost &cost : bench::measureLaunches()) {
    panel.bars.push_back({cost.kernel + ", " + std::to_string(cost.arguments) + " arguments",
                          {{"launch", cost.nanoseconds}}});
    table.row({cost.kernel, std::to_string(cost.arguments), fixed(cost.nanoseconds, 0)});
    results.push_back(llvm::json::Object{
        {"kernel", cost.kernel}, {"arguments", cost.arguments}, {"nanoseconds", cost.nanoseconds}});
  }
  panels.push_back(std::move(panel));
  table.print(out);
  return results;
}

llvm::json::Array benchVirtual(const std::string &deviceName, std::vector<BarPanel> &panels,
                               std::ostream &out) {
  const Device device = openDevice(deviceName);
  out << "virtual: " << device.name() << ", all checks on\n";
  llvm::json::Array results;
  Table table;
  table.row({"kernel", "shape", "seconds", "blocks/s", "MMA operations/s"});
  BarPanel panel{"Seconds on " + device.name() + ", all checks on", {}};
  for (const bench::VirtualSpeed &speed : bench::measureVirtual(device)) {
    panel.bars.push_back(
        {speed.call.kernel->name + " " + shapeText(speed.call), {{"launch", speed.seconds}}});
    const double blocks = static_cast<double>(speed.blocks) / speed.seconds;
    const double mma = static_cast<double>(speed.mma) / speed.seconds;
    table.row({speed.call.kernel->name, shapeText(speed.call), fixed(speed.seconds, 2),
               fixed(blocks, 0), fixed(mma, 0)});
    results.push_back(llvm::json::Object{{"kernel", speed.call.kernel->name},
                                         {"shape", shapeText(speed.call)},
                                         {"device", device.name()},
                                         {"seconds", speed.seconds},
                                         {"blocks_per_second", blocks},
                                         {"mma_per_second", mma}});
  }
  panels.push_back(std::move(panel));
  table.print(out);
  return results;
}

} // namespace

int sectile::tool::runBench(const CommandLine &line) {
  const std::string suite = line.argument(0).value_or("");
  if (!suite.empty() && suite != "compile" && suite != "kernels" && suite != "launch" &&
      suite != "virtual")
    throw InputError("there is no suite '" + suite +
                     "'; the suites are compile, launch, virtual, kernels");
  for (const char *flag : {"--kernel", "--file", "--small", "--dtype", "--budget", "--deadline"})
    if (line.has(flag) && suite != "kernels")
      throw InputError(std::string(flag) + " is for the suite kernels");
  const std::optional<std::string> path = line.value("--output"), plot = line.value("--plot");
  if (plot && !plot->ends_with(".svg"))
    throw InputError("--plot: '" + *plot + "' does not end in .svg");
  for (const auto &file : {path, plot})
    if (file)
      checkWritable(*file);
  // The tables go to nowhere where JSON takes their place.
  std::ostringstream unseen;
  std::ostream &out = line.has("--json") ? static_cast<std::ostream &>(unseen) : std::cout;
  std::vector<BarPanel> panels;
  llvm::json::Object results;
  if (suite.empty() || suite == "compile")
    results["compile"] = benchCompile(panels, out);
  if (suite.empty() || suite == "launch")
    results["launch"] = benchLaunch(panels, out);
  if (suite.empty() || suite == "virtual")
    results["virtual"] =
        benchVirtual(line.value("--device").value_or("virtual:sm_90a"), panels, out);
  bool failed = false;
  if (suite == "kernels") // in the time of a device, which nobody asked for who asks for all others
    results["kernels"] =
        benchKernels(line, panels, out, failed, [&](const llvm::json::Array &rows) {
          if (path && isReplaced(*path)) // somebody may end this before all is done
            writeFile(*path, {jsonText(llvm::json::Object{{"kernels", llvm::json::Array(rows)}})});
        });
  const std::string text = jsonText(std::move(results));
  if (path)
    writeFile(*path, {text});
  if (line.has("--json"))
    std::cout << text;
  if (plot)
    writeFile(*plot, {drawBars(panels)});
  return failed ? 1 : 0;
}
