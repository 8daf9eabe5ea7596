// Running a kernel of the registry on a caller's tensors.
#include "kernels/InputError.h"
#include "kernels/Tune.h"
#include "kernels/Use.h"
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;

void AnyTensor::check(DType wanted, int rank) const {
  if (dtype != wanted || extents.size() != static_cast<std::size_t>(rank))
    throw LaunchError("a tensor of " + std::string(name_of(dtype)) + " " + toString(extents) +
                      " is no " + std::string(name_of(wanted)) + " tensor with " +
                      std::to_string(rank) + (rank == 1 ? " axis" : " axes"));
}

namespace {

AnyTensor allocate(const Device &device, const TensorType &type) {
  AnyTensor tensor;
  tensor.dtype = type.dtype;
  tensor.extents = type.shape;
  tensor.strides.resize(type.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = type.shape.size(); i-- > 0;
       stride *= std::max<std::int64_t>(type.shape[i], 1))
    tensor.strides[i] = stride;
  tensor.memory = detail::Memory(device, static_cast<std::size_t>(elementCount(type.shape)) *
                                             size_of(type.dtype));
  tensor.address = tensor.memory.address();
  return tensor;
}

} // namespace

NamedTensors sectile::run_kernel(const Stream &stream, std::string_view name,
                                 const NamedTensors &inputs, const KernelOptions &options,
                                 const NamedTensors &given) {
  try {
    const Device device = stream.device();
    NamedTensors outputs = given;
    const PlacedCall placed =
        placeCall(findKernel(name), inputs, options, outputs,
                  [&](const TensorType &type) { return allocate(device, type); });
    launchKernel(placed.call, configFor(placed.call, device), placed.memory, stream,
                 placed.addresses);
    return outputs;
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}
