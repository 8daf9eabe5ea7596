// The typed functions of <sectile/recurrent.h>.
#include "TypedTest.h"
#include <sectile/recurrent.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

SECTILE_INSTANTIATE_ON(Typed, "interpreter,virtual:sm_80");

TEST_P(Typed, CausalConv) {
  const auto x = numbers({1, 7, 5}), dy = numbers({1, 7, 5}, 4), state = numbers({2, 5, 2}, 5),
             dstate = numbers({2, 5, 2}, 6);
  const auto w = numbers({5, 3}, 2);
  const auto b = numbers({5}, 3);
  const auto ends = tensor(device.upload(std::vector<std::int32_t>{0, 1, 7}), {3});
  const KernelOptions words{{"activation", "none"}};
  const CausalConvOptions options{
      .silu = false, .b = b, .initial_state = state, .cu_seqlens = ends};
  NamedTensors inputs{{"x", x}, {"w", w}, {"b", b}, {"initial_state", state}, {"cu_seqlens", ends}};
  const auto named = run_kernel(stream, "causal_conv1d", inputs, words);
  const CausalConvOutputs<float> to{room({1, 7, 5}), room({2, 5, 2})};
  const auto out = causal_conv1d(stream, x, w, options, to);
  expectPlace(out.y, to.y);
  expectPlace(out.final_state, to.final_state);
  expectSame(out.y, named, "y");
  expectSame(out.final_state, named, "final_state");

  inputs.insert({{"dy", dy}, {"dfinal_state", dstate}});
  const auto wanted = run_kernel(stream, "causal_conv1d_backward", inputs, words);
  const auto gradients = causal_conv1d_backward(stream, x, w, dy, options, dstate);
  expectSame(gradients.dx, wanted, "dx");
  expectSame(gradients.dw, wanted, "dw");
  expectSame(*gradients.db, wanted, "db");
  expectSame(*gradients.dinitial_state, wanted, "dinitial_state");
  EXPECT_FALSE(causal_conv1d_backward(stream, x, w, dy).db);
  EXPECT_THAT(message<LaunchError>([&] { causal_conv1d(stream, x, numbers({5, 5})); }),
              HasSubstr("2, 3 or 4"));
}

TEST_P(Typed, CausalConvUpdateAsInTheDocs) {
  const auto x = numbers<half>({2, 1, 8}), pool = numbers<half>({5, 8, 3}, 2);
  const auto w = numbers<half>({8, 4}, 3);
  const auto b = numbers<half>({8}, 4);
  const auto rows = tensor(device.upload(std::vector<std::int32_t>{4, 0}), {2});
  const auto named = run_kernel(stream, "causal_conv1d_update",
                                {{"x", x}, {"w", w}, {"b", b}, {"state", pool}, {"indices", rows}});
  // [causal_conv1d_update]
  // One step of each sequence; its state is row rows[s] of the pool, where the new one goes.
  auto y = causal_conv1d_update(stream, x, w, pool, {.b = b, .indices = rows});
  // [/causal_conv1d_update]
  expectSame(y, named, "y");
  expectSame(pool, named, "state_out");
}

TEST_P(Typed, RmsNormGatedAsInTheDocs) {
  const auto x = numbers<half>({2, 3, 40}), z = numbers<half>({2, 3, 40}, 2),
             dy = numbers<half>({2, 3, 40}, 4);
  const auto w = numbers<half>({40}, 3);
  const auto named = run_kernel(stream, "rms_norm_gated", {{"x", x}, {"z", z}, {"w", w}});
  // [rms_norm_gated]
  auto [y, rstd] = rms_norm_gated(stream, x, z, {.w = w});
  auto [dx, dz, dw] = rms_norm_gated_backward(stream, x, z, rstd, dy, {.w = w});
  // [/rms_norm_gated]
  expectSame(y, named, "y");
  expectSame(rstd, named, "rstd");
  const auto wanted =
      run_kernel(stream, "rms_norm_gated_backward",
                 {{"x", x}, {"z", z}, {"w", w}, {"rstd", named.at("rstd")}, {"dy", dy}});
  expectSame(dx, wanted, "dx");
  expectSame(dz, wanted, "dz");
  expectSame(*dw, wanted, "dw");
}

TEST_P(Typed, RmsNormGated) {
  const auto x = numbers({3, 50}), z = numbers({3, 50}, 2), dy = numbers({3, 50}, 4);
  const KernelOptions words{{"activation", "sigmoid"}, {"norm_before_gate", "false"}};
  KernelOptions forward = words;
  forward["eps"] = "0.5";
  const RmsNormGatedOptions options{
      .eps = 0.5, .gate = NormGate::sigmoid, .norm_before_gate = false};
  const auto named = run_kernel(stream, "rms_norm_gated", {{"x", x}, {"z", z}}, forward);
  const RmsNormGatedOutputs<float, 2> to{room({3, 50}), room({3})};
  const auto out = rms_norm_gated(stream, x, z, options, to);
  expectPlace(out.y, to.y);
  expectSame(to.y, named, "y");
  expectSame(to.rstd, named, "rstd");
  const auto wanted =
      run_kernel(stream, "rms_norm_gated_backward",
                 {{"x", x}, {"z", z}, {"rstd", named.at("rstd")}, {"dy", dy}}, words);
  const RmsNormGatedGradients<float, 2> place{room({3, 50}), room({3, 50})};
  const auto gradients = rms_norm_gated_backward(stream, x, z, to.rstd, dy, options, place);
  expectPlace(gradients.dz, place.dz);
  expectSame(place.dx, wanted, "dx");
  expectSame(place.dz, wanted, "dz");
  EXPECT_FALSE(gradients.dw);
}

TEST_P(Typed, DeltaStepAsInTheDocs) {
  const auto q = numbers<half>({2, 1, 2, 16}), k = numbers<half>({2, 1, 2, 16}, 2),
             v = numbers<half>({2, 1, 4, 8}, 3);
  const auto beta = numbers<half>({2, 1, 4}, 4), a = numbers<half>({2, 1, 4}, 5);
  const auto A_log = numbers({4}, 6), bias = numbers({4}, 7);
  const auto pool = numbers({5, 4, 8, 16}, 8);
  const auto rows = tensor(device.upload(std::vector<std::int32_t>{4, 0}), {2});
  const auto named = run_kernel(stream, "delta_step",
                                {{"q", q},
                                 {"k", k},
                                 {"v", v},
                                 {"beta", beta},
                                 {"g", a},
                                 {"A_log", A_log},
                                 {"dt_bias", bias},
                                 {"indices", rows},
                                 {"state", pool}},
                                {{"qk_l2norm", "true"}, {"beta_sigmoid", "true"}});
  // [delta_step]
  // One step of each sequence; its states are row rows[b] of the pool, where the new ones go.
  auto o = delta_step(stream, q, k, v, pool,
                      {.beta = beta,
                       .g = a,
                       .A_log = A_log,
                       .dt_bias = bias,
                       .indices = rows,
                       .qk_l2norm = true,
                       .beta_sigmoid = true});
  // [/delta_step]
  expectSame(o, named, "o");
  expectSame(pool, named, "state_out");
}

TEST_P(Typed, DeltaStep) {
  const auto q = numbers({1, 2, 1, 16}), k = numbers({1, 2, 1, 16}, 2),
             v = numbers({1, 2, 2, 8}, 3), z = numbers({1, 2, 2, 8}, 4),
             gk = numbers({1, 2, 2, 16}, 9);
  const auto g = numbers({1, 2, 2}, 5);
  const auto A_log = numbers({2}, 6), D = numbers({2}, 7);
  for (const auto &[rule, gate] : {std::pair(DeltaStepRule::mamba2, DecayGate::softplus),
                                   {DeltaStepRule::add, DecayGate::sigmoid}}) {
    const auto pool = numbers<bfloat16>({1, 2, 16, 8}, 8);
    const bool isMamba = rule == DeltaStepRule::mamba2;
    const auto named = run_kernel(stream, "delta_step",
                                  {{"q", q},
                                   {"k", k},
                                   {"v", v},
                                   {"g", g},
                                   {"gk", gk},
                                   {"A_log", A_log},
                                   {"D", D},
                                   {"z", z},
                                   {"state", pool}},
                                  {{"rule", isMamba ? "mamba2" : "add"},
                                   {"gate", isMamba ? "softplus" : "sigmoid"},
                                   {"lower_bound", "-3"},
                                   {"scale", "0.5"},
                                   {"allow_negative", "true"},
                                   {"state_layout", "kv"},
                                   {"keep_states", "true"}});
    const auto to = room({1, 2, 2, 8});
    const auto states = room<bfloat16>({1, 2, 2, 16, 8});
    const auto o = delta_step(stream, q, k, v, pool,
                              {.g = g,
                               .gk = gk,
                               .A_log = A_log,
                               .D = D,
                               .z = z,
                               .rule = rule,
                               .scale = 0.5,
                               .gate = gate,
                               .lower_bound = -3,
                               .allow_negative = true,
                               .state_kv = true,
                               .states = states},
                              to);
    expectPlace(o, to);
    expectSame(to, named, "o");
    expectSame(pool, named, "state_out");
    expectSame(states, named, "states");
  }
  EXPECT_THAT(message<LaunchError>([&] {
                delta_step(stream, q, k, v, numbers({1, 2, 8, 16}), {.beta_sigmoid = true});
              }),
              HasSubstr("there is no beta"));
}

TEST_P(Typed, Rwkv7StepAsInTheDocs) {
  const auto r = numbers<half>({2, 1, 2, 16}), k = numbers<half>({2, 1, 2, 16}, 2),
             v = numbers<half>({2, 1, 2, 8}, 3), a = numbers<half>({2, 1, 2, 16}, 4),
             b = numbers<half>({2, 1, 2, 16}, 5), w = numbers<half>({2, 1, 2, 16}, 6);
  const auto pool = numbers<bfloat16>({5, 2, 8, 16}, 8);
  const auto rows = tensor(device.upload(std::vector<std::int32_t>{4, 0}), {2});
  const auto named = run_kernel(stream, "rwkv7_step",
                                {{"q", r},
                                 {"k", k},
                                 {"v", v},
                                 {"a", a},
                                 {"b", b},
                                 {"g", w},
                                 {"indices", rows},
                                 {"state", pool}},
                                {{"gate", "sigmoid"}, {"lower_bound", "-0.6065306597126334"}});
  // [rwkv7_step]
  // In C++, it is delta_step with this rule. w is [B, T, Hv, K].
  auto o = delta_step(stream, r, k, v, pool,
                      {.g = w,
                       .a = a,
                       .b = b,
                       .indices = rows,
                       .rule = StateRule::rwkv7,
                       .gate = DecayGate::sigmoid,
                       .lower_bound = -0.6065306597126334});
  // [/rwkv7_step]
  expectSame(o, named, "o");
  expectSame(pool, named, "state_out");
  EXPECT_THAT(message<LaunchError>(
                  [&] { delta_step(stream, r, k, v, pool, {.a = a, .rule = StateRule::rwkv7}); }),
              HasSubstr("rwkv7_step"));
}

TEST_P(Typed, DeltaRule) {
  const auto q = numbers<half>({1, 20, 1, 16}), k = numbers<half>({1, 20, 1, 16}, 2),
             v = numbers<half>({1, 20, 2, 24}, 3);
  const auto beta = numbers({1, 20, 2}, 4);
  const auto g = numbers<half>({1, 20, 2}, 5);
  const auto speed = numbers({2}, 6), bias = numbers({2}, 7);
  const auto state = numbers({2, 2, 24, 16}, 8);
  const auto starts = tensor(device.upload(std::vector<std::int32_t>{0, 7, 20}), {3});
  const NamedTensors inputs{{"q", q},         {"k", k},          {"v", v},
                            {"beta", beta},   {"g", g},          {"initial_state", state},
                            {"A_log", speed}, {"dt_bias", bias}, {"cu_seqlens", starts}};
  for (const auto &[gate, name] :
       {std::pair{DecayGate::softplus, "softplus"}, {DecayGate::sigmoid, "sigmoid"}}) {
    const KernelOptions words{{"scale", "0.5"},         {"qk_l2norm", "true"},
                              {"gate", name},           {"lower_bound", "-2"},
                              {"beta_sigmoid", "true"}, {"allow_negative", "true"},
                              {"state_layout", "vk"}};
    const NamedTensors named = run_kernel(stream, "delta_rule", inputs, words);
    const DeltaRuleOptions options{.g = g,
                                   .scale = 0.5,
                                   .qk_l2norm = true,
                                   .gate = gate,
                                   .lower_bound = -2,
                                   .A_log = speed,
                                   .dt_bias = bias,
                                   .beta_sigmoid = true,
                                   .allow_negative = true,
                                   .initial_state = state,
                                   .state_vk = true,
                                   .cu_seqlens = starts};
    const DeltaRuleOutputs<half> to{room<half>({1, 20, 2, 24}), room({2, 2, 24, 16})};
    expectPlace(delta_rule(stream, q, k, v, beta, options, to).o, to.o);
    for (const auto &out : {delta_rule(stream, q, k, v, beta, options), to}) {
      expectSame(out.o, named, "o");
      expectSame(out.final_state, named, "final_state");
    }

    const auto dO = numbers<half>({1, 20, 2, 24}, 9);
    NamedTensors all = inputs;
    all.emplace("do", dO);
    all.emplace("dfinal_state", state);
    const NamedTensors gradients = run_kernel(stream, "delta_rule_backward", all, words);
    const DeltaRuleGradients<half> given{.dq = room<half>({1, 20, 1, 16}),
                                         .dk = room<half>({1, 20, 1, 16}),
                                         .dv = room<half>({1, 20, 2, 24}),
                                         .dbeta = room({1, 20, 2}),
                                         .dg = room<half>({1, 20, 2}),
                                         .dA_log = room({2}),
                                         .ddt_bias = room({2}),
                                         .dinitial_state = room({2, 2, 24, 16})};
    expectPlace(delta_rule_backward(stream, q, k, v, beta, dO, options, state, given).dq, given.dq);
    for (const auto &out :
         {delta_rule_backward(stream, q, k, v, beta, dO, options, state), given}) {
      expectSame(out.dq, gradients, "dq");
      expectSame(out.dk, gradients, "dk");
      expectSame(out.dv, gradients, "dv");
      expectSame(out.dbeta.value().as<float, 3>(), gradients, "dbeta");
      expectSame(out.dg.value().as<half, 3>(), gradients, "dg");
      expectSame(out.dA_log.value(), gradients, "dA_log");
      expectSame(out.ddt_bias.value().as<float, 1>(), gradients, "ddt_bias");
      expectSame(out.dinitial_state.value(), gradients, "dinitial_state");
    }
  }
  EXPECT_THAT(message<LaunchError>([&] {
                delta_rule(stream, q, k, v, beta, {.gate = DecayGate::none, .A_log = speed});
              }),
              HasSubstr("A_log is the gate's"));
}

TEST_P(Typed, DeltaRuleByChannel) {
  const auto q = numbers<bfloat16>({1, 20, 1, 16}), k = numbers<bfloat16>({1, 20, 1, 16}, 2),
             v = numbers<bfloat16>({1, 20, 2, 24}, 3), a = numbers<bfloat16>({1, 20, 1, 16}, 4),
             b = numbers<bfloat16>({1, 20, 1, 16}, 5);
  const auto beta = numbers({1, 20, 2}, 6);
  const auto g = numbers({1, 20, 2, 16}, 7);
  const auto speed = numbers({2}, 8);
  const auto bias = numbers({2, 16}, 9);
  // [kda]
  // A decay for each channel: g is [B, T, Hv, K], and dt_bias is [Hv, K].
  auto [o, states] = delta_rule(
      stream, q, k, v, beta,
      {.g = g, .qk_l2norm = true, .A_log = speed, .dt_bias = bias, .beta_sigmoid = true});
  // [/kda]
  NamedTensors inputs{{"q", q}, {"k", k},         {"v", v},         {"beta", beta},
                      {"g", g}, {"A_log", speed}, {"dt_bias", bias}};
  const KernelOptions words{{"qk_l2norm", "true"}, {"beta_sigmoid", "true"}};
  const NamedTensors named = run_kernel(stream, "kda", inputs, words);
  expectSame(o, named, "o");
  expectSame(states, named, "final_state");
  const auto dO = numbers<bfloat16>({1, 20, 2, 24}, 10);
  inputs.emplace("do", dO);
  const NamedTensors gradients = run_kernel(stream, "kda_backward", inputs, words);
  // [kda_backward]
  auto given = delta_rule_backward(
      stream, q, k, v, beta, dO,
      {.g = g, .qk_l2norm = true, .A_log = speed, .dt_bias = bias, .beta_sigmoid = true});
  // [/kda_backward]
  expectSame(given.dk, gradients, "dk");
  expectSame(given.dg.value().as<float, 4>(), gradients, "dg");
  expectSame(given.ddt_bias.value().as<float, 2>(), gradients, "ddt_bias");
  EXPECT_FALSE(given.da);

  const DeltaRuleOptions options{.rule = StateRule::rwkv7, .g = g, .a = a, .b = b};
  inputs = {{"q", q}, {"k", k}, {"v", v}, {"g", g}, {"a", a}, {"b", b}};
  expectSame(delta_rule(stream, q, k, v, {}, options).o, run_kernel(stream, "rwkv7", inputs), "o");
  inputs.emplace("do", dO);
  const NamedTensors ofRwkv = run_kernel(stream, "rwkv7_backward", inputs);
  const DeltaRuleGradients<bfloat16> to{.dq = room<bfloat16>({1, 20, 1, 16}),
                                        .dk = room<bfloat16>({1, 20, 1, 16}),
                                        .dv = room<bfloat16>({1, 20, 2, 24}),
                                        .da = room<bfloat16>({1, 20, 1, 16}),
                                        .db = room<bfloat16>({1, 20, 1, 16})};
  expectPlace(delta_rule_backward(stream, q, k, v, {}, dO, options, {}, to).da.value(),
              to.da.value());
  for (const auto &out : {delta_rule_backward(stream, q, k, v, {}, dO, options), to}) {
    expectSame(out.dq, ofRwkv, "dq");
    expectSame(out.da.value(), ofRwkv, "da");
    expectSame(out.db.value(), ofRwkv, "db");
  }
}

TEST_P(Typed, MambaByChunks) {
  const auto C = numbers<half>({1, 20, 1, 16}), B = numbers<half>({1, 20, 1, 16}, 2),
             x = numbers<half>({1, 20, 2, 24}, 3), z = numbers<half>({1, 20, 2, 24}, 4),
             dO = numbers<half>({1, 20, 2, 24}, 9);
  const auto dt = numbers<half>({1, 20, 2}, 5);
  const auto A_log = numbers({2}, 6), bias = numbers({2}, 7), D = numbers({2}, 8);
  const auto starts = tensor(device.upload(std::vector<std::int32_t>{0, 7, 20}), {3});
  NamedTensors inputs{{"q", C},  {"k", B},         {"v", x},
                      {"g", dt}, {"A_log", A_log}, {"dt_bias", bias},
                      {"D", D},  {"z", z},         {"cu_seqlens", starts}};
  const KernelOptions words{{"rule", "mamba2"}, {"dt_max", "0.5"}};
  const NamedTensors named = run_kernel(stream, "delta_rule", inputs, words);
  // [mamba2]
  // y of x, with the states at the ends of packed sequences.
  auto [y, states] = delta_rule(stream, C, B, x, {},
                                {.rule = StateRule::mamba2,
                                 .g = dt,
                                 .A_log = A_log,
                                 .dt_bias = bias,
                                 .dt_max = 0.5,
                                 .D = D,
                                 .z = z,
                                 .cu_seqlens = starts});
  // [/mamba2]
  expectSame(y, named, "o");
  expectSame(states, named, "final_state");
  inputs.emplace("do", dO);
  const NamedTensors gradients = run_kernel(stream, "delta_rule_backward", inputs, words);
  const auto out = delta_rule_backward(stream, C, B, x, {}, dO,
                                       {.rule = StateRule::mamba2,
                                        .g = dt,
                                        .A_log = A_log,
                                        .dt_bias = bias,
                                        .dt_max = 0.5,
                                        .D = D,
                                        .z = z,
                                        .cu_seqlens = starts});
  expectSame(out.dv, gradients, "dv");
  expectSame(out.dg.value().as<half, 3>(), gradients, "dg");
  expectSame(out.dD.value(), gradients, "dD");
  expectSame(out.dz.value(), gradients, "dz");
  EXPECT_FALSE(out.dbeta);
}
