// conv2d: the cross-correlation that deep learning calls convolution,
//   y[n, k, p, q] = b[k] + sum over c, r, s of w[k, c, r, s] x[n, c, h, w],
//   h = p stride - pad + r dilation, w = q stride - pad + s dilation,
// as torch.nn.functional.conv2d, with zeros beyond the image (whose product with a NaN or an
// infinity is NaN). By implicit matrix products (Chetlur et al., arXiv 1410.0759), other than
// depthwise. Refused: groups that do not divide channels or filters, strides and dilations below 1,
// negative padding, filters without taps.
#include "kernels/conv/BoxGemm.h"
#include "kernels/conv/Depthwise.h"
#include "kernels/conv/Family.h"
#include "kernels/conv/Filters.h"
#include "kernels/conv/Launch.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

template <class T> Kernel conv2d{"conv2d", implicitGemm<T, PlaceAxis, PlaceAxis>};
template <class T> Kernel conv2dInBoxes{"conv2d", boxGemm<T>};

} // namespace

KernelSpec sectile::conv2dSpec() {
  KernelSpec spec;
  spec.name = "conv2d";
  spec.summary = "y = x convolved with the filters w, plus b";
  spec.arguments = {imageArgument("x", {"N", "C", "H", "W"}),
                    filterArgument("w"),
                    {.name = "b",
                     .optional = true,
                     .axes = {"K"},
                     .like = "x",
                     .doc = "added to each filter's output"},
                    imageArgument("y", {"N", "K", "P", "Q"})};
  spec.arguments[0].dtypes = {DType::float16, DType::bfloat16, DType::float32};
  spec.arguments[3].output = true;
  spec.arguments[3].like = "x";
  spec.options = convOptions();
  spec.batch = {"N"};
  spec.typical = {{"N", 8}, {"C", 64}, {"H", 56}, {"W", 56}, {"K", 64}, {"R", 3}, {"S", 3}};
  spec.small = {{"N", 2}, {"C", 6}, {"H", 9}, {"W", 13}, {"K", 6}, {"R", 3}, {"S", 2}};
  spec.follow = followChannels;
  spec.flops = convFlops;
  spec.derive = derivePlaces;
  spec.check = checkConv;
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{conv2dReference(call, inputs, arithmetic)};
  };
  addConvConfig(spec, "conv2d", "");
  spec.spaces.front().part = "conv2d";
  addBoxConfig(spec);
  spec.defaults = [](const Invocation &call, const std::string &target) {
    Config config{{"programs", 0}};
    if (isDepthwise(call)) {
      addDepthwiseDefaults(config, call, target, "");
      return config;
    }
    addConvDefaults(config, call, target, "",
                    call.extent("N") * call.extent("P") * call.extent("Q"),
                    call.extent("K") / call.options.integer("groups"), call.extent("Cg"));
    addBoxDefaults(config, call, target, call.extent("N") * call.extent("P") * call.extent("Q"),
                   call.extent("K"), call.extent("C"));
    return config;
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    if (isDepthwise(call))
      return launchDepthwise(use);
    const std::int64_t groups = call.options.integer("groups");
    ConvConfig chosen = convConfig(use, "", call.extent("Cg"),
                                   groups == 1 && call.options.integer("stride_w") == 1);
    chosen.bias = use.has("b");
    const std::int64_t pixels = call.extent("N") * call.extent("P") * call.extent("Q");
    const std::int64_t programs =
        groups * ceilDiv(pixels, chosen.m) * ceilDiv(call.extent("K") / groups, chosen.n);
    for_dtype<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
      if constexpr (sizeof(T) == 2)
        if (launchInBoxes<T>(use, conv2dInBoxes<T>, "x", "y", /*ofImage=*/false))
          return;
      const std::int64_t each = call.extent("K") / groups;
      const Source<T> x = sourceOf(use, use.tensor<T, 4>("x"), groups, chosen.strideW);
      chosen.unit = x.unit;
      chosen.apart = x.blockApart();
      const auto w = filtersFor<T, PlaceAxis, PlaceAxis>(use, use.tensor<T, 4>("w"), false, chosen);
      const auto product = [&](const Tensor<T, 4> &y) {
        use(conv2d<T>, programs, x.image, x.width, w, use.tensor<T, 1>("b"), y, each,
            call.extent("R"), call.extent("S"), chosen);
      };
      const auto y = use.tensor<T, 4>("y");
      if (runsOf<T>(each, groups == 1) == RunsOf::pixels)
        writeInRuns(use, y, RunsOf::pixels, product);
      else
        product(y);
    });
  };
  return spec;
}
