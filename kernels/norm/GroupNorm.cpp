// group_norm: the channels of an image in groups, each normalised over its channels and positions:
//   y = (x - mean) rstd w + b, rstd = 1 / sqrt(variance + eps), the variance biased
// (Wu and He, arXiv 1803.08494), as torch.nn.functional.group_norm. A NaN or an infinity makes its
// group NaN; a negative eps and groups that do not divide the channels are refused.
#include "kernels/norm/GroupNorm.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/norm/Eps.h"
#include "kernels/norm/Family.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/norm/Spread.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

template <class T> struct GroupNormArguments {
  View<const T, 3> x;
  View<const T, 1> w, b;
  View<T, 3> y;
  View<float, 2> mean, rstd;
  Int groups;
  Float eps;
};
template <class T>
SECTILE_STRUCT(GroupNormArguments<T>, x, w, b, y, mean, rstd, groups, eps)

// The mean is taken away before anything is squared. A group that does not fit is read twice.
template <class T>
Kernel groupNorm{
    "group_norm", [](const GroupNormArguments<T> &a, const GroupNormConfig &config) {
      const auto &[x, w, b, y, means, rstds, groups, eps] = a;
      const int m = config.channels, n = config.block;
      auto number = program_id(0);
      const Group<const T> group(x, number, groups);
      auto positions = x.extent(2);
      auto from = group.of(x).tile(m, n);
      auto to = group.of(y).tile(m, n);
      auto weight = group.of(w).tile(m), bias = group.of(b).tile(m);
      // What is beyond the group counts as 0, which must not count as a distance from
      // the mean.
      auto inside = [&](const Int &channel, const Int &block) {
        auto rows = channel * m + arange(0, m) < group.size;
        auto columns = block * n + arange(0, n) < positions;
        return expand(rows, 1) && expand(columns, 0);
      };
      auto centred = [&](const Int &channel, const Int &block, const Tile<float> &values,
                         const Float &mean) {
        return where(inside(channel, block), values - mean, 0.0f);
      };
      auto write = [&](const Int &channel, const Int &block, const Tile<float> &distance,
                       const Float &rstd) {
        to.store(channel, block,
                 distance * rstd * expand(cast<float>(weight.load(channel)), 1) +
                     expand(cast<float>(bias.load(channel)), 1));
      };
      auto keep = [&](const Float &mean, const Float &rstd) {
        store(group.place(means), mean);
        store(group.place(rstds), rstd);
      };

      auto whole = cast<float>(group.size) * cast<float>(positions);
      if (config.whole) {
        auto values = cast<float>(from.load(0, 0));
        Float mean = sum(values) / whole;
        auto distance = centred(0, 0, values, mean);
        Float rstd = 1.0f / sqrt(sum(distance * distance) / whole + eps);
        keep(mean, rstd);
        write(0, 0, distance, rstd);
        return;
      }
      auto channels = cdiv(group.size, m), blocks = cdiv(positions, n);
      auto sumOf = [](const Tile<float> &values) { return sum(values); };
      Spread spread(sumOf, full<float>(0.0f));
      for (auto channel : range(0, channels))
        for (auto block : range(0, blocks)) {
          auto count = minimum(group.size - channel * m, m) * minimum(positions - block * n, n);
          spread.add(cast<float>(from.load(channel, block)), inside(channel, block),
                     cast<float>(count));
        }
      Float mean = spread.mean();
      Float rstd = 1.0f / sqrt(spread.variance() + eps);
      keep(mean, rstd);
      for (auto channel : range(0, channels))
        for (auto block : range(0, blocks))
          write(channel, block,
                centred(channel, block, cast<float>(from.load(channel, block)), mean), rstd);
    }};

std::int64_t groupSize(const Invocation &call) {
  return call.extent("C") / std::max<std::int64_t>(call.extent("G"), 1);
}

} // namespace

void sectile::addGroupConfig(KernelSpec &spec, const char *part, std::int64_t together) {
  constexpr std::int64_t largest = 8192; // group that a program holds at once
  spec.batch = {"B"};                    // positions are summed, too
  spec.config = {{"channels", "channels of a group held at once"},
                 {"block", "positions held at once"},
                 {"warps", "warps of one program"}};
  spec.defaults = [together](const Invocation &call, const std::string &target) {
    const std::int64_t channels = powerAtLeast(groupSize(call)),
                       positions = powerAtLeast(elementCount(call.leading));
    std::int64_t m = channels, n = positions;
    if (m > largest / n) {
      n = std::min<std::int64_t>(positions, 4096);
      m = std::clamp<std::int64_t>(together / n, 1, channels);
    }
    const bool whole = m >= channels && n >= positions;
    const std::int64_t each = whole ? 16 : together / 512;
    const std::int64_t warps = std::clamp<std::int64_t>(m * n / (each * warpSize(target)), 1, 16);
    return Config{{"channels", m}, {"block", n}, {"warps", warps}};
  };
  spec.spaces = {
      {.part = part,
       .axes = {{"channels", {1, 2, 4, 8, 16, 32, 64, 128}},
                {"block", {1, 16, 64, 256, 512, 1024, 2048, 4096, 8192}},
                {"warps", {1, 2, 4, 8, 16}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t m = config.at("channels"), n = config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return m * n >= threads && m * n <= 64 * threads && m < 2 * groupSize(call) &&
                n < 2 * elementCount(call.leading);
       }}};
}

GroupNormConfig sectile::groupConfig(const Use &use) {
  return use.config_as(GroupNormConfig{.whole = groupSize(use.call) <= use.field("channels") &&
                                                use.extent("...") <= use.field("block")});
}

KernelSpec sectile::groupNormSpec() {
  KernelSpec spec;
  spec.name = "group_norm";
  spec.summary = "y = (x - mean) * rstd * w + b over groups of an image's channels";
  spec.add_arguments(
      {{"x: [B, C, ...] f32|f16|bf16", "images, channels, and any axes of positions"},
       {"w: [C] like x", "weight of each channel"},
       {"b: [C] like x", "bias of each channel"},
       {"-> y: [B, C, ...] like x over x", "the normalised channels"},
       {"-> mean: [B, G] f32", "of each group of C/G neighbouring channels"},
       {"-> rstd: [B, G] f32", "1/sqrt(variance + eps) of each group, with the biased variance"}});
  spec.add_options({{"groups: integer = 32 e.g. 1, 3", "G, which divides C"},
                    {"eps: number = 1e-5 e.g. 0.01", "added to the variance"}});
  spec.typical = {{"B", 16}, {"C", 256}, {"...", 1024}};
  spec.small = {{"B", 2}, {"C", 96}, {"...", 70}};
  spec.derive = [](Invocation &call) { call.extents["G"] = call.options.integer("groups"); };
  spec.check = [](const Invocation &call) {
    checkEps(call);
    const std::int64_t groups = call.options.integer("groups");
    if (groups < 1 || call.extent("C") % groups != 0)
      throw InputError("group_norm: option 'groups' is " + std::to_string(groups) +
                       ", but must divide C, the channels (" + std::to_string(call.extent("C")) +
                       ")");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> in,
                      Arithmetic arithmetic) {
    auto result = groupNormReference(in[0], in[1], in[2], call.extent("G"),
                                     call.options.number("eps"), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  addGroupConfig(spec, "group_norm", 8192);
  spec.apply = [](Use &use) {
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      use(groupNorm<T>, use.extent("B") * use.extent("G"), groupConfig(use));
    });
  };
  return spec;
}
