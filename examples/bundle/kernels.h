// What the project's kernels compute, without Sectile's language.
#pragma once
#include <sectile/stream.h>
#include <sectile/tensor.h>

// z = x + y, of n elements. Throws sectile::LaunchError.
void add(const sectile::Stream &stream, const sectile::Buffer<float> &x,
         const sectile::Buffer<float> &y, const sectile::Buffer<float> &z, int n);

// The product of two matrices. Throws sectile::LaunchError.
sectile::Tensor<sectile::half, 2> product(const sectile::Stream &stream,
                                          const sectile::Tensor<sectile::half, 2> &a,
                                          const sectile::Tensor<sectile::half, 2> &b);
