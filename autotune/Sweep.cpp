// Running a sweep, and what it came to as text, CSV and JSON.
#include "autotune/Plot.h"
#include "runtime/Numerals.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <fstream>
#include <sectile/bench.h>

namespace sectile::bench {
namespace {

// Three significant digits or more, never with an exponent.
std::string shown(double value) {
  const int digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4;
  return llvm::formatv(("{0:f" + std::to_string(digits) + "}").c_str(), value).str();
}

// A field of CSV, in quotes where it needs them (RFC 4180).
std::string quoted(const std::string &field) {
  if (field.find_first_of(",\"\r\n") == field.npos)
    return field;
  std::string text = "\"";
  for (char c : field)
    text += c == '"' ? "\"\"" : std::string(1, c);
  return text + '"';
}

void check(const Sweep &sweep, const std::vector<Provider> &providers) {
  if (sweep.values.empty())
    throw Error("the sweep '" + sweep.title + "' has no sizes");
  if (!std::is_sorted(sweep.values.begin(), sweep.values.end()))
    throw Error("the sizes of the sweep '" + sweep.title + "' must ascend");
  if (sweep.logarithmic && sweep.values.front() <= 0)
    throw Error("the sweep '" + sweep.title + "' has the size " +
                std::to_string(sweep.values.front()) + " on a logarithmic axis");
  if (!sweep.work && (sweep.metric != Metric::microseconds || sweep.peak))
    throw Error("the sweep '" + sweep.title +
                "' asks for rates or a roofline: say in `work` what is done at a size");
  for (const Provider &provider : providers)
    if (!provider.run)
      throw Error("the provider '" + provider.name + "' of the sweep '" + sweep.title +
                  "' runs nothing");
}

} // namespace

double Peak::least_us(const Work &work) const {
  // 1e12 flops per second are 1e6 per microsecond.
  const double computing = teraflops > 0 ? work.flops / (teraflops * 1e6) : 0;
  const double moving = gigabytes > 0 ? work.bytes / (gigabytes * 1e3) : 0;
  return std::max(computing, moving);
}

const char *unit_of(Metric metric) {
  switch (metric) {
  case Metric::microseconds:
    return "us";
  case Metric::teraflops:
    return "TFLOP/s";
  case Metric::gigabytes:
    return "GB/s";
  }
  return "";
}

std::vector<std::int64_t> powers_of_two(unsigned first, unsigned last) {
  std::vector<std::int64_t> values;
  for (unsigned exponent = first; exponent <= last && exponent < 63; ++exponent)
    values.push_back(std::int64_t{1} << exponent);
  return values;
}

Results run(const Sweep &sweep, const std::vector<Provider> &providers,
            const std::function<void(const std::string &, std::int64_t)> &progress) {
  check(sweep, providers);
  std::vector<Series> all;
  for (const Provider &provider : providers)
    all.push_back({provider.name, {}});
  // Size by size, so that what changes while it runs, a chip's clock say, meets all providers.
  for (const std::int64_t value : sweep.values)
    for (std::size_t i = 0; i < providers.size(); ++i) {
      if (progress)
        progress(providers[i].name, value);
      Point point{value, std::nullopt, ""};
      try {
        point.timing = providers[i].run(value);
      } catch (const std::exception &error) {
        point.error = error.what();
      }
      all[i].points.push_back(std::move(point));
    }
  return {sweep, std::move(all)};
}

Results::Results(Sweep sweep, std::vector<Series> series)
    : sweep_(std::move(sweep)), series_(std::move(series)) {}

double Results::figure(std::int64_t value, double microseconds) const {
  switch (sweep_.metric) {
  case Metric::microseconds:
    return microseconds;
  case Metric::teraflops:
    return sweep_.work(value).flops / microseconds / 1e6;
  case Metric::gigabytes:
    return sweep_.work(value).bytes / microseconds / 1e3;
  }
  return 0;
}

std::string Results::text() const {
  std::vector<std::vector<std::string>> rows{{sweep_.axis}};
  std::string errors;
  bool estimated = false;
  for (const Series &one : series_)
    rows[0].push_back(one.name);
  if (sweep_.peak)
    rows[0].push_back("roofline");
  for (std::size_t row = 0; row < sweep_.values.size(); ++row) {
    const std::int64_t value = sweep_.values[row];
    std::vector<std::string> cells{std::to_string(value)};
    for (const Series &one : series_) {
      const Point &point = one.points[row];
      cells.push_back(point.timing ? shown(figure(value, point.timing->median)) : "-");
      estimated |= point.timing && point.timing->runs == 0;
      if (!point.timing)
        errors += one.name + " at " + sweep_.axis + "=" + std::to_string(value) + ": " +
                  point.error + "\n";
    }
    if (sweep_.peak)
      cells.push_back(shown(figure(value, sweep_.peak->least_us(sweep_.work(value)))));
    rows.push_back(std::move(cells));
  }
  std::vector<std::size_t> widths(rows[0].size());
  for (const auto &row : rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text = sweep_.title + " (" + unit_of(sweep_.metric) +
                     (estimated ? ", by the cost model" : "") + ")\n";
  for (const auto &row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += (i ? "  " : "") + std::string(widths[i] - row[i].size(), ' ') + row[i];
    text += "\n";
  }
  return text + errors;
}

std::string Results::csv() const {
  const runtime::PlainNumerals plain;
  std::string text = quoted(sweep_.axis) + ",provider,median_us,low_us,high_us,runs," +
                     unit_of(sweep_.metric) + ",error\n";
  llvm::raw_string_ostream out(text);
  for (std::size_t row = 0; row < sweep_.values.size(); ++row)
    for (const Series &one : series_) {
      const Point &point = one.points[row];
      out << point.value << ',' << quoted(one.name) << ',';
      if (point.timing)
        out << llvm::formatv("{0:f3},{1:f3},{2:f3},{3},{4:f6},", point.timing->median,
                             point.timing->low, point.timing->high, point.timing->runs,
                             figure(point.value, point.timing->median));
      else
        out << ",,,,," << quoted(point.error);
      out << '\n';
    }
  return text;
}

std::string Results::json() const {
  llvm::json::Array providers;
  for (const Series &one : series_) {
    llvm::json::Array points;
    for (const Point &point : one.points) {
      llvm::json::Object entry{{"value", point.value}};
      if (point.timing) {
        entry["median_us"] = point.timing->median;
        entry["low_us"] = point.timing->low;
        entry["high_us"] = point.timing->high;
        entry["runs"] = point.timing->runs;
        entry["figure"] = figure(point.value, point.timing->median);
      } else {
        entry["error"] = llvm::json::fixUTF8(point.error);
      }
      points.push_back(std::move(entry));
    }
    providers.push_back(
        llvm::json::Object{{"name", llvm::json::fixUTF8(one.name)}, {"points", std::move(points)}});
  }
  llvm::json::Object all{{"title", llvm::json::fixUTF8(sweep_.title)},
                         {"axis", llvm::json::fixUTF8(sweep_.axis)},
                         {"unit", unit_of(sweep_.metric)},
                         {"providers", std::move(providers)}};
  if (sweep_.peak) {
    llvm::json::Array roofline;
    for (const std::int64_t value : sweep_.values)
      roofline.push_back(figure(value, sweep_.peak->least_us(sweep_.work(value))));
    all["roofline"] = std::move(roofline);
  }
  const runtime::PlainNumerals plain;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(all)));
  return text;
}

std::string Results::svg() const {
  Plot plot;
  plot.title = sweep_.title;
  plot.horizontal = {sweep_.axis, sweep_.logarithmic};
  plot.vertical = {unit_of(sweep_.metric), sweep_.metric == Metric::microseconds};
  bool estimated = false;
  for (const Series &one : series_) {
    PlotLine line{one.name, {}, /*dashed=*/false};
    for (const Point &point : one.points)
      if (point.timing)
        line.points.push_back({double(point.value), figure(point.value, point.timing->median),
                               figure(point.value, point.timing->low),
                               figure(point.value, point.timing->high)});
    plot.lines.push_back(std::move(line));
    for (const Point &point : one.points)
      estimated |= point.timing && point.timing->runs == 0;
  }
  if (estimated)
    plot.vertical.label += ", by the cost model";
  if (sweep_.peak) {
    PlotLine line{"roofline", {}, /*dashed=*/true};
    for (const std::int64_t value : sweep_.values) {
      const double figure = this->figure(value, sweep_.peak->least_us(sweep_.work(value)));
      line.points.push_back({double(value), figure, figure, figure});
    }
    plot.lines.push_back(std::move(line));
  }
  return drawSvg(plot);
}

void Results::write(const std::string &path) const {
  const auto ends = [&](std::string_view suffix) { return path.ends_with(suffix); };
  std::ofstream file(path, std::ios::binary);
  file << (ends(".csv") ? csv() : ends(".json") ? json() : ends(".svg") ? svg() : text());
  file.close();
  if (!file)
    throw Error("'" + path + "' cannot be written");
}

} // namespace sectile::bench
