// The typed functions of <sectile/experts.h>, with codes too.
#include "TypedTest.h"
#include <algorithm>
#include <sectile/experts.h>

using namespace sectile;
using namespace sectile::test;

SECTILE_INSTANTIATE_ON(Typed, "interpreter,virtual:sm_80");

TEST_P(Typed, MixtureOfExperts) {
  const auto logits = numbers({6, 8});
  const auto bias = numbers({8}, 3);
  const NamedTensors routed = run_kernel(stream, "moe_route", {{"logits", logits}, {"bias", bias}},
                                         {{"k", "3"},
                                          {"scoring", "sigmoid"},
                                          {"n_group", "4"},
                                          {"topk_group", "2"},
                                          {"renormalize", "true"},
                                          {"scale", "2.5"}});
  const MoeRouteOptions options{.k = 3,
                                .scoring = MoeScoring::sigmoid,
                                .bias = bias,
                                .n_group = 4,
                                .topk_group = 2,
                                .renormalize = true,
                                .scale = 2.5};
  const MoeRouted to{room({6, 3}), room<std::int32_t>({6, 3})};
  expectPlace(moe_route(stream, logits, options, to).weights, to.weights);
  for (const auto &out : {moe_route(stream, logits, options), to}) {
    expectSame(out.weights, routed, "weights");
    expectSame(out.experts, routed, "experts");
  }
  for (const auto &[scoring, name] :
       {std::pair{MoeScoring::softmax, "softmax"}, {MoeScoring::chosen, "chosen"}})
    expectSame(moe_route(stream, logits, {.scoring = scoring}).weights,
               run_kernel(stream, "moe_route", {{"logits", logits}}, {{"scoring", name}}),
               "weights");

  const NamedTensors placed = run_kernel(stream, "moe_permute", {{"experts", to.experts}},
                                         {{"count", "5"}, {"first", "1"}});
  const MoePlaces places = moe_permute(stream, to.experts, {.count = 5, .first = 1});
  expectSame(places.counts, placed, "counts");
  expectSame(places.offsets, placed, "offsets");
  expectSame(places.order, placed, "order");
  expectSame(places.tokens, placed, "tokens");
  expectSame(places.inverse, placed, "inverse");

  const MoePlaces all = moe_permute(stream, to.experts, {.count = 8});
  const auto x = numbers({6, 24}), ofUp = numbers({8, 32}, 4);
  const auto up = numbers({8, 32, 24}, 2);
  for (const auto &[gate, name] : {std::pair{MoeGate::none, "none"},
                                   {MoeGate::interleaved, "interleaved"},
                                   {MoeGate::concatenated, "concatenated"}})
    expectSame(moe_up(stream, x, up, all.counts, all.tokens, {.gate = gate, .trans_w = true}),
               run_kernel(stream, "moe_up",
                          {{"x", x}, {"w", up}, {"counts", all.counts}, {"rows", all.tokens}},
                          {{"gate", name}, {"trans_w", "true"}}),
               "h");
  const auto h = room({18, 16});
  expectPlace(moe_up(stream, x, up, all.counts, all.tokens,
                     {.gate = MoeGate::interleaved,
                      .alpha = 1.5,
                      .limit = 0.75,
                      .up_offset = 1,
                      .bias = ofUp,
                      .trans_w = true},
                     h),
              h);
  expectSame(
      h,
      run_kernel(
          stream, "moe_up",
          {{"x", x}, {"w", up}, {"counts", all.counts}, {"rows", all.tokens}, {"bias", ofUp}},
          {{"gate", "interleaved"},
           {"alpha", "1.5"},
           {"limit", "0.75"},
           {"up_offset", "1"},
           {"trans_w", "true"}}),
      "h");
  const auto down = numbers({8, 16, 24}, 5);
  const auto ofDown = numbers({8, 24}, 6), addend = numbers({6, 24});
  const auto y = room({6, 24});
  expectPlace(moe_down(stream, h, down, all.counts, all.inverse, to.weights,
                       {.bias = ofDown, .addend = addend}, y),
              y);
  expectSame(y,
             run_kernel(stream, "moe_down",
                        {{"h", h},
                         {"w", down},
                         {"counts", all.counts},
                         {"inverse", all.inverse},
                         {"weights", to.weights},
                         {"bias", ofDown},
                         {"addend", addend}}),
             "y");
}

TEST_P(Typed, MixtureOfExpertsAsInTheDocs) {
  const auto logits = numbers({6, 4}), x = numbers({6, 24});
  const auto up = numbers({4, 24, 32}, 2), down = numbers({4, 16, 24}, 5);
  // [experts]
  const auto [weights, experts] = moe_route(stream, logits, {.k = 2, .renormalize = true});
  const auto places = moe_permute(stream, experts, {.count = 4});
  const auto h = moe_up(stream, x, up, places.counts, places.tokens);
  const auto y = moe_down(stream, h, down, places.counts, places.inverse, weights);
  // [/experts]
  EXPECT_EQ(y.extents(), x.extents());
  EXPECT_TRUE(std::isfinite(y.download()[0]));
}

// Rows of one matrix as those of several.
template <class T> static Tensor<T, 3> asExperts(const Tensor<T, 2> &rows, std::int64_t experts) {
  const std::int64_t each = rows.extent(0) / experts, width = rows.extent(1);
  return {rows.data(), {experts, each, width}, {each * width, width, 1}, rows.memory()};
}

TEST_P(Typed, Fp8ExpertsAsInTheDocs) {
  const auto blocks = [&](std::int64_t n, std::int64_t k, int seed) {
    const auto codes = run_kernel(stream, "quantize", {{"x", numbers<bfloat16>({4 * n, k}, seed)}},
                                  {{"granularity", "block"}});
    return std::pair{asExperts(codes.at("y").as<float8_e4m3, 2>(), 4),
                     asExperts(codes.at("scales").as<float, 2>(), 4)};
  };
  const auto logits = numbers({6, 4});
  const auto input = run_kernel(stream, "quantize", {{"x", numbers<bfloat16>({6, 256})}});
  const auto x = input.at("y").as<float8_e4m3, 2>();
  const auto x_scales = input.at("scales");
  const auto [up, up_scales] = blocks(512, 256, 2);
  const auto [down, down_scales] = blocks(256, 256, 3);
  const auto [weights, experts] = moe_route(stream, logits, {.k = 2, .renormalize = true});
  const auto places = moe_permute(stream, experts, {.count = 4});
  // [fp8_experts]
  // Matrices are float8_e4m3 [experts, N, K], their scales float [experts, N / 128, K / 128].
  const auto h = moe_up(stream, x, up, places.counts, places.tokens,
                        {.x_scales = x_scales, .w_scales = up_scales});
  const auto codes = run_kernel(stream, "quantize", {{"x", h}});
  const auto y =
      moe_down(stream, codes.at("y").as<float8_e4m3, 2>(), down, places.counts, places.inverse,
               weights, {.h_scales = codes.at("scales"), .w_scales = down_scales});
  // [/fp8_experts]
  EXPECT_EQ(y.extents(), (std::array<std::int64_t, 2>{6, 256}));
  const auto values = y.download();
  EXPECT_TRUE(std::ranges::all_of(
      values, [](bfloat16 value) { return std::isfinite(static_cast<float>(value)); }));
  EXPECT_NE(static_cast<float>(values[0]), 0);
  expectSame(h,
             run_kernel(stream, "moe_up",
                        {{"x", x},
                         {"w", up},
                         {"counts", places.counts},
                         {"rows", places.tokens},
                         {"x_scales", x_scales},
                         {"w_scales", up_scales}}),
             "h");
}

TEST_P(Typed, Mxfp4Experts) {
  const auto x = numbers<bfloat16>({6, 64});
  const auto bytes = [&](const detail::Length(&extents)[3], int factor, int first, int range) {
    std::vector<std::uint8_t> values;
    for (int i = 0; i < extents[0].value * extents[1].value * extents[2].value; ++i)
      values.push_back(static_cast<std::uint8_t>(first + i * factor % range));
    return tensor(device.upload(values), extents);
  };
  const auto up = bytes({4, 40, 32}, 37, 0, 256), up_scales = bytes({4, 40, 2}, 1, 122, 4),
             down = bytes({4, 64, 10}, 41, 0, 256), down_scales = bytes({4, 64, 1}, 1, 121, 5);
  const auto [weights, experts] = moe_route(stream, numbers({6, 4}), {.k = 2, .renormalize = true});
  const auto places = moe_permute(stream, experts, {.count = 4});
  const auto h = moe_up(stream, x, up, places.counts, places.tokens,
                        {.gate = MoeGate::interleaved, .w_scales = up_scales});
  expectSame(h,
             run_kernel(stream, "moe_up",
                        {{"x", x},
                         {"w", up},
                         {"counts", places.counts},
                         {"rows", places.tokens},
                         {"w_scales", up_scales}},
                        {{"w_format", "mxfp4"}, {"gate", "interleaved"}}),
             "h");
  const auto y = room<bfloat16>({6, 64});
  expectPlace(moe_down(stream, h, down, places.counts, places.inverse, weights,
                       {.w_scales = down_scales}, y),
              y);
  expectSame(y,
             run_kernel(stream, "moe_down",
                        {{"h", h},
                         {"w", down},
                         {"counts", places.counts},
                         {"inverse", places.inverse},
                         {"weights", weights},
                         {"w_scales", down_scales}}),
             "y");
}

TEST_P(Typed, SumsOfChoicesAndGradients) {
  const auto parts = numbers({7, 40}), dy = numbers({3, 40}, 2), addend = numbers({3, 40}, 3);
  const auto inverse = tensor(device.upload(std::vector<std::int32_t>{6, 0, 3, -1, 2, 5}), {3, 2});
  const auto weights = numbers({3, 2}, 4);
  const auto y = room({3, 40});
  expectPlace(moe_combine(stream, parts, inverse, {.weights = weights, .addend = addend}, y), y);
  expectSame(
      y,
      run_kernel(
          stream, "moe_combine",
          {{"parts", parts}, {"inverse", inverse}, {"weights", weights}, {"addend", addend}}),
      "y");
  const MoeCombineGradients<float> to{room({7, 40}), room({3, 2})};
  const auto named =
      run_kernel(stream, "moe_combine_backward",
                 {{"parts", parts}, {"inverse", inverse}, {"weights", weights}, {"dy", dy}});
  const auto gradients = moe_combine_backward(stream, parts, inverse, dy, {.weights = weights}, to);
  expectPlace(gradients.dparts, to.dparts);
  for (const auto &out : {gradients, to}) {
    expectSame(out.dparts, named, "dparts");
    expectSame(*out.dweights, named, "dweights");
  }
  EXPECT_FALSE(moe_combine_backward(stream, parts, inverse, dy).dweights);

  const auto logits = numbers({6, 8}), dweights = numbers({6, 3}, 5);
  const MoeRouteOptions options{
      .k = 3, .scoring = MoeScoring::sigmoid, .renormalize = true, .scale = 2.5};
  const auto experts = moe_route(stream, logits, options).experts;
  expectSame(
      moe_route_backward(stream, logits, experts, dweights, options),
      run_kernel(stream, "moe_route_backward",
                 {{"logits", logits}, {"experts", experts}, {"dweights", dweights}},
                 {{"k", "3"}, {"scoring", "sigmoid"}, {"renormalize", "true"}, {"scale", "2.5"}}),
      "dlogits");
}
