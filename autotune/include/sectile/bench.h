// Timing work on a device, and sweeps of it over sizes and providers: as tables, CSV, JSON and
// plots.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <sectile/sealed.h>
#include <sectile/stream.h>
#include <string>
#include <vector>

namespace sectile::bench {

// How long one run of some work took, in microseconds.
struct Timing {
  double median = 0;
  double low = 0, high = 0; // a fifth of the runs were quicker than the one, slower than the other
  unsigned runs = 0;        // 0: nothing was timed, the figures are the cost model's
};

struct TimingOptions {
  double warmup_ms = 25; // of runs that do not count
  double total_ms = 100; // of runs that count; five of them at least
  bool flush_l2 = true;  // what a run finds in the L2 cache is not what the run before left there
};

// Runs `work`, which puts what is to be timed into the stream, again and again, and times each run
// with the device's events. A virtual device has no time: there `work` runs once, and the cost
// model says how long the kernels it launched would take (see docs/autotuner.md).
SECTILE_NEEDS_COMPILER Timing time(const Stream &stream, const std::function<void()> &work,
                                   const TimingOptions &options = {});

// What one run does at least: from it follow rates, and the least time it could take.
struct Work {
  double flops = 0; // additions and multiplications
  double bytes = 0; // to and from memory
};

// What a machine does at most.
struct Peak {
  double teraflops = 0; // per second
  double gigabytes = 0; // per second
  // Microseconds that the work takes at least: the roofline (Williams, Waterman and Patterson,
  // "Roofline: an insightful visual performance model for multicore architectures", 2009).
  double least_us(const Work &work) const;
};
// Of dense f16 matrix instructions, and of memory: published figures of the product that a device's
// target stands for (docs/autotuner.md names the sources), corrected by what the driver says of the
// device. Matrix instructions on tf32 are half as fast, on 8 bits twice as fast on most chips.
SECTILE_NEEDS_COMPILER Peak peak_of(const Device &device);

// What a sweep's figures are.
enum class Metric { microseconds, teraflops, gigabytes }; // the latter two per second
const char *unit_of(Metric metric);                       // "us", "TFLOP/s", "GB/s"

// The same work at several sizes, by several providers.
struct Sweep {
  std::string title;
  std::string axis;                 // what the sizes are of: "n"
  std::vector<std::int64_t> values; // of the axis, ascending
  Metric metric = Metric::microseconds;
  bool logarithmic = true;                     // the axis in plots
  std::function<Work(std::int64_t)> work = {}; // at a size; needed for rates and rooflines
  std::optional<Peak> peak = std::nullopt;     // draws a roofline
};
// 2^first, … 2^last.
std::vector<std::int64_t> powers_of_two(unsigned first, unsigned last);

struct Provider {
  std::string name;
  std::function<Timing(std::int64_t value)> run;
};

struct Point {
  std::int64_t value;
  std::optional<Timing> timing; // none where the provider threw
  std::string error;            // what it threw
};
struct Series {
  std::string name;
  std::vector<Point> points;
};

// What a sweep came to.
class Results {
public:
  Results(Sweep sweep, std::vector<Series> series);

  const Sweep &sweep() const { return sweep_; }
  const std::vector<Series> &series() const { return series_; } // a provider each, in order
  // In the sweep's metric.
  double figure(std::int64_t value, double microseconds) const;

  std::string text() const; // a table: a row per size, a column per provider, errors below
  std::string csv() const;  // axis,provider,median_us,low_us,high_us,runs,figure,error
  std::string json() const;
  std::string svg() const; // lines with their spread, axes, a legend, the roofline
  // The form by the name's end: .csv, .json or .svg; anything else is the table. Throws Error when
  // the file cannot be written.
  void write(const std::string &path) const;

private:
  Sweep sweep_;
  std::vector<Series> series_;
};

// Runs every provider at every size. A provider that throws misses that point, and the sweep goes
// on. `progress`, where given, is told of every point before it runs.
SECTILE_NEEDS_COMPILER Results
run(const Sweep &sweep, const std::vector<Provider> &providers,
    const std::function<void(const std::string &provider, std::int64_t value)> &progress = {});

} // namespace sectile::bench
