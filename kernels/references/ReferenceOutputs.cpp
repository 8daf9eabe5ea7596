// The arrays that references give.
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

HostArray sectile::argumentArray(const Invocation &call, std::size_t argument, bool isExact,
                                 const std::vector<double> &values) {
  const TensorType &type = call.tensors[argument];
  Shape shape;
  for (const std::size_t place : call.stored_axes(argument))
    shape.push_back(type.shape[place]);
  return HostArray(isExact && is_floating(type.dtype) ? DType::float64 : type.dtype, shape, values);
}
