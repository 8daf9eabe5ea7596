// The judge: is a kernel's output as close to the exact result as its dtypes allow?
#pragma once
#include "kernels/references/HostArray.h"
#include <cstdint>
#include <string>

namespace sectile {

// An output passes when its largest error is at most twice (or `factor` times) that of the same
// formula done plainly in the kernel's own dtypes, plus one unit in the last place; its
// root-mean-square error likewise. NaN and infinities of the exact result must be met exactly.
struct Accuracy {
  double maxError = 0, maxBound = 0;
  double rmsError = 0, rmsBound = 0;
  std::int64_t count = 0;
  std::int64_t mismatches = 0; // NaN or infinite where the exact result is not, or the reverse
  std::int64_t worst = -1;     // index of the first mismatch, else of the largest error
  double worstOutput = 0, worstExact = 0;

  bool ok() const { return mismatches == 0 && maxError <= maxBound && rmsError <= rmsBound; }
  std::string describe() const; // "max error 1.2e-03 (bound 2.0e-03), rms ..."
};

// `exact` and `base` are a reference's results in the two arithmetics. The three have one shape.
Accuracy judge(const HostArray &output, const HostArray &exact, const HostArray &base,
               double factor = 2);

} // namespace sectile
