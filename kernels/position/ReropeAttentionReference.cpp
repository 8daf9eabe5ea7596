// rerope_attention on the host.
#include "kernels/position/SchemeReference.h"

using namespace sectile;

namespace {

template <class Function>
auto withAttention(std::span<const HostArray> inputs, const ReropeOptions &options,
                   Arithmetic arithmetic, Function &&f) {
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    SchemeReference attention(numbers, inputs[0], inputs[4], options.scheme);
    attention.q = {numbers.load(inputs[0]), numbers.load(inputs[1])};
    attention.k = {numbers.load(inputs[2]), numbers.load(inputs[3])};
    attention.set = [&](std::int64_t i, std::int64_t j) -> std::size_t {
      return std::abs(i - j) < options.window ? 0 : 1;
    };
    return f(numbers, attention);
  });
}

} // namespace

AttentionResult sectile::reropeAttentionReference(std::span<const HostArray> inputs,
                                                  const ReropeOptions &options,
                                                  Arithmetic arithmetic) {
  return withAttention(inputs, options, arithmetic,
                       [&](const auto &numbers, const auto &attention) {
                         typename std::remove_cvref_t<decltype(attention)>::Values output, logs;
                         attention.forward(output, logs);
                         const Shape &shape = inputs[0].shape;
                         return AttentionResult{numbers.pack(numbers.result, shape, output),
                                                numbers.pack(numbers.statistics,
                                                             {shape[0], shape[1], shape[2]}, logs)};
                       });
}

std::vector<HostArray> sectile::reropeAttentionBackwardReference(std::span<const HostArray> inputs,
                                                                 const ReropeOptions &options,
                                                                 Arithmetic arithmetic) {
  return withAttention(
      inputs, options, arithmetic, [&](const auto &numbers, const auto &attention) {
        auto gradients = attention.backward(numbers.load(inputs[5]), numbers.load(inputs[6]),
                                            numbers.load(inputs[7]));
        std::vector<HostArray> results;
        for (const auto &values : gradients.q)
          results.push_back(numbers.pack(numbers.result, inputs[0].shape, values));
        for (const auto &values : gradients.k)
          results.push_back(numbers.pack(numbers.result, inputs[4].shape, values));
        results.push_back(numbers.pack(numbers.result, inputs[4].shape, gradients.v));
        return results;
      });
}
