// The numbers by step and head of the delta rule, beta and g, as its launches take them: in f32, of
// whatever the options say.
#pragma once
#include "kernels/calls/Use.h"
#include <limits>

namespace sectile::delta {

enum class GateForm : int { same, sigmoid, softplus, bounded, step };

// One of the two inputs: `form` of it, times `factor`.
struct GateNumbers {
  const char *name;
  GateForm form;
  float factor;
  // softplus and step: what softplus gives is kept within these.
  float least = 0, most = std::numeric_limits<float>::infinity();

  // With dt_bias, and all but steps with A_log.
  bool isGate() const { return form != GateForm::same && form != GateForm::sigmoid; }
  bool isGiven(const Invocation &call) const { return isGate() || call.has(name); }
  // The input is taken as it is.
  bool isPlain(const Invocation &call) const {
    return call.has(name) && call.dtype(name) == DType::float32 && form == GateForm::same &&
           factor == 1;
  }
};
GateNumbers strengthsOf(const Invocation &call); // beta
GateNumbers decaysOf(const Invocation &call);    // g

// [B, T, Hv]; nothing where they are not given.
Tensor<float, 3> inFloat(Use &use, const GateNumbers &numbers);
// The same of decays by channel: [B, T, Hv, K].
Tensor<float, 4> channelsInFloat(Use &use, const GateNumbers &numbers);
// Where the gradient of these goes: [B, T, Hv], of decays by channel [B, T, Hv, K].
template <int N> Tensor<float, N> gradientOf(Use &use, const GateNumbers &numbers);
// Launches what makes the inputs' gradients of that. Of a softplus that is the length of steps,
// too, `ofSteps` is the gradient of these.
void launchGradients(Use &use, const GateNumbers &numbers, const Tensor<float, 3> &gradient,
                     const Tensor<float, 3> &ofSteps = noTensor<float, 3>());
void launchChannelGradients(Use &use, const GateNumbers &numbers, const Tensor<float, 4> &gradient);
// Sums of parts [programs, Hv] over the programs.
void launchHeadSums(Use &use, const Tensor<float, 2> &parts, const Tensor<float, 1> &sums);

} // namespace sectile::delta
