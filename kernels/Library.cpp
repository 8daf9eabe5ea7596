// Running a kernel of the registry on a caller's tensors.
#include "kernels/InputError.h"
#include "kernels/Tune.h"
#include "kernels/Use.h"
#include "runtime/LaunchAccess.h"
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

// Throws LaunchError in a capture whose graph would not keep what is allocated now.
void requireKept(const runtime::StreamImpl &stream) {
  if (stream.device->captureOf(stream.handle) && !stream.device->captures.of(stream))
    throw LaunchError("outputs that are not given are allocated, which a capture that another "
                      "library began does not bear: give them, or use sectile::prepare_kernel");
}

} // namespace

NamedTensors sectile::run_kernel(const Stream &stream, std::string_view name,
                                 const NamedTensors &inputs, const KernelOptions &options,
                                 const NamedTensors &given) {
  try {
    const Device device = stream.device();
    NamedTensors outputs = given;
    const PlacedCall placed =
        placeCall(findKernel(name), inputs, options, outputs, [&](const TensorType &type) {
          requireKept(*stream.impl());
          return allocate(device, type);
        });
    launchKernel(placed.call, configFor(placed.call, device), placed.memory, stream,
                 placed.addresses);
    return outputs;
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}

struct PreparedCall::State {
  Device device;
  NamedTensors inputs, outputs; // keep the memory
  BoundKernel bound;
  std::vector<std::shared_ptr<const runtime::LoadedKernel>> code; // of each launch
};

PreparedCall sectile::prepare_kernel(const Device &device, std::string_view name,
                                     const NamedTensors &inputs, const KernelOptions &options,
                                     const NamedTensors &given) {
  try {
    auto state =
        std::make_shared<PreparedCall::State>(PreparedCall::State{device, inputs, given, {}, {}});
    const PlacedCall placed =
        placeCall(findKernel(name), inputs, options, state->outputs,
                  [&](const TensorType &type) { return allocate(device, type); });
    state->bound = bindCall(placed, configFor(placed.call, device), device);
    bool hasLaunched = false; // anything yet, as a part of this call
    for (detail::BoundLaunch &launch : state->bound.launches) {
      launch.options.dependent = hasLaunched;
      hasLaunched |= launch.grid.x && launch.grid.y && launch.grid.z;
      runtime::LaunchAccess::checkOwners(launch, device);
      state->code.push_back(runtime::LaunchAccess::prepare(launch, device).shared_from_this());
    }
    device.stream().synchronize(); // Scratch memory that begins with zeros has them.
    return PreparedCall(std::move(state));
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}

const NamedTensors &PreparedCall::outputs() const { return state_->outputs; }

void PreparedCall::launch(const Stream &stream) const {
  if (stream.impl()->device != state_->device.impl())
    throw LaunchError("a call that was prepared for " + state_->device.name() +
                      " cannot run in a stream of " + stream.device().name());
  if (const auto capture = stream.impl()->device->captures.of(*stream.impl()))
    stream.impl()->device->captures.keep(*capture, state_);
  for (std::size_t i = 0; i < state_->code.size(); ++i)
    runtime::LaunchAccess::launch(state_->bound.launches[i], *state_->code[i], stream);
}
