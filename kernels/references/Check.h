// Judging what a kernel gave on arrays of the host.
#pragma once
#include "kernels/calls/Execute.h"
#include "kernels/references/Accuracy.h"
#include <random>

namespace sectile {

struct Verdict {
  std::string output;
  Accuracy accuracy;
  bool nearby = false; // its bound is that of neighbours of the inputs
};
// Each output that is there against the float64 reference.
std::vector<Verdict> check(const Invocation &call, std::span<const HostArray> inputs,
                           std::span<const HostArray> outputs);

// For inputs that nobody picked. A bound follows from the plain formula's own error, which may be
// next to nothing by luck: in an output of one element, or where terms cancel out. Where one is
// missed, that error is taken at neighbours of the inputs too, and the largest counts: a verdict
// that this changes says so.
std::vector<Verdict> checkNearby(const Invocation &call, std::span<const HostArray> inputs,
                                 std::span<const HostArray> outputs);

// Such a neighbour: each number of a float type up or down by `unit` of itself, at least by one in
// its last place.
HostArray neighbourOf(const HostArray &array, double unit, std::mt19937_64 &random);

} // namespace sectile
