// One step of the model: kernels of the library from numbers of tokens to the next ones.
#pragma once
#include "Weights.h"
#include <sectile/stream.h>

namespace decoder {

// The kinds of work in a step, for measuring each alone. Products are those of layers.
enum class Work : std::uint8_t { norms, products, positions, attention, gates, experts, head };
constexpr std::array<const char *, 7> workNames = {
    "norms", "products", "positions", "attention", "gates", "experts", "head and sampling"};

// How tokens are drawn, beside each text's temperature and seed.
struct Sampling {
  std::int64_t topK = 0; // 0: all
  double topP = 1;
};

// The cache of keys and values: `pages` pages in each layer.
struct CacheShape {
  std::int64_t pages, page; // page: keys of one
};

// Extents of a step. A decoding one has a token for each sequence. With `plans`, it shares the keys
// of all sequences out evenly: for lengths that differ much.
struct Extents {
  std::int64_t tokens, sequences;
  bool decodes, plans;
  auto operator<=>(const Extents &) const = default;
};

// What a step is given, on the device.
struct StepInputs {
  sectile::Tensor<std::int32_t, 1> tokens;         // [T]
  sectile::Tensor<std::int32_t, 1> starts;         // [S + 1]: where each sequence's tokens begin
  sectile::Tensor<std::int32_t, 1> lengths;        // [S]: keys, those of these tokens included
  sectile::Tensor<std::int32_t, 1> rows;           // [S]: each sequence's last token
  sectile::Tensor<std::int32_t, 2> tables;         // [S, pages]: each sequence's pages
  sectile::Tensor<float, 1> temperatures;          // [S]
  sectile::Tensor<std::int64_t, 1> seeds, offsets; // [S]
};
struct StepOutputs {
  sectile::Tensor<std::int32_t, 1> next; // [S]
  sectile::Tensor<float, 2> logits;      // [S, V]
};

template <class T> class Network {
public:
  // For steps of so many tokens and sequences at most.
  Network(const sectile::Device &device, const Model &model, Weights<T> weights,
          const CacheShape &cache, const Sampling &sampling, const Extents &largest);

  // Launches a step and does not wait. With `only`, the work of one kind alone: what it computes
  // has no meaning, but it takes the time that it takes in a step.
  void step(const sectile::Stream &stream, const Extents &extents, const StepInputs &inputs,
            const StepOutputs &outputs, std::optional<Work> only = {}) const;

  // Fills the cache with random numbers, for measuring.
  void fillCache() const;

private:
  struct Rows;
  void attend(const sectile::Stream &stream, std::size_t layer, const StepInputs &inputs,
              const Rows &rows, std::optional<Work> only) const;
  void finish(const sectile::Stream &stream, const sectile::Tensor<T, 2> &y,
              const Linear<T> &linear, const std::optional<sectile::Tensor<T, 1>> &norm,
              const sectile::Tensor<T, 2> &x, const Rows &rows, const sectile::Tensor<T, 2> &z,
              std::optional<Work> only) const;
  void mix(const sectile::Stream &stream, const typename Weights<T>::Layer &layer, const Rows &rows,
           std::optional<Work> only) const;
  void normalize(const sectile::Stream &stream, const sectile::Tensor<T, 2> &x,
                 const sectile::Tensor<T, 1> &weight, const sectile::Tensor<T, 2> &y) const;
  void product(const sectile::Stream &stream, const sectile::Tensor<T, 2> &x,
               const Linear<T> &linear, const sectile::Tensor<T, 2> &y,
               const std::optional<sectile::AnyTensor> &residual = {}) const;

  Model model_;
  Weights<T> weights_;
  CacheShape cache_;
  Sampling sampling_;
  std::vector<sectile::Buffer<T>> cacheMemory_;
  std::vector<sectile::Tensor<T, 4>> keys_, values_; // of each layer
  // Of the largest step; others use the first rows.
  sectile::Buffer<T> hidden_, other_, normed_, qkv_, attended_, gates_, inner_, scores_, last_;
  sectile::Buffer<float> rstd_, lse_, expertWeights_;
  sectile::Buffer<std::int32_t> slots_, positions_, experts_, places_, plan_;
};

} // namespace decoder
