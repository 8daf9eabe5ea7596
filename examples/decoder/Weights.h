// The model's weights on the device, from safetensors files or at random.
#pragma once
#include "../safetensors/Safetensors.h"
#include "Model.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace decoder {

// The tensors of a folder: model.safetensors, or the files that model.safetensors.index.json lists.
class Checkpoint {
public:
  // Throws std::runtime_error where there are none.
  explicit Checkpoint(const std::string &folder);

  // As safetensors::File::read.
  std::vector<float> read(const std::string &name, const std::vector<std::int64_t> &shape);

private:
  safetensors::File &file(const std::string &path);

  std::string folder_;
  std::map<std::string, std::string> places_; // from a tensor to its file; empty: one file has all
  std::map<std::string, safetensors::File> files_;
};

// Random numbers on the device, drawn once for each deviation and repeated: copies there are faster
// than the host's random numbers. The period is odd, so that no two rows of a matrix are equal.
template <class T> class Noise {
public:
  explicit Noise(const sectile::Device &device) : device_(device) {}

  // Fills with normally distributed numbers around 0.
  void fill(const sectile::Buffer<T> &buffer, double deviation);

private:
  sectile::Device device_;
  std::map<double, sectile::Buffer<T>> drawn_;
};

// x weight, and the bias added. Matrices are [N, K], as they are stored: a product's result has N
// columns.
template <class T> struct Linear {
  sectile::Tensor<T, 2> weight;
  std::optional<sectile::Tensor<T, 1>> bias = {}; // [N]
};

template <class T> struct Weights {
  struct Layer {
    sectile::Tensor<T, 1> attentionNorm, norm;
    std::optional<sectile::Tensor<T, 1>> queryNorm, keyNorm;      // of heads
    std::optional<sectile::Tensor<T, 1>> attendedNorm, mixedNorm; // of what is added to the states
    Linear<T> qkv, output;
    // One gated MLP: gates, then what they multiply; and back.
    std::optional<Linear<T>> up, down;
    // Or experts: their scores, and the same of each.
    std::optional<sectile::Tensor<T, 2>> router;
    std::optional<sectile::Tensor<T, 3>> expertUp, expertDown;
  };
  sectile::Tensor<T, 2> table; // of tokens
  std::vector<Layer> layers;
  sectile::Tensor<T, 1> norm;
  sectile::Tensor<T, 2> head;

  // Throws std::runtime_error for weights that do not fit the model.
  static Weights read(const sectile::Device &device, const Model &model, Checkpoint &checkpoint);
  // Such that numbers stay in range through all layers. For measuring: texts mean nothing.
  static Weights random(const sectile::Device &device, const Model &model);
};

} // namespace decoder
