// Options, arguments and checks of the convolutions.
#include "kernels/conv/Shape.h"
#include "kernels/matmul/ProductModel.h"
#include <sectile/error.h>
#include <tuple>

using namespace sectile;

ConvShape::ConvShape(const OptionValues &options)
    : h{options.integer("stride_h"), options.integer("pad_h"), options.integer("dilation_h")},
      w{options.integer("stride_w"), options.integer("pad_w"), options.integer("dilation_w")},
      groups(options.integer("groups")) {}

std::vector<std::string> sectile::channelsLast(std::vector<std::string> axes,
                                               const OptionValues &options) {
  if (options.choice("layout") == "nhwc")
    return {axes[0], axes[2], axes[3], axes[1]};
  return axes;
}

KernelSpec sectile::convSpec() {
  KernelSpec spec;
  spec.add_arguments(
      {{"x: [N, C, H, W] f16|bf16|f32", "[N, H, W, C] with nhwc", {.stored = channelsLast}},
       {"w: [K, Cg, R, S] like x",
        "Cg = C / groups; [K, R, S, Cg] with nhwc",
        {.stored = channelsLast}}});
  spec.add_options(
      {{"layout: nchw|nhwc = nchw",
        "the order of axes in memory; nhwc stores filters as [K, R, S, Cg]"},
       {"stride_h: integer = 1 from 1 e.g. 2, 3", "rows from one place of the filter to the next"},
       {"stride_w: integer = 1 from 1 e.g. 2, 3", "columns likewise"},
       {"pad_h: integer = 0 from 0 e.g. 2, 3", "rows of zeros above and below"},
       {"pad_w: integer = 0 from 0 e.g. 2, 3", "columns of zeros left and right"},
       {"dilation_h: integer = 1 from 1 e.g. 2, 3", "rows from one tap of the filter to the next"},
       {"dilation_w: integer = 1 from 1 e.g. 2, 3", "columns likewise"},
       {"groups: integer = 1 from 1 e.g. 2, 3, 6",
        "parts of the channels that are convolved on their own"},
       precisionOption});
  spec.batch = {"N"};
  spec.typical = {{"N", 8}, {"C", 64}, {"H", 56}, {"W", 56}, {"K", 64}, {"R", 3}, {"S", 3}};
  spec.small = {{"N", 2}, {"C", 6}, {"H", 9}, {"W", 13}, {"K", 6}, {"R", 3}, {"S", 2}};
  return spec;
}

void sectile::checkConv(const Invocation &call) {
  auto fail = [&](const std::string &what) { refuse(call, what); };
  const std::int64_t groups = call.options.integer("groups"), channels = call.extent("C"),
                     own = call.extent("Cg"), filters = call.extent("K");
  if (own * groups != channels)
    fail("x has " + std::to_string(channels) + " channels, but w has " + std::to_string(own) +
         " in each of " + std::to_string(groups) + " groups");
  if (filters % groups)
    fail("w has " + std::to_string(filters) + " filters, which " + std::to_string(groups) +
         " groups cannot share evenly");
  if (!call.extent("R") || !call.extent("S"))
    fail("w has no taps");
  for (const auto &[image, rows, columns] :
       {std::tuple{"x", "H", "W"}, {call.kernel->name == "conv2d" ? "y" : "dy", "P", "Q"}})
    if (const std::int64_t pixels = call.extent("N") * call.extent(rows) * call.extent(columns);
        pixels > mostPixels)
      fail(std::string(image) + " has " + std::to_string(pixels) + " pixels, more than " +
           std::to_string(mostPixels));
}

void sectile::followChannels(Invocation &call) {
  call.extents["Cg"] = call.extent("C") / ConvShape(call.options).groups;
}

void sectile::derivePlaces(Invocation &call) {
  const ConvShape shape(call.options);
  call.extents["P"] = shape.h.places(call.extent("H"), call.extent("R"));
  call.extents["Q"] = shape.w.places(call.extent("W"), call.extent("S"));
}

double sectile::convFlops(const Invocation &call) {
  return productFlops(call, {"N", "K", "P", "Q", "Cg", "R", "S"});
}
