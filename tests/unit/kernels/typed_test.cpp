// The typed functions of <sectile/kernels.h> and of the families' headers: the same results as
// calls by name, written in place where outputs are given; outputs of another shape are refused.
#include "TypedTest.h"
#include <sectile/kernels.h>
#include <sectile/sampling.h>
#include <sectile/serving.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;
namespace sc = sectile;

SECTILE_INSTANTIATE_ON(Typed, "interpreter,virtual:sm_80");

TEST_P(Typed, Matmul) {
  const auto a = numbers<half>({20, 24}), b = numbers<half>({18, 24}, 2);
  const auto bias = numbers<half>({18}, 3);
  const auto residual = numbers<half>({20, 18}, 4);
  const MatmulOptions options{.trans_b = true,
                              .activation = MatmulActivation::relu,
                              .alpha = 0.5,
                              .beta = 2,
                              .bias = bias,
                              .residual = residual};
  const NamedTensors named =
      run_kernel(stream, "matmul", {{"a", a}, {"b", b}, {"bias", bias}, {"residual", residual}},
                 {{"trans_b", "true"}, {"activation", "relu"}, {"alpha", "0.5"}, {"beta", "2"}});
  expectSame(matmul(stream, a, b, options), named, "c");
  // [by_name]
  auto out = sc::run_kernel(device.stream(), "matmul", {{"a", a}, {"b", b}}, {{"trans_b", "true"}});
  auto c = out.at("c").as<sc::half, 2>();
  // [/by_name]
  expectSame(matmul(stream, a, b, {.trans_b = true}), out, "c");
  EXPECT_EQ(c.extent(1), 18);
  const auto to = room<half>({18, 20}).transpose();
  const auto given = matmul(stream, a, b, options, to);
  expectPlace(given, to);
  expectSame(to, named, "c");
  EXPECT_EQ(message<LaunchError>([&] { matmul(stream, a, b, options, room<half>({20, 19})); }),
            "matmul: c is given as f16 [20, 19], but is f16 [20, 18]");
  EXPECT_THAT(message<LaunchError>([&] { matmul(stream, a, a); }), HasSubstr("K is 20 in b"));
}

TEST_P(Typed, MatmulsOfBatchesAndOtherElements) {
  const auto a = numbers<half>({2, 17, 24}), b = numbers<half>({1, 24, 16}, 2);
  const Tensor<float, 3> c = matmul<float>(stream, a, b, {.exact = true, .stream_k = true});
  expectSame(c,
             run_kernel(stream, "batched_matmul", {{"a", a}, {"b", b}},
                        {{"out", "f32"}, {"precision", "exact"}, {"schedule", "stream_k"}}),
             "c");
  const auto to = room<float>({2, 17, 16});
  expectPlace(matmul<float>(stream, a, b, {}, to), to);

  // Left out, trans_b is what the elements want.
  const auto rows = tensor(device.upload(std::vector<std::int8_t>(32 * 16, 2)), {32, 16}),
             weights = tensor(device.upload(std::vector<std::int8_t>(48 * 16, 3)), {48, 16});
  EXPECT_EQ(matmul(stream, rows, weights).extents(), (std::array<std::int64_t, 2>{32, 48}));
  EXPECT_EQ(matmul(stream, rows, weights.transpose(), {.trans_b = false}).download(),
            std::vector<std::int32_t>(32 * 48, 6 * 16));
  EXPECT_THAT(message<LaunchError>([&] { matmul(stream, rows, weights.transpose()); }),
              HasSubstr("b is [N, K], or [K, N] with trans_b=false"));

  const auto bytes = tensor(device.upload(std::vector<std::int8_t>(32 * 32, 3)), {32, 32});
  const Tensor<std::int32_t, 2> sums = matmul(stream, bytes, bytes);
  EXPECT_EQ(sums.download(), std::vector<std::int32_t>(32 * 32, 9 * 32));
  const auto scale = tensor(device.upload(std::vector<float>(32, 0.5f)), {32});
  expectSame(matmul<float>(stream, bytes, bytes, {.row_scale = scale, .column_scale = scale}),
             run_kernel(stream, "matmul",
                        {{"a", bytes}, {"b", bytes}, {"row_scale", scale}, {"column_scale", scale}},
                        {{"out", "f32"}}),
             "c");
}

TEST_P(Typed, EachActivation) {
  const auto a = numbers({4, 8}), b = numbers({8, 16}, 2);
  const std::pair<MatmulActivation, const char *> all[] = {
      {MatmulActivation::none, "none"},
      {MatmulActivation::relu, "relu"},
      {MatmulActivation::relu_squared, "relu_squared"},
      {MatmulActivation::gelu, "gelu"},
      {MatmulActivation::gelu_tanh, "gelu_tanh"},
      {MatmulActivation::silu, "silu"},
      {MatmulActivation::sigmoid, "sigmoid"},
      {MatmulActivation::tanh, "tanh"},
      {MatmulActivation::softplus, "softplus"}};
  for (const auto &[activation, name] : all)
    expectSame(matmul(stream, a, b, {.activation = activation}),
               run_kernel(stream, "matmul", {{"a", a}, {"b", b}}, {{"activation", name}}), "c");
}

TEST_P(Typed, LayerNorm) {
  const auto x = numbers({2, 3, 40}), dy = numbers({2, 3, 40}, 2);
  const auto w = numbers({40}, 3), b = numbers({40}, 4);
  const NamedTensors named =
      run_kernel(stream, "layer_norm", {{"x", x}, {"w", w}, {"b", b}}, {{"eps", "0.25"}});
  const LayerNormOptions options{.w = w, .b = b, .eps = 0.25};
  const LayerNormOutputs<float, 3> to{room({2, 3, 40}), room({2, 3}), room({2, 3})};
  expectPlace(layer_norm(stream, x, options, to).y, to.y);
  for (const auto &out : {layer_norm(stream, x, options), to}) {
    expectSame(out.y, named, "y");
    expectSame(out.mean, named, "mean");
    expectSame(out.rstd, named, "rstd");
  }
  EXPECT_EQ(
      message<LaunchError>([&] { layer_norm(stream, x, {}, {{to.y, room({3, 2}), to.rstd}}); }),
      "layer_norm: mean is given as f32 [3, 2], but is f32 [2, 3]");

  const NamedTensors gradients =
      run_kernel(stream, "layer_norm_backward",
                 {{"x", x}, {"w", w}, {"b", b}, {"mean", to.mean}, {"rstd", to.rstd}, {"dy", dy}});
  const LayerNormGradients<float, 3> places{room({2, 3, 40}), room({40}), room({40})};
  expectPlace(*layer_norm_backward(stream, x, to.mean, to.rstd, dy, options, places).db,
              *places.db);
  for (const auto &out : {layer_norm_backward(stream, x, to.mean, to.rstd, dy, options), places}) {
    expectSame(out.dx, gradients, "dx");
    expectSame(*out.dw, gradients, "dw");
    expectSame(*out.db, gradients, "db");
  }
  EXPECT_FALSE(layer_norm_backward(stream, x, to.mean, to.rstd, dy).dw);
  EXPECT_THAT(message<LaunchError>(
                  [&] { layer_norm_backward(stream, x, to.mean, to.rstd, dy, {}, places); }),
              HasSubstr("there is no output 'db'"));
}

TEST_P(Typed, RmsNorm) {
  const auto x = numbers<half>({5, 40}), residual = numbers<half>({5, 40}, 2);
  const auto w = numbers<half>({40}, 3);
  const auto dy = numbers<half>({5, 40}, 4);
  const NamedTensors named =
      run_kernel(stream, "rms_norm", {{"x", x}, {"w", w}, {"residual", residual}},
                 {{"eps", "0.25"}, {"weight_offset", "1"}});
  const RmsNormOptions options{.w = w, .residual = residual, .eps = 0.25, .weight_offset = 1};
  const RmsNormOutputs<half, 2> to{room<half>({5, 40}), room({5}), room<half>({5, 40})};
  expectPlace(*rms_norm(stream, x, options, to).h, *to.h);
  for (const auto &out : {rms_norm(stream, x, options), to}) {
    expectSame(out.y, named, "y");
    expectSame(out.rstd, named, "rstd");
    expectSame(*out.h, named, "h");
  }
  EXPECT_FALSE(rms_norm(stream, x).h);
  EXPECT_EQ(
      message<LaunchError>([&] { rms_norm(stream, x, {}, {{room<half>({4, 40}), to.rstd}}); }),
      "rms_norm: y is given as f16 [4, 40], but is f16 [5, 40]");

  const NamedTensors gradients = run_kernel(
      stream, "rms_norm_backward",
      {{"x", x}, {"w", w}, {"rstd", to.rstd}, {"dy", dy}, {"h", *to.h}, {"dh", residual}},
      {{"weight_offset", "1"}});
  const RmsNormBackwardOptions backward{.w = w, .h = *to.h, .dh = residual, .weight_offset = 1};
  const RmsNormGradients<half, 2> places{room<half>({5, 40}), room<half>({40})};
  expectPlace(rms_norm_backward(stream, x, to.rstd, dy, backward, places).dx, places.dx);
  for (const auto &out : {rms_norm_backward(stream, x, to.rstd, dy, backward), places}) {
    expectSame(out.dx, gradients, "dx");
    expectSame(*out.dw, gradients, "dw");
  }
  EXPECT_EQ(message<LaunchError>([&] {
              rms_norm_backward(stream, x, to.rstd, dy, backward, {{places.dx, room<half>({41})}});
            }),
            "rms_norm_backward: dw is given as f16 [41], but is f16 [40]");
}

TEST_P(Typed, Softmax) {
  const auto x = numbers({3, 40}), dy = numbers({3, 40}, 2);
  const auto expectRows = [&](const auto &function, const char *kernel, const char *output,
                              const NamedTensors &inputs) {
    const NamedTensors named = run_kernel(stream, kernel, inputs);
    expectSame(function(std::nullopt), named, output);
    const auto to = room({40, 3}).transpose();
    expectPlace(function(to), to);
    expectSame(to, named, output);
    EXPECT_EQ(message<LaunchError>([&] { function(room({3, 39})); }),
              std::string(kernel) + ": " + output + " is given as f32 [3, 39], but is f32 [3, 40]");
  };
  using To = std::optional<Tensor<float, 2>>;
  const auto y = softmax(stream, x);
  expectRows([&](const To &to) { return softmax(stream, x, to); }, "softmax", "y", {{"x", x}});
  expectRows([&](const To &to) { return softmax_backward(stream, y, dy, to); }, "softmax_backward",
             "dx", {{"y", y}, {"dy", dy}});
  const auto logs = log_softmax(stream, x);
  expectRows([&](const To &to) { return log_softmax(stream, x, to); }, "log_softmax", "y",
             {{"x", x}});
  expectRows([&](const To &to) { return log_softmax_backward(stream, logs, dy, to); },
             "log_softmax_backward", "dx", {{"y", logs}, {"dy", dy}});
}

TEST_P(Typed, CrossEntropy) {
  const auto logits = numbers({2, 3, 40});
  const auto targets =
      tensor(device.upload(std::vector<std::int32_t>{0, 39, 7, -1, 12, 3}), {2, 3});
  const NamedTensors inputs{{"logits", logits}, {"targets", targets}};
  const KernelOptions words{
      {"ignore_index", "-1"}, {"label_smoothing", "0.125"}, {"lse_square", "0.25"}};
  for (const auto &[reduction, name] : {std::pair{LossReduction::mean, "mean"},
                                        {LossReduction::sum, "sum"},
                                        {LossReduction::none, "none"}}) {
    KernelOptions byName = words;
    byName["reduction"] = name;
    const CrossEntropyOptions options{reduction, -1, 0.125, 0.25};
    const bool isNone = reduction == LossReduction::none;
    NamedTensors named = run_kernel(stream, "cross_entropy", inputs, byName);
    EXPECT_EQ(named.at("loss").extents.size(), isNone ? 2u : 0u);
    const NamedTensors backwardInputs{{"logits", logits},
                                      {"targets", targets},
                                      {"lse", named.at("lse")},
                                      {"dloss", named.at("loss")}};
    const NamedTensors gradient =
        run_kernel(stream, "cross_entropy_backward", backwardInputs, byName);
    if (!isNone)
      named.at("loss").extents = named.at("loss").strides = {1, 1};
    const CrossEntropyOutputs<2> to{isNone ? room({2, 3}) : room({1, 1}), room({2, 3})};
    expectPlace(cross_entropy(stream, logits, targets, options, to).loss, to.loss);
    for (const auto &out : {cross_entropy(stream, logits, targets, options), to}) {
      expectSame(out.loss, named, "loss");
      expectSame(out.lse, named, "lse");
    }
    EXPECT_THAT(message<LaunchError>([&] {
                  cross_entropy(stream, logits, targets, options, {{room({2, 2}), to.lse}});
                }),
                HasSubstr("cross_entropy: loss is given as f32 [2, 2], but is f32 ["));

    const auto place = room({2, 3, 40});
    expectPlace(cross_entropy_backward(stream, logits, targets, to.lse, to.loss, options, place),
                place);
    expectSame(place, gradient, "dlogits");
    expectSame(cross_entropy_backward(stream, logits, targets, to.lse, to.loss, options), gradient,
               "dlogits");
    EXPECT_EQ(message<LaunchError>([&] {
                cross_entropy_backward(stream, logits, targets, to.lse, to.loss, options,
                                       room({2, 3, 41}));
              }),
              "cross_entropy_backward: dlogits is given as f32 [2, 3, 41], but is f32 [2, 3, 40]");
  }

  const auto classes = numbers({40}, 3);
  const CrossEntropyOptions weighted{.ignore_index = -1, .class_weights = classes, .argmax = true};
  NamedTensors named =
      run_kernel(stream, "cross_entropy",
                 {{"logits", logits}, {"targets", targets}, {"class_weights", classes}},
                 {{"ignore_index", "-1"}, {"argmax", "true"}});
  const auto out = cross_entropy(stream, logits, targets, weighted);
  expectSame(*out.argmax, named, "argmax");
  expectSame(out.lse, named, "lse");
  expectSame(cross_entropy_backward(stream, logits, targets, out.lse, out.loss, weighted),
             run_kernel(stream, "cross_entropy_backward",
                        {{"logits", logits},
                         {"targets", targets},
                         {"class_weights", classes},
                         {"lse", named.at("lse")},
                         {"dloss", named.at("loss")}},
                        {{"ignore_index", "-1"}}),
             "dlogits");
  named.at("loss").extents = named.at("loss").strides = {1, 1};
  expectSame(out.loss, named, "loss");
  EXPECT_FALSE(cross_entropy(stream, logits, targets, {.ignore_index = -1}).argmax);
}

TEST_P(Typed, Rope) {
  const auto x = numbers({2, 3, 5, 16});
  const auto positions =
      tensor(device.upload(std::vector<std::int32_t>{0, 4, 2, 3, 1, 9, 8, 7, 6, 5}), {2, 5});
  const auto swapped = x.permute({0, 2, 1, 3});
  for (bool backward : {false, true}) {
    const char *const kernel = backward ? "rope_backward" : "rope",
                      *const in = backward ? "dy" : "x", *const name = backward ? "dx" : "y";
    const auto call = [&](const auto &input, const RopeOptions &options,
                          const std::optional<Tensor<float, 4>> &to = {}) {
      return backward ? rope_backward(stream, input, options, to)
                      : rope(stream, input, options, to);
    };
    const NamedTensors named = run_kernel(
        stream, kernel, {{in, swapped}, {"positions", positions}},
        {{"style", "interleaved"}, {"theta", "100"}, {"rotary", "8"}, {"layout", "bshd"}});
    const RopeOptions options{
        .interleaved = true, .theta = 100, .rotary = 8, .bshd = true, .positions = positions};
    const auto to = room({2, 3, 5, 16}).permute({0, 2, 1, 3});
    expectPlace(call(swapped, options, to), to);
    expectSame(to, named, name);
    expectSame(call(swapped, options), named, name);
    expectSame(call(x, {.offset = 7}), run_kernel(stream, kernel, {{in, x}}, {{"offset", "7"}}),
               name);
    const KernelOptions common{{"factor", "3"}, {"original_length", "2"}};
    const auto expectScaled = [&](const RopeScaling &scaling, KernelOptions words) {
      words.insert(common.begin(), common.end());
      expectSame(call(x, {.scaling = scaling}), run_kernel(stream, kernel, {{in, x}}, words), name);
    };
    using Kind = RopeScalingKind;
    expectScaled({.kind = Kind::linear, .factor = 3}, {{"scaling", "linear"}});
    expectScaled({.kind = Kind::dynamic, .factor = 3, .original_length = 2, .length = 9},
                 {{"scaling", "dynamic"}, {"length", "9"}});
    expectScaled({.kind = Kind::llama3, .factor = 3, .original_length = 2, .low_freq = 0.1},
                 {{"scaling", "llama3"}, {"low_freq", "0.1"}});
    expectScaled({.kind = Kind::yarn,
                  .factor = 3,
                  .original_length = 2,
                  .beta_fast = 0.5,
                  .beta_slow = 0.1,
                  .yarn_round = false,
                  .attention_factor = 1.25},
                 {{"scaling", "yarn"},
                  {"beta_fast", "0.5"},
                  {"beta_slow", "0.1"},
                  {"yarn_round", "false"},
                  {"attention_factor", "1.25"}});
    EXPECT_EQ(message<LaunchError>([&] { call(x, {}, room({2, 3, 5, 8})); }),
              std::string(kernel) + ": " + name +
                  " is given as f32 [2, 3, 5, 8], but is f32 [2, 3, 5, 16]");
  }
}

TEST_P(Typed, Appends) {
  const auto halves = [&](std::int64_t count, int by) {
    std::vector<half> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(half(static_cast<float>((i * by) % 23) / 8 - 1));
    return device.upload(values);
  };
  const auto q = tensor(halves(3 * 4 * 16, 5), {3, 4, 16}),
             k = tensor(halves(3 * 2 * 16, 7), {3, 2, 16}),
             v = tensor(halves(3 * 2 * 16, 3), {3, 2, 16});
  const auto cache = [&](int by) { return tensor(halves(4 * 2 * 5 * 16, by), {4, 2, 5, 16}); };
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{7, 1}), {2});
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{3, 1, 0, -1}), {2, 2});
  const auto ends = tensor(device.upload(std::vector<std::int32_t>{0, 2, 3}), {3});
  // Two new tokens of a sequence of 7 keys, and the first of another, in pages of 5.
  const PagedSlots places = paged_slots(stream, lengths, tables, ends, 3, 5);
  EXPECT_THAT(places.slots.download(), testing::ElementsAre(5, 6, 0));
  EXPECT_THAT(places.positions.download(), testing::ElementsAre(5, 6, 0));

  const auto expectCache = [&](const auto &typed, const NamedTensors &named, const char *name) {
    const auto wanted = named.at(name).template as<half, 4>().download();
    const auto got = typed.download();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(wanted[i])) << name << i;
  };
  {
    const auto keys = cache(11), values = cache(13);
    const auto named = run_kernel(
        stream, "kv_append",
        {{"k", k}, {"v", v}, {"k_cache", keys}, {"v_cache", values}, {"slots", places.slots}});
    kv_append(stream, k, v, keys, values, places.slots);
    expectCache(keys, named, "k_out");
    expectCache(values, named, "v_out");
  }
  {
    const auto codes = [&] {
      return tensor(device.upload(std::vector<std::int8_t>(4 * 2 * 5 * 16)), {4, 2, 5, 16});
    };
    const auto scales = [&] { return numbers<float>({4, 2, 5}); };
    const auto ofKeys = scales(), ofValues = scales();
    const auto intoKeys = codes(), intoValues = codes();
    const auto named = run_kernel(stream, "kv_append",
                                  {{"k", k},
                                   {"v", v},
                                   {"k_cache", codes()},
                                   {"v_cache", codes()},
                                   {"slots", places.slots},
                                   {"k_scales", scales()},
                                   {"v_scales", scales()}});
    kv_append(stream, k, v, intoKeys, intoValues, places.slots,
              {.k_scales = ofKeys, .v_scales = ofValues});
    EXPECT_EQ(intoKeys.download(), (named.at("k_out").as<std::int8_t, 4>().download()));
    EXPECT_EQ(ofKeys.download(), (named.at("k_scales_out").as<float, 3>().download()));
    EXPECT_EQ(ofValues.download(), (named.at("v_scales_out").as<float, 3>().download()));
  }
  const auto keys = cache(11), values = cache(13);
  const auto named = run_kernel(
      stream, "rope_append",
      {{"q", q},
       {"k", k},
       {"v", v},
       {"k_cache", keys},
       {"v_cache", values},
       {"slots", places.slots},
       {"positions", places.positions}},
      {{"style", "interleaved"}, {"theta", "500"}, {"scaling", "linear"}, {"factor", "2"}});
  const auto rotated = rope_append(stream, q, k, v, keys, values, places.slots, places.positions,
                                   {.interleaved = true,
                                    .theta = 500,
                                    .scaling = {.kind = RopeScalingKind::linear, .factor = 2}},
                                   q);
  EXPECT_EQ(rotated.data(), q.data());
  expectCache(keys, named, "k_out");
  expectCache(values, named, "v_out");
  const auto wanted = named.at("q_out").as<half, 3>().download(), got = q.download();
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(static_cast<float>(got[i]), static_cast<float>(wanted[i])) << i;
  EXPECT_THAT(message<LaunchError>([&] {
                kv_append(stream, k, v, keys, tensor(halves(4 * 2 * 5 * 8, 1), {4, 2, 5, 8}),
                          places.slots);
              }),
              HasSubstr("Dv"));
}

TEST_P(Typed, AppendsAsInTheDocs) {
  const auto ones = [&](std::int64_t count) {
    return device.upload(std::vector<half>(static_cast<std::size_t>(count), half(1)));
  };
  const std::int64_t tokens = 3, page = 5;
  const auto q = tensor(ones(3 * 4 * 16), {3, 4, 16}), k = tensor(ones(3 * 2 * 16), {3, 2, 16}),
             v = tensor(ones(3 * 2 * 16), {3, 2, 16});
  const auto keys = tensor(ones(4 * 2 * 5 * 16), {4, 2, 5, 16}),
             values = tensor(ones(4 * 2 * 5 * 16), {4, 2, 5, 16});
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{7, 1}), {2});
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{3, 1, 0, -1}), {2, 2});
  const auto ends = tensor(device.upload(std::vector<std::int32_t>{0, 2, 3}), {3});
  // [append]
  // Once for each step.
  auto places = paged_slots(stream, lengths, tables, ends, tokens, page);
  // In each layer: q becomes its rotation, the caches have the new keys and values.
  rope_append(stream, q, k, v, keys, values, places.slots, places.positions,
              {.theta = 500000, .scaling = {.kind = RopeScalingKind::llama3}}, q);
  // [/append]
  EXPECT_NEAR(static_cast<float>(q.download()[0]), std::cos(5.0f) - std::sin(5.0f), 1e-3);
}

TEST_P(Typed, AttentionCached) {
  const auto q = numbers<half>({3, 4, 16});
  const auto keys = numbers<half>({4, 2, 5, 16}, 2), values = numbers<half>({4, 2, 5, 16}, 3);
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{9}), {1});
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{3, 1}), {1, 2});
  const NamedTensors inputs{{"q", q},
                            {"k_cache", keys},
                            {"v_cache", values},
                            {"context_lens", lengths},
                            {"block_tables", tables}};
  {
    // [attention_cached]
    // A root and two drafts of what follows it: neither sees the other.
    auto tree = tensor(device.upload(std::vector<std::int32_t>{0b001, 0b011, 0b101}), {3, 1});
    auto [o, lse] = attention_cached(stream, q, keys, values, lengths, tables, {.tree = tree});
    // [/attention_cached]
    NamedTensors named = inputs;
    named["tree"] = tree;
    const auto wanted = run_kernel(stream, "attention_cached", named);
    expectSame(o, wanted, "o");
    expectSame(lse, wanted, "lse");
  }
  const auto ends = tensor(device.upload(std::vector<std::int32_t>{0, 3}), {2});
  const auto plan = paged_plan(stream, lengths, 4);
  EXPECT_THAT(plan.download(),
              testing::ElementsAre(0, 0, 9, 1, -1, 0, 0, 0, -1, 0, 0, 0, -1, 0, 0, 0));
  const auto kept = tensor(device.allocate<std::int32_t>(4), {1, 4});
  EXPECT_EQ(paged_plan(stream, lengths, 1, kept).data(), kept.data());
  EXPECT_THAT(kept.download(), testing::ElementsAre(0, 0, 9, 1));
  const auto sinks = numbers<float>({4, 1}), scales = numbers<float>({1, 2});
  const auto padding = tensor(device.upload(std::vector<std::int32_t>{2}), {1});
  const auto valueQueries = numbers<half>({3, 4, 16}, 4);
  NamedTensors named = inputs;
  named.insert({{"cu_seqlens_q", ends},
                {"plan", plan},
                {"sinks", sinks},
                {"k_scale", scales},
                {"v_scale", scales},
                {"left_pad", padding},
                {"qv", valueQueries}});
  const auto wanted = run_kernel(stream, "attention_cached", named,
                                 {{"causal", "false"},
                                  {"scale", "0.3"},
                                  {"softcap", "2"},
                                  {"window_left", "4"},
                                  {"window_right", "1"},
                                  {"chunk", "5"},
                                  {"max_queries", "3"}});
  const AttentionOutputs<half, 3> to{numbers<half>({3, 4, 16}), numbers<float>({3, 4})};
  const auto out = attention_cached(stream, q, keys, values, lengths, tables,
                                    {.causal = false,
                                     .scale = 0.3,
                                     .softcap = 2,
                                     .window_left = 4,
                                     .window_right = 1,
                                     .chunk = 5,
                                     .max_queries = 3,
                                     .cu_seqlens_q = ends,
                                     .plan = plan,
                                     .sinks = sinks,
                                     .k_scale = scales,
                                     .v_scale = scales,
                                     .left_pad = padding,
                                     .qv = valueQueries},
                                    to);
  EXPECT_EQ(out.o.data(), to.o.data());
  expectSame(to.o, wanted, "o");
  expectSame(to.lse, wanted, "lse");
  EXPECT_THAT(message<LaunchError>([&] {
                attention_cached(stream, q, keys, values, lengths, tables, {.chunk = -1});
              }),
              HasSubstr("chunk"));
}

TEST_P(Typed, AttentionOverADenseCache) {
  const auto q = numbers<half>({4, 4, 16});
  const std::int64_t max = 300;
  const auto keys = numbers<half>({3, max, 2, 16}, 2), values = numbers<half>({3, max, 2, 16}, 3);
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{170, 300}), {2});
  // [dense_cache]
  // Caches [rows, max, Hkv, D]: a page is a row. The sequences have rows 2 and 0, where 40 keys and
  // none are padding.
  auto cache_index = tensor(device.upload(std::vector<std::int32_t>{2, 0}), {2, 1});
  auto left_pad = tensor(device.upload(std::vector<std::int32_t>{40, 0}), {2});
  auto [o, lse] =
      attention_cached(stream, q, keys.permute({0, 2, 1, 3}), values.permute({0, 2, 1, 3}), lengths,
                       cache_index, {.left_pad = left_pad});
  // [/dense_cache]
  // The same memory in shorter pages.
  const auto cut = [](const Tensor<half, 4> &of) {
    return Tensor<half, 4>(of.data(), {9, 2, 100, 16}, {100 * 32, 16, 32, 1}, of.memory());
  };
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{6, 7, 8, 0, 1, 2}), {2, 3});
  const auto wanted =
      attention_cached(stream, q, cut(keys), cut(values), lengths, tables, {.left_pad = left_pad});
  EXPECT_EQ(o.download(), wanted.o.download());
  EXPECT_EQ(lse.download(), wanted.lse.download());
}

TEST_P(Typed, Latents) {
  const auto q = numbers<half>({4, 3, 96});
  const auto cache = numbers<half>({6, 16, 96}, 2);
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{30, 7}), {2});
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{4, 1, 0, 5}), {2, 2});
  const auto ends = tensor(device.upload(std::vector<std::int32_t>{0, 3, 4}), {3});
  const auto plan = paged_plan(stream, lengths, 34);
  const auto sinks = numbers<float>({3, 1});
  {
    const auto wanted = run_kernel(
        stream, "latent_decode",
        {{"q", q},
         {"cache", cache},
         {"context_lens", lengths},
         {"block_tables", tables},
         {"sinks", sinks},
         {"cu_seqlens_q", ends},
         {"plan", plan}},
        {{"scale", "0.25"}, {"latent", "48"}, {"causal", "false"}, {"max_queries", "3"}});
    const auto out = latent_decode(stream, q, cache, lengths, tables, 0.25,
                                   {.latent = 48,
                                    .sinks = sinks,
                                    .causal = false,
                                    .max_queries = 3,
                                    .cu_seqlens_q = ends,
                                    .plan = plan});
    expectSame(out.o, wanted, "o");
    expectSame(out.lse, wanted, "lse");
  }
  const auto indices =
      tensor(device.upload(std::vector<std::int32_t>{3, 90, -1, 4, 0, 1, 2, 50}), {4, 2});
  const auto counts = tensor(device.upload(std::vector<std::int32_t>{2, 2, 1, 2}), {4});
  const auto wanted = run_kernel(
      stream, "latent_sparse",
      {{"q", q}, {"cache", cache}, {"indices", indices}, {"lengths", counts}}, {{"scale", "0.1"}});
  const AttentionOutputs<half, 3> to{numbers<half>({4, 3, 32}), numbers<float>({4, 3})};
  latent_sparse(stream, q, cache, indices, 0.1, {.lengths = counts}, to);
  expectSame(to.o, wanted, "o");
  expectSame(to.lse, wanted, "lse");
  EXPECT_THAT(message<LaunchError>(
                  [&] { latent_decode(stream, q, cache, lengths, tables, 0.1, {.latent = 8}); }),
              HasSubstr("16 to 512"));
}

TEST_P(Typed, LatentsOfTwoCachesAsInTheDocs) {
  const double scale = 0.1;
  const auto q = numbers<half>({4, 3, 96}), all = numbers<half>({10, 16, 96}, 2);
  const auto sinks = numbers<float>({3, 1});
  const auto ints = [&](std::vector<std::int32_t> numbers) { return device.upload(numbers); };
  // The last four blocks are the extra cache's.
  const Tensor<half, 3> cache(all.data(), {6, 16, 96}, all.strides(), all.memory()),
      extra(all.data() + 6 * all.stride(0), {4, 16, 96}, all.strides(), all.memory());
  const auto indices = tensor(ints({3, 90, -1, 4, 0, 1, -1, -1}), {4, 2}),
             extra_indices = tensor(ints({5, 63, 1, -1, 7, 8, 9, 60, 2, 0, 1, 2}), {4, 3});
  const auto extra_lengths = tensor(ints({3, 2, 0, 1}), {4});
  // [two_caches]
  // [2, S, Hq, 1, latent] and [2, S, Hq, 1]: a part of each call. Sinks count in one of them.
  auto partial_o = tensor(device.allocate<half>(2 * 4 * 3 * 32), {2, 4, 3, 1, 32});
  auto partial_lse = tensor(device.allocate<float>(2 * 4 * 3), {2, 4, 3, 1});
  const auto part = [&](int number) -> AttentionOutputs<half, 3> {
    return {
        {partial_o.data() + number * 4 * 3 * 32, {4, 3, 32}, {3 * 32, 32, 1}, partial_o.memory()},
        {partial_lse.data() + number * 4 * 3, {4, 3}, {3, 1}, partial_lse.memory()}};
  };
  latent_sparse(stream, q, cache, indices, scale, {.sinks = sinks}, part(0));
  latent_sparse(stream, q, extra, extra_indices, scale, {.lengths = extra_lengths}, part(1));
  auto out = run_kernel(stream, "attention_merge",
                        {{"partial_o", partial_o}, {"partial_lse", partial_lse}});
  // [/two_caches]
  const auto both = tensor(ints({3,  90, 96 + 5, 96 + 63, 96 + 1, //
                                 -1, 4,  -1,     96 + 7,  -1,     //
                                 0,  1,  -1,     -1,      -1,     //
                                 -1, -1, 96 + 0, -1,      -1}),
                           {4, 5});
  const auto wanted = latent_sparse(stream, q, all, both, scale, {.sinks = sinks});
  const auto o = out.at("o").as<half, 4>().download(), wantedO = wanted.o.download();
  for (std::size_t i = 0; i < o.size(); ++i)
    EXPECT_NEAR(static_cast<float>(o[i]), static_cast<float>(wantedO[i]), 4e-3) << i;
  const auto lse = out.at("lse").as<float, 3>().download(), wantedLse = wanted.lse.download();
  for (std::size_t i = 0; i < lse.size(); ++i)
    EXPECT_NEAR(lse[i], wantedLse[i], 1e-5) << i;
}

TEST_P(Typed, LatentAttentionAsInTheDocs) {
  const double scale = 0.1;
  const auto q_nope = numbers<half>({4, 3, 24}), q = numbers<half>({4, 3, 96}, 2);
  const auto cache = numbers<half>({6, 16, 96}, 3), w_uk = numbers<half>({3, 24, 32}, 4),
             w_uv = numbers<half>({3, 32, 24}, 5);
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{30, 7}), {2});
  const auto tables = tensor(device.upload(std::vector<std::int32_t>{4, 1, 0, 5}), {2, 2});
  const auto before = q.download();
  // [latent]
  // q has its rotated columns already; the products by head absorb the projections.
  auto o = latent_attention(stream, q_nope, q, w_uk, w_uv, cache, lengths, tables, scale);
  // [/latent]
  const auto queries = q.download(), nope = q_nope.download(), keys = w_uk.download();
  for (std::size_t t = 0; t < 4; ++t)
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t d = 0; d < 96; ++d) {
        const std::size_t at = (t * 3 + h) * 96 + d;
        double wanted = 0;
        for (std::size_t k = 0; k < 24 && d < 32; ++k)
          wanted += double(static_cast<float>(nope[(t * 3 + h) * 24 + k])) *
                    double(static_cast<float>(keys[(h * 24 + k) * 32 + d]));
        if (d >= 32)
          wanted = double(static_cast<float>(before[at]));
        EXPECT_NEAR(static_cast<float>(queries[at]), wanted, 2e-3 * (1 + std::abs(wanted)));
      }
  const auto out = latent_decode(stream, q, cache, lengths, tables, scale);
  const auto values = w_uv.download(), latents = out.o.download(), got = o.download();
  ASSERT_EQ(o.extents(), (std::array<std::int64_t, 3>{4, 3, 24}));
  for (std::size_t t = 0; t < 4; ++t)
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t d = 0; d < 24; ++d) {
        double wanted = 0;
        for (std::size_t k = 0; k < 32; ++k)
          wanted += double(static_cast<float>(latents[(t * 3 + h) * 32 + k])) *
                    double(static_cast<float>(values[(h * 32 + k) * 24 + d]));
        EXPECT_NEAR(static_cast<float>(got[(t * 3 + h) * 24 + d]), wanted,
                    2e-3 * (1 + std::abs(wanted)));
      }
}

TEST_P(Typed, Sampling) {
  const auto logits = numbers<half>({4, 70});
  const auto whole = [&](std::vector<std::int32_t> values) {
    return tensor(device.upload(values),
                  {detail::Length(static_cast<std::int64_t>(values.size()))});
  };
  const auto ks = whole({0, 3, 1, 70});
  const auto seeds = tensor(device.upload(std::vector<std::int64_t>{1, -1, 5, 5}), {4}),
             lengths = tensor(device.upload(std::vector<std::int64_t>{0, 9, 2, 3}), {4});
  const auto ps = tensor(device.upload(std::vector<float>{0.5f, 1, 1, 0.25f}), {4});
  const auto counts = tensor(device.upload(std::vector<std::int32_t>(280, 1)), {4, 70});
  const SampleOptions options{.temperature = 0.5,
                              .cut = {.top_k = 9, .joint = true, .top_ks = ks, .top_ps = ps},
                              .min_p = 0.001,
                              .repetition = 1.25,
                              .frequency = 0.5,
                              .presence = 0.125,
                              .counts = counts,
                              .random = {.seed = 7, .seeds = seeds, .offsets = lengths},
                              .logprobs = true};
  const NamedTensors named = run_kernel(stream, "sample",
                                        {{"logits", logits},
                                         {"top_ks", ks},
                                         {"top_ps", ps},
                                         {"counts", counts},
                                         {"seeds", seeds},
                                         {"offsets", lengths}},
                                        {{"temperature", "0.5"},
                                         {"order", "joint"},
                                         {"min_p", "0.001"},
                                         {"repetition", "1.25"},
                                         {"frequency", "0.5"},
                                         {"presence", "0.125"},
                                         {"logprobs", "true"}});
  const Sampled to{room<std::int32_t>({4}), room({4}), room<std::int32_t>({4})};
  expectPlace(sample(stream, logits, options, to).token, to.token);
  for (const auto &out : {sample(stream, logits, options), to}) {
    expectSame(out.token, named, "token");
    expectSame(*out.logprob, named, "logprob");
    expectSame(*out.rank, named, "rank");
  }
  EXPECT_FALSE(sample(stream, logits).rank);
  const auto said = tensor(device.upload(std::vector<std::int32_t>(20, 3)), {4, 5});
  expectSame(
      sample(stream, logits, {.frequency = 0.5, .prompt_tokens = said, .output_tokens = said})
          .token,
      run_kernel(stream, "sample",
                 {{"logits", logits}, {"prompt_tokens", said}, {"output_tokens", said}},
                 {{"frequency", "0.5"}}),
      "token");
  EXPECT_EQ(message<LaunchError>([&] { sample(stream, logits, {}, {{room<std::int32_t>({5})}}); }),
            "sample: token is given as i32 [5], but is i32 [4]");

  const auto probs = softmax(stream, numbers({4, 70}));
  const auto kept = room({4, 70});
  expectPlace(renormalize(stream, probs, {.top_k = 5, .top_p = 0.5}, kept), kept);
  expectSame(
      kept,
      run_kernel(stream, "renormalize", {{"probs", probs}}, {{"top_k", "5"}, {"top_p", "0.5"}}),
      "y");

  const auto drafts = tensor(device.upload(std::vector<std::int32_t>{3, 9}), {2, 1});
  const auto target = tensor(device.upload(probs.download()), {2, 2, 70});
  std::vector<float> some = kept.download();
  some.resize(2 * 70);
  const auto drafted = tensor(device.upload(some), {2, 1, 70});
  const auto u = tensor(device.upload(std::vector<float>{0.25f, 0.75f}), {2, 1});
  const NamedTensors verified = run_kernel(
      stream, "speculative_verify",
      {{"draft_tokens", drafts}, {"target_probs", target}, {"u", u}, {"draft_probs", drafted}},
      {{"seed", "3"}});
  const auto out = speculative_verify(stream, drafts, target, u, drafted, {.seed = 3});
  expectSame(out.tokens, verified, "tokens");
  expectSame(out.accepted, verified, "accepted");
  expectSame(out.emitted, verified, "emitted");
}

TEST_P(Typed, SamplingAsInTheDocs) {
  const auto logits = numbers({2, 70});
  const auto seeds = tensor(device.upload(std::vector<std::int64_t>{1, 1}), {2}),
             lengths = tensor(device.upload(std::vector<std::int64_t>{4, 4}), {2});
  // [sampling]
  SampleOptions options{.temperature = 0.7, .cut = {.top_k = 20, .top_p = 0.95}};
  options.random = {.seeds = seeds, .offsets = lengths}; // of each request, on the device
  auto [token, logprob, rank] = sample(stream, logits, options);
  // [/sampling]
  EXPECT_FALSE(logprob || rank);
  const auto first = token.download();
  EXPECT_GE(first[0], 0);
  EXPECT_LT(first[0], 70);
}

TEST_P(Typed, LinearCrossEntropy) {
  const auto x = numbers<half>({5, 24}), w = numbers<half>({40, 24}, 2);
  const auto targets = tensor(device.upload(std::vector<std::int32_t>{0, 39, 7, -1, 12}), {5});
  const auto dloss = numbers({5}, 3);
  const NamedTensors inputs{{"x", x}, {"w", w}, {"targets", targets}};
  for (const auto &[reduction, name] : {std::pair{LossReduction::mean, "mean"},
                                        {LossReduction::sum, "sum"},
                                        {LossReduction::none, "none"}}) {
    const bool isNone = reduction == LossReduction::none;
    LinearCrossEntropyOptions options{.reduction = reduction,
                                      .ignore_index = -1,
                                      .label_smoothing = 0.125,
                                      .lse_square = 0.25,
                                      .softcap = 4,
                                      .scale = 0.5};
    NamedTensors all = inputs;
    if (isNone) {
      options.dloss = dloss;
      all.emplace("dloss", dloss);
    }
    NamedTensors named = run_kernel(stream, "linear_cross_entropy", all,
                                    {{"reduction", name},
                                     {"ignore_index", "-1"},
                                     {"label_smoothing", "0.125"},
                                     {"lse_square", "0.25"},
                                     {"softcap", "4"},
                                     {"scale", "0.5"}});
    if (!isNone)
      named.at("loss").extents = named.at("loss").strides = {1};
    const LinearCrossEntropyOutputs<half> to{isNone ? room({5}) : room({1}), room({5}), room({5}),
                                             room<half>({5, 24}), room({40, 24})};
    expectPlace(linear_cross_entropy(stream, x, w, targets, options, to).dw, to.dw);
    for (const auto &out : {linear_cross_entropy(stream, x, w, targets, options), to}) {
      expectSame(out.loss, named, "loss");
      expectSame(out.lse, named, "lse");
      expectSame(out.logprob, named, "logprob");
      expectSame(out.dx, named, "dx");
      expectSame(out.dw, named, "dw");
    }
  }

  const auto classes = numbers({40}, 3);
  const NamedTensors named =
      run_kernel(stream, "linear_cross_entropy",
                 {{"x", x}, {"w", w}, {"targets", targets}, {"class_weights", classes}},
                 {{"ignore_index", "-1"}, {"argmax", "true"}});
  const auto out = linear_cross_entropy(
      stream, x, w, targets, {.ignore_index = -1, .class_weights = classes, .argmax = true});
  expectSame(*out.argmax, named, "argmax");
  expectSame(out.dx, named, "dx");
}

TEST_P(Typed, RmsNormQuantAsInTheDocs) {
  const auto x = numbers<half>({3, 200}), residual = numbers<half>({3, 200}, 2);
  const auto w = numbers<half>({200}, 3);
  const auto wanted = run_kernel(stream, "rms_norm", {{"x", x}, {"w", w}, {"residual", residual}});
  // [rms_norm_quant]
  auto [y, scales, rstd, h] =
      rms_norm_quant(stream, x, {.w = w, .residual = residual, .group = 128});
  // [/rms_norm_quant]
  expectSame(*h, wanted, "h");
  expectSame(rstd, wanted, "rstd");
  EXPECT_EQ(y.extents(), x.extents());
  EXPECT_EQ(scales.extents(), (std::array<std::int64_t, 2>{3, 2}));
}

TEST_P(Typed, RmsNormQuant) {
  const auto x = numbers<half>({3, 200});
  const auto w = numbers<half>({200}, 3);
  const auto wanted = run_kernel(
      stream, "rms_norm_quant", {{"x", x}, {"w", w}},
      {{"eps", "0.5"}, {"weight_offset", "1"}, {"out", "i8"}, {"scale_format", "power_of_two"}});
  const RmsNormQuantOutputs<std::int8_t, half, 2> to{numbers<std::int8_t>({3, 200}),
                                                     numbers<float>({3, 1}), numbers<float>({3})};
  const auto out = rms_norm_quant<std::int8_t>(
      stream, x, {.w = w, .eps = 0.5, .weight_offset = 1, .power_of_two = true}, to);
  EXPECT_EQ(out.y.data(), to.y.data());
  EXPECT_FALSE(out.h);
  expectSame(to.y, wanted, "y");
  expectSame(to.scales, wanted, "scales");
  expectSame(to.rstd, wanted, "rstd");
  EXPECT_THAT(message<LaunchError>([&] { rms_norm_quant(stream, x, {.group = 48}); }),
              HasSubstr("block"));
}

TEST_P(Typed, Conv2d) {
  const auto x = numbers({2, 4, 7, 8}), w = numbers({6, 2, 3, 2}, 2), dy = numbers({2, 6, 4, 4}, 4);
  const auto b = numbers({6}, 3);
  const KernelOptions words{{"stride_h", "2"}, {"stride_w", "2"},     {"pad_h", "2"},
                            {"pad_w", "1"},    {"dilation_h", "2"},   {"dilation_w", "3"},
                            {"groups", "2"},   {"precision", "exact"}};
  const Conv2dOptions options{.stride_h = 2,
                              .stride_w = 2,
                              .pad_h = 2,
                              .pad_w = 1,
                              .dilation_h = 2,
                              .dilation_w = 3,
                              .groups = 2,
                              .exact = true,
                              .b = b};
  const NamedTensors named = run_kernel(stream, "conv2d", {{"x", x}, {"w", w}, {"b", b}}, words);
  const auto y = conv2d(stream, x, w, options);
  expectSame(y, named, "y");
  ASSERT_EQ(y.extents(), dy.extents());
  const auto to = room({2, 6, 4, 4});
  expectPlace(conv2d(stream, x, w, options, to), to);
  expectSame(to, named, "y");
  EXPECT_EQ(message<LaunchError>([&] { conv2d(stream, x, w, options, room({2, 6, 4, 5})); }),
            "conv2d: y is given as f32 [2, 6, 4, 5], but is f32 [2, 6, 4, 4]");
  const auto images = numbers({2, 7, 8, 4}), filters = numbers({6, 3, 2, 4}, 2);
  expectSame(conv2d(stream, images, filters, {.nhwc = true}),
             run_kernel(stream, "conv2d", {{"x", images}, {"w", filters}}, {{"layout", "nhwc"}}),
             "y");

  const NamedTensors gradients =
      run_kernel(stream, "conv2d_backward", {{"x", x}, {"w", w}, {"b", b}, {"dy", dy}}, words);
  const Conv2dGradients<float> places{room({2, 4, 7, 8}), room({6, 2, 3, 2}), room({6})};
  expectPlace(*conv2d_backward(stream, x, w, dy, options, places).db, *places.db);
  for (const auto &out : {conv2d_backward(stream, x, w, dy, options), places}) {
    expectSame(out.dx, gradients, "dx");
    expectSame(out.dw, gradients, "dw");
    expectSame(*out.db, gradients, "db");
  }
  EXPECT_EQ(message<LaunchError>([&] {
              conv2d_backward(stream, x, w, dy, options, {{places.dx, places.dx, places.db}});
            }),
            "conv2d_backward: dw is given as f32 [2, 4, 7, 8], but is f32 [6, 2, 3, 2]");
}

// [example]
// One step of a layer, in memory that the caller has.
void block(const Stream &stream, const Tensor<half, 2> &x, const Tensor<half, 1> &w,
           const Tensor<half, 2> &up, const Tensor<half, 2> &to) {
  const auto normed = rms_norm(stream, x, {.w = w});
  matmul(stream, normed.y, up, {.activation = MatmulActivation::silu, .residual = x}, to);
}
// [/example]

TEST_P(Typed, CallsMakeAStep) {
  const auto x = numbers<half>({16, 32}), up = numbers<half>({32, 32}, 2);
  const auto w = numbers<half>({32}, 3);
  const auto to = room<half>({16, 32});
  block(stream, x, w, up, to);
  const NamedTensors normed = run_kernel(stream, "rms_norm", {{"x", x}, {"w", w}});
  expectSame(to,
             run_kernel(stream, "matmul", {{"a", normed.at("y")}, {"b", up}, {"residual", x}},
                        {{"activation", "silu"}}),
             "c");
}
