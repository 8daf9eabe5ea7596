// Numbers of the microscaling formats, decoded before a product whose tiles would each decode them
// again.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

// Neighbours along K that share a scale.
constexpr int mxBlock = 32;

// How many numbers there are in one element: std::uint8_t holds two e2m1.
template <class T> constexpr int mxPacking = std::is_same_v<T, std::uint8_t> ? 2 : 1;

inline const ConfigSpec decodeFirstField{
    "decode_first", "1: codes are decoded before the product, into scratch memory", 0, 1};

// In scratch memory, the numbers that dot_scaled() multiplies: bf16 [G, R, K] of codes [G, R, K /
// packing] and e8m0 [G, R, K / 32], whatever the strides.
template <class T>
Tensor<bfloat16, 3> decodedMx(Use &use, const Tensor<T, 3> &codes,
                              const Tensor<std::uint8_t, 3> &scales);

} // namespace sectile
