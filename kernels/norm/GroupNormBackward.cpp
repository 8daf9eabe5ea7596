// group_norm_backward: the gradients of group_norm. With n = (x - mean) rstd and g = dy w:
//   dx = rstd (g - mean(g) - n mean(g n)) with means over the group,
//   dw = sum of dy n over images and positions, db = sum of dy,
// derived from the forward formula. Sums over positions come first; the group's means and, image by
// image, dw and db are sums of them.
#include "kernels/norm/Family.h"
#include "kernels/norm/GroupNorm.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/norm/SumRows.h"
#include "kernels/references/Sample.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

template <class T> struct GroupNormSumsArguments {
  View<const T, 3> x;
  View<const float, 2> mean, rstd;
  View<const T, 3> dy;
  View<float, 2> dw, db;
  Int G;
};

// Of one channel of one image: the sums over its positions of dy n and of dy.
template <class T>
Kernel groupNormSums{
    "group_norm_sums", [](const GroupNormSumsArguments<T> &a, const GroupNormConfig &config) {
      const auto &[x, means, rstds, dy, dw, db, groups] = a;
      const int n = config.block * config.channels;
      auto channel = program_id(0), image = program_id(1);
      const Group<const T> group(x, image * groups + channel / (x.extent(1) / groups), groups);
      auto mean = load(group.place(means)), rstd = load(group.place(rstds));
      auto along = zeros<float>(n), across = zeros<float>(n);
      for (auto block : range(0, cdiv(x.extent(2), n))) {
        auto gradient = cast<float>(dy.at(image, channel).tile(n).load(block));
        across += gradient;
        along += gradient * ((cast<float>(x.at(image, channel).tile(n).load(block)) - mean) * rstd);
      }
      store(dw.ptr() + (image * x.extent(1) + channel), sum(along, 0));
      store(db.ptr() + (image * x.extent(1) + channel), sum(across, 0));
    }};

template <class T> struct GroupNormBackwardArguments {
  View<const T, 3> x;
  View<const T, 1> w;
  View<const float, 2> mean, rstd;
  View<const T, 3> dy;
  View<T, 3> dx;
  View<float, 2> dw, db;
  Int G;
};

// Beyond the group dy counts as 0, and w: all terms are 0 there.
template <class T>
Kernel groupNormBackward{
    "group_norm_backward",
    [](const GroupNormBackwardArguments<T> &a, const GroupNormConfig &config) {
      const auto &[x, w, means, rstds, dy, dx, dw, db, groups] = a;
      const int m = config.channels, n = config.block;
      auto number = program_id(0);
      const Group<const T> group(x, number, groups);
      auto mean = load(group.place(means)), rstd = load(group.place(rstds));
      auto count = cast<float>(group.size) * cast<float>(x.extent(2));
      auto weight = group.of(w).tile(m);
      auto weightSums = dw.at(group.image).slice(0, group.first, group.size).tile(m);
      auto biasSums = db.at(group.image).slice(0, group.first, group.size).tile(m);
      auto normalOf = [&](const Int &channel, const Int &block) {
        return (cast<float>(group.of(x).tile(m, n).load(channel, block)) - mean) * rstd;
      };
      auto gradientOf = [&](const Int &channel, const Int &block) {
        return cast<float>(group.of(dy).tile(m, n).load(channel, block));
      };
      auto weightOf = [&](const Int &channel) { return cast<float>(weight.load(channel)); };
      auto write = [&](const Int &channel, const Int &block, const Tile<float> &normal,
                       const Tile<float> &gradient, const Float &along, const Float &across) {
        auto weighted = gradient * expand(weightOf(channel), 1);
        group.of(dx).tile(m, n).store(channel, block, (weighted - across - normal * along) * rstd);
      };

      if (config.whole) {
        auto normal = normalOf(0, 0), gradient = gradientOf(0, 0);
        auto along = sum(gradient * normal, 1), across = sum(gradient, 1);
        weightSums.store(0, along);
        biasSums.store(0, across);
        write(0, 0, normal, gradient, sum(along * weightOf(0), 0) / count,
              sum(across * weightOf(0), 0) / count);
        return;
      }
      // The sums are known from the launch before.
      auto channels = cdiv(group.size, m);
      auto along = zeros<float>(m), across = zeros<float>(m);
      for (auto channel : range(0, channels)) {
        along += weightSums.load(channel) * weightOf(channel);
        across += biasSums.load(channel) * weightOf(channel);
      }
      Float alongMean = sum(along, 0) / count, acrossMean = sum(across, 0) / count;
      auto block = program_id(1);
      for (auto channel : range(0, channels)) {
        auto normal = normalOf(channel, block), gradient = gradientOf(channel, block);
        write(channel, block, normal, gradient, alongMean, acrossMean);
      }
    }};

} // namespace

KernelSpec sectile::groupNormBackwardSpec() {
  KernelSpec spec;
  spec.name = "group_norm_backward";
  spec.summary = "gradients of y = (x - mean) * rstd * w + b over groups of an image's channels";
  spec.add_arguments({{"x: [B, C, ...] f32|f16|bf16", "as in group_norm"},
                      {"w: [C] like x", "weight of each channel"},
                      {"mean: [B, G] f32", "from group_norm"},
                      {"rstd: [B, G] f32", "from group_norm", {.sample = sampleUniform(0.5, 2)}},
                      {"dy: [B, C, ...] like x", "gradient of y"}});
  spec.add_gradients({"x", "w"});
  spec.add_arguments({{"-> db: [C] like x", "gradient of b"}});
  spec.factor = 3;
  spec.typical = {{"B", 16}, {"C", 256}, {"G", 32}, {"...", 1024}};
  spec.small = {{"B", 2}, {"C", 96}, {"G", 32}, {"...", 70}};
  spec.check = [](const Invocation &call) {
    const std::int64_t groups = call.extent("G");
    if (groups < 1 || call.extent("C") % groups != 0)
      throw InputError("group_norm_backward: the groups of mean and rstd (" +
                       std::to_string(groups) + ") must divide C, the channels (" +
                       std::to_string(call.extent("C")) + ")");
  };
  spec.reference = groupNormBackwardReference;
  addGroupConfig(spec, "group_norm_backward", 4096, 8);
  spec.config.push_back(sumColumns);
  spec.defaults = [group = spec.defaults](const Invocation &call, const std::string &target) {
    Config config = group(call, target);
    config["columns"] = 32;
    return config;
  };
  spec.apply = [](Use &use) {
    const std::int64_t images = use.extent("B"), channels = use.extent("C"),
                       positions = use.extent("...");
    GroupNormConfig config = groupConfig(use);
    // The statistics of a group without positions are NaN, its sums are 0: they must not meet.
    config.whole = config.whole && positions;
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      const PartialSums<T> sums(use, images, channels, "dw", "db");
      const auto dw = sums.of("dw"), db = sums.of("db");
      if (!config.whole)
        use(groupNormSums<T>, Grid(channels, images), config, {{"dw", dw}, {"db", db}});
      use(groupNormBackward<T>,
          Grid(images * use.extent("G"), config.whole ? 1 : ceilDiv(positions, config.block)),
          config, {{"dw", dw}, {"db", db}});
      sums.add();
    });
  };
  return spec;
}
