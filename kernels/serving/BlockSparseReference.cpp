// Attention over the blocks of a mask on the host, and its gradients.
#include "kernels/position/SchemeReference.h"
#include "kernels/serving/References.h"

using namespace sectile;

namespace {

template <class Numbers> struct Reference : SchemeReference<Numbers> {
  Reference(const Numbers &numbers, const HostArray &q, const HostArray &k, const HostArray &v,
            const BlockSparseSettings &settings)
      : SchemeReference<Numbers>(numbers, q, v, settings.scheme) {
    this->q = {numbers.load(q)};
    this->k = {numbers.load(k)};
    this->shown = [this, settings](std::int64_t row, std::int64_t j) {
      const Shape &shape = settings.mask->shape;
      const std::int64_t batch = row / this->queries / this->heads,
                         head = row / this->queries % this->heads;
      const std::int64_t place =
          ((shape[0] == 1 ? 0 : batch) * shape[1] + (shape[1] == 1 ? 0 : head)) * shape[2] +
          row % this->queries / settings.blockQ;
      return settings.mask
          ->as<bool>()[static_cast<std::size_t>(place * shape[3] + j / settings.blockK)];
    };
  }
};

} // namespace

AttentionResult sectile::blockSparseReference(const HostArray &q, const HostArray &k,
                                              const HostArray &v,
                                              const BlockSparseSettings &settings,
                                              Arithmetic arithmetic) {
  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    const Reference reference(numbers, q, k, v, settings);
    typename decltype(reference)::Values output, logs;
    reference.forward(output, logs);
    return AttentionResult{
        numbers.pack(numbers.result, q.shape, output),
        numbers.pack(numbers.statistics, {q.shape[0], q.shape[1], q.shape[2]}, logs)};
  });
}

PositionGradients sectile::blockSparseBackwardReference(std::span<const HostArray> inputs,
                                                        const BlockSparseSettings &settings,
                                                        Arithmetic arithmetic) {
  const HostArray &q = inputs[0], &k = inputs[1], &v = inputs[2];
  return with_arithmetic(q.dtype, arithmetic, [&](auto numbers) {
    const Reference reference(numbers, q, k, v, settings);
    const auto gradients = reference.backward(numbers.load(inputs[4]), numbers.load(inputs[5]),
                                              numbers.load(inputs[6]));
    return PositionGradients{numbers.pack(numbers.result, q.shape, gradients.q[0]),
                             numbers.pack(numbers.result, k.shape, gradients.k[0]),
                             numbers.pack(numbers.result, v.shape, gradients.v)};
  });
}
