// Running a kernel of the registry on a caller's tensors.
#include "kernels/bundles/CallRecorder.h"
#include "kernels/calls/Overlap.h"
#include "kernels/calls/Use.h"
#include "kernels/tuning/Choices.h"
#include "runtime/Checksum.h"
#include "runtime/LaunchAccess.h"
#include <cstdio>
#include <mutex>
#include <sectile/error.h>
#include <sectile/kernel_of.h>
#include <sectile/library.h>
#include <sectile/tuning.h>
#include <unordered_map>

using namespace sectile;

void AnyTensor::check(DType wanted, int rank, bool isWritten) const {
  if (dtype != wanted || extents.size() != static_cast<std::size_t>(rank))
    throw LaunchError("a tensor of " + std::string(name_of(dtype)) + " " + toString(extents) +
                      " is no " + std::string(name_of(wanted)) + " tensor with " +
                      std::to_string(rank) + (rank == 1 ? " axis" : " axes"));
  if (strides.size() != extents.size())
    throw LaunchError("a tensor of " + std::string(name_of(dtype)) + " " + toString(extents) +
                      " has the strides " + toString(strides) + ", but needs one for each axis");
  if (read_only && isWritten)
    throw LaunchError("a read-only tensor of " + std::string(name_of(dtype)) + " " +
                      toString(extents) + " is one of const " + std::string(name_of(dtype)));
}

std::string detail::nameWithType(std::string_view name, std::string_view type) {
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(checksumOf(type)));
  return std::string(name) + "_" + std::string(hash, 8);
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

// What is worked out once for all calls on tensors of the same types.
struct SettledCall {
  Invocation call;
  Config config;
};

// The settled calls of late.
class SettledCalls {
public:
  static SettledCalls &get() {
    static SettledCalls calls;
    return calls;
  }

  std::shared_ptr<const SettledCall> find(const Device &device, std::string_view name,
                                          const NamedTensors &inputs, const KernelOptions &options,
                                          const NamedTensors &outputs) {
    thread_local std::string key;
    key.clear();
    // What else decides the configuration, but for what is tuned meanwhile.
    add(key, device.impl().get());
    add(key, autotune_mode());
    add(key, numerics());
    addText(key, device.name());
    addText(key, name);
    addTensors(key, inputs);
    addTensors(key, outputs);
    for (const auto &[option, value] : options) {
      addText(key, option);
      addText(key, value);
    }
    const std::uint64_t generation = choicesRecorded();
    {
      std::lock_guard lock(mutex);
      const auto found = calls.find(key);
      if (found != calls.end() && found->second.generation == generation)
        return found->second.call;
    }
    Invocation call = callOn(findKernel(name), inputs, options, outputs);
    recordCall(call);
    Config config = configFor(call, device);
    auto settled =
        std::make_shared<const SettledCall>(SettledCall{std::move(call), std::move(config)});
    constexpr std::size_t most = 1024;
    std::lock_guard lock(mutex);
    if (calls.size() >= most && !calls.contains(key))
      calls.clear();
    calls[key] = {generation, settled};
    return settled;
  }

private:
  struct Entry {
    std::uint64_t generation; // of the database of measurements
    std::shared_ptr<const SettledCall> call;
  };

  template <class T> static void add(std::string &key, const T &value) {
    key.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  static void addText(std::string &key, std::string_view text) {
    add(key, text.size());
    key += text;
  }
  static void addTensors(std::string &key, const NamedTensors &tensors) {
    add(key, tensors.size());
    for (const auto &[name, tensor] : tensors) {
      addText(key, name);
      add(key, tensor.dtype);
      add(key, tensor.extents.size());
      for (const std::int64_t extent : tensor.extents)
        add(key, extent);
      add(key, tensor.strides.size());
      for (const std::int64_t stride : tensor.strides)
        add(key, stride);
    }
  }

  std::mutex mutex; // guards what follows
  std::unordered_map<std::string, Entry> calls;
};

// Throws LaunchError in a capture whose graph would not keep what is allocated now.
void requireKept(const runtime::StreamImpl &stream) {
  if (stream.device->captureOf(stream.handle) && !stream.device->captures.of(stream))
    throw LaunchError("outputs that are not given are allocated, which a capture that another "
                      "library began does not bear: give them, or use sectile::prepare_kernel");
}

} // namespace

NamedTensors sectile::runCall(const Stream &stream, const Invocation &call, const Config &config,
                              const NamedTensors &inputs, NamedTensors outputs,
                              const std::function<void(Use &)> &apply) {
  const Placement placed = placeArguments(call, inputs, outputs, [&](const TensorType &type) {
    requireKept(*stream.impl());
    return allocate(stream.device(), type);
  });
  checkOverlap(call, placed.addresses);
  withUse(call, config, stream, apply, placed.memory, placed.addresses);
  return outputs;
}

NamedTensors sectile::run_kernel(const Stream &stream, std::string_view name,
                                 const NamedTensors &inputs, const KernelOptions &options,
                                 const NamedTensors &given) {
  try {
    const auto settled = SettledCalls::get().find(stream.device(), name, inputs, options, given);
    return runCall(stream, settled->call, settled->config, inputs, given,
                   settled->call.kernel->apply);
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
    const auto settled = SettledCalls::get().find(device, name, inputs, options, given);
    const Placement placed =
        placeArguments(settled->call, inputs, state->outputs,
                       [&](const TensorType &type) { return allocate(device, type); });
    checkOverlap(settled->call, placed.addresses);
    state->bound = bindCall(settled->call, placed, settled->config, device);
    for (detail::BoundLaunch &launch : state->bound.launches) {
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
  const runtime::LaunchesOfCall one;
  for (std::size_t i = 0; i < state_->code.size(); ++i)
    runtime::LaunchAccess::launch(state_->bound.launches[i], *state_->code[i], stream);
}
