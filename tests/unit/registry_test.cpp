// The registry's kernels, and what resolving accepts and refuses.
#include "kernels/calls/Execute.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Registry.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/error.h>
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

TEST(Sample, LargeArraysAreDrawnInPart) {
  for (const std::int64_t count : {0, 1, 1000, 3'000'000}) {
    HostArray array(DType::float32, {count});
    std::int64_t drawn = 0;
    fillDrawn(array, [&] { return static_cast<double>(drawn++); });
    EXPECT_LE(drawn, 1 << 20);
    const auto elements = array.as<float>();
    for (std::size_t i = 0; i < elements.size(); i += 997)
      ASSERT_EQ(elements[i], static_cast<float>(static_cast<std::int64_t>(i) % drawn));
  }
}

TEST(Registry, EachKernelIsWhole) {
  std::set<std::string> names;
  for (const KernelSpec &kernel : kernelRegistry()) {
    names.insert(kernel.name);
    EXPECT_FALSE(kernel.summary.empty());
    for (const ArgumentSpec &argument : kernel.arguments)
      EXPECT_EQ(!argument.dtypes.empty() + !argument.like.empty() + bool(argument.dtype_by), 1)
          << kernel.name << " " << argument.name;
    for (const auto &[axis, extent] : kernel.typical)
      EXPECT_TRUE(kernel.small.contains(axis)) << kernel.name << " " << axis;
    for (const OptionSpec &option : kernel.options) {
      const bool isNumber = option.kind != OptionSpec::flag && option.kind != OptionSpec::choice;
      EXPECT_EQ(isNumber, !option.samples.empty()) << kernel.name << " " << option.name;
      for (const std::string &sample : option.samples)
        EXPECT_NE(sample, option.initial) << kernel.name << " " << option.name;
    }
    const Invocation call = resolveTypical(kernel, "", {}, {});
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

// Where there is nothing that an index, a length or a class could name.
TEST(Registry, WhatHasNoLegalContentsIsRefused) {
  auto refused = [](const char *kernel, const std::map<std::string, std::int64_t> &extents,
                    const std::vector<std::string> &with = {}) -> std::string {
    auto all = findKernel(kernel).small;
    for (const auto &[axis, extent] : extents)
      all[axis] = extent;
    try {
      resolveTypical(findKernel(kernel), "", all, {}, with);
    } catch (const InputError &error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char *kernel : {"embedding", "embedding_backward"}) {
    EXPECT_THAT(refused(kernel, {{"V", 0}}), HasSubstr("the table has no rows"));
    EXPECT_EQ(refused(kernel, {{"V", 0}, {"...", 0}}), "accepted");
  }
  for (const char *kernel : {"cross_entropy", "cross_entropy_backward"})
    EXPECT_THAT(refused(kernel, {{"V", 0}}), HasSubstr("the logits have no classes"));
  for (const char *kernel : {"grouped_matmul", "grouped_matmul_drhs"}) {
    EXPECT_THAT(refused(kernel, {{"G", 0}}), HasSubstr("there is no group"));
    EXPECT_EQ(refused(kernel, {{"G", 0}, {"M", 0}}), "accepted");
  }
  for (const char *kernel : {"attention_varlen", "attention_varlen_backward"})
    EXPECT_THAT(refused(kernel, {{"B1", 1}}), HasSubstr("there is no sequence"));
  for (const char *kernel : {"chunk_mean_pool", "chunk_mean_pool_backward"})
    EXPECT_THAT(refused(kernel, {{"N", 1}}, {"cu_seqlens"}), HasSubstr("there is no sequence"));
}

TEST(Resolve, SeedsHave64Bits) {
  const auto seedOf = [](const char *kernel, const char *seed) {
    return resolveTypical(findKernel(kernel), "", {}, {{"seed", seed}}).options.seed("seed");
  };
  for (const char *kernel : {"dropout", "dropout_backward", "attention", "attention_varlen"}) {
    EXPECT_EQ(seedOf(kernel, "9223372036854775808"), std::uint64_t{1} << 63);
    EXPECT_EQ(seedOf(kernel, "18446744073709551615"), ~std::uint64_t{0});
    EXPECT_EQ(seedOf(kernel, "-1"), ~std::uint64_t{0});
    for (const char *seed : {"18446744073709551616", "-9223372036854775809", "1.5", "x", ""})
      EXPECT_THROW(seedOf(kernel, seed), InputError) << seed;
  }
}

// An axis that follows from others need not be named, but what is named holds.
TEST(Resolve, ExtentsFollowFromOthers) {
  auto call = [](const char *kernel, const std::map<std::string, std::int64_t> &extents,
                 const Assignments &options = {}, std::string_view dtype = "") {
    return resolveTypical(findKernel(kernel), dtype, extents, options);
  };
  EXPECT_EQ(call("lstm", {{"H", 33}}).extent("G"), 132);
  EXPECT_EQ(call("gru_backward", {{"H", 33}, {"...", 2}}).tensor("y").shape[2], 66);
  EXPECT_EQ(call("conv2d_backward", {{"H", 9}, {"R", 3}}, {{"stride_h", "2"}}).extent("P"), 4);
  EXPECT_EQ(call("quantized_matmul", {{"K", 160}}, {{"group", "32"}}).extent("S"), 5);
  EXPECT_EQ(call("quantized_matmul", {{"K", 160}}, {}, "w=u8").extent("W"), 80);
  EXPECT_EQ(call("quantized_matmul", {{"K", 160}}, {}, "w=i8").extent("W"), 160);
  EXPECT_EQ(call("paged_decode", {{"D", 64}}, {}, "k_cache=u8").extent("Dc"), 32);
  EXPECT_EQ(call("block_sparse_attention", {{"Sq", 65}}, {{"block_q", "16"}}).extent("Mq"), 5);
  EXPECT_THROW(call("lstm", {{"H", 33}, {"G", 131}}), InputError);
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
      HasSubstr("b is [N, K], or [K, N] with trans_b=false"));
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
  for (const char *text : {"", "x", "1x", "nan", "inf", "1,5", "+-1", " 1"})
    EXPECT_THAT(refusal("attention", {}, {{"scale", text}}), HasSubstr("'scale' is a number"))
        << text;
  for (const char *text : {"1e300", "-3.5e38"})
    EXPECT_THAT(refusal("attention", {}, {{"scale", text}}), HasSubstr("more than f32 holds"));
  EXPECT_THAT(refusal("attention", {}, {{"softcap", "1e-300"}}),
              HasSubstr("option 'softcap' is 1e-300, which f32 rounds to 0"));
  EXPECT_THAT(refusal("layer_norm", {{"x", tensor({4})}, {"w", tensor({4})}, {"b", tensor({4})}},
                      {{"eps", "-1"}}),
              HasSubstr("option 'eps' is -1, but must be at least 0"));
  for (const char *text : {"0", "4097"})
    EXPECT_THAT(
        refusal("histogram", {}, {{"bins", text}}),
        HasSubstr("option 'bins' is " + std::string(text) + ", but must be from 1 to 4096"));
  for (const char *text : {"1", "4096"})
    EXPECT_EQ(
        resolveTypical(findKernel("histogram"), "", {}, {{"bins", text}}).options.choice("bins"),
        text);
  EXPECT_THAT(refusal("cross_entropy", {}, {{"label_smoothing", "1.5"}}),
              HasSubstr("'label_smoothing' is 1.5, but must be from 0 to 1"));
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
