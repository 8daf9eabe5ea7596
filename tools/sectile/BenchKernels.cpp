// `sectile bench kernels`: the time of every kernel of the library, or of a file of shapes.
#include "tools/sectile/BenchKernels.h"
#include "bench/Kernels.h"
#include "kernels/tuning/Tune.h"
#include "tools/File.h"
#include "tools/sectile/Calls.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/Workers.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <sectile/error.h>
#include <sstream>

using namespace sectile;
using namespace sectile::tool;

namespace {

using llvm::json::Object;

std::vector<Case> casesOf(const CommandLine &line) {
  std::vector<std::string> names = namesIn(line.value("--kernel").value_or(""));
  for (const std::string &name : names)
    findKernel(name);
  const auto isAsked = [&](const std::string &name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string dtype = line.value("--dtype").value_or("f16");
  std::vector<Case> cases;
  if (!line.has("--file")) {
    for (const KernelSpec &kernel : kernelRegistry())
      if (isAsked(kernel.name))
        cases.push_back({resolveTypical(
            kernel, dtypesFor(kernel, dtype),
            line.has("--small") ? kernel.small : std::map<std::string, std::int64_t>(), {})});
    return cases;
  }
  if (line.has("--small"))
    throw InputError("only one of --file and --small can be given");
  return readCases(*line.value("--file"), names, dtype);
}

// What a call computes on: the dtypes and shapes of its arguments, and of integers so much that
// another program can make up like ones.
Object describeCall(const Invocation &call, std::span<const HostArray> inputs) {
  Object extents, options;
  for (const auto &[axis, extent] : call.extents)
    extents[axis] = extent;
  if (!call.leading.empty())
    extents["..."] = elementCount(call.leading);
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options[name] = value;
  llvm::json::Array arguments;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const ArgumentSpec &spec = call.kernel->arguments[i];
    const TensorType &type = call.tensors[i];
    if (!type.present)
      continue;
    Object argument{{"name", spec.name},
                    {"output", spec.output},
                    {"dtype", std::string(name_of(type.dtype))},
                    {"shape", llvm::json::Array(type.shape)}};
    if (spec.updates)
      argument["updates"] = spec.over.front();
    if (i < inputs.size() && !is_floating(type.dtype) && inputs[i].count() > 0) {
      const std::vector<double> values = inputs[i].to_double();
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      argument["least"] = static_cast<std::int64_t>(*least);
      argument["most"] = static_cast<std::int64_t>(*most);
      argument["mean"] =
          std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
      constexpr std::size_t few = 4096;
      if (values.size() <= few) {
        llvm::json::Array all;
        for (const double value : values)
          all.push_back(static_cast<std::int64_t>(value));
        argument["values"] = std::move(all);
      }
    }
    arguments.push_back(std::move(argument));
  }
  return Object{{"kernel", call.kernel->name},
                {"extents", std::move(extents)},
                {"options", std::move(options)},
                {"arguments", std::move(arguments)},
                {"bytes", bench::leastBytes(call)}};
}

Object timeCase(const Device &device, const Case &timed) {
  const Invocation &call = timed.call;
  const std::vector<HostArray> inputs = sampleInputs(call, 1);
  Object row = describeCall(call, inputs);
  const Config config = configFor(call, device, timed.given);
  const bench::Timing timing = bench::timeKernel(device, call, config, inputs);
  row["device"] = device.name();
  row["product"] = device.description();
  row["target"] = device.target();
  row["config"] = sectile::describe(*call.kernel, config);
  row["estimated"] = timing.runs == 0;
  row["median_us"] = timing.median;
  row["low_us"] = timing.low;
  row["high_us"] = timing.high;
  row["runs"] = timing.runs;
  if (call.kernel->flops)
    row["flops"] = call.kernel->flops(call);
  return row;
}

std::string rounded(double value, const char *format) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// Bytes or operations for each microsecond, in thousands or millions of millions of a second.
double rate(const Object &row, const char *what, double unit) {
  return row.getNumber(what).value_or(0) / *row.getNumber("median_us") / unit;
}

class Report {
public:
  Report() { table.row({"kernel", "shape", "config", "median", "spread", "GB/s", "TFLOP/s"}); }

  void add(const Invocation &call, Object row, const std::string &error) {
    const std::string &name = call.kernel->name, shape = shapeText(call);
    if (!error.empty()) {
      row = Object{{"kernel", name}, {"error", error}};
      table.row({name, shape, "-", "failed"});
      problems += name + " " + shape + ": " + error + "\n";
    } else {
      const double median = *row.getNumber("median_us");
      const bool counts = row.getNumber("flops").has_value() && median > 0;
      isEstimated |= *row.getBoolean("estimated");
      device = row.getString("product")->str() + " (" + row.getString("device")->str() + ")";
      const double spread = *row.getNumber("high_us") - *row.getNumber("low_us");
      table.row(
          {name, shape, row.getString("config")->str(), microseconds(median),
           *row.getBoolean("estimated") ? "estimated" : rounded(100 * spread / median, "%.1f%%"),
           rounded(median > 0 ? rate(row, "bytes", 1e3) : 0, "%.0f"),
           counts ? rounded(rate(row, "flops", 1e6), "%.1f") : "-"});
      moved.bars.push_back({name + " " + shape, {{"GB/s", rate(row, "bytes", 1e3)}}});
      if (counts)
        computed.bars.push_back({name + " " + shape, {{"TFLOP/s", rate(row, "flops", 1e6)}}});
    }
    row["shape"] = shape;
    rows.push_back(std::move(row));
  }

  void print(std::ostream &out) const {
    if (isEstimated)
      out << "kernels: " << device
          << "; nothing was timed, these are estimates of the cost model\n";
    else
      out << "kernels: " << device << "; median of runs that find nothing in the L2 cache\n";
    table.print(out);
    out << problems;
  }

  Table table;
  std::string problems, device = "nothing was run";
  bool isEstimated = false;
  llvm::json::Array rows;
  BarPanel moved{"GB/s (each input and output counted once)", {}}, computed{"TFLOP/s", {}};
};

} // namespace

llvm::json::Array
sectile::tool::benchKernels(const CommandLine &line, std::vector<BarPanel> &panels,
                            std::ostream &out, bool &failed,
                            const std::function<void(const llvm::json::Array &)> &keep) {
  const std::vector<Case> cases = casesOf(line);
  const double budget = line.seconds("--budget"), deadline = line.seconds("--deadline");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::optional<Clock::time_point> kept;
  Report report;
  std::optional<Device> device;
  Workers workers;
  workers.deadline = deadline > 0 ? deadline : 120;
  workers.begin = [&] {
    device = openDevice(line.value("--device"));
    if (device->name() == "interpreter")
      throw InputError("the interpreter has no time: it says what a kernel does, not how");
    if (device->name().starts_with("virtual:") && !line.has("--small") && !line.has("--file"))
      throw InputError(device->name() + " is no device that could be timed, and typical shapes "
                                        "would take it long to estimate: give --small, or --file");
  };
  workers.work = [&](std::size_t i) { return timeCase(*device, cases[i]); };
  workers.done = [&](std::size_t i, Object row, const std::string &error) {
    report.add(cases[i].call, std::move(row), error);
    const Clock::time_point now = Clock::now();
    if (!kept || now - *kept >= std::chrono::seconds(1)) {
      keep(report.rows);
      kept = now;
    }
    const std::chrono::duration<double> took = now - start;
    if (budget == 0 || took.count() < budget || i + 1 == cases.size())
      return true;
    std::cerr << "sectile: the budget was spent after " << i + 1 << " of " << cases.size()
              << " calls\n";
    return false;
  };
  runInWorkers(cases.size(), workers);
  report.print(out);
  failed = !report.problems.empty();
  for (BarPanel *panel : {&report.moved, &report.computed}) {
    panel->title += " on " + report.device + (report.isEstimated ? ", estimated" : "");
    if (!panel->bars.empty())
      panels.push_back(std::move(*panel));
  }
  return std::move(report.rows);
}
