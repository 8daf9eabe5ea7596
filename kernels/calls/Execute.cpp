// Arrays to the device, the launch, arrays back, and the comparison with the reference.
#include "kernels/calls/Execute.h"
#include "kernels/calls/Use.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <cassert>
#include <chrono>
#include <sectile/error.h>

namespace sectile {
namespace {

[[maybe_unused]] bool isOneForEach(std::span<const HostArray> inputs, const Invocation &call) {
  const auto &arguments = call.kernel->arguments;
  return std::ssize(inputs) == std::count_if(arguments.begin(), arguments.end(),
                                             [](const ArgumentSpec &one) { return !one.output; });
}

bool isInteger(DType dtype) { return !is_floating(dtype); }

// Element (i, j, …) of the result is element (…) of the array whose axis places[0] is i, and so on.
HostArray permuted(const HostArray &array, const std::vector<std::size_t> &places) {
  bool same = true;
  for (std::size_t i = 0; i < places.size(); ++i)
    same &= places[i] == i;
  if (same)
    return array;
  Shape strides(places.size()), shape(places.size()), steps(places.size());
  std::int64_t stride = 1;
  for (std::size_t i = places.size(); i-- > 0; stride *= array.shape[i])
    strides[i] = stride;
  for (std::size_t i = 0; i < places.size(); ++i) {
    shape[i] = array.shape[places[i]];
    steps[i] = strides[places[i]];
  }
  HostArray result(array.dtype, shape);
  if (result.data.empty())
    return result;
  const std::size_t size = result.data.size() / static_cast<std::size_t>(result.count());
  Shape at(places.size());
  for (std::int64_t i = 0, from = 0; i < result.count(); ++i) {
    std::copy_n(array.data.data() + static_cast<std::size_t>(from) * size, size,
                result.data.data() + static_cast<std::size_t>(i) * size);
    for (std::size_t axis = places.size(); axis-- > 0;) {
      from += steps[axis];
      if (++at[axis] < shape[axis])
        break;
      from -= steps[axis] * shape[axis];
      at[axis] = 0;
    }
  }
  return result;
}

std::vector<std::size_t> inverse(const std::vector<std::size_t> &places) {
  std::vector<std::size_t> result(places.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    result[places[i]] = i;
  return result;
}

} // namespace

std::vector<HostArray> sampleInputs(const Invocation &call, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<HostArray> inputs;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const ArgumentSpec &spec = call.kernel->arguments[i];
    if (spec.output)
      continue;
    inputs.emplace_back();
    const TensorType &type = call.tensors[i];
    if (!type.present)
      continue;
    HostArray &array = inputs.back() = HostArray(type.dtype, type.shape);
    if (spec.sample) {
      spec.sample(call, array, random);
    } else if (!isInteger(type.dtype)) {
      std::normal_distribution<double> normal;
      fillDrawn(array, [&] { return normal(random); });
    }
  }
  if (call.kernel->sample_dependent)
    call.kernel->sample_dependent(call, inputs);
  return inputs;
}

Execution execute(const Device &device, const Invocation &call, const Config &config,
                  std::span<const HostArray> inputs, long repetitions) {
  assert(isOneForEach(inputs, call));
  std::vector<detail::Memory> memory;
  std::vector<HostArray> outputs;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!type.present) {
      memory.emplace_back();
      if (call.kernel->arguments[i].output)
        outputs.emplace_back();
      continue;
    }
    if (!call.kernel->arguments[i].output) {
      memory.emplace_back(device, inputs[i].data.size());
      memory.back().upload(inputs[i].data.data());
      continue;
    }
    outputs.emplace_back(type.dtype, type.shape);
    memory.emplace_back(device, outputs.back().data.size());
  }

  Execution result;
  for (long i = 0; i < repetitions; ++i) {
    const unsigned char poison = 0xff; // NaN in every floating-point type
    for (std::size_t j = inputs.size(); j < memory.size(); ++j)
      if (memory[j].owner())
        memory[j].fill(&poison, 1, nullptr);
    device.synchronize();
    const auto start = std::chrono::steady_clock::now();
    launchKernel(call, config, memory, device.stream());
    device.synchronize();
    result.milliseconds.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
            .count());
  }

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!call.tensors[i].present)
      continue;
    HostArray after(inputs[i].dtype, inputs[i].shape);
    memory[i].download(after.data.data());
    if (after.data != inputs[i].data)
      throw Error(call.kernel->name + " changed its input '" + call.kernel->arguments[i].name +
                  "': this is an error in the kernel or in the compiler");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (call.tensors[inputs.size() + i].present)
      memory[inputs.size() + i].download(outputs[i].data.data());
  result.outputs = std::move(outputs);
  return result;
}

static std::vector<HostArray> asSpecified(const Invocation &call,
                                          std::span<const HostArray> inputs) {
  assert(isOneForEach(inputs, call));
  std::vector<HostArray> specified;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    specified.push_back(call.tensors[i].present ? permuted(inputs[i], call.stored_axes(i))
                                                : HostArray());
  return specified;
}

// A reference may be anybody's.
static void requireOutputs(const Invocation &call, std::span<const HostArray> outputs,
                           std::size_t inputs) {
  const auto fail = [&](const std::string &what) { refuse(call, "its reference gives ", what); };
  if (outputs.size() != call.tensors.size() - inputs)
    fail(std::to_string(outputs.size()) + " outputs instead of " +
         std::to_string(call.tensors.size() - inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const TensorType &type = call.tensors[inputs + i];
    if (type.present && outputs[i].count() != elementCount(type.shape))
      fail(call.kernel->arguments[inputs + i].name + " as " + toString(outputs[i].shape) +
           " instead of " + toString(type.shape));
  }
}

void checkContents(const Invocation &call, std::span<const HostArray> inputs) {
  if (call.kernel->contents)
    call.kernel->contents(call, asSpecified(call, inputs));
}

std::vector<HostArray> referenceOutputs(const Invocation &call, std::span<const HostArray> inputs,
                                        Arithmetic arithmetic) {
  const std::vector<HostArray> specified = asSpecified(call, inputs);
  if (call.kernel->contents)
    call.kernel->contents(call, specified);
  if (!call.kernel->reference)
    refuse(call, "it has no reference to compare with");
  std::vector<HostArray> outputs = call.kernel->reference(call, specified, arithmetic);
  requireOutputs(call, outputs, inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (call.tensors[inputs.size() + i].present)
      outputs[i] = permuted(outputs[i], inverse(call.stored_axes(inputs.size() + i)));
  return outputs;
}

} // namespace sectile
