// Operands that lie as the chip's matrix units, or its copy engine, cannot take them, and are
// copied into scratch memory first: along K, in rows of whole lines.
#pragma once
#include "kernels/calls/Use.h"
#include "kernels/matmul/ProductModel.h"
#include <sectile/gemm.h>

namespace sectile {

inline const ConfigSpec copyFirstField{
    "copy_first", "1: operands that matrix units cannot take as they lie are copied first", 0, 1};

// The shape of a call's product that reads a and b as they lie, by the call's trans_a and trans_b.
ProductShape asItLies(const Invocation &call, ProductShape shape);

// Whether copies pay for the product of a call, [M, K] by [K, N], which takes so many microseconds
// without them, and so many after them.
bool isWorthCopying(const Invocation &call, const std::string &target, double asItLies,
                    double copied);

// The operands a [B, M, K] and b [B, K, N] themselves, or a copy of one where the configuration
// asks for copies and matrix units cannot take it.
template <class T> Tensor<T, 3> leftOperand(Use &use, const Tensor<T, 3> &a);
template <class T> Tensor<T, 3> rightOperand(Use &use, const Tensor<T, 3> &b) {
  return leftOperand(use, b.permute({0, 2, 1})).permute({0, 2, 1});
}

// The same of matrices.
template <class T> Tensor<T, 2> matrixOf(const Tensor<T, 3> &one) {
  return {one.data(), {one.extent(1), one.extent(2)}, {one.stride(1), one.stride(2)}, one.memory()};
}
template <class T> Tensor<T, 2> leftOperand(Use &use, const Tensor<T, 2> &a) {
  return matrixOf(leftOperand(use, detail::asBatch<3>(a)));
}
template <class T> Tensor<T, 2> rightOperand(Use &use, const Tensor<T, 2> &b) {
  return matrixOf(rightOperand(use, detail::asBatch<3>(b)));
}

} // namespace sectile
