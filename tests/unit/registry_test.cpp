// The registry's kernels, and what resolving accepts and refuses.
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
      EXPECT_NE(argument.dtypes.empty(), argument.like.empty()) << argument.name;
    for (const ArgumentSpec &argument : kernel.arguments)
      for (const std::string &axis : argument.axes)
        EXPECT_TRUE(kernel.typical.contains(axis)) << axis;
    Invocation call = resolveTypical(kernel, "", {}, {});
    EXPECT_EQ(call.tensors.size(), kernel.arguments.size());
  }
  EXPECT_THAT(names,
              testing::ElementsAre("attention", "layer_norm", "matmul", "softmax", "vector_add"));
}

// On small arrays of each dtype: shapes and dtypes of the reference are those that resolving says.
TEST(Registry, ReferencesMatchTheResolvedOutputs) {
  for (const KernelSpec &kernel : kernelRegistry())
    for (DType dtype : kernel.arguments.front().dtypes) {
      std::map<std::string, std::int64_t> small;
      for (const auto &[axis, extent] : kernel.typical)
        small[axis] = axis == "D" ? 16 : axis == "Hq" ? 4 : 2;
      Invocation call = resolveTypical(kernel, name_of(dtype), small, {});
      std::vector<HostArray> inputs;
      std::size_t outputs = 0;
      for (std::size_t i = 0; i < call.tensors.size(); ++i) {
        if (kernel.arguments[i].output)
          ++outputs;
        else
          inputs.emplace_back(call.tensors[i].dtype, call.tensors[i].shape);
      }
      auto own = kernel.reference(call, inputs, Arithmetic::own);
      auto exact = kernel.reference(call, inputs, Arithmetic::exact);
      ASSERT_EQ(own.size(), outputs);
      for (std::size_t i = 0; i < outputs; ++i) {
        const TensorType &type = call.tensors[inputs.size() + i];
        EXPECT_EQ(own[i].dtype, type.dtype) << kernel.name;
        EXPECT_EQ(own[i].shape, type.shape) << kernel.name;
        EXPECT_EQ(exact[i].dtype, DType::float64);
        EXPECT_EQ(exact[i].shape, type.shape) << kernel.name;
      }
    }
}

TEST(Resolve, OutputsFollowTheInputs) {
  Invocation call = resolve(
      findKernel("attention"),
      {{"q", tensor({2, 8, 17, 80})}, {"k", tensor({2, 2, 33, 80})}, {"v", tensor({2, 2, 33, 80})}},
      {{"causal", "true"}, {"scale", "0.5"}});
  EXPECT_EQ(call.tensors[3].shape, (Shape{2, 8, 17, 80}));
  EXPECT_EQ(call.tensors[3].dtype, DType::float16);
  EXPECT_EQ(call.tensors[4].shape, (Shape{2, 8, 17}));
  EXPECT_EQ(call.tensors[4].dtype, DType::float32);
  EXPECT_EQ(call.extent("Sk"), 33);
  EXPECT_TRUE(call.options.flag("causal"));
  EXPECT_EQ(call.options.number("scale"), 0.5);

  call = resolve(findKernel("matmul"), {{"a", tensor({5, 3})}, {"b", tensor({7, 5})}},
                 {{"trans_a", "1"}, {"trans_b", "true"}});
  EXPECT_EQ(call.tensors[2].shape, (Shape{3, 7}));
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
  EXPECT_THROW(resolveTypical(matmul, "i8", {}, {}), InputError);
  EXPECT_THROW(resolveTypical(matmul, "f16", {{"Z", 3}}, {}), InputError);
}
