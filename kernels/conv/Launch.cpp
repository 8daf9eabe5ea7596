// Configurations of the convolutions' launches.
#include "kernels/conv/Launch.h"
#include "kernels/conv/Depthwise.h"
#include <algorithm>

using namespace sectile;

ConvConfig sectile::convConfig(const Use &use, const std::string &prefix, std::int64_t own,
                               bool together) {
  const ConvShape shape(use.call.options);
  auto field = [&](const char *name) { return use.field((prefix + name).c_str()); };
  ConvConfig config{.m = field("m"),
                    .n = field("n"),
                    .k = field("k"),
                    .warps = field("warps"),
                    .stages = field("stages"),
                    .strideH = static_cast<int>(shape.h.stride),
                    .strideW = static_cast<int>(shape.w.stride),
                    .padH = static_cast<int>(shape.h.pad),
                    .padW = static_cast<int>(shape.w.pad),
                    .dilationH = static_cast<int>(shape.h.dilation),
                    .dilationW = static_cast<int>(shape.w.dilation),
                    .exact = use.call.options.choice("precision") == "exact"};
  config.flat = flatChannels(own, together, size_of(use.call.dtype("x")), config.k);
  return config;
}

void sectile::addConvConfig(KernelSpec &spec, const std::string &part, const std::string &prefix) {
  const std::string of = prefix.empty() ? "" : ", of " + part;
  for (const auto &[name, doc] :
       {std::pair{"m", "rows of one program's tile; depthwise: pixels"},
        {"n", "columns of one program's tile; depthwise: filters"},
        {"k", "depth of one step; depthwise: the tile's rows of pixels, at most"},
        {"warps", "warps of one program"},
        {"stages", "steps in flight; depthwise: not used"}})
    spec.config.push_back({prefix + name, doc + of});
  spec.spaces.push_back(
      {.part = prefix.empty() ? "" : part,
       .axes = {{prefix + "m", {32, 64, 128, 256, 512, 1024}},
                {prefix + "n", {1, 2, 4, 8, 16, 32, 64, 128}},
                {prefix + "k", {1, 2, 4, 8, 16, 32, 64}},
                {prefix + "warps", {4, 8}},
                {prefix + "stages", {2, 3, 4}}},
       .where = [prefix](const Invocation &call, const std::string &target, const Config &config) {
         const bool ofImage = prefix.empty() && call.kernel->name != "conv2d";
         if (ofImage ? isDepthwiseImageGradient(call) : isDepthwise(call))
           return isDepthwiseCandidate(config, call, target, prefix);
         if (config.at(prefix + "m") > 128 || config.at(prefix + "n") < 32 ||
             config.at(prefix + "k") < 16)
           return false;
         const std::int64_t sums = config.at(prefix + "m") * config.at(prefix + "n") /
                                   (config.at(prefix + "warps") * warpSize(target));
         return sums >= 8 && sums <= 64;
       }});
}

void sectile::addConvDefaults(Config &config, const Invocation &call, const std::string &target,
                              const std::string &prefix, std::int64_t pixels, std::int64_t columns,
                              std::int64_t depth) {
  // A line of shared memory, where warpgroups multiply.
  const bool line = size_of(call.tensors[0].dtype) == 2 && depth % 64 == 0 && columns >= 64 &&
                    hasWarpgroupUnits(target, call.tensors[0].dtype, /*alongK=*/true);
  const bool wide = call.tensors[0].dtype == DType::float32,
             matrices = hasMatrixUnits(target, call.tensors[0].dtype);
  config[prefix + "m"] = matrices && pixels >= 128 ? 128 : 64;
  config[prefix + "n"] = columns <= 32 ? 32 : matrices && columns % 128 == 0 ? 128 : 64;
  config[prefix + "k"] = line ? 64 : wide ? 16 : 32;
  config[prefix + "warps"] = 4;
  config[prefix + "stages"] = 3;
}
