// Judging what a kernel gave on arrays of the host.
#include "kernels/references/Check.h"
#include <algorithm>
#include <limits>

namespace sectile {
namespace {

struct Bounds {
  double max = 0, rms = 0;
};
// Those of judge(), from what the plain formula does at neighbours of the inputs.
std::vector<Bounds> boundsNearby(const Invocation &call, std::span<const HostArray> inputs) {
  // Nothing less would change what products through tf32 read.
  const bool narrow = std::any_of(
      call.kernel->options.begin(), call.kernel->options.end(), [&](const OptionSpec &option) {
        return option.name == "precision" && call.options.choice("precision") == "tf32";
      });
  const double unit = narrow ? 0x1p-10 : 0;
  std::vector<Bounds> bounds;
  std::mt19937_64 random(1);
  for (int i = 0; i < 4; ++i) {
    std::vector<HostArray> nearby;
    for (const HostArray &input : inputs)
      nearby.push_back(neighbourOf(input, unit, random));
    std::size_t output = 0;
    for (const Verdict &verdict :
         check(call, nearby, referenceOutputs(call, nearby, Arithmetic::own))) {
      bounds.resize(std::max(bounds.size(), ++output));
      Bounds &own = bounds[output - 1];
      own.max = std::max(own.max, verdict.accuracy.maxBound);
      own.rms = std::max(own.rms, verdict.accuracy.rmsBound);
    }
  }
  return bounds;
}

} // namespace

HostArray neighbourOf(const HostArray &array, double unit, std::mt19937_64 &random) {
  HostArray result = array;
  with_type(array.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::numeric_limits<T>::is_integer)
      for (T &value : result.as<T>())
        value = T(static_cast<double>(value) *
                  (1 + (random() % 2 ? 1 : -1) *
                           std::max(unit, static_cast<double>(std::numeric_limits<T>::epsilon()))));
  });
  return result;
}

std::vector<Verdict> check(const Invocation &call, std::span<const HostArray> inputs,
                           std::span<const HostArray> outputs) {
  const auto exact = referenceOutputs(call, inputs, Arithmetic::exact);
  const auto base = referenceOutputs(call, inputs, Arithmetic::own);
  std::vector<Verdict> verdicts;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (call.tensors[inputs.size() + i].present)
      verdicts.push_back({call.kernel->arguments[inputs.size() + i].name,
                          judge(outputs[i], exact[i], base[i], call.kernel->factor)});
  return verdicts;
}

std::vector<Verdict> checkNearby(const Invocation &call, std::span<const HostArray> inputs,
                                 std::span<const HostArray> outputs) {
  std::vector<Verdict> verdicts = check(call, inputs, outputs);
  if (std::all_of(verdicts.begin(), verdicts.end(),
                  [](const Verdict &verdict) { return verdict.accuracy.ok(); }))
    return verdicts;
  const std::vector<Bounds> nearby = boundsNearby(call, inputs);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    Accuracy &accuracy = verdicts[i].accuracy;
    if (accuracy.ok())
      continue;
    verdicts[i].nearby = true;
    accuracy.maxBound = std::max(accuracy.maxBound, nearby[i].max);
    accuracy.rmsBound = std::max(accuracy.rmsBound, nearby[i].rms);
  }
  return verdicts;
}

} // namespace sectile
