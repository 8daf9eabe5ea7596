// Running cases of the library's kernels.
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"
#include <cmath>

namespace sectile::test {
namespace {

std::size_t inputCount(const KernelSpec &kernel) {
  return static_cast<std::size_t>(std::count_if(kernel.arguments.begin(), kernel.arguments.end(),
                                                [](const auto &spec) { return !spec.output; }));
}

void expectWithinBounds(const Invocation &call, std::span<const HostArray> inputs,
                        std::span<const HostArray> outputs) {
  for (const Verdict &verdict : check(call, inputs, outputs))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
}

HostArray asDouble(const HostArray &array) {
  const bool there = !array.data.empty(); // an optional input may not be
  return there && is_floating(array.dtype)
             ? HostArray(DType::float64, array.shape, array.to_double())
             : array;
}

// In exact arithmetic all floating-point inputs are float64.
FilledCall backwardOf(const FilledCall &forward, const KernelCase &test,
                      std::string_view backwardName, const std::vector<std::string> &without,
                      Arithmetic arithmetic) {
  const auto &[call, inputs] = forward;
  const KernelSpec &backward = findKernel(backwardName);
  const auto outputs = referenceOutputs(call, inputs, Arithmetic::exact);
  auto stored = [&](DType dtype) {
    return arithmetic == Arithmetic::exact && is_floating(dtype) ? DType::float64 : dtype;
  };
  std::mt19937_64 random(test.seed + 1);
  std::normal_distribution<double> normal;
  std::map<std::string, GivenTensor> types;
  std::map<std::string, HostArray> arrays;
  bool anyGradient = false;
  for (const ArgumentSpec &spec : backward.arguments) {
    if (spec.output || std::find(without.begin(), without.end(), spec.name) != without.end())
      continue;
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      const ArgumentSpec &own = call.kernel->arguments[i];
      const TensorType &type = call.tensors[i];
      const bool isGradient = own.output && "d" + own.name == spec.name;
      if (!type.present || (own.name != spec.name && !isGradient))
        continue;
      std::vector<double> values;
      if (isGradient) {
        anyGradient = true;
        values.resize(static_cast<std::size_t>(elementCount(type.shape)));
        for (double &value : values)
          value = normal(random);
      } else if (own.output) {
        values = outputs[i - inputs.size()].to_double();
      }
      types[spec.name] = {{type.dtype, type.shape}, ""};
      arrays[spec.name] =
          own.output ? HostArray(stored(type.dtype), type.shape, values) : inputs[i];
    }
  }
  EXPECT_TRUE(anyGradient) << backwardName << " takes no gradient of an output";
  Assignments options;
  for (const auto &[name, value] : test.options)
    for (const OptionSpec &spec : backward.options)
      if (spec.name == name)
        options.emplace_back(name, value);
  FilledCall result{resolve(backward, types, options), {}};
  for (std::size_t i = 0; i < inputCount(backward); ++i)
    result.inputs.push_back(result.call.tensors[i].present ? arrays.at(backward.arguments[i].name)
                                                           : HostArray());
  return result;
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
  text += "}, \"" + dtype + "\", {";
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

FilledCall fill(const KernelCase &test) {
  FilledCall filled{resolveCase(test), {}};
  filled.inputs = sampleInputs(filled.call, test.seed);
  if (test.prepare)
    test.prepare(filled.call, filled.inputs);
  return filled;
}

static std::vector<HostArray> run(const Device &device, const FilledCall &filled,
                                  const Config &given, bool twice) {
  const auto &[call, inputs] = filled;
  const Config config = completeConfig(call, device.target(), given);
  std::vector<HostArray> outputs = execute(device, call, config, inputs).outputs;
  if (!twice)
    return outputs;
  const Execution again = execute(device, call, config, inputs);
  if (const auto unordered = call.options.values.find("unordered");
      unordered != call.options.values.end() && unordered->second == "true")
    return outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].data, again.outputs[i].data)
        << call.kernel->arguments[inputs.size() + i].name << " differs in a second run";
  return outputs;
}

std::vector<HostArray> expectRight(const Device &device, const FilledCall &filled,
                                   const Config &config) {
  std::vector<HostArray> outputs = run(device, filled, config, true);
  expectWithinBounds(filled.call, filled.inputs, outputs);
  return outputs;
}

void expectRightAnywhere(const Device &device, const FilledCall &filled) {
  const auto &[call, inputs] = filled;
  for (const Verdict &verdict : checkNearby(call, inputs, run(device, filled, {}, true)))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
}

std::vector<HostArray> expectRight(const Device &device, const KernelCase &test) {
  const std::string text = test.describe();
  SCOPED_TRACE(device.name() + " " + text);
  const FilledCall filled = fill(test);
  const bool twice = count(0, 1) || std::hash<std::string>()(text) % 4 == 0;
  std::vector<HostArray> outputs = run(device, filled, test.config, twice);
  expectWithinBounds(filled.call, filled.inputs, outputs);
  return outputs;
}

void expectExact(const Device &device, const KernelCase &test) {
  SCOPED_TRACE(device.name() + " " + test.describe());
  const auto [call, inputs] = fill(test);
  const Config config = completeConfig(call, device.target(), test.config);
  const auto outputs = execute(device, call, config, inputs).outputs;
  const auto exact = referenceOutputs(call, inputs, Arithmetic::exact);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    EXPECT_EQ(outputs[i].to_double(), exact[i].to_double())
        << call.kernel->arguments[inputs.size() + i].name;
}

void expectMistakeIsSeen(const FilledCall &right, const FilledCall &wrong) {
  const auto judged = [&](const FilledCall &by) {
    return check(right.call, right.inputs, referenceOutputs(by.call, by.inputs, Arithmetic::own));
  };
  for (const Verdict &verdict : judged(right))
    EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
  EXPECT_FALSE(judged(wrong)[0].accuracy.ok());
}

FilledCall without(FilledCall call, const std::string &input) {
  std::ranges::fill(call.inputs[call.call.index(input)].data, std::byte{0});
  return call;
}

std::string refusalOf(const KernelCase &test) {
  try {
    resolveCase(test);
  } catch (const InputError &error) {
    return error.what();
  }
  return "accepted";
}

void fillIntegers(HostArray &array, int most, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<int> numbers(-most, most);
  std::vector<double> values(static_cast<std::size_t>(array.count()));
  for (double &value : values)
    value = numbers(random);
  array.assign(values);
}

FilledCall backwardOf(const KernelCase &test, std::string_view backward,
                      const std::vector<std::string> &without) {
  const FilledCall forward = fill(test);
  return backwardOf(forward, test, backward, without, Arithmetic::own);
}

void expectGradients(const KernelCase &test, std::string_view backwardName,
                     const std::vector<std::string> &without) {
  SCOPED_TRACE(std::string(backwardName) + " of " + test.describe());
  FilledCall forward = fill(test);
  for (HostArray &input : forward.inputs)
    input = asDouble(input);
  std::vector<HostArray> &inputs = forward.inputs;
  const FilledCall backward = backwardOf(forward, test, backwardName, without, Arithmetic::exact);
  const auto gradients = referenceOutputs(backward.call, backward.inputs, Arithmetic::exact);

  // The sum of the outputs, each times the gradient that the backward kernel is given for it.
  std::map<std::size_t, std::vector<double>> weights;
  for (std::size_t i = 0; i < backward.inputs.size(); ++i)
    for (std::size_t j = inputs.size(); j < forward.call.tensors.size(); ++j)
      if ("d" + forward.call.kernel->arguments[j].name == backward.call.kernel->arguments[i].name)
        weights[j - inputs.size()] = backward.inputs[i].to_double();
  const auto outputs = [&] { return referenceOutputs(forward.call, inputs, Arithmetic::exact); };
  // Summed difference by difference: those of sums would have the rounding of the sums.
  const auto change = [&](const std::vector<HostArray> &from, const std::vector<HostArray> &to) {
    double sum = 0;
    for (const auto &[output, weight] : weights) {
      const auto before = from[output].as<double>(), after = to[output].as<double>();
      for (std::size_t j = 0; j < weight.size(); ++j)
        if (std::isfinite(before[j]) && std::isfinite(after[j]))
          sum += weight[j] * (after[j] - before[j]);
    }
    return sum;
  };
  std::mt19937_64 random(test.seed);
  std::size_t compared = 0;
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    if (!backward.call.tensors[backward.inputs.size() + g].present)
      continue;
    const std::string &name = backward.call.kernel->arguments[backward.inputs.size() + g].name;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if ("d" + forward.call.kernel->arguments[i].name != name)
        continue;
      ++compared;
      const std::vector<double> analytic = gradients[g].to_double();
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
        const auto above = outputs();
        x = before - step;
        const auto below = outputs();
        x = before;
        EXPECT_NEAR(analytic[at], change(below, above) / (2 * step), 1e-6 * largest)
            << name << " at element " << at;
      }
    }
  }
  EXPECT_GT(compared, 0u) << backwardName << " gives no gradient of an input";
}

KernelCase consistent(KernelCase test) {
  test.prepare = [earlier = test.prepare](const Invocation &call, std::vector<HostArray> &inputs) {
    if (earlier)
      earlier(call, inputs);
    const std::string &name = call.kernel->name;
    const KernelSpec &forward = findKernel(name.substr(0, name.rfind("_backward")));
    std::map<std::string, GivenTensor> types;
    std::vector<HostArray> own;
    for (const ArgumentSpec &spec : forward.arguments)
      if (!spec.output) {
        const std::size_t i = call.index(spec.name);
        own.push_back(inputs[i]);
        if (call.tensors[i].present)
          types[spec.name] = {call.tensors[i], ""};
      }
    Assignments options;
    for (const OptionSpec &option : forward.options)
      if (const std::string &value = call.options.values.at(option.name); !value.empty())
        options.emplace_back(option.name, value);
    const auto outputs = referenceOutputs(resolve(forward, types, options), own, Arithmetic::exact);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      for (std::size_t j = 0; j < inputs.size(); ++j)
        if (call.kernel->arguments[j].name == forward.arguments[own.size() + i].name)
          inputs[j].assign(outputs[i].to_double());
  };
  return test;
}

} // namespace sectile::test
