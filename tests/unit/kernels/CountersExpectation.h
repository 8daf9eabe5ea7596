// What the test of every kernel's counters states of a kernel: the call, how many bytes it reads of
// each input, and what accesses cost beyond that.
#pragma once
#include "CountersTest.h"

namespace sectile::test {

constexpr double sector = 32;

/// A call with its configuration, for formulas of bytes.
struct Plan {
  const Invocation &call;
  const Config &config;
  const std::string &target;

  double bytes(std::string_view argument) const {
    const TensorType &type = call.tensor(argument);
    return static_cast<double>(HostArray(type.dtype, type.shape).data.size());
  }
  double extent(const char *axis) const { return static_cast<double>(call.extent(axis)); }
  double field(const char *name) const { return static_cast<double>(config.at(name)); }
  /// Tiles along an axis.
  double tiles(const char *axis, const char *name) const {
    return std::ceil(extent(axis) / field(name));
  }
  /// Rows, of kernels over them.
  double rows() const { return static_cast<double>(elementCount(call.leading)); }
  /// What a warp of each of so many programs reads for itself: a sector for a number or a few.
  double byWarps(double programs, const char *warps = "warps") const {
    return programs * field(warps) * sector;
  }
};

/// Bytes of an input that all launches together read.
struct Bytes {
  double least, most;
  Bytes(double exactly) : least(exactly), most(exactly) {}
  Bytes(double least, double most) : least(least), most(most) {}
};
/// A few numbers, which warps read for themselves.
inline Bytes few(double most) { return {sector, most}; }
/// By argument; "scratch" is what one launch leaves for another.
using Reads = std::map<std::string, Bytes>;

inline Reads allOnce(const Plan &p) {
  Reads reads;
  for (std::size_t i = 0; i < p.call.tensors.size(); ++i)
    if (const ArgumentSpec &argument = p.call.kernel->arguments[i];
        !argument.output && p.call.tensors[i].present)
      reads.insert({argument.name, p.bytes(argument.name)});
  return reads;
}

using Prepare = std::function<void(const Invocation &, std::vector<HostArray> &)>;

struct Expectation {
  std::vector<std::string> kernels;
  std::map<std::string, std::int64_t> extents;
  std::function<Reads(const Plan &)> reads = allOnce;
  Assignments options = {};
  Prepare prepare = nullptr;
  std::string dtype = "f16";
  Config config = {};
  /// Bytes of sectors that are touched beyond those that would hold what is asked for, at most:
  /// where numbers lie apart, or wherever contents say.
  std::function<double(const Plan &)> apart = [](const Plan &) { return 0.0; };
  /// Wavefronts that bank conflicts cost, at most.
  std::function<double(const Plan &)> conflicts = [](const Plan &) { return 0.0; };
};

/// Index lists and lengths.
inline Prepare contents(std::map<std::string, std::vector<double>> values) {
  return [values](const Invocation &call, std::vector<HostArray> &inputs) {
    for (const auto &[name, value] : values)
      inputs[call.index(name)].assign(value);
  };
}
inline std::vector<double> numbers(int count, const std::function<double(int)> &of) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i)
    all.push_back(of(i));
  return all;
}

/// Each tile of the result reads its rows of the one operand and its columns of the other.
inline Reads products(const Plan &p, const char *a, const char *b) {
  return {{a, p.bytes(a) * p.tiles("N", "n")}, {b, p.bytes(b) * p.tiles("M", "m")}};
}
inline Reads with(Reads reads, const Reads &others) {
  reads.insert(others.begin(), others.end());
  return reads;
}

} // namespace sectile::test
