// The operations of the C interface: finding them, what a call's outputs are, running calls.
#include "capi/Describe.h"
#include "capi/Handles.h"
#include "capi/Operation.h"
#include "capi/Tensors.h"
#include "kernels/calls/Overlap.h"
#include <deque>
#include <unordered_map>

using namespace sectile;

namespace {

// The handle of a kernel, the same one each time.
const sectile_op *handleOf(const KernelSpec &kernel) {
  static std::mutex mutex;
  static auto *handles = new std::unordered_map<const KernelSpec *, std::unique_ptr<sectile_op>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<sectile_op> &handle = (*handles)[&kernel];
  if (!handle)
    handle = std::make_unique<sectile_op>(kernel);
  return handle.get();
}

// In the kernel's own words, with the checks that need addresses.
void runSlowly(const sectile_stream &stream, const c::Settled &settled, const c::GivenCall &given) {
  const Placement placed = c::placementOf(stream.stream.device(), given);
  checkOverlap(settled.call, placed.addresses);
  launchKernel(settled.call, settled.config, placed.memory, stream.stream, placed.addresses);
}

std::uint64_t addressOf(const DLTensor *tensor) {
  return tensor ? reinterpret_cast<std::uintptr_t>(tensor->data) + tensor->byte_offset : 0;
}

// The shapes that sectile_op_infer() gave this thread.
std::deque<Shape> &inferredShapes() {
  thread_local std::deque<Shape> shapes;
  return shapes;
}

void infer(const c::GivenCall &given, DLTensor *const *arguments) {
  const KernelSpec &kernel = given.op->kernel;
  const Invocation call = c::resolveShapes(given);
  std::deque<Shape> &shapes = inferredShapes();
  shapes.clear();
  for (std::size_t i = 0; i < given.count; ++i) {
    if (!kernel.arguments[i].output || !arguments[i])
      continue;
    DLTensor &output = *arguments[i];
    const TensorType &type = call.tensors[i];
    output.data = nullptr;
    output.strides = nullptr;
    output.byte_offset = 0;
    output.dtype = c::typeOf(type.dtype);
    output.ndim = type.present ? static_cast<std::int32_t>(type.shape.size()) : -1;
    output.shape = type.present ? shapes.emplace_back(type.shape).data() : nullptr;
  }
}

void checkOutputs(const KernelSpec &kernel, const DLTensor *const *arguments) {
  Invocation outputs;
  outputs.kernel = &kernel;
  std::vector<std::uint64_t> addresses;
  for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    const DLTensor *const tensor = spec.output ? arguments[i] : nullptr;
    TensorType &type = outputs.tensors.emplace_back();
    addresses.push_back(addressOf(tensor));
    if (!(type.present = tensor))
      continue;
    const AnyTensor shape = c::shapeOf(*tensor, kernel.name + ": " + spec.name);
    type.dtype = shape.dtype;
    type.shape = shape.extents;
    if (tensor->strides && tensor->ndim)
      type.strides.assign(tensor->strides, tensor->strides + tensor->ndim);
  }
  checkOverlap(outputs, addresses);
}

} // namespace

Invocation c::resolveShapes(const GivenCall &given) {
  const KernelSpec &kernel = given.op->kernel;
  std::map<std::string, GivenTensor> inputs;
  for (std::size_t i = 0; i < given.count; ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    if (spec.output || !given.arguments[i])
      continue;
    const AnyTensor tensor = shapeOf(*given.arguments[i], kernel.name + ": " + spec.name);
    inputs[spec.name] = {{tensor.dtype, tensor.extents}, ""};
  }
  const KernelOptions options = optionsOf(given);
  return resolve(kernel, inputs, {options.begin(), options.end()});
}

// A prepared call. Its launches are those of its own tensors.
struct sectile_call {
  sectile_call(const Device &device, std::shared_ptr<const c::Settled> settled, Placement placed,
               const sectile_op *op)
      : device(device), settled(std::move(settled)), placed(std::move(placed)), op(op) {
    for (const TensorType &type : this->settled->call.tensors)
      strides.push_back(stridesOf(type));
  }

  const Device device;
  const std::shared_ptr<const c::Settled> settled;
  const Placement placed;
  const sectile_op *const op;
  std::vector<Shape> strides; // of all arguments
  BoundKernel bound;
  struct Kept {                                                     // what a graph keeps
    std::vector<std::shared_ptr<const runtime::LoadedKernel>> code; // of each launch
    std::vector<detail::Memory> workspaces;
  };
  std::shared_ptr<const Kept> kept;
};

namespace {

// With its scratch memory, so that the host code has no reason to clear it again.
BoundKernel bindAgain(const sectile_call &call, const Placement &placed) {
  BoundKernel bound;
  Use::State state{.memories = placed.memory,
                   .addresses = placed.addresses,
                   .bound = &bound,
                   .workspaces = call.kept->workspaces,
                   .device = &call.device};
  Use use(call.settled->call, call.settled->config, state);
  call.settled->call.kernel->apply(use);
  return bound;
}

void prepareCall(sectile_call &call) {
  checkOverlap(call.settled->call, call.placed.addresses);
  call.bound = bindCall(call.settled->call, call.placed, call.settled->config, call.device);
  auto kept = std::make_shared<sectile_call::Kept>();
  for (const detail::BoundLaunch &launch : call.bound.launches)
    kept->code.push_back(runtime::LaunchAccess::prepare(launch, call.device).shared_from_this());
  kept->workspaces = call.bound.workspaces;
  call.device.stream().synchronize(); // Scratch memory that begins with zeros has them.
  call.kept = std::move(kept);
}

// Whether the tensors are those that the call was prepared with but for their addresses, and these
// so that a replay's launches hold. What is not alike is left to the slow way, which says why.
bool isReplayed(const sectile_call &call, const DLTensor *const *others) {
  const std::vector<TensorType> &types = call.settled->call.tensors;
  const runtime::DeviceImpl &device = *call.device.impl();
  for (std::size_t i = 0; i < types.size(); ++i) {
    const TensorType &type = types[i];
    const DLTensor *const tensor = others[i];
    if (!tensor != !type.present)
      return false;
    if (!tensor)
      continue;
    const std::size_t rank = type.shape.size();
    if (!tensor->data || static_cast<int>(tensor->device.device_type) != device.dlpackDevice ||
        tensor->device.device_id != device.dlpackIndex || c::dtypeOf(tensor->dtype) != type.dtype ||
        static_cast<std::size_t>(tensor->ndim) != rank || (rank && !tensor->shape) ||
        (addressOf(tensor) ^ call.placed.addresses[i]) & c::Replay::seenBits)
      return false;
    const Shape &strides = call.strides[i];
    std::int64_t dense = 1;
    for (std::size_t axis = rank; axis-- > 0; dense *= tensor->shape[axis])
      if (tensor->shape[axis] != type.shape[axis] ||
          (tensor->strides ? tensor->strides[axis] : dense) != strides[axis])
        return false;
  }
  return c::isApart(*call.settled, others);
}

// The same call on other tensors of the same types.
void runOnOthers(const sectile_call &call, const sectile_stream &stream,
                 const DLTensor *const *others) {
  if (call.settled->replay && isReplayed(call, others)) {
    std::uint64_t addresses[c::mostArguments];
    for (std::size_t i = 0; i < call.settled->call.tensors.size(); ++i)
      addresses[i] = addressOf(others[i]);
    return call.settled->replay->launch(stream.stream, addresses);
  }
  const KernelSpec &kernel = call.op->kernel;
  const Invocation &settled = call.settled->call;
  for (std::size_t i = 0; i < settled.tensors.size(); ++i) {
    const TensorType &type = settled.tensors[i];
    const std::string who = kernel.name + ": " + kernel.arguments[i].name;
    if (!others[i] != !type.present)
      throw c::Refusal(SECTILE_INVALID,
                       who + (type.present ? " is missing, but the call was prepared with it"
                                           : " was not there when the call was prepared"));
    if (!type.present)
      continue;
    const AnyTensor tensor = c::borrow(call.device, *others[i], who);
    const TensorType prepared{type.dtype, type.shape, type.strides, true};
    if (tensor.dtype != type.dtype || tensor.extents != type.shape ||
        tensor.strides != stridesOf(prepared))
      throw c::Refusal(SECTILE_INVALID,
                       who + " is " + std::string(name_of(tensor.dtype)) + " " +
                           toString(tensor.extents) + " with strides " + toString(tensor.strides) +
                           ", but the call was prepared for " + std::string(name_of(type.dtype)) +
                           " " + toString(type.shape) + " with strides " +
                           toString(stridesOf(prepared)));
  }
  const Placement placed =
      c::placementOf(call.device, {call.op, others, settled.tensors.size(), nullptr, 0});
  checkOverlap(settled, placed.addresses);
  BoundKernel bound = bindAgain(call, placed);
  const runtime::LaunchesOfCall one;
  for (const detail::BoundLaunch &launch : bound.launches)
    runtime::LaunchAccess::launch(launch, stream.stream);
}

} // namespace

extern "C" {

size_t sectile_op_count(void) {
  std::size_t count = 0;
  c::guard([&] { count = countKernels(); });
  return count;
}

const char *sectile_op_name(size_t index) {
  const char *name = nullptr;
  c::guard([&] {
    if (const KernelSpec *kernel = kernelAt(index))
      name = kernel->name.c_str();
  });
  return name;
}

sectile_status sectile_op_find(const char *name, const sectile_op **op) {
  if (op)
    *op = nullptr;
  return c::guard([&] {
    c::require(name, "sectile_op_find: name");
    c::require(op, "sectile_op_find: op");
    try {
      *op = handleOf(findKernel(name));
    } catch (const InputError &error) {
      throw c::Refusal(SECTILE_NOT_FOUND, error.what());
    }
  });
}

sectile_status sectile_op_describe(const sectile_op *op, const char **json) {
  if (json)
    *json = nullptr;
  return c::guard([&] {
    c::require(op, "sectile_op_describe: op");
    c::require(json, "sectile_op_describe: json");
    auto &own = const_cast<sectile_op &>(*op);
    std::call_once(own.described, [&] { own.json = c::describeOperation(op->kernel); });
    *json = own.json.c_str();
  });
}

sectile_status sectile_op_infer(const sectile_op *op, DLTensor *const *arguments, size_t count,
                                const sectile_option *options, size_t option_count) {
  return c::guard([&] {
    const c::GivenCall given{op, const_cast<const DLTensor *const *>(arguments), count, options,
                             option_count};
    c::checkGiven(given, "sectile_op_infer");
    infer(given, arguments);
  });
}

sectile_status sectile_op_check_outputs(const sectile_op *op, const DLTensor *const *arguments,
                                        size_t count) {
  return c::guard([&] {
    c::checkGiven({op, arguments, count, nullptr, 0}, "sectile_op_check_outputs");
    checkOutputs(op->kernel, arguments);
  });
}

sectile_status sectile_op_run(const sectile_op *op, sectile_stream *stream,
                              const DLTensor *const *arguments, size_t count,
                              const sectile_option *options, size_t option_count) {
  return c::guard(
      [&] {
        const c::GivenCall given{op, arguments, count, options, option_count};
        c::checkGiven(given, "sectile_op_run");
        c::require(stream, "sectile_op_run: stream");
        const auto settled = c::settle(Device(stream->stream.impl()->device), given);
        if (!settled->replay || !c::isApart(*settled, arguments))
          return runSlowly(*stream, *settled, given);
        std::uint64_t addresses[c::mostArguments];
        for (std::size_t i = 0; i < count; ++i)
          addresses[i] = addressOf(arguments[i]);
        settled->replay->launch(stream->stream, addresses);
      },
      c::implOf(stream));
}

sectile_status sectile_call_prepare(const sectile_op *op, sectile_device *device,
                                    const DLTensor *const *arguments, size_t count,
                                    const sectile_option *options, size_t option_count,
                                    sectile_call **call) {
  if (call)
    *call = nullptr;
  return c::guard(
      [&] {
        const c::GivenCall given{op, arguments, count, options, option_count};
        c::checkGiven(given, "sectile_call_prepare");
        c::require(device, "sectile_call_prepare: device");
        c::require(call, "sectile_call_prepare: call");
        auto fresh =
            std::make_unique<sectile_call>(device->device, c::settle(device->device, given),
                                           c::placementOf(device->device, given), op);
        prepareCall(*fresh);
        *call = fresh.release();
      },
      c::implOf(device));
}

sectile_status sectile_call_run(sectile_call *call, sectile_stream *stream,
                                const DLTensor *const *others) {
  return c::guard(
      [&] {
        c::require(call, "sectile_call_run: call");
        c::require(stream, "sectile_call_run: stream");
        const runtime::StreamImpl &in = *stream->stream.impl();
        if (in.device != call->device.impl())
          throw c::Refusal(SECTILE_INVALID, "a call that was prepared for " + call->device.name() +
                                                " cannot run in a stream of " + in.device->name);
        if (const auto capture = in.device->captures.of(in))
          in.device->captures.keep(*capture, call->kept);
        if (others)
          return runOnOthers(*call, *stream, others);
        const runtime::LaunchesOfCall one;
        for (std::size_t i = 0; i < call->kept->code.size(); ++i)
          runtime::LaunchAccess::launch(call->bound.launches[i], *call->kept->code[i],
                                        stream->stream);
      },
      c::implOf(stream));
}

void sectile_call_release(sectile_call *call) { delete call; }

} // extern "C"
