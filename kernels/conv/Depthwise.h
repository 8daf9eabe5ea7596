// Depthwise convolutions: each group has one channel of the image, so that a product would have
// nothing to sum but taps. They are summed by multiply-adds, without copies of the images.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// Groups of eight filters and more fill matrix instructions, and stay products. So do filters of
// very many rows, all of which the code has.
bool isDepthwise(const Invocation &call);
// A stride is part of the code too: dx of a long one stays a product.
bool isDepthwiseImageGradient(const Invocation &call);

// Fields m, n, k and warps of the launch, where it is one of these.
void addDepthwiseDefaults(Config &config, const Invocation &call, const std::string &target);
// Those of conv2d_wgrad, and the parts of its sums.
void addDepthwiseGradientDefaults(Config &config, const Invocation &call,
                                  const std::string &target);
// Of the tuner's values those that such a launch can use.
bool isDepthwiseCandidate(const Config &config, const Invocation &call, const std::string &target,
                          const std::string &prefix);

void launchDepthwise(Use &use);
void launchDepthwiseImageGradient(Use &use);
void launchDepthwiseFilterGradient(Use &use); // and that of the bias

} // namespace sectile
