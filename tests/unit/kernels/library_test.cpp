// Kernels of the library called from C++ by name.
#include "KernelTest.h"
#include <numeric>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

SECTILE_ON_DEVICES(Library);

TEST_P(Library, RunsOnTensorsWithStrides) {
  for (const char *kernel : {"vector_add", "softmax", "layer_norm", "matmul", "attention"})
    expectRightWithStrides(device, {kernel});
}

TEST_P(Library, AllocatesOutputs) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const auto buffer = device.upload(x);
  NamedTensors outputs = run_kernel(device.stream(), "matmul",
                                    {{"a", tensor(buffer, {2, 3})}, {"b", tensor(buffer, {2, 3})}},
                                    {{"trans_b", "true"}, {"precision", "exact"}});
  device.synchronize();
  const auto c = outputs.at("c").as<float, 2>();
  EXPECT_EQ(c.extents(), (std::array<std::int64_t, 2>{2, 2}));
  EXPECT_EQ(Buffer<float>(c.memory()).download(), (std::vector<float>{14, 32, 32, 77}));
  EXPECT_THROW((outputs.at("c").as<half, 2>()), LaunchError);
  EXPECT_THROW((outputs.at("c").as<float, 3>()), LaunchError);
}

// What was settled for types is settled for them alone, and not for ever.
TEST_P(Library, RemembersTypesAndNoTensors) {
  const auto doubled = [&](std::int64_t count, float first) {
    std::vector<float> values(static_cast<std::size_t>(count));
    std::iota(values.begin(), values.end(), first);
    const auto x = tensor(device.upload(values), {count});
    const NamedTensors out = run_kernel(device.stream(), "vector_add", {{"x", x}, {"y", x}});
    for (float &value : values)
      value *= 2;
    return Buffer<float>(out.at("z").memory).download() == values;
  };
  EXPECT_TRUE(doubled(5, 1));
  EXPECT_TRUE(doubled(5, 100));
  for (std::int64_t count = 1; count <= 1100; count += device.name() == "interpreter" ? 100 : 1)
    ASSERT_TRUE(doubled(count, 3)) << count;
  EXPECT_TRUE(doubled(5, 7));
  // Strides and options are part of what was settled.
  const auto x = device.upload(std::vector<float>{1, 2, 3, 4});
  for (const auto &[matrix, expected] :
       {std::pair{tensor(x, {2, 2}), std::vector<float>{3, 7}},
        std::pair{tensor(x, {2, 2}).transpose(), std::vector<float>{4, 6}}}) {
    NamedTensors out = run_kernel(device.stream(), "reduce", {{"x", matrix}});
    EXPECT_EQ(Buffer<float>(out.at("y").memory).download(), expected);
    out = run_kernel(device.stream(), "reduce", {{"x", matrix}}, {{"op", "mean"}});
    EXPECT_EQ(Buffer<float>(out.at("y").memory).download(),
              (std::vector<float>{expected[0] / 2, expected[1] / 2}));
  }
}

TEST_P(Library, GraphsKeepScratchMemory) {
  const Stream stream = device.new_stream();
  const auto gradients = [&](std::int64_t length, const NamedTensors &given) {
    const std::size_t count = static_cast<std::size_t>(length) * 2 * 16;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 13) * 0.1f - 0.5f;
    NamedTensors inputs;
    for (const char *name : {"q", "k", "v", "do"})
      inputs.emplace(name, tensor(device.upload(values), {1, 2, length, 16}));
    NamedTensors forward = inputs;
    forward.erase("do");
    const NamedTensors out = run_kernel(stream, "attention", forward);
    inputs.insert(out.begin(), out.end());
    return [=] { return run_kernel(stream, "attention_backward", inputs, {}, given); };
  };
  const auto contents = [&](const NamedTensors &tensors) {
    std::map<std::string, std::vector<float>> all;
    for (const auto &[name, tensor] : tensors)
      all[name] = Buffer<float>(tensor.memory).download();
    return all;
  };
  const auto call = gradients(40, {});
  NamedTensors outputs = call();
  const auto want = contents(outputs);
  const auto again = gradients(40, outputs);
  stream.begin_capture();
  again();
  const Graph graph = stream.end_capture();
  gradients(200, {})(); // takes more scratch memory
  for (const auto &[name, tensor] : outputs)
    Buffer<float>(tensor.memory).poison();
  device.synchronize();
  graph.launch(stream);
  EXPECT_EQ(contents(outputs), want);
  graph.launch(device.stream());
  EXPECT_EQ(contents(outputs), want);
}

static std::string refusal(const Device &device, const char *kernel, const NamedTensors &inputs,
                           const KernelOptions &options = {}, const NamedTensors &given = {}) {
  try {
    run_kernel(device.stream(), kernel, inputs, options, given);
  } catch (const LaunchError &error) {
    return error.what();
  }
  return "accepted";
}

TEST(LibraryErrors, AreLaunchErrors) {
  const Device device = Device::open("virtual:sm_80");
  const auto x = tensor(device.allocate<float>(6), {2, 3});
  EXPECT_THAT(refusal(device, "matmull", {}), HasSubstr("no kernel 'matmull'"));
  EXPECT_THAT(refusal(device, "matmul", {{"a", x}}), HasSubstr("'b' is missing"));
  EXPECT_THAT(refusal(device, "matmul", {{"a", x}, {"b", x}}), HasSubstr("K is 2 in b"));
  EXPECT_THAT(refusal(device, "softmax", {{"x", x}}, {{"axis", "0"}}), HasSubstr("no option"));
  EXPECT_THAT(refusal(device, "softmax", {{"x", x}}, {}, {{"y", x.transpose()}}),
              HasSubstr("y is given as f32 [3, 2], but is f32 [2, 3]"));
  EXPECT_THAT(refusal(device, "softmax", {{"x", x}}, {}, {{"z", x}}), HasSubstr("no output 'z'"));
  const auto cube = tensor(device.allocate<float>(24), {2, 2, 3}, {8, 3, 1});
  EXPECT_THAT(refusal(device, "softmax", {{"x", cube}}), HasSubstr("must lie evenly"));
  AnyTensor odd = tensor(device.upload(std::vector<float>(6)), {2, 3});
  odd.strides = {1};
  EXPECT_EQ(
      refusal(device, "softmax", {{"x", odd}}),
      "softmax: x has the extents [2, 3], but the strides [1]: it needs one for each axis, or "
      "none where elements lie row by row");
  EXPECT_THAT(refusal(device, "softmax", {{"x", x}}, {}, {{"y", odd}}),
              HasSubstr("softmax: y has the extents [2, 3], but the strides [1]"));
  EXPECT_THROW((odd.as<float, 2>()), LaunchError);
  odd.strides.clear();
  EXPECT_EQ(refusal(device, "softmax", {{"x", odd}}), "accepted");
  odd.extents = {-2, 3};
  EXPECT_EQ(refusal(device, "softmax", {{"x", odd}}),
            "softmax: x has the extents [-2, 3], but an extent is not negative");
}
