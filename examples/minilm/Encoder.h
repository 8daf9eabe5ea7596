// The sentence encoder: BERT's layers over packed sequences, the mean over each, of length 1.
#pragma once
#include "../safetensors/Safetensors.h"
#include <memory>
#include <sectile/stream.h>
#include <span>

namespace minilm {

// What the model's config.json says.
struct Model {
  std::int64_t layers, hidden, heads, inner, positions, vocabulary;
  double eps; // of the layer norms

  // Throws std::runtime_error for a file that cannot be read, and for other models than BERT's.
  static Model read(const std::string &path);
};

// How much one batch holds at most: tokens in all, and sentences.
struct BatchLimits {
  std::int64_t tokens, sentences;
};

using Sentence = std::vector<std::int32_t>; // numbers of tokens

class Encoder {
public:
  // Copies the weights to the device, as f16 or as f32. A batch has `limits` at most. Throws
  // std::runtime_error for weights that do not fit, and Sectile's errors.
  static std::unique_ptr<Encoder> open(const sectile::Device &device, const Model &model,
                                       safetensors::File &weights, const BatchLimits &limits,
                                       bool f32);
  virtual ~Encoder() = default;

  // The vectors of sentences, [sentences, hidden] row by row, each of length 1. Sentences have from
  // 1 to model.positions tokens below model.vocabulary, and fit in a batch; throws
  // std::runtime_error for others.
  virtual std::vector<float> encode(std::span<const Sentence> sentences) = 0;
  // Compiles, or takes from bundles, and loads the code of all batches that there can be.
  virtual void prepareAll() = 0;
};

// Calls of the library's kernels, as `sectile build --file` takes them: those of all batches that
// there can be within the limits.
std::string callsOf(const Model &model, const BatchLimits &limits, bool f32);

} // namespace minilm
