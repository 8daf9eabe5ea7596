// What the tuner measured: as it comes from measuring, as the database keeps it, as people see it.
#ifndef SECTILE_AUTOTUNE_RECORDS_H
#define SECTILE_AUTOTUNE_RECORDS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sectile::autotune {

/// Named extents, in the order of the kernel's rule: {{"m", 512}, {"n", 512}}.
using ShapeKey = std::vector<std::pair<std::string, int64_t>>;

/// A problem that is tuned once: what the best configuration depends on.
struct TuningKey {
  std::string kernel; ///< its name
  std::string code;   ///< hash of the IR that its reference configuration traces to, no locations
  std::string device; ///< the product, "NVIDIA H200", or "virtual:sm_90"
  std::string dtypes; ///< of the arguments in order, "f16 f16 f16"
  ShapeKey shape;     ///< the bucket, by the kernel's rule
};

/// What measurements age by: those of another toolchain are stale, but better than none.
struct Toolchain {
  std::string compiler; ///< Sectile's and LLVM's versions and the library's build
  std::string driver;   ///< the device driver's version; empty on a virtual device
  bool operator==(const Toolchain &) const = default;
};

enum class Verdict {
  Good,
  Hopeless,   ///< right, but stopped early: others were far ahead
  Wrong,      ///< its outputs are not the reference configuration's
  Failed,     ///< it did not compile, did not launch, or crashed
  DoesNotFit, ///< dropped before it was compiled
  TimedOut,   ///< a run of it took longer than the deadline
  Unfinished, ///< its run began: it ended the process that ran it, unless that is at it still
};

/// One candidate of one problem.
struct Measurement {
  std::string config; ///< "m=128 n=64 k=32 warps=4 stages=3"
  Verdict verdict = Verdict::Good;
  std::string message;            ///< why it is not good; empty otherwise
  double median = 0, spread = 0;  ///< microseconds; the spread is the interquartile range
  unsigned runs = 0;              ///< that the median is of; 0 for the cost model's estimate
  double compileMilliseconds = 0; ///< 0 where the compile cache had it
  unsigned registers = 0;         ///< of one thread; 0 where nobody knows
  unsigned spillBytes = 0;        ///< of one thread
  unsigned sharedBytes = 0;       ///< of one block
  std::string irHash;             ///< of this configuration's IR without locations
  std::string numerics;           ///< numericsOf() it; empty where that is not known
  Toolchain toolchain;
  int64_t when = 0; ///< seconds since 1970
};

/// Why measurements of one toolchain are stale under another: "driver 550.54, now 560.1". Empty
/// where they are not.
std::string staleness(const Toolchain &then, const Toolchain &now);

/// What of a configuration decides the order of sums: its fields but for those that are neutral.
/// "-" where there is none.
std::string numericsOf(std::string_view config, const std::vector<std::string> &neutral);
/// Of one that was to be like the reference, and whose bits were others.
std::string otherBits(const std::string &numerics);

/// "m=512 n=512"
std::string describe(const ShapeKey &shape);

/// "good", "hopeless", "wrong", "failed", "does not fit", "timed out", "unfinished"
std::string_view name(Verdict verdict);
/// The verdict of that name.
std::optional<Verdict> parseVerdict(std::string_view name);

/// Good ones first, by their medians.
void sortBestFirst(std::vector<Measurement> &measurements);

} // namespace sectile::autotune

#endif
