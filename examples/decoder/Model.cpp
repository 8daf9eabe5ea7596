// Reads config.json. A model that asks for something else than what Network.cpp computes is
// refused, because ignoring it would give wrong texts.
#include "Model.h"
#include <algorithm>
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

sectile::RopeScaling readScaling(const std::string &path, const Json &json) {
  using Kind = sectile::RopeScalingKind;
  const auto found = json.find("rope_scaling");
  if (found == json.end() || found->is_null())
    return {};
  const auto type =
      valueOr<std::string>(*found, "rope_type", valueOr<std::string>(*found, "type", ""));
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
  found->at("factor").get_to(scaling.factor);
  if (scaling.kind != Kind::linear)
    scaling.original_length = valueOr(*found, "original_max_position_embeddings",
                                      json.at("max_position_embeddings").get<std::int64_t>());
  scaling.low_freq = valueOr(*found, "low_freq_factor", scaling.low_freq);
  scaling.high_freq = valueOr(*found, "high_freq_factor", scaling.high_freq);
  scaling.beta_fast = valueOr(*found, "beta_fast", scaling.beta_fast);
  scaling.beta_slow = valueOr(*found, "beta_slow", scaling.beta_slow);
  scaling.yarn_round = valueOr(*found, "truncate", true);
  if (const auto factor = valueOr<double>(*found, "attention_factor", 0); factor > 0)
    scaling.attention_factor = factor;
  for (const char *other : {"mscale", "mscale_all_dim"})
    if (valueOr<double>(*found, other, 0) != 0)
      throw std::runtime_error(path + " has " + other + ", which this program does not compute");
  return scaling;
}

void refuseOthers(const std::string &path, const Json &json, const std::string &type) {
  const auto refuse = [&](const std::string &what) {
    throw std::runtime_error(path + " is of a model with " + what +
                             ", which this program does not compute");
  };
  if (type != "llama" && type != "qwen3" && type != "qwen3_moe")
    throw std::runtime_error(path + " is of a model of the type '" + type +
                             "'; this program computes llama, qwen3 and qwen3_moe");
  if (valueOr<std::string>(json, "hidden_act", "silu") != "silu")
    refuse("another activation than silu");
  for (const char *bias : {"attention_bias", "mlp_bias"})
    if (valueOr(json, bias, false))
      refuse(bias);
  if (valueOr(json, "use_sliding_window", false))
    refuse("use_sliding_window");
  if (valueOr<std::int64_t>(json, "decoder_sparse_step", 1) != 1 ||
      !valueOr(json, "mlp_only_layers", Json::array()).empty())
    refuse("experts in some layers only");
}

Model parse(const std::string &path, const Json &json) {
  const auto type = json.at("model_type").get<std::string>();
  refuseOthers(path, json, type);
  const bool experts = type == "qwen3_moe";
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
  model.headSize = valueOr(json, "head_dim", model.hidden / model.heads);
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
  model.headNorms = type != "llama";
  model.tied = valueOr(json, "tie_word_embeddings", false);
  model.eps = json.at("rms_norm_eps");
  model.theta = valueOr(json, "rope_theta", model.theta);
  model.scaling = readScaling(path, json);
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
