// The registry's kernels, and what resolving accepts and refuses.
#include "kernels/Execute.h"
#include "kernels/InputError.h"
#include "kernels/Registry.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

using Inputs = std::map<std::string, GivenTensor>;

GivenTensor tensor(Shape shape, DType dtype = DType::float16) {
  return {{dtype, std::move(shape)}, "file.npy"};
}

std::string refusal(const char *kernel, const Inputs &inputs, const Assignments &options = {}) {
  try {
    resolve(findKernel(kernel), inputs, options);
  } catch (const InputError &error) {
    EXPECT_THAT(error.what(), testing::StartsWith(std::string(kernel) + ": "));
    return error.what();
  }
  return "accepted";
}

} // namespace

TEST(Registry, EachKernelIsWhole) {
  std::set<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry()) {
    names.insert(kernel.name);
    EXPECT_FALSE(kernel.summary.empty());
    for (const ArgumentSpec &argument : kernel.arguments)
      EXPECT_EQ(!argument.dtypes.empty() + !argument.like.empty() + bool(argument.dtypeBy), 1)
          << kernel.name << " " << argument.name;
    for (const ArgumentSpec &argument : kernel.arguments)
      for (std::string axis : argument.axes) {
        axis.erase(0, axis.starts_with("1|") ? 2 : 0);
        const bool isSettled = std::isdigit(static_cast<unsigned char>(axis[0])) || argument.output;
        EXPECT_TRUE(isSettled || kernel.typical.contains(axis)) << kernel.name << " " << axis;
      }
    for (const auto &[axis, extent] : kernel.typical)
      EXPECT_TRUE(kernel.small.contains(axis)) << kernel.name << " " << axis;
    Invocation call = resolveTypical(kernel, "", {}, {});
    EXPECT_EQ(call.tensors.size(), kernel.arguments.size());
  }
  EXPECT_EQ(names.size(), kernelRegistry().size());
}

// With and without the optional inputs, in each dtype: shapes and dtypes of the reference are those
// that resolving says.
TEST(Registry, ReferencesMatchTheResolvedOutputs) {
  for (const KernelSpec &kernel : kernelRegistry()) {
    std::vector<std::string> optional;
    for (const ArgumentSpec &argument : kernel.arguments)
      if (argument.optional)
        optional.push_back(argument.name);
    for (DType dtype : kernel.arguments.front().dtypes)
      for (const auto &with : {std::vector<std::string>(), optional}) {
        SCOPED_TRACE(kernel.name + " " + std::string(name_of(dtype)));
        Invocation call = resolveTypical(kernel, name_of(dtype), kernel.small, {}, with);
        const std::vector<HostArray> inputs = sampleInputs(call, 1);
        const auto own = referenceOutputs(call, inputs, Arithmetic::own);
        const auto exact = referenceOutputs(call, inputs, Arithmetic::exact);
        ASSERT_EQ(own.size(), call.tensors.size() - inputs.size());
        for (std::size_t i = 0; i < own.size(); ++i) {
          const TensorType &type = call.tensors[inputs.size() + i];
          if (!type.present)
            continue;
          const bool isFloating = is_floating(type.dtype);
          EXPECT_EQ(own[i].dtype, type.dtype);
          EXPECT_EQ(own[i].shape, type.shape);
          EXPECT_EQ(exact[i].dtype, isFloating ? DType::float64 : type.dtype);
          EXPECT_EQ(exact[i].shape, type.shape);
        }
      }
  }
}

// All kernels at their small extents on a virtual device: the results are right, and the same
// twice.
TEST(Registry, EachKernelIsRightAtSmallExtents) {
  const Device device = Device::open("virtual:sm_80");
  for (const KernelSpec &kernel : kernelRegistry()) {
    SCOPED_TRACE(kernel.name);
    Invocation call = resolveTypical(kernel, "", kernel.small, {});
    const std::vector<HostArray> inputs = sampleInputs(call, 2);
    const Config config = completeConfig(call, device.target(), {});
    const Execution first = execute(device, call, config, inputs);
    for (const Verdict &verdict : check(call, inputs, first.outputs))
      EXPECT_TRUE(verdict.accuracy.ok()) << verdict.output << ": " << verdict.accuracy.describe();
    const Execution second = execute(device, call, config, inputs);
    for (std::size_t i = 0; i < first.outputs.size(); ++i)
      EXPECT_EQ(first.outputs[i].data, second.outputs[i].data);
  }
}

TEST(Resolve, OutputsFollowTheInputs) {
  Invocation call = resolve(
      findKernel("attention"),
      {{"q", tensor({2, 8, 17, 80})}, {"k", tensor({2, 2, 33, 80})}, {"v", tensor({2, 2, 33, 80})}},
      {{"causal", "true"}, {"scale", "0.5"}});
  EXPECT_EQ(call.tensor("o").shape, (Shape{2, 8, 17, 80}));
  EXPECT_EQ(call.tensor("o").dtype, DType::float16);
  EXPECT_EQ(call.tensor("lse").shape, (Shape{2, 8, 17}));
  EXPECT_EQ(call.tensor("lse").dtype, DType::float32);
  EXPECT_EQ(call.extent("Sk"), 33);
  EXPECT_TRUE(call.options.flag("causal"));
  EXPECT_EQ(call.options.number("scale"), 0.5);

  call = resolve(findKernel("matmul"), {{"a", tensor({5, 3})}, {"b", tensor({7, 5})}},
                 {{"trans_a", "1"}, {"trans_b", "true"}});
  EXPECT_EQ(call.tensor("c").shape, (Shape{3, 7}));
  call = resolve(findKernel("vector_add"), {{"x", tensor({})}, {"y", tensor({})}}, {});
  EXPECT_EQ(call.tensors[2].shape, Shape{});
  call = resolve(findKernel("softmax"), {{"x", tensor({2, 0, 5})}}, {});
  EXPECT_EQ(call.leading, (Shape{2, 0}));
  call = resolve(findKernel("layer_norm"),
                 {{"x", tensor({6})}, {"w", tensor({6})}, {"b", tensor({6})}}, {});
  EXPECT_EQ(call.tensors[4].shape, Shape{});
}

TEST(Resolve, NamesAreChecked) {
  EXPECT_THROW(findKernel("matmull"), InputError);
  EXPECT_THAT(refusal("vector_add", {{"x", tensor({1})}}),
              AllOf(HasSubstr("input 'y' is missing"), HasSubstr("x, y")));
  EXPECT_THAT(refusal("softmax", {{"x", tensor({1})}, {"w", tensor({1})}}),
              AllOf(HasSubstr("no input 'w'"), HasSubstr("file.npy")));
  EXPECT_THAT(refusal("softmax", {{"x", tensor({1})}, {"y", tensor({1})}}),
              HasSubstr("no input 'y'"));
  EXPECT_THAT(refusal("matmul", {}, {{"trans", "true"}}),
              AllOf(HasSubstr("no option 'trans'"), HasSubstr("trans_a, trans_b, precision")));
  EXPECT_THAT(refusal("softmax", {}, {{"eps", "1"}}), HasSubstr("its options are none"));
}

TEST(Resolve, ShapesAreChecked) {
  EXPECT_THAT(refusal("matmul", {{"a", tensor({2, 3, 4})}, {"b", tensor({4, 5})}}),
              AllOf(HasSubstr("a ('file.npy') is [2, 3, 4]"), HasSubstr("2 axes: [M, K]")));
  EXPECT_THAT(refusal("matmul", {{"a", tensor({2, 3})}, {"b", tensor({4, 5})}}),
              AllOf(HasSubstr("K is 4 in b"), HasSubstr("3 in a")));
  EXPECT_THAT(
      refusal("matmul", {{"a", tensor({2, 3})}, {"b", tensor({3, 5})}}, {{"trans_b", "true"}}),
      HasSubstr("b is [N, K]"));
  EXPECT_THAT(refusal("softmax", {{"x", tensor({})}}), HasSubstr("at least 1 axis: [..., N]"));
  EXPECT_THAT(refusal("vector_add", {{"x", tensor({2, 3})}, {"y", tensor({3, 2})}}),
              HasSubstr("does not fit x ('file.npy') [2, 3]"));
  EXPECT_THAT(refusal("attention", {{"q", tensor({1, 6, 9, 64})},
                                    {"k", tensor({1, 4, 9, 64})},
                                    {"v", tensor({1, 4, 9, 64})}}),
              HasSubstr("a multiple of Hkv"));
  EXPECT_THAT(refusal("attention", {{"q", tensor({1, 1, 9, 8})},
                                    {"k", tensor({1, 1, 9, 8})},
                                    {"v", tensor({1, 1, 9, 8})}}),
              HasSubstr("from 16 to 256"));
  EXPECT_THAT(refusal("attention", {{"q", tensor({1, 0, 9, 16})},
                                    {"k", tensor({1, 0, 9, 16})},
                                    {"v", tensor({1, 0, 9, 16})}}),
              "accepted");
}

TEST(Resolve, DtypesAndValuesAreChecked) {
  EXPECT_THAT(refusal("softmax", {{"x", tensor({4}, DType::int32)}}),
              HasSubstr("x ('file.npy') is i32, but must be f32, f16 or bf16"));
  EXPECT_THAT(refusal("softmax", {{"x", tensor({4}, DType::uint16)}}), HasSubstr("--dtype x=bf16"));
  EXPECT_THAT(refusal("matmul", {{"a", tensor({2, 2})}, {"b", tensor({2, 2}, DType::float32)}}),
              HasSubstr("b ('file.npy') is f32, but must be f16 like a"));
  EXPECT_THAT(refusal("matmul", {}, {{"trans_a", "yes"}}), HasSubstr("true or false, not 'yes'"));
  EXPECT_THAT(refusal("matmul", {}, {{"precision", "high"}}), HasSubstr("it can be tf32, exact"));
  for (const char *text : {"", "x", "1x", "nan", "inf"})
    EXPECT_THAT(refusal("attention", {}, {{"scale", text}}), HasSubstr("'scale' is a number"))
        << text;
  EXPECT_THAT(refusal("layer_norm", {{"x", tensor({4})}, {"w", tensor({4})}, {"b", tensor({4})}},
                      {{"eps", "-1"}}),
              HasSubstr("'eps' cannot be negative"));
}

TEST(Resolve, ConfigurationsAreChecked) {
  const KernelSpec &matmul = findKernel("matmul");
  EXPECT_EQ(parseConfig(matmul, {{"m", "64"}, {"stages", "2"}}),
            (Config{{"m", 64}, {"stages", 2}}));
  EXPECT_THROW(parseConfig(matmul, {{"mm", "64"}}), InputError);
  for (const char *text : {"", "0", "-4", "x", "64k", "99999999999999999999"})
    EXPECT_THROW(parseConfig(matmul, {{"m", text}}), InputError) << text;
  EXPECT_THROW(resolveTypical(matmul, "f12", {}, {}), InputError);
  EXPECT_THROW(resolveTypical(matmul, "i16", {}, {}), InputError);
  EXPECT_THROW(resolveTypical(matmul, "f16", {{"Z", 3}}, {}), InputError);
}

TEST(Resolve, DtypesOfTypicalArgumentsAreForAllOrByName) {
  const KernelSpec &merge = findKernel("attention_merge");
  EXPECT_EQ(resolveTypical(merge, "bf16", {}, {}).dtype("partial_o"), DType::bfloat16);
  EXPECT_EQ(resolveTypical(merge, "partial_o=f32", {}, {}).dtype("partial_o"), DType::float32);
  EXPECT_EQ(resolveTypical(merge, "bf16,partial_o=f16", {}, {}).dtype("partial_o"), DType::float16);
  EXPECT_THROW(resolveTypical(merge, "partial_lse=f16", {}, {}), InputError);
  EXPECT_THROW(resolveTypical(merge, "lse=f32", {}, {}), InputError);
  EXPECT_THROW(resolveTypical(merge, "f16,partial_o=f12", {}, {}), InputError);
}
