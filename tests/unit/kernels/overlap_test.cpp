// Calls whose outputs share memory with other arguments: refused, or in place and right.
#include "KernelTest.h"
#include "kernels/calls/Overlap.h"
#include "kernels/calls/Use.h"
#include "tests/unit/Processes.h"
#include <random>
#include <sectile/gemm.h>
#include <sectile/library.h>
#include <set>

using namespace sectile;
using namespace sectile::test;
using testing::AllOf;
using testing::HasSubstr;

SECTILE_ON_DEVICES(Overlap);

namespace {

std::set<std::int64_t> bytesOf(const StridedArray &array) {
  std::set<std::int64_t> bytes;
  std::int64_t count = 1;
  for (const std::int64_t extent : array.extents)
    count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0, rest = i;
    for (std::size_t axis = array.extents.size(); axis-- > 0; rest /= array.extents[axis])
      at += rest % array.extents[axis] * array.strides[axis];
    for (std::size_t byte = 0; byte < array.elementBytes; ++byte)
      bytes.insert(static_cast<std::int64_t>(array.address + byte) +
                   at * static_cast<std::int64_t>(array.elementBytes));
  }
  return bytes;
}

// Held against the set of all bytes.
TEST(Overlaps, OfRandomArrays) {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  int overlapping = 0, apart = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int64_t> extents[2], strides[2];
    StridedArray arrays[2];
    for (int j = 0; j < 2; ++j) {
      const auto rank = static_cast<std::size_t>(below(4));
      for (std::size_t axis = 0; axis < rank; ++axis) {
        extents[j].push_back(below(5) ? 1 + below(5) : below(2));
        strides[j].push_back(below(3) ? below(25) - 5 : std::int64_t(1) << below(5));
      }
      arrays[j] = {4096 + static_cast<std::uint64_t>(below(300)), std::size_t(1) << below(4),
                   extents[j], strides[j]};
    }
    const std::set<std::int64_t> first = bytesOf(arrays[0]), second = bytesOf(arrays[1]);
    bool expected = false;
    for (const std::int64_t byte : first)
      expected |= second.contains(byte);
    ASSERT_EQ(overlap(arrays[0], arrays[1]), expected) << "case " << i;
    ASSERT_EQ(overlap(arrays[1], arrays[0]), expected) << "case " << i;
    ++(expected ? overlapping : apart);
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(apart, 1000);
}

// Held against the set of all addresses.
TEST(Overlaps, OfRandomArraysWithThemselves) {
  std::mt19937_64 random(7);
  const auto below = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  int overlapping = 0, apart = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::int64_t> extents, strides;
    std::size_t elements = 1;
    for (std::int64_t axis = below(5); axis > 0; --axis) {
      extents.push_back(below(8) ? 1 + below(5) : below(2));
      strides.push_back(below(3) ? below(40) - 8 : std::int64_t(1) << below(7));
      elements *= static_cast<std::size_t>(extents.back());
    }
    const bool expected = bytesOf({0, 1, extents, strides}).size() < elements;
    ASSERT_EQ(overlapsItself(extents, strides), expected)
        << testing::PrintToString(extents) << " by " << testing::PrintToString(strides);
    ++(expected ? overlapping : apart);
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(apart, 1000);
}

// Heads of queries, keys and values in one array, as projections give them; large ones at once.
TEST(Overlaps, InterleavedViewsDoNot) {
  const Shape extents{64, 4096, 32, 128}, strides{4096L * 3 * 32 * 128, 3 * 32 * 128, 128, 1};
  const StridedArray q{1 << 20, 2, extents, strides},
      k{(1 << 20) + 32 * 128 * 2, 2, extents, strides},
      last{(1 << 20) + 32 * 128 * 2 - 2, 2, extents, strides};
  EXPECT_FALSE(overlap(q, k));
  EXPECT_TRUE(overlap(last, k));
  EXPECT_TRUE(overlap(q, last));
}

AnyTensor tensorOf(const Device &device, const HostArray &array) {
  AnyTensor tensor;
  tensor.dtype = array.dtype;
  tensor.extents = array.shape;
  tensor.strides = stridesOf({.dtype = array.dtype, .shape = array.shape});
  tensor.memory = detail::Memory(device, std::max<std::size_t>(array.data.size(), 1));
  if (!array.data.empty())
    tensor.memory.upload(array.data.data());
  tensor.address = tensor.memory.address();
  return tensor;
}

KernelOptions optionsOf(const Invocation &call) {
  KernelOptions options;
  for (const auto &[name, value] : call.options.values)
    if (!value.empty())
      options[name] = value;
  return options;
}

std::vector<char> contents(const AnyTensor &tensor) {
  std::vector<char> bytes(tensor.memory.bytes());
  tensor.memory.download(bytes.data());
  return bytes;
}

struct Arrays {
  NamedTensors inputs;
  KernelOptions options;
};
Arrays arraysOf(const Device &device, const FilledCall &filled) {
  Arrays arrays{{}, optionsOf(filled.call)};
  for (std::size_t i = 0; i < filled.inputs.size(); ++i)
    if (filled.call.tensors[i].present)
      arrays.inputs[filled.call.kernel->arguments[i].name] = tensorOf(device, filled.inputs[i]);
  return arrays;
}

std::string message(const std::function<void()> &body) {
  try {
    body();
  } catch (const LaunchError &error) {
    return error.what();
  }
  return "accepted";
}

// Cases in which a program holds a row at once, and those in which it goes over it again.
std::vector<KernelCase> casesOf(const KernelSpec &kernel) {
  std::vector<std::string> optional;
  for (const ArgumentSpec &argument : kernel.arguments)
    if (argument.optional)
      optional.push_back(argument.name);
  std::vector<KernelCase> cases{{kernel.name}, {kernel.name, {}, {}, optional}};
  for (const char *axis : {"N", "V"})
    if (kernel.typical.contains(axis) && kernel.typical.contains("...") &&
        kernel.typical.size() == 2)
      for (const std::vector<std::string> &with : {std::vector<std::string>{}, optional})
        cases.push_back({kernel.name, {{"...", 3}, {axis, 40000}}, {}, with});
  // One short row, of which a block of threads has several times as many as elements.
  if (kernel.name == "rope" || kernel.name == "rope_backward")
    for (const char *style : {"half", "interleaved"})
      cases.push_back({kernel.name, {{"B", 1}, {"H", 1}, {"S", 1}, {"D", 16}}, {{"style", style}}});
  if (kernel.name == "group_norm")
    cases.push_back({kernel.name, {{"...", 9000}, {"C", 64}, {"B", 1}}});
  if (kernel.name == "add_positions" || kernel.name == "sinusoidal")
    cases.push_back({kernel.name, {{"H", 9000}}, {}, {"w", "b"}});
  if (kernel.name == "matmul" || kernel.name == "batched_matmul")
    for (const char *schedule : {"tiles", "stream_k"})
      cases.push_back({kernel.name,
                       {{"M", 70}, {"N", 90}, {"K", 1000}},
                       {{"schedule", schedule}},
                       {"residual"}});
  return cases;
}

} // namespace

// Each output over each input that its description lets it replace.
TEST_P(Overlap, InPlaceGivesTheSameBits) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "interpreter", "virtual:gfx942");
  const Stream stream = device.stream();
  int tried = 0;
  for (const KernelSpec &kernel : kernelRegistry())
    for (const ArgumentSpec &output : kernel.arguments) {
      if (output.over.empty())
        continue;
      for (const KernelCase &test : casesOf(kernel)) {
        const FilledCall filled = fill(test);
        if (!filled.call.has(output.name))
          continue;
        const Arrays apart = arraysOf(device, filled);
        const NamedTensors expected = run_kernel(stream, kernel.name, apart.inputs, apart.options);
        for (const std::string &input : output.over) {
          if (!filled.call.has(input))
            continue;
          SCOPED_TRACE(test.describe() + ": " + output.name + " over " + input);
          const Arrays shared = arraysOf(device, filled);
          const NamedTensors out = run_kernel(stream, kernel.name, shared.inputs, shared.options,
                                              {{output.name, shared.inputs.at(input)}});
          device.synchronize();
          EXPECT_EQ(out.at(output.name).address, shared.inputs.at(input).address);
          for (const auto &[name, tensor] : expected)
            EXPECT_EQ(contents(out.at(name)), contents(tensor)) << name;
          ++tried;
        }
      }
    }
  EXPECT_GT(tried, 40);
}

// Every other pair, of every kernel, is refused before anything is launched.
TEST(OverlapRefusals, OfEveryKernel) {
  const Device device = Device::open("interpreter");
  const Stream stream = device.stream();
  for (const KernelSpec &kernel : kernelRegistry()) {
    std::vector<std::string> optional;
    for (const ArgumentSpec &argument : kernel.arguments)
      if (argument.optional)
        optional.push_back(argument.name);
    FilledCall filled;
    try {
      filled = fill({kernel.name, {}, {}, optional});
    } catch (const InputError &) { // they do not go together
      filled = fill({kernel.name});
    }
    const Invocation &call = filled.call;
    const Arrays arrays = arraysOf(device, filled);
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      const ArgumentSpec &output = kernel.arguments[i];
      if (!output.output || !call.tensors[i].present || elementCount(call.tensors[i].shape) == 0)
        continue;
      for (std::size_t j = 0; j < i; ++j) {
        const ArgumentSpec &other = kernel.arguments[j];
        if (!call.tensors[j].present || elementCount(call.tensors[j].shape) == 0)
          continue;
        SCOPED_TRACE(kernel.name + ": " + output.name + " over " + other.name);
        // Both from one address on, with room for the larger one.
        const auto sized = [&](std::size_t index) {
          return HostArray(call.tensors[index].dtype, call.tensors[index].shape);
        };
        HostArray larger = sized(i), smaller = sized(j);
        if (larger.data.size() < smaller.data.size())
          std::swap(larger, smaller);
        const AnyTensor room = tensorOf(device, larger);
        const auto within = [&](std::size_t index) {
          AnyTensor tensor = room;
          tensor.dtype = call.tensors[index].dtype;
          tensor.extents = call.tensors[index].shape;
          tensor.strides = stridesOf(call.tensors[index]);
          return tensor;
        };
        NamedTensors inputs = arrays.inputs, outputs{{output.name, within(i)}};
        (other.output ? outputs : inputs).insert_or_assign(other.name, within(j));
        const bool mayReplace =
            std::find(output.over.begin(), output.over.end(), other.name) != output.over.end();
        if (mayReplace) // at another place
          outputs[output.name].address += size_of(call.tensors[i].dtype);
        if (mayReplace && elementCount(call.tensors[i].shape) == 1)
          continue;
        const std::string wanted = kernel.name + ": " + output.name + " overlaps " + other.name;
        EXPECT_THAT(
            message([&] { run_kernel(stream, kernel.name, inputs, arrays.options, outputs); }),
            HasSubstr(wanted));
        EXPECT_THAT(
            message([&] { prepare_kernel(device, kernel.name, inputs, arrays.options, outputs); }),
            HasSubstr(wanted));
      }
    }
  }
}

TEST(OverlapRefusals, SayWhatIsAllowed) {
  const Device device = Device::open("interpreter");
  const Stream stream = device.stream();
  const auto a = tensor(device.allocate<float>(16), {4, 4});
  EXPECT_EQ(
      message([&] { run_kernel(stream, "matmul", {{"a", a}, {"b", a}}, {}, {{"c", a}}); }),
      "matmul: c overlaps a in memory; the kernel does not run in place, c needs memory of its "
      "own");
  EXPECT_EQ(message([&] { run_kernel(stream, "softmax", {{"x", a}}, {}, {{"y", a.transpose()}}); }),
            "softmax: y overlaps x in memory; it may only be exactly x, with the same extents, "
            "strides and element size");
  EXPECT_EQ(message([&] { run_kernel(stream, "softmax", {{"x", a}}, {}, {{"y", a}}); }),
            "accepted");
  const Tensor<float, 2> one(a.data(), {4, 4}, {0, 1}, a.memory());
  const auto x = tensor(device.allocate<float>(16), {4, 4});
  EXPECT_EQ(
      message([&] { run_kernel(stream, "softmax", {{"x", x}}, {}, {{"y", one}}); }),
      "softmax: elements of y lie at one address by its strides [0, 1], but each element of an "
      "output needs its own");
  const Tensor<float, 2> window(a.data(), {4, 4}, {1, 1}, a.memory());
  EXPECT_EQ(
      message([&] { run_kernel(stream, "softmax", {{"x", x}}, {}, {{"y", window}}); }),
      "softmax: elements of y lie at one address by its strides [1, 1], but each element of an "
      "output needs its own");
  const auto identity = [](const Tile<float> &sums, const GemmPosition &) { return sums; };
  EXPECT_EQ(message([&] { gemm(stream, a, x, a, identity); }),
            "gemm: c overlaps a in memory; it needs memory of its own");
  EXPECT_EQ(message([&] { gemm(stream, x, a, a, identity); }),
            "gemm: c overlaps b in memory; it needs memory of its own");
  EXPECT_EQ(message([&] { gemm(stream, x, x, window, identity); }),
            "gemm: elements of c lie at one address by its strides [1, 1], but each element of an "
            "output needs its own");
}

// Views of one array that have no element in common, as inputs and outputs.
TEST_P(Overlap, InterleavedArgumentsAreTaken) {
  const std::vector<float> ones(8 * 3 * 16, 1.0f);
  const auto all = device.upload(ones);
  const auto part = [&](std::int64_t i) {
    return Tensor<float, 2>(all.data() + i * 16, {8, 16}, {48, 1}, tensor(all, {24, 16}).memory());
  };
  run_kernel(device.stream(), "vector_add", {{"x", part(0)}, {"y", part(1)}}, {}, {{"z", part(2)}});
  const std::vector<float> result = all.download();
  for (std::size_t i = 0; i < result.size(); ++i)
    ASSERT_EQ(result[i], i % 48 < 32 ? 1 : 2) << i;
}
