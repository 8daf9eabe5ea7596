// Matrices that multiply the same rows are joined, so that each layer has four products: queries,
// keys and values are one, the gate and what it multiplies are one.
#include "Weights.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sectile/sectile.h>
#include <stdexcept>

namespace sc = sectile;

namespace decoder {

Checkpoint::Checkpoint(const std::string &folder) : folder_(folder) {
  const std::string path = folder + "/model.safetensors.index.json";
  if (!std::filesystem::exists(path)) {
    file("model.safetensors");
    return;
  }
  try {
    std::ifstream index(path);
    nlohmann::json::parse(index).at("weight_map").get_to(places_);
  } catch (const nlohmann::json::exception &error) {
    throw std::runtime_error(path + " is no index of tensors: " + error.what());
  }
}

safetensors::File &Checkpoint::file(const std::string &path) {
  return files_.try_emplace(path, folder_ + "/" + path).first->second;
}

std::vector<float> Checkpoint::read(const std::string &name,
                                    const std::vector<std::int64_t> &shape) {
  if (places_.empty())
    return file("model.safetensors").read(name, shape);
  const auto found = places_.find(name);
  if (found == places_.end())
    throw std::runtime_error(folder_ + " has no tensor '" + name + "'");
  return file(found->second).read(name, shape);
}

namespace {

// A part of a matrix or of a bias: a tensor of the checkpoint and how many rows it has.
struct Rows {
  std::string name;
  std::int64_t count;
};

// Where weights come from.
template <class T> struct Source {
  std::function<sc::Tensor<T, 1>(const std::string &name, std::int64_t size)> vector;
  // Rows of all parts, one after another; numbers of a bias if there are no columns.
  std::function<sc::Buffer<T>(const std::vector<Rows> &parts, std::optional<std::int64_t> columns)>
      matrix;
};

template <class T> Weights<T> collect(const Model &model, const Source<T> &source) {
  const std::int64_t hidden = model.hidden, queries = model.heads * model.headSize,
                     keys = model.kvHeads * model.headSize;
  const auto matrix = [&](const std::vector<Rows> &parts, std::int64_t columns) {
    std::int64_t rows = 0;
    for (const Rows &part : parts)
      rows += part.count;
    return sc::tensor(source.matrix(parts, columns), {rows, columns});
  };
  // The parts are named without `.weight` and `.bias`.
  const auto linear = [&](std::vector<Rows> parts, std::int64_t columns, bool biased) {
    std::vector<Rows> biases = parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i].name += ".weight";
      biases[i].name += ".bias";
    }
    Linear<T> result{.weight = matrix(parts, columns)};
    if (biased)
      result.bias = sc::tensor(source.matrix(biases, {}), {result.weight.extent(0)});
    return result;
  };
  const auto table = matrix({{"model.embed_tokens.weight", model.vocabulary}}, hidden);
  Weights<T> weights{.table = table,
                     .layers = {},
                     .norm = source.vector("model.norm.weight", hidden),
                     .head = model.tied ? table
                                        : matrix({{"lm_head.weight", model.vocabulary}}, hidden)};
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string name = "model.layers." + std::to_string(i) + ".", self = name + "self_attn.",
                      mlp = name + "mlp.";
    typename Weights<T>::Layer layer{
        .attentionNorm = source.vector(name + "input_layernorm.weight", hidden),
        .norm = source.vector(name + (model.outputNorms ? "pre_feedforward_layernorm.weight"
                                                        : "post_attention_layernorm.weight"),
                              hidden),
        .queryNorm = {},
        .keyNorm = {},
        .attendedNorm = {},
        .mixedNorm = {},
        .qkv =
            linear({{self + "q_proj", queries}, {self + "k_proj", keys}, {self + "v_proj", keys}},
                   hidden, model.inputBiases),
        .output = linear({{self + "o_proj", hidden}}, queries, model.outputBias),
        .up = {},
        .down = {},
        .router = {},
        .expertUp = {},
        .expertDown = {}};
    if (model.headNorms) {
      layer.queryNorm = source.vector(self + "q_norm.weight", model.headSize);
      layer.keyNorm = source.vector(self + "k_norm.weight", model.headSize);
    }
    if (model.outputNorms) {
      layer.attendedNorm = source.vector(name + "post_attention_layernorm.weight", hidden);
      layer.mixedNorm = source.vector(name + "post_feedforward_layernorm.weight", hidden);
    }
    if (model.experts == 0) {
      layer.up = linear({{mlp + "gate_proj", model.inner}, {mlp + "up_proj", model.inner}}, hidden,
                        model.mlpBiases);
      layer.down = linear({{mlp + "down_proj", hidden}}, model.inner, model.mlpBiases);
    } else {
      std::vector<Rows> up, down;
      for (std::int64_t expert = 0; expert < model.experts; ++expert) {
        const std::string one = mlp + "experts." + std::to_string(expert) + ".";
        up.push_back({one + "gate_proj.weight", model.inner});
        up.push_back({one + "up_proj.weight", model.inner});
        down.push_back({one + "down_proj.weight", hidden});
      }
      layer.router = matrix({{mlp + "gate.weight", model.experts}}, hidden);
      layer.expertUp =
          sc::tensor(source.matrix(up, hidden), {model.experts, 2 * model.inner, hidden});
      layer.expertDown =
          sc::tensor(source.matrix(down, model.inner), {model.experts, hidden, model.inner});
    }
    weights.layers.push_back(layer);
  }
  return weights;
}

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

} // namespace

template <class T> void Noise<T>::fill(const sc::Buffer<T> &buffer, double deviation) {
  constexpr std::size_t period = (std::size_t(1) << 22) - 1;
  const auto [found, isNew] = drawn_.try_emplace(deviation);
  if (isNew) {
    std::mt19937 generator(1);
    std::normal_distribution<double> normal(0, deviation);
    std::vector<T> values(period);
    for (T &value : values)
      value = static_cast<T>(static_cast<float>(normal(generator)));
    found->second = device_.upload(values);
  }
  for (std::size_t place = 0; place < buffer.size(); place += period) {
    const std::size_t count = std::min(period, buffer.size() - place);
    buffer.slice(place, count).copy_from(found->second.slice(0, count));
  }
}

template <class T>
Weights<T> Weights<T>::read(const sc::Device &device, const Model &model, Checkpoint &checkpoint) {
  const auto convert = [](const std::vector<float> &values) {
    return std::vector<T>(values.begin(), values.end());
  };
  return collect<T>(
      model,
      {.vector =
           [&](const std::string &name, std::int64_t count) {
             return sc::tensor(device.upload(convert(checkpoint.read(name, {count}))), {count});
           },
       .matrix =
           [&](const std::vector<Rows> &parts, std::optional<std::int64_t> columns) {
             std::int64_t rows = 0;
             for (const Rows &part : parts)
               rows += part.count;
             auto buffer = device.allocate<T>(size(rows * columns.value_or(1)));
             std::size_t place = 0;
             for (const Rows &part : parts) {
               const auto values =
                   convert(checkpoint.read(part.name, columns ? std::vector{part.count, *columns}
                                                              : std::vector{part.count}));
               buffer.slice(place, values.size()).upload(values);
               place += values.size();
             }
             return buffer;
           }});
}

template <class T> Weights<T> Weights<T>::random(const sc::Device &device, const Model &model) {
  Noise<T> noise(device);
  const auto unit = static_cast<T>(static_cast<float>(1 - model.normOffset));
  return collect<T>(
      model, {.vector =
                  [&](const std::string &, std::int64_t count) {
                    return sc::tensor(device.upload(std::vector<T>(size(count), unit)), {count});
                  },
              .matrix =
                  [&](const std::vector<Rows> &parts, std::optional<std::int64_t> columns) {
                    std::int64_t rows = 0;
                    for (const Rows &part : parts)
                      rows += part.count;
                    const auto buffer = device.allocate<T>(size(rows * columns.value_or(1)));
                    noise.fill(buffer, 1 / std::sqrt(static_cast<double>(columns.value_or(64))));
                    return buffer;
                  }});
}

template class Noise<float>;
template class Noise<sc::half>;
template class Noise<sc::bfloat16>;
template struct Weights<float>;
template struct Weights<sc::half>;
template struct Weights<sc::bfloat16>;

} // namespace decoder
