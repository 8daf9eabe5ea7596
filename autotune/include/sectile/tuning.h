// What the autotuner is asked for, and what it reports.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <sectile/signature.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sectile {

enum class Strategy {
  // Every candidate, the likeliest first; one that is far behind after a few runs gets no more.
  exhaustive,
  random,  // as many as the budget allows, in an order that the seed gives
  halving, // all get a few runs, the better half of them more, and so on
};

enum class AutotuneMode {
  off,    // the reference configuration, always
  cached, // the best that is known of this bucket, else of the nearest, else the reference
  on,     // tunes where nothing is known
};

// What SECTILE_AUTOTUNE says: off, cached or on; cached where it is not set.
AutotuneMode autotune_mode();

// The order of sums decides a result's last bits, and configurations differ in it.
enum class Numerics {
  any,   // the fastest configuration
  fixed, // only those that sum in one order, whatever was measured and however large a batch is
};
// What set_numerics() said last, else SECTILE_NUMERICS: any or fixed; any where it is not set.
Numerics numerics();
void set_numerics(Numerics numerics);

// Names and extents: what the best configuration is kept under.
using NamedExtents = std::vector<std::pair<std::string, std::int64_t>>;

// The least power of two that is at least n; 0 and less: n.
constexpr std::int64_t next_power_of_two(std::int64_t n) {
  if (n <= 0)
    return n;
  std::int64_t power = 1;
  while (power < n && power < (std::int64_t{1} << 62))
    power *= 2;
  return power;
}

// The arguments of a launch, as a bucket rule and the predicate of a space see them: by position
// among the kernel's parameters, where the fields of a struct count one by one. Both throw
// LaunchError if the argument is of another kind.
class LaunchArguments {
public:
  LaunchArguments(std::span<const detail::ArgSpec> specs, const std::uint64_t *words)
      : specs_(specs), words_(words) {}

  std::int64_t extent(std::size_t argument, int axis) const; // of a view
  std::int64_t value(std::size_t argument) const;            // of an integer

  std::span<const detail::ArgSpec> specs() const { return specs_; }

private:
  const std::uint64_t *of(std::size_t argument) const;

  std::span<const detail::ArgSpec> specs_;
  const std::uint64_t *words_;
};

// The extents of all views and all integers, each up to the next power of two: "0.1" is axis 1 of
// argument 0, "3" argument 3.
NamedExtents power_of_two_bucket(const LaunchArguments &arguments);

struct AutotuneOptions {
  // Launches of one bucket share their measurements, and the best configuration that is valid.
  std::function<NamedExtents(const LaunchArguments &)> bucket = power_of_two_bucket;

  Strategy strategy = Strategy::exhaustive;
  std::uint64_t seed = 0;     // of the random order
  std::size_t candidates = 0; // the most that are measured, beside the reference; 0: all
  double seconds = 0;         // after which none is begun; 0: no limit
  // Seconds that one run may take. 0: a hundred times the fastest run so far, but no less than ten;
  // ten minutes for the first.
  double deadline = 0;

  // Whether another process measures on a device, so that what hangs or faults costs itself. Where
  // none can, this one does, and says why.
  bool apart = true;

  // Which arguments the kernel writes, by position, as LaunchArguments counts. Without a value:
  // every Ptr and View of elements that are not const.
  std::optional<std::vector<std::size_t>> outputs = std::nullopt;
  // How far from the reference's outputs is right: of each element, relative to the larger of it
  // and the root mean square. Without a value by type, see docs/autotuner.md.
  std::optional<double> tolerance = std::nullopt;

  // Whether to wait while another process or thread tunes the same bucket, or to go on with what is
  // known.
  bool wait = true;
  bool quiet = false;                              // no progress on standard error
  unsigned threads = 0;                            // that compile; 0: one for each core
  std::optional<AutotuneMode> mode = std::nullopt; // instead of SECTILE_AUTOTUNE

  // Fields of a configuration, "warps" and "stages" among them, that leave the order of sums as it
  // is. All others change it.
  std::vector<std::string> neutral = {"stages"};
  std::optional<Numerics> numerics = std::nullopt; // instead of sectile::numerics()
};

enum class TuneVerdict {
  good,
  hopeless,     // right, but stopped early: others were far ahead
  wrong,        // its outputs are not the reference configuration's
  failed,       // it did not compile, did not launch, or crashed
  does_not_fit, // dropped before it was compiled
  timed_out,    // a run of it took longer than the deadline
  unfinished,   // its run began: it ended the process that ran it, unless that is at it still
};
std::string_view name_of(TuneVerdict verdict);

struct TuneReport {
  struct Row {
    std::string config;   // "m=128 n=64 warps=4 stages=3"
    std::string numerics; // what of it decides the order of sums: "m=128 n=64 warps=4"
    TuneVerdict verdict = TuneVerdict::good;
    std::string message;                     // why it is not good
    double microseconds = 0, spread = 0;     // median and interquartile range
    unsigned runs = 0;                       // 0: the cost model's estimate
    double compile_milliseconds = 0;         // 0: nothing was compiled
    unsigned registers = 0, spill_bytes = 0; // of one thread; 0 where nobody knows
    unsigned shared_bytes = 0;               // of one block
    bool known = false;                      // from the database, not measured by this call
  };
  std::string kernel, device;
  NamedExtents bucket;
  std::vector<Row> rows;    // the reference configuration first, then in the order of the space
  std::size_t best = 0;     // a row
  bool interrupted = false; // by Ctrl-C
  std::string problem;      // why the device could not go on; else empty

  std::string text() const; // a table, fastest first
};

} // namespace sectile
