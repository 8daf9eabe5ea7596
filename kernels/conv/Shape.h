// The geometry of a convolution: options, extents, and arguments as both of its kernels take them.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// One axis of the image.
struct ConvAxis {
  std::int64_t stride, pad, dilation;

  // Places of a filter of `filter` taps over `image` elements and padding on both ends.
  std::int64_t places(std::int64_t image, std::int64_t filter) const {
    const std::int64_t room = image + 2 * pad - dilation * (filter - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
};

// In all images together: programs count them in 32 bits, up to the end of the last tile.
constexpr std::int64_t mostPixels = (std::int64_t(1) << 31) - (1 << 16);

struct ConvShape {
  ConvAxis h, w;
  std::int64_t groups;

  explicit ConvShape(const OptionValues &options);
};

// Channels last where the layout says so: for arguments [N, C, H, W].
std::vector<std::string> channelsLast(std::vector<std::string> axes, const OptionValues &options);
// What the two specifications have in common; x and w [K, Cg, R, S] are the first arguments, with
// Cg of C / groups channels.
KernelSpec convSpec();
// Throws InputError where options and extents do not go together.
void checkConv(const Invocation &call);

// Adds Cg, the channels of a group.
void followChannels(Invocation &call);
// Adds P and Q, the extents of y; mistakes in other extents are left to the check.
void derivePlaces(Invocation &call);

// Of one of the three convolutions: every tap of every place that it is laid on.
double convFlops(const Invocation &call);

// Reference: y, or the gradients of x, w and b.
ReferenceFunction conv2dReference;
ReferenceFunction conv2dBackwardReference;

} // namespace sectile
