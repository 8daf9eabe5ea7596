// layer_norm_backward: the gradients of layer_norm. The formulas are in NormBackward.cpp.
#include "kernels/norm/Family.h"
#include "kernels/norm/NormBackward.h"

using namespace sectile;

KernelSpec sectile::layerNormBackwardSpec() {
  KernelSpec spec = normBackwardSpec("layer_norm", true);
  spec.summary = "gradients of y = (x - mean) * rstd * w + b along the last axis";
  return spec;
}
