// Sums over a ring's steps, in float: of attention's results, merged by their lse, and of
// gradients.
#pragma once
#include "kernels/calls/Slice.h"
#include "kernels/serving/Merge.h"
#include <algorithm>
#include <sectile/library.h>

namespace sectile {

// A running (o, lse) becomes that over its keys and the keys of `part`.
inline Kernel mergePart{"ring_merge",
                        [](View<float, 4> o, View<float, 3> lse, View<const float, 4> part,
                           View<const float, 3> partLse, const MergeConfig &config) {
                          const int m = config.m, width = config.width;
                          auto rows = program_id(0), head = program_id(1), batch = program_id(2);
                          auto to = o.at(batch, head).tile(m, width);
                          auto logs = lse.at(batch, head).tile(m);
                          MergedRows merged(m, width);
                          merged.add(logs.load(rows), to.load(rows, 0));
                          merged.add(partLse.at(batch, head).tile(m).load(rows),
                                     part.at(batch, head).tile(m, width).load(rows, 0));
                          to.store(rows, 0, merged.result());
                          logs.store(rows, merged.logarithm());
                        }};

// to += from
inline Kernel addPart{
    "ring_add", [](View<float, 4> to, View<const float, 4> from, const MergeConfig &config) {
      const int m = config.m, width = config.width;
      auto rows = program_id(0), head = program_id(1), batch = program_id(2);
      auto sums = to.at(batch, head).tile(m, width);
      sums.store(rows, 0, sums.load(rows, 0) + from.at(batch, head).tile(m, width).load(rows, 0));
    }};

// to = from, rounded
template <class To, class From>
inline Kernel assignPart{
    "ring_assign", [](View<To, 4> to, View<const From, 4> from, const MergeConfig &config) {
      const int m = config.m, width = config.width;
      auto rows = program_id(0), head = program_id(1), batch = program_id(2);
      to.at(batch, head)
          .tile(m, width)
          .store(rows, 0, cast<To>(from.at(batch, head).tile(m, width).load(rows, 0)));
    }};

// A call of attention on a part of the queries and of the keys, and of its gradients.
inline KernelOptions ringOptions(bool causal, const std::string &scale) {
  KernelOptions values{{"causal", causal ? "true" : "false"}};
  if (!scale.empty())
    values["scale"] = scale;
  return values;
}
template <class T>
NamedTensors ringInputs(const Tensor<T, 4> &q, const Tensor<T, 4> &k, const Tensor<T, 4> &v,
                        const Slice &queries, const Slice &keys) {
  return {{"q", cut(q, 2, queries)}, {"k", cut(k, 2, keys)}, {"v", cut(v, 2, keys)}};
}
template <class T>
NamedTensors ringInputs(const Tensor<T, 4> &q, const Tensor<T, 4> &k, const Tensor<T, 4> &v,
                        const Tensor<T, 4> &o, const Tensor<float, 3> &lse, const Tensor<T, 4> &dO,
                        const Slice &queries, const Slice &keys) {
  NamedTensors inputs = ringInputs(q, k, v, queries, keys);
  inputs.insert(
      {{"o", cut(o, 2, queries)}, {"lse", cut(lse, 2, queries)}, {"do", cut(dO, 2, queries)}});
  return inputs;
}

// Launches one of these by `launch(kernel, grid, arguments...)`, over all rows of `to`.
template <class Launch, class Kernel, class To, class... From>
void eachRow(Launch &&launch, const Kernel &kernel, const Tensor<To, 4> &to, const From &...from) {
  MergeConfig config;
  config.width = static_cast<int>((std::max<std::int64_t>(to.extent(3), 1) + 15) / 16 * 16);
  config.m = config.width > 128 ? 8 : 16;
  launch(kernel, Grid((to.extent(2) + config.m - 1) / config.m, to.extent(1), to.extent(0)), to,
         from..., config);
}

} // namespace sectile
