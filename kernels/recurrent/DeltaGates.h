// The numbers by step and head of the delta rule, beta and g, as its launches take them: in f32, of
// whatever the options say.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile::delta {

enum class GateForm : int { same, sigmoid, softplus, bounded };

// One of the two inputs: `form` of it, times `factor`.
struct GateNumbers {
  const char *name;
  GateForm form;
  float factor;

  // With A_log and dt_bias.
  bool isGate() const { return form == GateForm::softplus || form == GateForm::bounded; }
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
// Where the gradient of these goes, and the launch after that which makes the inputs' of it.
Tensor<float, 3> gradientOf(Use &use, const GateNumbers &numbers);
void launchGradients(Use &use, const GateNumbers &numbers, const Tensor<float, 3> &gradient);

} // namespace sectile::delta
