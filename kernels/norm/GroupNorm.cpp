// group_norm: the channels of an image in groups, each normalised over its channels and positions:
//   y = (x - mean) rstd w + b, rstd = 1 / sqrt(variance + eps), the variance biased
// (Wu and He, arXiv 1803.08494), as torch.nn.functional.group_norm. A NaN or an infinity makes its
// group NaN; a negative eps and groups that do not divide the channels are refused.
#include "kernels/norm/GroupNorm.h"
#include "kernels/blocks/RowBlocks.h"
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

// Of a part of a group: [3, B G, parts] of counts, sums and squares of distances.
template <class T> struct GroupPartsArguments {
  View<const T, 3> x;
  View<float, 3> sums;
  Int groups;
};

template <class T> struct GroupOfPartsArguments {
  View<const T, 3> x;
  View<const T, 1> w, b;
  View<const float, 3> sums;
  View<T, 3> y;
  View<float, 2> mean, rstd;
  Int groups;
  Float eps;
};

// Blocks of a group's channels and positions, one after another; `parts` programs have a run each.
struct GroupBlocks {
  Int channels, positions, blocksAcross; // of a group
  int m, n;
  Int first, end; // of the program's blocks

  GroupBlocks(const Int &channels, const Int &positions, const GroupNormConfig &config,
              const Int &part, const Int &parts)
      : channels(channels), positions(positions), blocksAcross(cdiv(positions, config.block)),
        m(config.channels), n(config.block) {
    const Int count = cdiv(channels, m) * blocksAcross, each = cdiv(count, parts);
    first = minimum(part * each, count);
    end = minimum(first + each, count);
  }
  // visit(channel, position, inside, count) for each, where `inside` is what the group has of the
  // block, which are `count` elements.
  template <class Visit> void forEach(Visit &&visit) const {
    for (auto number : range(first, end)) {
      const Int channel = number / blocksAcross, block = number % blocksAcross;
      visit(channel, block, inside(channel, block),
            cast<float>(minimum(channels - channel * m, m) * minimum(positions - block * n, n)));
    }
  }
  Bool inside(const Int &channel, const Int &block) const {
    return expand(channel * m + arange(0, m) < channels, 1) &&
           expand(block * n + arange(0, n) < positions, 0);
  }
};

// What is beyond a group counts as 0, which must not count as a distance from the mean.
Tile<float> distanceFrom(const Float &mean, const Tile<float> &values, const Bool &inside) {
  return where(inside, values - mean, 0.0f);
}

// One block of y.
template <class T>
void normalise(const auto &a, const Group<const T> &group, const GroupNormConfig &config,
               const Int &channel, const Int &block, const Tile<float> &distance,
               const Float &rstd) {
  const int m = config.channels;
  const auto ofChannels = [&](const View<const T, 1> &values) {
    return expand(cast<float>(group.of(values).tile(m).load(channel)), 1);
  };
  group.of(a.y)
      .tile(m, config.block)
      .store(channel, block, distance * rstd * ofChannels(a.w) + ofChannels(a.b));
}

void keepStatistics(const auto &a, const auto &group, const Float &mean, const Float &rstd,
                    const Bool &isOwn = true) {
  store(group.place(a.mean), mean, isOwn);
  store(group.place(a.rstd), rstd, isOwn);
}

// The mean is taken away before anything is squared.
auto spreadOf(const GroupBlocks &blocks, const auto &from) {
  Spread spread([](const Tile<float> &values) { return sum(values); }, full<float>(0.0f));
  blocks.forEach([&](const Int &channel, const Int &block, const Bool &inside, const Float &count) {
    spread.add(cast<float>(from.load(channel, block)), inside, count);
  });
  return spread;
}

// A program for each group, which it reads twice where it does not fit.
template <class T>
Kernel groupNorm{
    "group_norm", [](const GroupNormArguments<T> &a, const GroupNormConfig &config) {
      const Group<const T> group(a.x, program_id(0), a.groups);
      const GroupBlocks blocks(group.size, a.x.extent(2), config, 0, 1);
      const auto from = group.of(a.x).tile(config.channels, config.block);
      if (config.whole) {
        const auto whole = cast<float>(group.size) * cast<float>(a.x.extent(2));
        auto values = cast<float>(from.load(0, 0));
        Float mean = sum(values) / whole;
        auto distance = distanceFrom(mean, values, blocks.inside(0, 0));
        Float rstd = 1.0f / sqrt(sum(distance * distance) / whole + a.eps);
        keepStatistics(a, group, mean, rstd);
        normalise(a, group, config, 0, 0, distance, rstd);
        return;
      }
      const auto spread = spreadOf(blocks, from);
      Float mean = spread.mean();
      Float rstd = 1.0f / sqrt(spread.variance() + a.eps);
      keepStatistics(a, group, mean, rstd);
      blocks.forEach([&](const Int &channel, const Int &block, const Bool &inside, const Float &) {
        const auto values = cast<float>(from.load(channel, block));
        normalise(a, group, config, channel, block, distanceFrom(mean, values, inside), rstd);
      });
    }};

// Where there are few groups, programs share each: first what its parts come to, then y.
template <class T>
Kernel groupNormParts{
    "group_norm_parts", [](const GroupPartsArguments<T> &a, const GroupNormConfig &config) {
      const auto &sums = a.sums;
      const Int parts = sums.extent(2), number = program_id(0) / parts,
                part = program_id(0) % parts;
      const Group<const T> group(a.x, number, a.groups);
      const GroupBlocks blocks(group.size, a.x.extent(2), config, part, parts);
      const auto spread = spreadOf(blocks, group.of(a.x).tile(config.channels, config.block));
      const auto keep = [&](int which, const auto &value) {
        store(sums.at(which, number).ptr() + part, value);
      };
      keep(0, spread.count());
      keep(1, spread.sum());
      keep(2, spread.squaresFromMean());
    }};

template <class T>
Kernel groupNormOfParts{
    "group_norm_of_parts", [](const GroupOfPartsArguments<T> &a, const GroupNormConfig &config) {
      const auto &sums = a.sums;
      const Int parts = sums.extent(2), number = program_id(0) / parts,
                part = program_id(0) % parts;
      const Group<const T> group(a.x, number, a.groups);
      const GroupBlocks blocks(group.size, a.x.extent(2), config, part, parts);
      const auto each = arange(0, config.parts);
      const auto of = [&](int which) {
        return load(sums.at(which, number).ptr() + each, each < parts);
      };
      const auto counts = of(0), totals = of(1);
      const Float all = sum(counts), mean = sum(totals) / all;
      const auto apart = where(counts > 0.0f, totals / counts - mean, 0.0f);
      const Float variance = sum(of(2) + counts * apart * apart) / all;
      const Float rstd = 1.0f / sqrt(variance + a.eps);
      keepStatistics(a, group, mean, rstd, part == 0);
      const auto from = group.of(a.x).tile(config.channels, config.block);
      blocks.forEach([&](const Int &channel, const Int &block, const Bool &inside, const Float &) {
        const auto values = cast<float>(from.load(channel, block));
        normalise(a, group, config, channel, block, distanceFrom(mean, values, inside), rstd);
      });
    }};

constexpr std::int64_t mostParts = 64; // programs that share a group
constexpr std::int64_t largest = 8192; // group that a program holds at once

std::int64_t groupSize(const Invocation &call) {
  return call.extent("C") / std::max<std::int64_t>(call.extent("G"), 1);
}

// Four programs for each multiprocessor, of a block or more, where that is worth a launch.
std::int64_t partsFor(const Invocation &call, const Config &config, std::int64_t units) {
  const std::int64_t groups = std::max<std::int64_t>(call.extent("B") * call.extent("G"), 1),
                     blocks = ceilDiv(groupSize(call), config.at("channels")) *
                              ceilDiv(elementCount(call.leading), config.at("block"));
  return groups >= 2 * units || blocks < 4
             ? 1
             : std::clamp<std::int64_t>(std::min(4 * units / groups, blocks), 1, mostParts);
}

} // namespace

void sectile::addGroupConfig(KernelSpec &spec, const char *part, std::int64_t together,
                             std::int64_t each) {
  spec.batch = {"B"}; // positions are summed, too
  spec.config = {{"channels", "channels of a group held at once"},
                 {"block", "positions held at once"},
                 {"warps", "warps of one program"}};
  spec.defaults = [together, each](const Invocation &call, const std::string &target) {
    const std::int64_t channels = powerAtLeast(groupSize(call)),
                       positions = powerAtLeast(elementCount(call.leading));
    std::int64_t m = channels, n = positions;
    if (m > largest / n) {
      n = std::min<std::int64_t>(positions, 4096);
      m = std::clamp<std::int64_t>(together / n, 1, channels);
    }
    const bool whole = m >= channels && n >= positions;
    const std::int64_t warps =
        std::clamp<std::int64_t>(m * n / ((whole ? 16 : each) * warpSize(target)), 1, 16);
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
                    {"eps: number = 1e-5 from 0 e.g. 0.01", "added to the variance"}});
  spec.typical = {{"B", 16}, {"C", 256}, {"...", 1024}};
  spec.small = {{"B", 2}, {"C", 96}, {"...", 70}};
  spec.derive = [](Invocation &call) { call.extents["G"] = call.options.integer("groups"); };
  spec.check = [](const Invocation &call) {
    const std::int64_t groups = call.options.integer("groups");
    if (groups < 1 || call.extent("C") % groups != 0)
      throw InputError("group_norm: option 'groups' is " + std::to_string(groups) +
                       ", but must divide C, the channels (" + std::to_string(call.extent("C")) +
                       ")");
  };
  spec.reference = groupNormReference;
  addGroupConfig(spec, "group_norm", 4096, 32);
  spec.config.push_back(
      {"parts", "programs that share a group, of what does not fit one", 1, mostParts});
  spec.defaults = [ofGroups = spec.defaults](const Invocation &call, const std::string &target) {
    const std::int64_t units = multiprocessors(target), channels = powerAtLeast(groupSize(call)),
                       positions = powerAtLeast(elementCount(call.leading));
    // A launch for the parts takes longer than to hold twice of what suits many groups.
    if (2 * call.extent("B") * call.extent("G") <= units && channels <= largest / positions * 2)
      return Config{{"channels", channels},
                    {"block", positions},
                    {"warps", std::clamp<std::int64_t>(
                                  channels * positions / (16 * warpSize(target)), 1, 16)},
                    {"parts", 1}};
    Config config = ofGroups(call, target);
    config["parts"] = partsFor(call, config, units);
    return config;
  };
  spec.apply = [](Use &use) {
    const std::int64_t groups = use.extent("B") * use.extent("G"), parts = use.field("parts");
    GroupNormConfig config = groupConfig(use);
    for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
      if (config.whole || parts == 1)
        return use(groupNorm<T>, groups, config);
      config.parts = static_cast<int>(powerAtLeast(parts));
      const auto sums = use.workspace<float, 3>({3, groups, parts});
      use(groupNormParts<T>, groups * parts, config, {{"sums", sums}});
      use(groupNormOfParts<T>, groups * parts, config, {{"sums", sums}});
    });
  };
  return spec;
}
