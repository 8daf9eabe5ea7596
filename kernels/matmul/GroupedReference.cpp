// Grouped matrix products on the host.
#include "kernels/matmul/ReferenceProducts.h"

using namespace sectile;

namespace {

// Calls body(group, row) for each row that belongs to a group.
template <class Body> void forRows(const HostArray &sizes, std::int64_t rows, Body &&body) {
  std::int64_t row = 0;
  const auto lengths = sizes.as<std::int32_t>();
  for (std::size_t group = 0; group < lengths.size(); ++group)
    for (std::int32_t i = 0; i < lengths[group] && row < rows; ++i)
      body(static_cast<std::int64_t>(group), row++);
}

} // namespace

References sectile::groupedMatmulReference(const Invocation &call,
                                           std::span<const HostArray> inputs,
                                           Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N");
  return with_arithmetic(call.dtype("c"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto left = loadOperand(numbers, call, inputs[0], arithmetic),
               right = loadOperand(numbers, call, inputs[1], arithmetic);
    std::vector<Number> result(static_cast<std::size_t>(m * n));
    forRows(inputs[2], m, [&](std::int64_t group, std::int64_t row) {
      addProducts<Number>(rowOf(left, row, k), right.data() + group * k * n, rowOf(result, row, n));
    });
    return References{numbers.pack(numbers.result, {m, n}, result)};
  });
}

References sectile::groupedMatmulDrhsReference(const Invocation &call,
                                               std::span<const HostArray> inputs,
                                               Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), k = call.extent("K"), n = call.extent("N"),
                     groups = call.extent("G");
  return with_arithmetic(
      call.dtype("drhs"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
        const auto left = loadOperand(numbers, call, inputs[0], arithmetic),
                   right = loadOperand(numbers, call, inputs[2], arithmetic);
        std::vector<Number> result(static_cast<std::size_t>(groups * k * n));
        forRows(inputs[1], m, [&](std::int64_t group, std::int64_t row) {
          for (std::int64_t p = 0; p < k; ++p)
            addProducts<Number>(rowOf(left, row * k + p, 1), right.data() + row * n,
                                rowOf(result, group * k + p, n));
        });
        return References{numbers.pack(numbers.result, {groups, k, n}, result)};
      });
}
