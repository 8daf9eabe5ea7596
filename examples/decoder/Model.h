// A model's shapes and options, as config.json has them: of a Llama, a Mistral, a Qwen 2 or 3,
// the latter with experts too, or a Gemma 3.
#pragma once
#include <cstdint>
#include <optional>
#include <sectile/kernels.h>
#include <string>
#include <vector>

namespace decoder {

// What the gate of an MLP goes through.
enum class Gate : std::uint8_t { silu, gelu, geluTanh };

// How the tokens of a layer see others by their positions.
struct Attention {
  std::int64_t window = 0; // keys that a token sees, the newest ones, its own included; 0: all
  double theta = 10000;    // base of the rotation's frequencies
  sectile::RopeScaling scaling = {};
};

struct Model {
  std::int64_t layers, hidden, vocabulary;
  std::int64_t heads, kvHeads, headSize; // of queries, of keys and values, numbers of each
  std::int64_t inner;                    // of the gated MLP, or of each expert
  std::int64_t positions;                // the longest context
  std::int64_t experts = 0;              // 0: a gated MLP
  std::int64_t chosen = 0;               // experts of a token
  bool renormalized = false;             // the weights of those chosen sum to 1
  Gate gate = Gate::silu;
  bool inputBiases = false, outputBias = false; // of queries, keys and values; of what heads give
  bool mlpBiases = false;
  bool headNorms = false;   // heads of queries and keys are normalised
  bool outputNorms = false; // what attention and MLP give is normalised before it is added
  double normOffset = 0;    // added to the weights of norms
  double tableScale = 1;    // a factor of the table's rows where they are a step's first states
  bool tied = false;        // the table of tokens is also the last product's matrix
  double eps = 1e-6;        // of the norms
  std::optional<double> scoreScale = {};  // of attention; 1/sqrt(headSize) if none
  Attention everywhere = {}, nearby = {}; // of layers without and with windows
  std::vector<bool> isNearby = {};        // of each layer, which of them it has
  std::vector<std::int32_t> stops = {};   // tokens that end a text

  // Throws std::runtime_error for a file that cannot be read, and for models that this program does
  // not compute.
  static Model read(const std::string &path);

  const Attention &attention(std::size_t layer) const {
    return isNearby[layer] ? nearby : everywhere;
  }
};

} // namespace decoder
