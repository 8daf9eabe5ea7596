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
  KernelSpec spec = convSpec();
  spec.name = "conv2d";
  spec.summary = "y = x convolved with the filters w, plus b";
  spec.add_arguments(
      {{"b?: [K] like x", "added to each filter's output"},
       {"-> y: [N, K, P, Q] like x", "[N, P, Q, K] with nhwc", {.stored = channelsLast}}});
  spec.follow = followChannels;
  spec.flops = convFlops;
  spec.derive = derivePlaces;
  spec.check = checkConv;
  spec.reference = conv2dReference;
  addConvConfig(spec, "conv2d", "");
  spec.config.insert(spec.config.end(), {boxPrograms, convSplits});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    Config config{{"programs", 0}, {"splits", 1}};
    if (isDepthwise(call)) {
      addDepthwiseDefaults(config, call, target);
      return config;
    }
    const std::int64_t pixels = call.extent("N") * call.extent("P") * call.extent("Q"),
                       filters = call.extent("K");
    addConvDefaults(config, call, target, "", pixels, filters / call.options.integer("groups"),
                    call.extent("Cg"));
    addBoxDefaults(config, call, target, pixels, filters, call.extent("C"), /*ofImage=*/false);
    if (!config["programs"])
      addConvSplits(config, call, target, pixels, filters / call.options.integer("groups"),
                    call.extent("Cg"), /*ofImage=*/false);
    return config;
  };
  spec.apply = [](Use &use) {
    const Invocation &call = use.call;
    if (isDepthwise(call))
      return launchDepthwise(use);
    const std::int64_t groups = call.options.integer("groups"), each = call.extent("K") / groups,
                       pixels = call.extent("N") * call.extent("P") * call.extent("Q");
    ConvConfig config = convConfig(use, "", call.extent("Cg"),
                                   groups == 1 && call.options.integer("stride_w") == 1);
    config.bias = use.has("b");
    const std::int64_t tiles = groups * ceilDiv(pixels, config.m) * ceilDiv(each, config.n);
    const auto parts =
        partsOfSums<float>(use, partsOfSplits(tiles, config.splits), config.m, config.n);
    for_dtype<half, bfloat16, float>(call.dtype("x"), [&]<class T>(T) {
      if constexpr (sizeof(T) == 2)
        if (launchInBoxes<T>(use, conv2dInBoxes<T>, "x", "y", /*ofImage=*/false))
          return;
      const Source<T> x = sourceOf(use, use.tensor<T, 4>("x"), groups, config.stride_w);
      config.unit = x.unit;
      config.apart = x.blockApart();
      const auto w = filtersFor<T, PlaceAxis, PlaceAxis>(use, use.tensor<T, 4>("w"), false, config);
      const auto product = [&](const Tensor<T, 4> &y) {
        forWholeSplits(config, tiles, [&](std::int64_t programs) {
          use(conv2d<T>, programs, x.image, x.width, w, use.tensor<T, 1>("b"), y, parts, each,
              call.extent("R"), call.extent("S"), config);
        });
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
