// How the convolutions' launches are configured and handed their arguments.
#pragma once
#include "kernels/conv/ImplicitGemm.h"
#include "kernels/conv/Shape.h"

namespace sectile {

// From the fields m, n, k, warps, stages with this prefix; `own` channels are summed in one tap, of
// pixels that are read together with those beside them or not.
ConvConfig convConfig(const Use &use, const std::string &prefix, std::int64_t own, bool together);
// Fields of a launch, their defaults and what the tuner tries for it. The launch has `pixels` rows
// and `columns` columns, and sums over `depth` neighbours in memory for each tap.
void addConvConfig(KernelSpec &spec, const std::string &part, const std::string &prefix);
void addConvDefaults(Config &config, const Invocation &call, const std::string &target,
                     const std::string &prefix, std::int64_t pixels, std::int64_t columns,
                     std::int64_t depth);
// Whether images are read and written in boxes of pixels, and by how many programs; the tile then,
// for so many pixels and channels of the destination and channels of the source.
void addBoxConfig(KernelSpec &spec);
void addBoxDefaults(Config &config, const Invocation &call, const std::string &target,
                    std::int64_t pixels, std::int64_t columns, std::int64_t depth);
// The same of the filters' gradient, where its images' pixels are whole boxes.
void addBoxGradientDefaults(Config &config, const Invocation &call, const std::string &target);

// w [K, Cg, R, S] as [groups, K / groups, Cg, R, S].
template <class T> Tensor<T, 5> grouped(const Tensor<T, 4> &w, std::int64_t groups) {
  const std::int64_t each = w.extent(0) / groups;
  return {w.data(),
          {groups, each, w.extent(1), w.extent(2), w.extent(3)},
          {each * w.stride(0), w.stride(0), w.stride(1), w.stride(2), w.stride(3)},
          w.memory()};
}

} // namespace sectile
