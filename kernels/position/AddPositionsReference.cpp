// Absolute positions on the host: embeddings added to hidden states, and layer norm after it.
#include "kernels/norm/NormReferences.h"
#include "kernels/position/References.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

bool isThere(const HostArray &array) { return !array.shape.empty(); }

// Hidden states with the embeddings added, number by number.
template <class Numbers> struct Sums {
  using Number = typename Numbers::Number;
  const Numbers &numbers;
  const AddPositionsOptions &options;
  const HostArray &positions;
  std::int64_t length, width, rows; // rows of the table
  std::vector<Number> table = {};

  std::int64_t position(std::int64_t token) const {
    return isThere(positions) ? positions.as<std::int32_t>()[static_cast<std::size_t>(token)]
                              : options.offset + token % length;
  }
  bool inTable(std::int64_t p) const { return p >= 0 && p < rows; }
  Number embedding(std::int64_t p, std::int64_t column) const {
    if (rows >= 0)
      return inTable(p) ? table[static_cast<std::size_t>(p * width + column)] : 0;
    const Number frequency =
        std::pow(static_cast<Number>(options.theta),
                 -static_cast<Number>(column / 2 * 2) / static_cast<Number>(width));
    const Number angle = static_cast<Number>(p) * frequency;
    return numbers.store(column % 2 ? std::cos(angle) : std::sin(angle));
  }
  void addTo(Number &x, std::int64_t token, std::int64_t column) const {
    const Number scaled = numbers.store(x * static_cast<Number>(options.scale));
    x = numbers.store(scaled + embedding(position(token), column));
  }
};

template <class Numbers>
Sums<Numbers> sumsOf(const Numbers &numbers, const AddPositionsOptions &options,
                     const HostArray &positions, const HostArray &table, const Shape &shape) {
  Sums<Numbers> sums{numbers,  options,  positions,
                     shape[1], shape[2], isThere(table) ? table.shape[0] : -1};
  if (isThere(table))
    sums.table = numbers.load(table);
  return sums;
}

} // namespace

static HostArray sumReference(const HostArray &x, const HostArray &table,
                              const HostArray &positions, const AddPositionsOptions &options,
                              Arithmetic arithmetic) {
  return with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    auto values = numbers.load(x);
    const auto sums = sumsOf(numbers, options, positions, table, x.shape);
    parallelFor(x.shape[0] * sums.length, [&](std::int64_t token) {
      for (std::int64_t column = 0; column < sums.width; ++column)
        sums.addTo(values[static_cast<std::size_t>(token * sums.width + column)], token, column);
    });
    return numbers.pack(numbers.result, x.shape, values);
  });
}

LayerNormResult sectile::addPositionsReference(const HostArray &x, const HostArray &table,
                                               const HostArray &positions, const HostArray &w,
                                               const HostArray &b,
                                               const AddPositionsOptions &options,
                                               Arithmetic arithmetic) {
  const HostArray sum = sumReference(x, table, positions, options, arithmetic);
  if (!isThere(w))
    return {sum, {}, {}};
  return layerNormReference(sum, w, b, options.eps, arithmetic);
}

std::vector<HostArray> sectile::addPositionsBackwardReference(const Invocation &call,
                                                              std::span<const HostArray> inputs,
                                                              const AddPositionsOptions &options,
                                                              Arithmetic arithmetic) {
  const auto input = [&](const char *name) { return inputs[call.index(name)]; };
  const bool hasTable = call.extents.contains("P");
  const HostArray table = hasTable ? input("table") : HostArray(), positions = input("positions"),
                  w = input("w"), dy = input("dy");
  NormBackwardResult ofSum{dy, {}, {}};
  if (isThere(w)) {
    const HostArray mean = input("mean");
    ofSum = normBackwardReference(sumReference(input("x"), table, positions, options, arithmetic),
                                  w, &mean, input("rstd"), dy, nullptr, arithmetic);
  }
  return with_arithmetic(dy.dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto sums = sumsOf(numbers, options, positions, table, dy.shape);
    const std::int64_t width = sums.width, tokens = dy.shape[0] * sums.length;
    auto dz = numbers.load(ofSum.dx);
    std::vector<Number> dtable(sums.table.size());
    for (std::int64_t token = 0; token < tokens && hasTable; ++token)
      if (const std::int64_t p = sums.position(token); sums.inTable(p))
        for (std::int64_t column = 0; column < width; ++column)
          dtable[static_cast<std::size_t>(p * width + column)] +=
              dz[static_cast<std::size_t>(token * width + column)];
    for (Number &value : dz)
      value *= static_cast<Number>(options.scale);
    if (hasTable)
      return outputsOf(call, numbers, dz, dtable, ofSum.dw, ofSum.db);
    return outputsOf(call, numbers, dz, ofSum.dw, ofSum.db);
  });
}
