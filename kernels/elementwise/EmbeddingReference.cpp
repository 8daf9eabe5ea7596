// Embedding on the host.
#include "kernels/elementwise/ElementReferences.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

HostArray sectile::embeddingReference(const HostArray &table, const HostArray &indices,
                                      double scale, Arithmetic arithmetic) {
  return with_arithmetic(table.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto rows = numbers.load(table);
    const auto width = static_cast<std::ptrdiff_t>(table.shape[1]);
    Shape shape = indices.shape;
    shape.push_back(width);
    std::vector<Number> y;
    for (double index : indices.to_double()) {
      const auto row = rows.begin() + static_cast<std::ptrdiff_t>(index) * width;
      y.insert(y.end(), row, row + width);
    }
    for (auto &number : y)
      number *= static_cast<Number>(scale);
    return numbers.pack(numbers.result, shape, y);
  });
}

HostArray sectile::embeddingBackwardReference(const HostArray &table, const HostArray &indices,
                                              const HostArray &dy, double scale,
                                              Arithmetic arithmetic) {
  return with_arithmetic(table.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto gradient = numbers.load(dy);
    const auto width = static_cast<std::size_t>(table.shape[1]);
    std::vector<Number> result(static_cast<std::size_t>(table.count()));
    std::size_t at = 0;
    for (double index : indices.to_double())
      for (std::size_t i = 0; i < width; ++i)
        result[static_cast<std::size_t>(index) * width + i] += gradient[at++];
    for (Number &number : result)
      number *= static_cast<Number>(scale);
    return numbers.pack(numbers.result, table.shape, result);
  });
}
