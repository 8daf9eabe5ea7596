// Arguments, options and checks of the delta rule's kernels. Refused: K beyond 256, Hv that is no
// multiple of Hk, options and inputs that do not go together.
#include "kernels/recurrent/DeltaSpec.h"
#include "kernels/calls/Use.h"
#include "kernels/references/Sample.h"
#include "kernels/registry/Contents.h"
#include <cmath>

using namespace sectile;
using namespace sectile::delta;

namespace {

// Vectors no longer than sqrt(2), so that with beta up to 1 the states stay bounded, and none near
// 0, where norms are steep.
void sampleKeys(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  const double most =
      std::sqrt(2.0 / static_cast<double>(std::max<std::int64_t>(call.extent("K"), 1)));
  std::uniform_real_distribution<double> number(0.5 * most, most);
  fillDrawn(array, [&] { return random() % 2 ? number(random) : -number(random); });
}

void sampleLogs(const Invocation &, HostArray &logs, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  fillDrawn(logs, [&] { return -0.5 * std::abs(normal(random)); });
}

} // namespace

void delta::sampleWrites(const Invocation &call, std::span<HostArray> inputs) {
  std::vector<double> values = inputs[call.index("a")].to_double();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= -static_cast<double>(1 + i % 7) / 8;
  inputs[call.index("b")].assign(values);
}

std::vector<std::string> delta::storedStates(std::vector<std::string> axes,
                                             const OptionValues &options) {
  if ((options.choice("state_layout") == "vk") != (axes.back() == "K"))
    std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
  return axes;
}

std::vector<ArgumentRow> delta::inputs(const DeltaForm &form) {
  const auto &[isByChannel, isRwkv, hasPool] = form;
  std::vector<ArgumentRow> rows{
      {"q: [B, T, Hk, K] f16|bf16|f32",
       hasPool ? "queries of T new steps of B sequences; K is at most 256"
               : "queries; K is at most 256",
       {.sample = sampleKeys}},
      {"k: [B, T, Hk, K] like q",
       isRwkv ? "keys" : "keys; where beta k^T k is above 2 the state grows without bound",
       {.sample = sampleKeys}},
      {"v: [B, T, Hv, V] like q", "values; Hv is a multiple of Hk"}};
  const auto add = [&](std::initializer_list<ArgumentRow> more) { rows.insert(rows.end(), more); };
  if (isRwkv)
    add({{"a: [B, T, Hk, K] like q",
          "what a step reads of the state before it",
          {.sample = sampleKeys}},
         {"b: [B, T, Hk, K] like q",
          std::string("where it writes that; the state stays bounded if diag(e^g) + ") +
              (hasPool ? "a b^T" : "b a^T") + " lengthens nothing",
          {.sample = sampleKeys}}});
  add({{"beta?: [B, T, Hv] f32|f16|bf16",
        isRwkv ? "v is multiplied by it; 1 if left out"
               : "how much of what the key stood for is replaced: from 0 to 1, or to 2; 1 if left "
                 "out",
        {.sample = sampleUniform(0, 1)}},
       {isByChannel ? "g?: [B, T, Hv, K] f32|f16|bf16" : "g?: [B, T, Hv] f32|f16|bf16",
        std::string("logarithm of each ") + (isByChannel ? "channel" : "step") +
            "'s decay, or what the gate makes it of; 0 if left out",
        {.sample = sampleLogs}}});
  if (hasPool && !isByChannel)
    add({{"gk?: [B, T, Hv, K] f32",
          "the same for each channel of the keys, without a gate; added to g",
          {.sample = sampleLogs}}});
  add({{"A_log?: [Hv] f32", "of the gate; 0 if left out", {.sample = sampleUniform(-1, 1)}},
       {isByChannel ? "dt_bias?: [Hv, K] f32" : "dt_bias?: [Hv] f32", "of the gate; 0 if left out"},
       {"D?: [Hv] f32", "D v is added to o; 0 if left out"},
       {"z?: [B, T, Hv, V] like q", "o is multiplied by silu(z)"}});
  if (hasPool)
    add({{"state: [P, Hv, V, K] f32|bf16", "the states of sequences", {.stored = storedStates}},
         {"indices?: [B] i32",
          "sequence b has row indices[b] of state; none if that is -1. Row b if left out",
          {.sample = sampleRows("P")}}});
  else
    add({{"initial_state?: [N, Hv, K, V] f32",
          "the state before each sequence; zeros if left out",
          {.stored = storedStates}},
         packedArgument("N1")});
  return rows;
}

std::vector<OptionRow> delta::options(const DeltaForm &form) {
  const auto &[isByChannel, isRwkv, hasPool] = form;
  const bool hasMamba = !isByChannel;
  std::vector<OptionRow> rows;
  if (!isRwkv)
    rows.push_back(
        {hasMamba ? "rule: delta|add|mamba2 = delta" : "rule: delta|add = delta",
         std::string("a step adds beta (v - ") + (hasPool ? "S k)" : "S^T k)") +
             (hasMamba ? ", beta v, or beta v with beta = softplus(g + dt_bias)" : " or beta v")});
  rows.insert(
      rows.end(),
      {{"scale: number e.g. 0.7", isRwkv ? "of the queries; 1 if not given"
                                  : hasMamba
                                      ? "of the queries; 1/sqrt(K) if not given, with mamba2 1"
                                      : "of the queries; 1/sqrt(K) if not given"},
       {"qk_l2norm: flag = false", "q and k are divided by sqrt(sum of squares + 1e-6)"},
       {"gate: none|softplus|sigmoid",
        std::string("the decay's logarithm is g, -e^A_log softplus(g + dt_bias), or lower_bound "
                    "sigmoid(e^A_log (g + dt_bias)); softplus where A_log or dt_bias is given") +
            (hasMamba ? " or with mamba2, else none" : ", else none"),
        [](const Invocation &call) {
          return call.has("A_log") || call.has("dt_bias") || ruleOf(call) == StateRule::mamba2
                     ? "softplus"
                     : "none";
        }},
       {"lower_bound: number = -5 e.g. -2", "of the logarithm with gate=sigmoid"},
       {"dt_min: number e.g. 0.1", "softplus gives at least that; 0 if not given"},
       {"dt_max: number e.g. 0.9", "softplus gives at most that; no limit if not given"},
       {"beta_sigmoid: flag = false", "sigmoid(beta) in place of beta"},
       {"allow_negative: flag = false", "twice that, so that eigenvalues reach -1"}});
  if (hasPool)
    rows.insert(
        rows.end(),
        {{"state_layout: vk|kv = vk", "states as [P, Hv, V, K] or [P, Hv, K, V]"},
         {"keep_states: flag = false", "states is an output: what drafted tokens can go back to"}});
  else
    rows.push_back({"state_layout: kv|vk = kv", "states as [N, Hv, K, V] or [N, Hv, V, K]"});
  return rows;
}

void delta::checkSteps(const Invocation &call) {
  const std::int64_t heads = call.extent("Hk"), all = call.extent("Hv");
  if (call.extent("K") > 256)
    refuse(call, "K is ", call.extent("K"), ", but must be at most 256");
  if (heads < 1 ? all != 0 : all % heads != 0)
    refuse(call, "v has ", all, " heads, which is no multiple of the ", heads, " heads of k");
  const DecayGate gate = gateOf(call);
  for (const char *input : {"A_log", "dt_bias"})
    if (call.has(input) && gate == DecayGate::none)
      refuse(call, input, " is the gate's: option 'gate' cannot be none with it");
  const bool isMamba = ruleOf(call) == StateRule::mamba2;
  if (isMamba && call.has("beta"))
    refuse(call, "with rule=mamba2 beta is softplus(g + dt_bias): leave beta out");
  if (isMamba && gate != DecayGate::softplus)
    refuse(call, "with rule=mamba2 option 'gate' must be softplus");
  for (const char *option : {"dt_min", "dt_max"})
    if (call.options.given(option) && gate != DecayGate::softplus)
      refuse(call, "option '", option, "' is a limit of gate=softplus");
  const Limits limits = limitsOf(call);
  if (!(limits.least >= 0 && limits.least <= limits.most))
    refuse(call, "option 'dt_min' must be from 0 to dt_max");
}

bool delta::isByChannel(const Invocation &call) {
  return call.kernel->arguments[call.index("g")].axes.size() == 4;
}

StateRule delta::ruleOf(const Invocation &call) {
  const auto rule = call.options.values.find("rule");
  return rule == call.options.values.end() ? StateRule::rwkv7
         : rule->second == "delta"         ? StateRule::delta
         : rule->second == "add"           ? StateRule::add
                                           : StateRule::mamba2;
}

DecayGate delta::gateOf(const Invocation &call) {
  const std::string &gate = call.options.choice("gate");
  return gate == "none"       ? DecayGate::none
         : gate == "softplus" ? DecayGate::softplus
                              : DecayGate::sigmoid;
}

double delta::scaleOf(const Invocation &call) {
  if (call.options.given("scale"))
    return call.options.number("scale");
  const StateRule rule = ruleOf(call);
  if (rule == StateRule::mamba2 || rule == StateRule::rwkv7)
    return 1;
  // Of keys without channels nothing comes, whatever its factor; infinity would make it NaN.
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(call.extent("K"), 1)));
}

std::int64_t delta::widthOf(const Invocation &call) {
  return std::max<std::int64_t>(ceilDiv(call.extent("K"), 16), 1) * 16;
}

std::int64_t delta::sequences(const Invocation &call) {
  return call.has("cu_seqlens") ? call.extent("N1") - 1 : call.extent("B");
}

Limits delta::limitsOf(const Invocation &call) {
  Limits limits;
  if (call.options.given("dt_min"))
    limits.least = call.options.number("dt_min");
  if (call.options.given("dt_max"))
    limits.most = call.options.number("dt_max");
  return limits;
}
