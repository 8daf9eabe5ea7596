// Reads config.json. A model that asks for something else than what Network.cpp computes is
// refused, because ignoring it would give wrong texts.
#include "Model.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace decoder {
namespace {

using Json = nlohmann::json;

// A value that may be missing or null.
template <class T> T valueOr(const Json &json, const char *name, T otherwise) {
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? otherwise : found->get<T>();
}

bool has(const Json &json, const char *name) {
  const auto found = json.find(name);
  return found != json.end() && !found->is_null();
}

// Of rope_scaling, or of rope_parameters, where newer files have it.
sectile::RopeScaling readScaling(const std::string &path, const Json &json, const Json &values) {
  using Kind = sectile::RopeScalingKind;
  const auto type =
      valueOr<std::string>(values, "rope_type", valueOr<std::string>(values, "type", "default"));
  sectile::RopeScaling scaling;
  if (type == "default")
    return scaling;
  if (type == "linear")
    scaling.kind = Kind::linear;
  else if (type == "llama3")
    scaling.kind = Kind::llama3;
  else if (type == "yarn")
    scaling.kind = Kind::yarn;
  else
    throw std::runtime_error(path + " scales positions by '" + type +
                             "'; this program knows default, linear, llama3 and yarn");
  values.at("factor").get_to(scaling.factor);
  if (scaling.kind != Kind::linear)
    scaling.original_length = valueOr(values, "original_max_position_embeddings",
                                      json.at("max_position_embeddings").get<std::int64_t>());
  scaling.low_freq = valueOr(values, "low_freq_factor", scaling.low_freq);
  scaling.high_freq = valueOr(values, "high_freq_factor", scaling.high_freq);
  scaling.beta_fast = valueOr(values, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = valueOr(values, "beta_slow", scaling.beta_slow);
  scaling.yarn_round = valueOr(values, "truncate", true);
  if (const auto factor = valueOr<double>(values, "attention_factor", 0); factor > 0)
    scaling.attention_factor = factor;
  for (const char *other : {"mscale", "mscale_all_dim"})
    if (valueOr<double>(values, other, 0) != 0)
      throw std::runtime_error(path + " has " + other + ", which this program does not compute");
  return scaling;
}

// The rotations of layers of a kind: `full_attention` or `sliding_attention`.
Attention readAttention(const std::string &path, const Json &json, const std::string &type,
                        const char *kind) {
  const bool gemma = type == "gemma3_text", nearby = kind == std::string("sliding_attention");
  Attention attention;
  if (has(json, "rope_parameters")) {
    // For all layers, or for each kind.
    const Json &all = json.at("rope_parameters"), &values = has(all, kind) ? all.at(kind) : all;
    values.at("rope_theta").get_to(attention.theta);
    attention.scaling = readScaling(path, json, values);
  } else if (gemma && nearby)
    attention.theta = valueOr(json, "rope_local_base_freq", 1e4);
  else {
    attention.theta = valueOr(json, "rope_theta", gemma ? 1e6 : 1e4);
    if (has(json, "rope_scaling"))
      attention.scaling = readScaling(path, json, json.at("rope_scaling"));
  }
  if (nearby) {
    attention.window = valueOr<std::int64_t>(json, "sliding_window", gemma ? 4096 : 0);
    if (attention.window < 1)
      throw std::runtime_error(path + " has layers with windows, and no sliding_window above 0");
  }
  return attention;
}

// Which layers have windows. Files that do not list their layers leave it to the type of model.
std::vector<bool> readWindows(const std::string &path, const Json &json, const std::string &type,
                              std::int64_t layers) {
  std::vector<bool> windows;
  if (has(json, "layer_types")) {
    for (const auto &word : json.at("layer_types").get<std::vector<std::string>>()) {
      if (word != "full_attention" && word != "sliding_attention")
        throw std::runtime_error(path + " has layers of the type '" + word +
                                 "'; this program knows full_attention and sliding_attention");
      windows.push_back(word == "sliding_attention");
    }
    if (std::ssize(windows) != layers)
      throw std::runtime_error(path + " has " + std::to_string(layers) + " layers, and types of " +
                               std::to_string(windows.size()));
    return windows;
  }
  std::int64_t first = layers, period = 0; // without windows: before `first`, each period's last
  if (type == "gemma3_text") {
    first = 0;
    period = valueOr<std::int64_t>(json, "sliding_window_pattern", 6);
    if (period < 1)
      throw std::runtime_error(path + " has no sliding_window_pattern above 0");
  } else if (type == "mistral" && has(json, "sliding_window"))
    first = 0;
  else if (valueOr(json, "use_sliding_window", false))
    first = valueOr<std::int64_t>(json, "max_window_layers", 28);
  for (std::int64_t i = 0; i < layers; ++i)
    windows.push_back(i >= first && !(period > 0 && (i + 1) % period == 0));
  return windows;
}

Gate readGate(const std::string &path, const Json &json, bool experts) {
  const auto word = valueOr<std::string>(
      json, has(json, "hidden_activation") ? "hidden_activation" : "hidden_act",
      json.at("model_type") == "gemma3_text" ? "gelu_pytorch_tanh" : "silu");
  if (word == "silu")
    return Gate::silu;
  if (word == "gelu_pytorch_tanh" && !experts)
    return Gate::geluTanh;
  if (word == "gelu" && !experts)
    return Gate::gelu;
  throw std::runtime_error(path + " has the activation '" + word + "'; this program knows silu" +
                           (experts ? " for experts" : ", gelu and gelu_pytorch_tanh"));
}

void refuseOthers(const std::string &path, const Json &json, const std::string &type) {
  const auto refuse = [&](const std::string &what) {
    throw std::runtime_error(path + " is of a model with " + what +
                             ", which this program does not compute");
  };
  constexpr std::array known{"llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "gemma3_text"};
  if (std::ranges::find(known, type) == known.end())
    throw std::runtime_error(path + " is of a model of the type '" + type +
                             "'; this program computes llama, mistral, qwen2, qwen3, "
                             "qwen3_moe and gemma3_text");
  if (valueOr(json, "use_bidirectional_attention", false))
    refuse("use_bidirectional_attention");
  if (type == "qwen3_moe" && valueOr(json, "mlp_bias", false))
    refuse("mlp_bias of experts");
  for (const char *cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (valueOr<double>(json, cap, 0) != 0)
      refuse(cap);
  if (valueOr<std::int64_t>(json, "decoder_sparse_step", 1) != 1 ||
      !valueOr(json, "mlp_only_layers", Json::array()).empty())
    refuse("experts in some layers only");
}

Model parse(const std::string &path, const Json &json) {
  const auto type = json.at("model_type").get<std::string>();
  refuseOthers(path, json, type);
  const bool experts = type == "qwen3_moe", gemma = type == "gemma3_text";
  Model model{
      .layers = json.at("num_hidden_layers"),
      .hidden = json.at("hidden_size"),
      .vocabulary = json.at("vocab_size"),
      .heads = json.at("num_attention_heads"),
      .kvHeads = valueOr<std::int64_t>(json, "num_key_value_heads", json.at("num_attention_heads")),
      .headSize = 0,
      .inner = json.at(experts ? "moe_intermediate_size" : "intermediate_size"),
      .positions = json.at("max_position_embeddings")};
  if (std::min({model.layers, model.hidden, model.vocabulary, model.heads, model.kvHeads,
                model.inner, model.positions}) < 1 ||
      model.heads % model.kvHeads != 0)
    throw std::runtime_error(path + " has impossible extents");
  model.headSize = valueOr(json, "head_dim", gemma ? 256 : model.hidden / model.heads);
  if (model.headSize < 2 || model.headSize % 2 != 0)
    throw std::runtime_error(path + " has heads of " + std::to_string(model.headSize) +
                             " numbers; rotations need an even number");
  if (experts) {
    json.at("num_experts").get_to(model.experts);
    json.at("num_experts_per_tok").get_to(model.chosen);
    model.renormalized = valueOr(json, "norm_topk_prob", false);
    if (model.chosen < 1 || model.chosen > model.experts)
      throw std::runtime_error(path + " chooses " + std::to_string(model.chosen) + " of " +
                               std::to_string(model.experts) + " experts");
  }
  model.gate = readGate(path, json, experts);
  model.outputBias = valueOr(json, "attention_bias", false);
  model.inputBiases = model.outputBias || type == "qwen2";
  model.mlpBiases = valueOr(json, "mlp_bias", false);
  model.headNorms = experts || gemma || type == "qwen3";
  if (gemma) {
    model.outputNorms = true;
    model.normOffset = 1;
    model.tableScale = std::sqrt(static_cast<double>(model.hidden));
    const auto width = valueOr<double>(json, "query_pre_attn_scalar", 256);
    if (!(width > 0))
      throw std::runtime_error(path + " has no query_pre_attn_scalar above 0");
    model.scoreScale = 1 / std::sqrt(width);
  }
  model.tied = valueOr(json, "tie_word_embeddings", gemma);
  model.eps = json.at("rms_norm_eps");
  model.isNearby = readWindows(path, json, type, model.layers);
  model.everywhere = readAttention(path, json, type, "full_attention");
  if (std::ranges::find(model.isNearby, true) != model.isNearby.end())
    model.nearby = readAttention(path, json, type, "sliding_attention");
  if (const auto stops = json.find("eos_token_id"); stops != json.end() && !stops->is_null())
    model.stops = stops->is_array() ? stops->get<std::vector<std::int32_t>>()
                                    : std::vector{stops->get<std::int32_t>()};
  return model;
}

} // namespace

Model Model::read(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path + " cannot be opened");
  try {
    return parse(path, Json::parse(file));
  } catch (const Json::exception &error) {
    throw std::runtime_error(path + " is no model's config.json: " + error.what());
  }
}

} // namespace decoder
