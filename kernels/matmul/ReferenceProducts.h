// What the references of the products share: sums of products, and what is done with the sums.
#pragma once
#include "kernels/matmul/Gemm.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"

namespace sectile {

// Adds row [K] times columns [K, N] to sums [N], with the innermost loop along memory, which the
// compiler vectorises.
template <class Number>
void addProducts(std::span<const Number> row, const Number *columns, std::span<Number> sums) {
  for (const Number factor : row) {
    for (std::size_t j = 0; j < sums.size(); ++j)
      sums[j] += factor * columns[j];
    columns += sums.size();
  }
}
// The same of fp8 as the default precision of a dot may do it (docs/language.md, "Sums of fp8
// products"). Rows of columns are `stride` apart.
void addProductsOfFp8(std::span<const float> row, const float *columns, std::int64_t stride,
                      std::span<float> sums);

// The numbers of the microscaling formats: of an e2m1's four bits, and of a scale.
double decodeE2m1(unsigned code);
double decodeE8m0(unsigned code);

// Row i of a matrix [rows, columns].
template <class Matrix> auto rowOf(Matrix &matrix, std::int64_t i, std::int64_t columns) {
  return std::span(matrix.data() + i * columns, static_cast<std::size_t>(columns));
}

// The product of row i of one matrix [., K] and row j of another.
template <class Number, class Values>
Number productOfRows(const Values &left, std::int64_t i, const Values &right, std::int64_t j,
                     std::int64_t k) {
  Number sum = 0;
  for (std::int64_t p = 0; p < k; ++p)
    sum += static_cast<Number>(left[static_cast<std::size_t>(i * k + p)]) *
           static_cast<Number>(right[static_cast<std::size_t>(j * k + p)]);
  return sum;
}

// c = act(sums + bias) [M, N] of what sumOf(i, j) gives.
template <class Numbers, class SumOf>
References activatedSums(const Numbers &numbers, const Invocation &call, const HostArray &bias,
                         SumOf &&sumOf) {
  using Number = typename Numbers::Number;
  const std::int64_t m = call.extent("M"), n = call.extent("N");
  const Activation activation = activationOf(call.options.choice("activation"));
  const auto biases = numbers.load(bias);
  std::vector<Number> result(static_cast<std::size_t>(m * n));
  parallelFor(m, [&](std::int64_t i) {
    for (std::int64_t j = 0; j < n; ++j) {
      Number sum = numbers.store(sumOf(i, j));
      if (!biases.empty())
        sum = numbers.store(sum + biases[static_cast<std::size_t>(j)]);
      result[static_cast<std::size_t>(i * n + j)] = activate(activation, sum);
    }
  });
  return {numbers.pack(numbers.result, {m, n}, result)};
}

} // namespace sectile
