// Error figures over one output.
#include "kernels/references/Accuracy.h"
#include <cassert>
#include <cmath>
#include <cstdio>
#include <limits>

using namespace sectile;

namespace {

// Largest value and root of the mean square of what it is given.
struct Figures {
  double max = 0, squares = 0;
  void add(double error) {
    max = std::max(max, error);
    squares += error * error;
  }
  double rms(std::int64_t count) const {
    return count ? std::sqrt(squares / static_cast<double>(count)) : 0;
  }
};

// About one unit in the last place of value.
double spacing(DType dtype, double value) {
  return with_type(dtype, [&](auto zero) -> double {
    using Limits = std::numeric_limits<decltype(zero)>;
    if constexpr (Limits::is_integer)
      return 0;
    else
      return static_cast<double>(Limits::epsilon()) *
             std::max(std::abs(value), static_cast<double>(Limits::min()));
  });
}

} // namespace

Accuracy sectile::judge(const HostArray &output, const HostArray &exact, const HostArray &base,
                        double factor) {
  assert(output.shape == exact.shape && output.shape == base.shape);
  const auto out = output.to_double(), ref = exact.to_double(), own = base.to_double();
  const auto rounded = HostArray(output.dtype, output.shape, ref).to_double();

  Accuracy result;
  result.count = static_cast<std::int64_t>(out.size());
  Figures errors, baseErrors, probe;
  std::int64_t finite = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    bool met = true;
    if (std::isnan(ref[i]))
      met = std::isnan(out[i]);
    else if (std::isinf(rounded[i])) // infinite, or too large for the dtype
      met = out[i] == rounded[i];
    else
      met = std::isfinite(out[i]);
    const bool comparable = met && std::isfinite(rounded[i]);
    const double error = comparable ? std::abs(out[i] - ref[i]) : 0;
    const bool firstMismatch = !met && result.mismatches == 0;
    if (firstMismatch || (result.mismatches == 0 && (error > errors.max || result.worst < 0))) {
      result.worst = static_cast<std::int64_t>(i);
      result.worstOutput = out[i];
      result.worstExact = ref[i];
    }
    result.mismatches += !met;
    if (!comparable)
      continue;
    ++finite;
    errors.add(error);
    // Where the plain formula overflows it says nothing about what can be asked for.
    if (std::isfinite(own[i]))
      baseErrors.add(std::abs(own[i] - ref[i]));
    probe.add(spacing(output.dtype, ref[i]));
  }
  result.maxError = errors.max;
  result.maxBound = factor * baseErrors.max + probe.max;
  result.rmsError = errors.rms(finite);
  result.rmsBound = factor * baseErrors.rms(finite) + probe.rms(finite);
  return result;
}

std::string Accuracy::describe() const {
  char text[256];
  std::snprintf(text, sizeof text, "max error %.2e (bound %.2e), rms error %.2e (bound %.2e)",
                maxError, maxBound, rmsError, rmsBound);
  std::string result = text;
  if (mismatches) {
    std::snprintf(
        text, sizeof text,
        "; %lld of %lld elements are NaN or infinite where they must not be, or the reverse",
        static_cast<long long>(mismatches), static_cast<long long>(count));
    result += text;
  }
  if (!ok()) {
    std::snprintf(text, sizeof text, "; worst at element %lld: %.9g instead of %.9g",
                  static_cast<long long>(worst), worstOutput, worstExact);
    result += text;
  }
  return result;
}
