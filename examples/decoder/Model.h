// A model's shapes and options, as the config.json of a Llama, a Qwen 3 or a Qwen 3 with experts
// has them.
#pragma once
#include <cstdint>
#include <sectile/kernels.h>
#include <string>
#include <vector>

namespace decoder {

struct Model {
  std::int64_t layers, hidden, vocabulary;
  std::int64_t heads, kvHeads, headSize; // of queries, of keys and values, numbers of each
  std::int64_t inner;                    // of the gated MLP, or of each expert
  std::int64_t positions;                // the longest context
  std::int64_t experts = 0;              // 0: a gated MLP
  std::int64_t chosen = 0;               // experts of a token
  bool renormalized = false;             // the weights of those chosen sum to 1
  bool headNorms = false;                // heads of queries and keys are normalised
  bool tied = false;                     // the table of tokens is also the last product's matrix
  double eps = 1e-6;                     // of the norms
  double theta = 10000;                  // base of the rotation's frequencies
  sectile::RopeScaling scaling = {};
  std::vector<std::int32_t> stops = {}; // tokens that end a text

  // Throws std::runtime_error for a file that cannot be read, and for models that this program does
  // not compute.
  static Model read(const std::string &path);
};

} // namespace decoder
