// Absolute positions on the host: embeddings added to hidden states, and layer norm after it.
#include "kernels/position/References.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <cmath>

using namespace sectile;

namespace {

bool isThere(const HostArray &array) { return !array.shape.empty(); }

// The hidden states with the embeddings added.
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
  Number at(const std::vector<Number> &x, std::int64_t token, std::int64_t column) const {
    const Number scaled = numbers.store(x[static_cast<std::size_t>(token * width + column)] *
                                        static_cast<Number>(options.scale));
    return numbers.store(scaled + embedding(position(token), column));
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

LayerNormResult sectile::addPositionsReference(const HostArray &x, const HostArray &table,
                                               const HostArray &positions, const HostArray &w,
                                               const HostArray &b,
                                               const AddPositionsOptions &options,
                                               Arithmetic arithmetic) {
  HostArray sum = with_arithmetic(x.dtype, arithmetic, [&](auto numbers) {
    const auto values = numbers.load(x);
    const auto sums = sumsOf(numbers, options, positions, table, x.shape);
    auto result = values;
    parallelFor(x.shape[0] * sums.length, [&](std::int64_t token) {
      for (std::int64_t column = 0; column < sums.width; ++column)
        result[static_cast<std::size_t>(token * sums.width + column)] =
            sums.at(values, token, column);
    });
    return numbers.pack(numbers.result, x.shape, result);
  });
  if (!isThere(w))
    return {sum, {}, {}};
  return layerNormReference(sum, w, b, options.eps, arithmetic);
}

AddPositionsGradients sectile::addPositionsBackwardReference(
    const HostArray &x, const HostArray &table, const HostArray &positions, const HostArray &w,
    const HostArray &mean, const HostArray &rstd, const HostArray &dy,
    const AddPositionsOptions &options, Arithmetic arithmetic) {
  return with_arithmetic(dy.dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto sums = sumsOf(numbers, options, positions, table, dy.shape);
    const std::int64_t width = sums.width, tokens = dy.shape[0] * sums.length;
    auto dz = numbers.load(dy);
    AddPositionsGradients result;
    if (isThere(w)) {
      const auto values = numbers.load(x), weight = numbers.load(w), means = numbers.load(mean),
                 rstds = numbers.load(rstd);
      std::vector<Number> dw(weight.size()), db(weight.size());
      std::vector<Number> normal(static_cast<std::size_t>(width));
      for (std::int64_t token = 0; token < tokens; ++token) {
        const auto t = static_cast<std::size_t>(token);
        Number *row = dz.data() + token * width;
        Number plain = 0, along = 0;
        for (std::int64_t column = 0; column < width; ++column) {
          const auto c = static_cast<std::size_t>(column);
          normal[c] = numbers.store((sums.at(values, token, column) - means[t]) * rstds[t]);
          dw[c] += row[column] * normal[c];
          db[c] += row[column];
          row[column] = numbers.store(row[column] * weight[c]);
          plain += row[column];
          along += row[column] * normal[c];
        }
        plain /= static_cast<Number>(width);
        along /= static_cast<Number>(width);
        for (std::int64_t column = 0; column < width; ++column)
          row[column] = numbers.store(
              rstds[t] * (row[column] - plain - normal[static_cast<std::size_t>(column)] * along));
      }
      result.dw = numbers.pack(numbers.result, w.shape, dw);
      result.db = numbers.pack(numbers.result, w.shape, db);
    }
    if (isThere(table)) {
      std::vector<Number> dtable(sums.table.size());
      for (std::int64_t token = 0; token < tokens; ++token)
        if (const std::int64_t p = sums.position(token); sums.inTable(p))
          for (std::int64_t column = 0; column < width; ++column)
            dtable[static_cast<std::size_t>(p * width + column)] +=
                dz[static_cast<std::size_t>(token * width + column)];
      result.dtable = numbers.pack(numbers.result, table.shape, dtable);
    }
    for (Number &value : dz)
      value *= static_cast<Number>(options.scale);
    result.dx = numbers.pack(numbers.result, dy.shape, dz);
    return result;
  });
}
