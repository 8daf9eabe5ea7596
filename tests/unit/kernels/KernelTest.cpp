// Running cases of the library's kernels.
#include "KernelTest.h"
#include "kernels/Use.h"
#include <cmath>
#include <cstring>
#include <sectile/library.h>

namespace sectile::test {
namespace {

std::size_t inputCount(const KernelSpec &kernel) {
  return static_cast<std::size_t>(std::count_if(kernel.arguments.begin(), kernel.arguments.end(),
                                                [](const auto &spec) { return !spec.output; }));
}

std::vector<HostArray> inputsOf(const KernelCase &test, const Invocation &call) {
  std::vector<HostArray> inputs = sampleInputs(call, test.seed);
  if (test.prepare)
    test.prepare(call, inputs);
  return inputs;
}

Config configOf(const KernelCase &test, const Invocation &call, const Device &device) {
  return completeConfig(call, device.target(), test.config);
}

void expectWithinBounds(const Invocation &call, std::span<const HostArray> inputs,
                        std::span<const HostArray> outputs) {
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
}

/// An array in the middle of a larger one: `gap` more elements along each axis, one more before.
struct Embedded {
  std::int64_t count = 0;
  Shape strides;
  std::vector<std::int64_t> places; // of the array's elements

  explicit Embedded(const Shape &shape) {
    constexpr std::int64_t gap = 3;
    strides.resize(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= shape[i] + gap;
    }
    // The last axis stays dense: most kernels ask for that.
    count = stride + 2;
    Shape at(shape.size());
    std::int64_t place = 1;
    for (std::int64_t i = 0; i < elementCount(shape); ++i) {
      places.push_back(place);
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        place += strides[axis];
        if (++at[axis] < shape[axis])
          break;
        place -= strides[axis] * shape[axis];
        at[axis] = 0;
      }
    }
  }
};

HostArray asDouble(const HostArray &array) {
  const bool there = !array.data.empty(); // an optional input may not be
  return there && is_floating(array.dtype)
             ? HostArray(DType::float64, array.shape, array.toDouble())
             : array;
}

} // namespace

std::string KernelCase::describe() const {
  std::string text = std::string("{\"") + kernel + "\", {";
  for (const auto &[axis, extent] : extents)
    text += "{\"" + axis + "\", " + std::to_string(extent) + "}, ";
  text += "}, {";
  for (const auto &[name, value] : options)
    text += "{\"" + name + "\", \"" + value + "\"}, ";
  text += "}, {";
  for (const std::string &name : with)
    text += "\"" + name + "\", ";
  text += std::string("}, \"") + dtype + "\", {";
  for (const auto &[name, value] : config)
    text += "{\"" + name + "\", " + std::to_string(value) + "}, ";
  text += "}, " + std::to_string(seed);
  if (!single.empty()) {
    text += ", nullptr, {";
    for (const std::string &name : single)
      text += "\"" + name + "\", ";
    text += "}";
  }
  return text + "}";
}

Invocation resolveCase(const KernelCase &test) {
  const KernelSpec &kernel = findKernel(test.kernel);
  auto extents = kernel.small;
  for (const auto &[axis, extent] : test.extents)
    extents[axis] = extent;
  Invocation call = resolveTypical(kernel, test.dtype, extents, test.options, test.with);
  if (test.single.empty())
    return call;
  std::map<std::string, GivenTensor> inputs;
  for (std::size_t i = 0; i < inputCount(kernel); ++i) {
    const ArgumentSpec &spec = kernel.arguments[i];
    if (!call.tensors[i].present)
      continue;
    inputs[spec.name] = {call.tensors[i], ""};
    if (std::find(test.single.begin(), test.single.end(), spec.name) != test.single.end())
      for (std::size_t axis = 0; axis < spec.axes.size(); ++axis)
        if (spec.axes[axis].starts_with("1|"))
          inputs[spec.name].type.shape[axis] = 1;
  }
  return resolve(kernel, inputs, test.options);
}

std::vector<HostArray> expectRight(const Device &device, const KernelCase &test) {
  SCOPED_TRACE(device.name() + " " + test.describe());
  const Invocation call = resolveCase(test);
  const std::vector<HostArray> inputs = inputsOf(test, call);
  const Config config = configOf(test, call, device);
  std::vector<HostArray> outputs = execute(device, call, config, inputs).outputs;
  expectWithinBounds(call, inputs, outputs);
  const Execution again = execute(device, call, config, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].data, again.outputs[i].data)
        << call.kernel->arguments[inputs.size() + i].name << " differs in a second run";
  return outputs;
}

void expectExact(const Device &device, const KernelCase &test) {
  SCOPED_TRACE(device.name() + " " + test.describe());
  const Invocation call = resolveCase(test);
  const std::vector<HostArray> inputs = inputsOf(test, call);
  const auto outputs = execute(device, call, configOf(test, call, device), inputs).outputs;
  const auto exact = referenceOutputs(call, inputs, Arithmetic::exact);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].toDouble(), exact[i].toDouble())
        << call.kernel->arguments[inputs.size() + i].name;
}

void expectRightWithStrides(const Device &device, const KernelCase &test) {
  SCOPED_TRACE(device.name() + " with strides " + test.describe());
  const Invocation call = resolveCase(test);
  const std::vector<HostArray> inputs = inputsOf(test, call);
  constexpr std::byte poison{0xa5};
  NamedTensors given, results;
  std::vector<std::optional<Embedded>> places;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    const ArgumentSpec &spec = call.kernel->arguments[i];
    if (!type.present) {
      places.emplace_back();
      continue;
    }
    const Embedded &where = *places.emplace_back(Embedded(type.shape));
    const std::size_t size = size_of(type.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(where.count) * size, poison);
    for (std::size_t j = 0; i < inputs.size() && j < where.places.size(); ++j)
      std::memcpy(bytes.data() + static_cast<std::size_t>(where.places[j]) * size,
                  inputs[i].data.data() + j * size, size);
    AnyTensor tensor;
    tensor.dtype = type.dtype;
    tensor.extents = type.shape;
    tensor.strides = where.strides;
    tensor.memory = detail::Memory(device, bytes.size());
    tensor.memory.upload(bytes.data());
    tensor.address = tensor.memory.address() + size;
    (spec.output ? results : given)[spec.name] = tensor;
  }
  KernelOptions options;
  for (const auto &[name, value] : test.options)
    options[name] = value;
  run_kernel(device.stream(), test.kernel, given, options, results);
  device.synchronize();
  std::vector<HostArray> outputs;
  for (std::size_t i = inputs.size(); i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!type.present) {
      outputs.emplace_back();
      continue;
    }
    const std::size_t size = size_of(type.dtype);
    const std::string &name = call.kernel->arguments[i].name;
    std::vector<std::byte> bytes(static_cast<std::size_t>(places[i]->count) * size);
    results[name].memory.download(bytes.data());
    HostArray &output = outputs.emplace_back(type.dtype, type.shape);
    for (std::size_t j = 0; j < places[i]->places.size(); ++j) {
      std::byte *from = bytes.data() + static_cast<std::size_t>(places[i]->places[j]) * size;
      std::memcpy(output.data.data() + j * size, from, size);
      std::fill_n(from, size, poison);
    }
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == poison; }))
        << name << ": memory beside its elements was written";
  }
  expectWithinBounds(call, inputs, outputs);
}

void fillIntegers(HostArray &array, int most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> numbers(-most, most);
  std::vector<double> values(static_cast<std::size_t>(array.count()));
  for (double &value : values)
    value = numbers(random);
  array.assign(values);
}

void expectGradients(const KernelCase &test, const char *backwardName) {
  SCOPED_TRACE(std::string(backwardName) + " of " + test.describe());
  const Invocation forward = resolveCase(test);
  const KernelSpec &backwardKernel = findKernel(backwardName);
  std::vector<HostArray> inputs = inputsOf(test, forward);
  for (HostArray &input : inputs)
    input = asDouble(input);
  const auto outputs = referenceOutputs(forward, inputs, Arithmetic::exact);
  auto nameOf = [&](std::size_t output) {
    return forward.kernel->arguments[inputs.size() + output].name;
  };

  // Gradients of the outputs that the backward kernel takes one for.
  std::mt19937_64 random(test.seed + 1);
  std::normal_distribution<double> normal;
  std::map<std::string, std::vector<double>> cotangents;
  std::map<std::string, GivenTensor> types;
  std::map<std::string, HostArray> arrays;
  for (const ArgumentSpec &spec : backwardKernel.arguments) {
    if (spec.output)
      continue;
    for (std::size_t i = 0; i < forward.tensors.size(); ++i) {
      const ArgumentSpec &own = forward.kernel->arguments[i];
      const TensorType &type = forward.tensors[i];
      if (!type.present)
        continue;
      if (own.name == spec.name) {
        arrays[spec.name] = i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
      } else if (own.output && "d" + own.name == spec.name) {
        std::vector<double> &values = cotangents[own.name];
        values.resize(static_cast<std::size_t>(elementCount(type.shape)));
        for (double &value : values)
          value = normal(random);
        arrays[spec.name] = HostArray(DType::float64, type.shape, values);
      } else {
        continue;
      }
      types[spec.name] = {{type.dtype, type.shape}, ""};
    }
  }
  ASSERT_FALSE(cotangents.empty()) << backwardName << " takes no gradient of an output";
  Assignments options;
  for (const auto &[name, value] : test.options)
    for (const OptionSpec &spec : backwardKernel.options)
      if (spec.name == name)
        options.emplace_back(name, value);
  const Invocation backward = resolve(backwardKernel, types, options);
  std::vector<HostArray> backwardInputs;
  for (std::size_t i = 0; i < inputCount(backwardKernel); ++i)
    backwardInputs.push_back(
        backward.tensors[i].present ? arrays.at(backwardKernel.arguments[i].name) : HostArray());
  const auto gradients = referenceOutputs(backward, backwardInputs, Arithmetic::exact);

  auto loss = [&] {
    const auto values = referenceOutputs(forward, inputs, Arithmetic::exact);
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (const auto weights = cotangents.find(nameOf(i)); weights != cotangents.end()) {
        const auto own = values[i].as<double>();
        for (std::size_t j = 0; j < own.size(); ++j)
          if (std::isfinite(own[j]))
            sum += weights->second[j] * own[j];
      }
    return sum;
  };
  std::size_t compared = 0;
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    if (!backward.tensors[backwardInputs.size() + g].present)
      continue;
    const std::string &name = backwardKernel.arguments[backwardInputs.size() + g].name;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if ("d" + forward.kernel->arguments[i].name != name)
        continue;
      ++compared;
      const std::vector<double> analytic = gradients[g].toDouble();
      ASSERT_EQ(analytic.size(), static_cast<std::size_t>(inputs[i].count())) << name;
      double largest = 1e-3;
      for (double value : analytic)
        largest = std::max(largest, std::abs(value));
      constexpr std::size_t most = 24;
      for (std::size_t k = 0; k < std::min(most, analytic.size()); ++k) {
        const std::size_t at = analytic.size() <= most ? k : random() % analytic.size();
        double &x = inputs[i].as<double>()[at];
        const double before = x, step = 1e-5 * std::max(1.0, std::abs(x));
        x = before + step;
        const double above = loss();
        x = before - step;
        const double below = loss();
        x = before;
        EXPECT_NEAR(analytic[at], (above - below) / (2 * step), 1e-6 * largest)
            << name << " at element " << at;
      }
    }
  }
  EXPECT_GT(compared, 0u) << backwardName << " gives no gradient of an input";
}

} // namespace sectile::test
