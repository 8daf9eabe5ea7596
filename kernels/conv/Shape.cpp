// Options, arguments and checks of the convolutions.
#include "kernels/conv/Shape.h"
#include <sectile/error.h>
#include <tuple>

using namespace sectile;

namespace {

// Channels last where the layout says so.
std::vector<std::string> channelsLast(std::vector<std::string> axes, const OptionValues &options) {
  if (options.choice("layout") == "nhwc")
    return {axes[0], axes[2], axes[3], axes[1]};
  return axes;
}

} // namespace

ConvShape::ConvShape(const OptionValues &options)
    : h{options.integer("stride_h"), options.integer("pad_h"), options.integer("dilation_h")},
      w{options.integer("stride_w"), options.integer("pad_w"), options.integer("dilation_w")},
      groups(options.integer("groups")) {}

std::vector<OptionSpec> sectile::convOptions() {
  auto count = [](const char *name, const char *initial, const char *doc) {
    return OptionSpec{.name = name,
                      .kind = OptionSpec::integer,
                      .initial = initial,
                      .samples = {"2", "3"},
                      .doc = doc};
  };
  return {{.name = "layout",
           .kind = OptionSpec::choice,
           .initial = "nchw",
           .choices = {"nchw", "nhwc"},
           .doc = "the order of axes in memory; nhwc stores filters as [K, R, S, Cg]"},
          count("stride_h", "1", "rows from one place of the filter to the next"),
          count("stride_w", "1", "columns likewise"),
          count("pad_h", "0", "rows of zeros above and below"),
          count("pad_w", "0", "columns of zeros left and right"),
          count("dilation_h", "1", "rows from one tap of the filter to the next"),
          count("dilation_w", "1", "columns likewise"),
          {.name = "groups",
           .kind = OptionSpec::integer,
           .initial = "1",
           .samples = {"2", "3", "6"},
           .doc = "parts of the channels that are convolved on their own"},
          {.name = "precision",
           .kind = OptionSpec::choice,
           .initial = "tf32",
           .choices = {"tf32", "exact"},
           .doc = "of f32 products: through tf32 on tensor cores, or exact"}};
}

ArgumentSpec sectile::imageArgument(const char *name, const std::vector<std::string> &axes) {
  return {.name = name,
          .axes = axes,
          .stored = channelsLast,
          .doc = "[" + axes[0] + ", " + axes[2] + ", " + axes[3] + ", " + axes[1] + "] with nhwc"};
}

ArgumentSpec sectile::filterArgument(const char *name) {
  return {.name = name,
          .axes = {"K", "Cg", "R", "S"},
          .stored = channelsLast,
          .like = "x",
          .doc = "Cg = C / groups; [K, R, S, Cg] with nhwc"};
}

void sectile::checkConv(const Invocation &call) {
  auto fail = [&](const std::string &what) { throw InputError(call.kernel->name + ": " + what); };
  for (const char *name : {"stride_h", "stride_w", "dilation_h", "dilation_w", "groups"})
    if (call.options.integer(name) < 1)
      fail(std::string("option '") + name + "' is at least 1");
  for (const char *name : {"pad_h", "pad_w"})
    if (call.options.integer(name) < 0)
      fail(std::string("option '") + name + "' cannot be negative");
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
  const ConvShape shape(call.options);
  call.extents["Cg"] = call.extent("C") / std::max<std::int64_t>(shape.groups, 1);
}

void sectile::derivePlaces(Invocation &call) {
  const ConvShape shape(call.options);
  if (shape.h.stride < 1 || shape.w.stride < 1)
    checkConv(call);
  call.extents["P"] = shape.h.places(call.extent("H"), call.extent("R"));
  call.extents["Q"] = shape.w.places(call.extent("W"), call.extent("S"));
}

double sectile::convFlops(const Invocation &call) {
  double flops = 2;
  for (const char *axis : {"N", "K", "P", "Q", "Cg", "R", "S"})
    flops *= double(call.extent(axis));
  return flops;
}
