// `sectile run`: one kernel on arrays from .npy files.
#include "kernels/references/Check.h"
#include "tools/File.h"
#include "tools/npy/Npy.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Json.h"
#include "tools/sectile/Table.h"
#include <algorithm>
#include <iostream>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;

namespace {

// Which file each output goes to, by the output's place among the outputs.
std::map<std::size_t, std::string> outputFiles(const CommandLine &line, const KernelSpec &kernel) {
  std::vector<std::string> names;
  std::string known;
  for (const ArgumentSpec &spec : kernel.arguments)
    if (spec.output) {
      names.push_back(spec.name);
      known += (known.empty() ? "" : ", ") + spec.name;
    }
  std::map<std::size_t, std::string> files;
  for (const auto &[name, path] : line.assignments("--out")) {
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw InputError("--out: " + kernel.name + " has no output '" + name + "'; its outputs are " +
                       known);
    checkWritable(path);
    for (const auto &[other, otherPath] : files)
      if (otherPath == path)
        throw InputError("--out: '" + path + "' is given for two outputs");
    files[static_cast<std::size_t>(found - names.begin())] = path;
  }
  return files;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

llvm::json::Array jsonOf(const std::vector<Verdict> &verdicts, const Invocation &call,
                         const Execution &execution) {
  llvm::json::Array rows;
  for (const Verdict &verdict : verdicts) {
    rows.push_back(
        llvm::json::Object{{"output", verdict.output},
                           {"largest_value", largestValue(call, verdict.output, execution)},
                           {"max_error", verdict.accuracy.maxError},
                           {"max_bound", verdict.accuracy.maxBound},
                           {"rms_error", verdict.accuracy.rmsError},
                           {"rms_bound", verdict.accuracy.rmsBound},
                           {"ok", verdict.accuracy.ok()}});
    if (verdict.nearby)
      (*rows.back().getAsObject())["nearby"] = true;
  }
  return rows;
}

void printVerdicts(const std::vector<Verdict> &verdicts, const Invocation &call,
                   const Execution &execution) {
  Table table;
  table.row({"output", "largest value", "max error", "allowed", "rms error", "allowed", ""});
  for (const Verdict &verdict : verdicts) {
    const Accuracy &accuracy = verdict.accuracy;
    table.row({verdict.output, number(largestValue(call, verdict.output, execution)),
               number(accuracy.maxError), number(accuracy.maxBound), number(accuracy.rmsError),
               number(accuracy.rmsBound),
               !accuracy.ok()   ? "FAILED"
               : verdict.nearby ? "ok nearby"
                                : "ok"});
  }
  table.print(std::cout);
  if (std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict &v) { return v.nearby; }))
    std::cout << "nearby: missed at these inputs, where the plain formula happens to be exact or "
                 "nearly; the bound is its error at neighbours of them\n";
}

} // namespace

int sectile::tool::runRun(const CommandLine &line) {
  const KernelSpec &kernel = findKernel(*line.argument(0));
  const Config given = parseConfig(kernel, line.assignments("--config"));
  const long repetitions = line.number("--repeat", 1).value_or(1);
  const auto files = outputFiles(line, kernel);
  if (files.empty() && !line.has("--check") && !line.has("--repeat"))
    throw InputError("nothing is asked of the results: give --out NAME=FILE, --check or --repeat");

  Inputs read = readInputs(line, kernel);
  const Invocation call = resolve(kernel, read.types, line.assignments("--opt"));
  std::vector<HostArray> inputs;
  for (const ArgumentSpec &spec : kernel.arguments)
    if (!spec.output)
      inputs.push_back(call.has(spec.name) ? std::move(read.arrays.at(spec.name)) : HostArray());
  for (const auto &[index, path] : files)
    if (const std::string &name = kernel.arguments[inputs.size() + index].name; !call.has(name))
      throw InputError("--out: there is no output '" + name + "' without '" +
                       kernel.arguments[inputs.size() + index].with + "'");

  checkContents(call, inputs);

  const Device device = openDevice(line.value("--device"));
  const Config config = configFor(call, device, given);
  const bool json = line.has("--json"), simulated = isSimulated(device.name());
  const Execution execution = execute(device, call, config, inputs, repetitions);

  for (const auto &[index, path] : files)
    writeNpy(path, execution.outputs[index]);
  std::vector<double> times = execution.milliseconds;
  std::sort(times.begin(), times.end());
  llvm::json::Object answer{{"kernel", kernel.name},    {"shape", shapeText(call)},
                            {"device", device.name()},  {"config", describe(config)},
                            {"simulated", simulated},   {"runs", repetitions},
                            {"best_ms", times.front()}, {"median_ms", times[times.size() / 2]}};
  if (line.has("--repeat") && !json)
    std::cout << kernel.name << " on " << device.name() << ", " << describe(config) << ": "
              << repetitions << " runs, best " << milliseconds(times.front()) << ", median "
              << milliseconds(times[times.size() / 2]) << (simulated ? ", simulated" : "") << "\n";
  if (!line.has("--check")) {
    if (json)
      printJson(std::move(answer));
    return 0;
  }
  const std::vector<Verdict> verdicts = checkNearby(call, inputs, execution.outputs);
  if (json) {
    answer["outputs"] = jsonOf(verdicts, call, execution);
    printJson(std::move(answer));
  } else {
    printVerdicts(verdicts, call, execution);
  }
  bool ok = true;
  for (const Verdict &verdict : verdicts) {
    ok &= verdict.accuracy.ok();
    if (!verdict.accuracy.ok())
      std::cerr << "sectile: " << kernel.name << ": output '" << verdict.output
                << "' missed its bound: " << verdict.accuracy.describe() << "\n";
  }
  return ok ? 0 : 1;
}
