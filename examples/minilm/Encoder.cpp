// The encoder's kernels are the library's. Sentences are packed one after another, so that none is
// padded to the length of another. Batches have one of some 40 numbers of tokens, and a power of
// two of sequences. So their launches are known beforehand: a bundle can hold the code of all of
// them, and each is captured as a graph when it is first needed.
#include "Encoder.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sectile/attention.h>
#include <sectile/kernels.h>
#include <sectile/sectile.h>
#include <stdexcept>

namespace sc = sectile;

namespace minilm {
namespace {

// Extents of a batch. There are more sequences than sentences: what is left of the tokens is shared
// out over those that are left, so that none is longer than the model's positions.
struct Extents {
  std::int64_t tokens, sequences;
  auto operator<=>(const Extents &) const = default;
};

// Multiples of 16 up to 128, then four steps to twice as many.
std::int64_t roundTokens(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens)));
  const std::int64_t step = std::max<std::int64_t>(16, power / 4);
  return sc::cdiv(tokens, step) * step;
}
Extents extentsOf(const Model &model, std::int64_t tokens, std::int64_t sentences) {
  const std::int64_t rounded = roundTokens(tokens);
  const std::int64_t others =
      std::max<std::int64_t>(1, sc::cdiv(rounded - tokens, model.positions));
  const auto sequences = static_cast<std::uint64_t>(sentences + others);
  return {rounded, static_cast<std::int64_t>(std::bit_ceil(sequences))};
}

// All that a batch within the limits can have.
std::vector<Extents> allExtents(const Model &model, const BatchLimits &limits) {
  std::vector<Extents> all;
  for (std::int64_t tokens = 1; tokens <= limits.tokens; tokens = all.back().tokens + 1) {
    const std::int64_t sentences = std::min(limits.sentences, roundTokens(tokens));
    const Extents largest = extentsOf(model, tokens, sentences);
    for (std::int64_t sequences = 2; sequences <= largest.sequences; sequences *= 2)
      all.push_back({largest.tokens, sequences});
  }
  return all;
}

std::string numberText(double number) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.17g", number);
  return text.data();
}

sc::KernelOptions poolOptions(const Model &model, const Extents &extents) {
  return {{"chunk", std::to_string(model.positions)},
          {"chunks", std::to_string(extents.sequences)}};
}

template <class T> class EncoderOf final : public Encoder {
public:
  EncoderOf(const sc::Device &device, const Model &model, safetensors::File &weights,
            const BatchLimits &limits);

  std::vector<float> encode(std::span<const Sentence> sentences) override;
  void prepareAll() override {
    for (const Extents &extents : allExtents(model_, limits_))
      planFor(extents);
  }

private:
  static constexpr bool exact = std::same_as<T, float>;
  // A product's weights [N, K] and its bias [N].
  struct Linear {
    sc::Tensor<T, 2> weight;
    sc::Tensor<T, 1> bias;
  };
  struct Norm {
    sc::Tensor<T, 1> weight, bias;
  };
  struct Layer {
    Linear qkv, output, up, down;
    Norm attentionNorm, norm;
  };
  // A batch on its way: what it is given and gives, on the host, and when that is done. Numbers of
  // tokens come first, then their positions, then where the sequences begin.
  struct Slot {
    sc::HostBuffer<std::int32_t> input;
    sc::HostBuffer<T> pooled;
    std::optional<sc::Event> done = {};
    float *target = nullptr; // where the vectors go
    std::int64_t sentences = 0;
  };
  // All that is kept for batches of some extents. Two of them may be on their way.
  struct Plan {
    sc::Buffer<std::int32_t> input; // parts of input_ and pooled_
    sc::Buffer<T> pooled;
    std::optional<sc::Graph> graph = {};
    std::array<Slot, 2> slots = {};
    std::size_t next = 0;
  };

  sc::Tensor<T, 2> matrix(const std::vector<float> &values, std::int64_t rows) const;
  sc::Tensor<T, 1> vector(const std::vector<float> &values) const;
  Plan &planFor(const Extents &extents);
  void forward(const Plan &plan, const Extents &extents) const;
  void linear(const sc::Tensor<T, 2> &x, const Linear &linear, const sc::Tensor<T, 2> &to,
              sc::MatmulOptions options = {}) const;
  // y = the norm of x
  void normalize(const sc::Tensor<T, 2> &x, const Norm &norm, const sc::Tensor<T, 2> &y) const;
  void start(std::span<const Sentence> sentences, std::int64_t tokens, float *target);
  void finish(Slot &slot) const;

  sc::Device device_;
  sc::Stream stream_;
  Model model_;
  BatchLimits limits_;
  std::optional<sc::Tensor<T, 2>> words_, positions_;
  std::optional<Norm> embeddingNorm_;
  std::vector<Layer> layers_;
  // Of the largest batch; others use the first rows.
  sc::Buffer<std::int32_t> input_;
  sc::Buffer<T> hidden_, other_, sum_, qkv_, attended_, inner_, pooled_;
  sc::Buffer<float> mean_, rstd_, lse_;
  std::map<Extents, Plan> plans_;
};

template <class T>
sc::Tensor<T, 2> EncoderOf<T>::matrix(const std::vector<float> &values, std::int64_t rows) const {
  return sc::tensor(device_.upload(std::vector<T>(values.begin(), values.end())),
                    {rows, static_cast<std::int64_t>(values.size()) / rows});
}
template <class T> sc::Tensor<T, 1> EncoderOf<T>::vector(const std::vector<float> &values) const {
  return sc::tensor(device_.upload(std::vector<T>(values.begin(), values.end())), {values.size()});
}

template <class T>
EncoderOf<T>::EncoderOf(const sc::Device &device, const Model &model, safetensors::File &weights,
                        const BatchLimits &limits)
    : device_(device), stream_(device.new_stream()), model_(model), limits_(limits) {
  const std::int64_t hidden = model.hidden;
  const auto readNorm = [&](const std::string &name) {
    return Norm{vector(weights.read(name + ".weight", {hidden})),
                vector(weights.read(name + ".bias", {hidden}))};
  };
  const auto readLinear = [&](const std::vector<std::string> &names, std::int64_t n,
                              std::int64_t k) {
    std::vector<float> weight, bias;
    for (const std::string &name : names) {
      const auto w = weights.read(name + ".weight", {n, k}), b = weights.read(name + ".bias", {n});
      weight.insert(weight.end(), w.begin(), w.end());
      bias.insert(bias.end(), b.begin(), b.end());
    }
    return Linear{matrix(weight, n * static_cast<std::int64_t>(names.size())), vector(bias)};
  };
  words_ = matrix(weights.read("embeddings.word_embeddings.weight", {model.vocabulary, hidden}),
                  model.vocabulary);
  // All tokens have type 0 here, so its row is added to every position's.
  auto positions = weights.read("embeddings.position_embeddings.weight", {model.positions, hidden});
  const auto types = weights.read("embeddings.token_type_embeddings.weight", {2, hidden});
  for (std::size_t i = 0; i < positions.size(); ++i)
    positions[i] += types[i % static_cast<std::size_t>(hidden)];
  positions_ = matrix(positions, model.positions);
  embeddingNorm_ = readNorm("embeddings.LayerNorm");
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    const std::string self = layer + "attention.self.";
    layers_.push_back(
        {.qkv = readLinear({self + "query", self + "key", self + "value"}, hidden, hidden),
         .output = readLinear({layer + "attention.output.dense"}, hidden, hidden),
         .up = readLinear({layer + "intermediate.dense"}, model.inner, hidden),
         .down = readLinear({layer + "output.dense"}, hidden, model.inner),
         .attentionNorm = readNorm(layer + "attention.output.LayerNorm"),
         .norm = readNorm(layer + "output.LayerNorm")});
  }
  const auto rows = static_cast<std::size_t>(roundTokens(limits.tokens));
  std::size_t sequences = 0;
  for (const Extents &extents : allExtents(model, limits))
    sequences = std::max(sequences, static_cast<std::size_t>(extents.sequences));
  const auto width = static_cast<std::size_t>(hidden);
  for (sc::Buffer<T> *buffer : {&hidden_, &other_, &sum_, &attended_})
    *buffer = device.allocate<T>(rows * width);
  qkv_ = device.allocate<T>(3 * rows * width);
  inner_ = device.allocate<T>(rows * static_cast<std::size_t>(model.inner));
  input_ = device.allocate<std::int32_t>(2 * rows + sequences + 1);
  pooled_ = device.allocate<T>(sequences * width);
  mean_ = device.allocate<float>(rows), rstd_ = device.allocate<float>(rows);
  lse_ = device.allocate<float>(rows * static_cast<std::size_t>(model.heads));
}

template <class T>
void EncoderOf<T>::linear(const sc::Tensor<T, 2> &x, const Linear &linear,
                          const sc::Tensor<T, 2> &to, sc::MatmulOptions options) const {
  options.trans_b = true;
  options.exact = exact;
  options.bias = linear.bias;
  sc::matmul(stream_, x, linear.weight, options, to);
}

template <class T>
void EncoderOf<T>::normalize(const sc::Tensor<T, 2> &x, const Norm &norm,
                             const sc::Tensor<T, 2> &y) const {
  sc::layer_norm(stream_, x, {.w = norm.weight, .b = norm.bias, .eps = model_.eps},
                 sc::LayerNormOutputs<T, 2>{y, sc::tensor(mean_, {x.extent(0)}),
                                            sc::tensor(rstd_, {x.extent(0)})});
}

template <class T> void EncoderOf<T>::forward(const Plan &plan, const Extents &extents) const {
  const auto [rows, sequences] = extents;
  const std::int64_t width = model_.hidden, heads = model_.heads;
  const auto count = static_cast<std::size_t>(rows);
  const auto x = sc::tensor(hidden_, {rows, width}), y = sc::tensor(other_, {rows, width}),
             sum = sc::tensor(sum_, {rows, width}), qkv = sc::tensor(qkv_, {rows, 3 * width}),
             attended = sc::tensor(attended_, {rows, width}),
             inner = sc::tensor(inner_, {rows, model_.inner});
  const auto ids = plan.input.slice(0, count), positions = plan.input.slice(count, count);
  const auto starts = sc::tensor(
      plan.input.slice(2 * count, static_cast<std::size_t>(sequences) + 1), {sequences + 1});

  sc::run_kernel(stream_, "embedding", {{"table", *words_}, {"indices", sc::tensor(ids, {rows})}},
                 {}, {{"y", sum}});
  sc::run_kernel(stream_, "add_positions",
                 {{"x", sc::tensor(sum_, {1, rows, width})},
                  {"table", *positions_},
                  {"positions", sc::tensor(positions, {1, rows})},
                  {"w", embeddingNorm_->weight},
                  {"b", embeddingNorm_->bias}},
                 {{"eps", numberText(model_.eps)}},
                 {{"y", sc::tensor(hidden_, {1, rows, width})},
                  {"mean", sc::tensor(mean_, {1, rows})},
                  {"rstd", sc::tensor(rstd_, {1, rows})}});

  sc::AttentionOptions options;
  options.cu_seqlens_q = options.cu_seqlens_k = starts;
  // Queries, keys and values lie side by side in the rows of qkv.
  const auto part = [&](std::int64_t i) {
    const auto offset = static_cast<std::size_t>(i * width);
    return sc::tensor(qkv_.slice(offset, qkv_.size() - offset), {rows, heads, width / heads},
                      {3 * width, width / heads, 1});
  };
  for (const Layer &layer : layers_) {
    linear(x, layer.qkv, qkv);
    sc::attention(stream_, part(0), part(1), part(2), options,
                  sc::AttentionOutputs<T, 3>{sc::tensor(attended_, {rows, heads, width / heads}),
                                             sc::tensor(lse_, {heads, rows})});
    linear(attended, layer.output, sum, {.residual = x});
    normalize(sum, layer.attentionNorm, y);
    linear(y, layer.up, inner, {.activation = sc::MatmulActivation::gelu});
    linear(inner, layer.down, sum, {.residual = y});
    normalize(sum, layer.norm, x);
  }
  // A sequence is one chunk, since none is longer.
  sc::run_kernel(stream_, "chunk_mean_pool",
                 {{"x", sc::tensor(hidden_, {1, rows, 1, width})}, {"cu_seqlens", starts}},
                 poolOptions(model_, extents),
                 {{"y", sc::tensor(plan.pooled, {1, sequences, 1, width})}});
}

template <class T> typename EncoderOf<T>::Plan &EncoderOf<T>::planFor(const Extents &extents) {
  const auto found = plans_.find(extents);
  if (found != plans_.end())
    return found->second;
  const auto inputs = static_cast<std::size_t>(2 * extents.tokens + extents.sequences + 1);
  const auto outputs = static_cast<std::size_t>(extents.sequences * model_.hidden);
  Plan plan{.input = input_.slice(0, inputs), .pooled = pooled_.slice(0, outputs)};
  for (Slot &slot : plan.slots) {
    slot.input = device_.allocate_host<std::int32_t>(inputs);
    slot.pooled = device_.allocate_host<T>(outputs);
  }
  sc::prepare([&] { forward(plan, extents); });
  stream_.begin_capture();
  forward(plan, extents);
  plan.graph = stream_.end_capture();
  return plans_.emplace(extents, std::move(plan)).first->second;
}

// Starts a batch of sentences with so many tokens in all.
template <class T>
void EncoderOf<T>::start(std::span<const Sentence> sentences, std::int64_t tokens, float *target) {
  const auto count = static_cast<std::int64_t>(sentences.size());
  const Extents extents = extentsOf(model_, tokens, count);
  Plan &plan = planFor(extents);
  Slot &slot = plan.slots[plan.next++ % plan.slots.size()];
  finish(slot);

  std::int32_t *id = slot.input.data(), *position = id + extents.tokens,
               *start = position + extents.tokens, place = 0;
  for (const Sentence &sentence : sentences) {
    *start++ = place;
    for (std::int32_t i = 0; const std::int32_t token : sentence)
      *id++ = token, *position++ = i++;
    place += static_cast<std::int32_t>(sentence.size());
  }
  // Tokens of number 0 fill the batch.
  const std::int64_t left = extents.tokens - tokens, others = extents.sequences - count;
  for (std::int64_t i = 0; i < others; ++i) {
    *start++ = place;
    const std::int64_t length = (left + i) / others;
    for (std::int32_t at = 0; at < length; ++at)
      *id++ = 0, *position++ = at;
    place += static_cast<std::int32_t>(length);
  }
  *start = place;

  plan.input.upload(slot.input, stream_);
  plan.graph->launch(stream_);
  plan.pooled.download(slot.pooled, stream_);
  slot.done = stream_.record();
  slot.target = target;
  slot.sentences = count;
}

// Waits for the batch and gives its vectors the length 1.
template <class T> void EncoderOf<T>::finish(Slot &slot) const {
  if (!slot.done)
    return;
  slot.done->synchronize();
  slot.done.reset();
  const auto width = static_cast<std::size_t>(model_.hidden);
  for (std::size_t row = 0; row < static_cast<std::size_t>(slot.sentences); ++row) {
    const T *from = slot.pooled.data() + row * width;
    float *to = slot.target + row * width;
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) {
      to[i] = static_cast<float>(from[i]);
      squares += double(to[i]) * double(to[i]);
    }
    const double length = std::max(std::sqrt(squares), 1e-12);
    for (std::size_t i = 0; i < width; ++i)
      to[i] = static_cast<float>(to[i] / length);
  }
}

template <class T> std::vector<float> EncoderOf<T>::encode(std::span<const Sentence> sentences) {
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto size = static_cast<std::int64_t>(sentences[i].size());
    if (size < 1 || size > model_.positions || size > limits_.tokens)
      throw std::runtime_error("sentence " + std::to_string(i) + " has " + std::to_string(size) +
                               " tokens; the model takes from 1 to " +
                               std::to_string(std::min(model_.positions, limits_.tokens)));
    for (const std::int32_t token : sentences[i])
      if (token < 0 || token >= model_.vocabulary)
        throw std::runtime_error("sentence " + std::to_string(i) + " has token " +
                                 std::to_string(token) + "; the model has those from 0 to " +
                                 std::to_string(model_.vocabulary - 1));
  }
  // Batches that are on their way here are those of a call that threw: nobody wants them.
  stream_.synchronize();
  for (auto &[extents, plan] : plans_)
    for (Slot &slot : plan.slots)
      slot.done.reset();
  const auto width = static_cast<std::size_t>(model_.hidden);
  std::vector<float> vectors(sentences.size() * width);
  for (std::size_t first = 0, next = 0; first < sentences.size(); first = next) {
    std::int64_t tokens = 0;
    for (; next < sentences.size() && static_cast<std::int64_t>(next - first) < limits_.sentences &&
           tokens + static_cast<std::int64_t>(sentences[next].size()) <= limits_.tokens;
         ++next)
      tokens += static_cast<std::int64_t>(sentences[next].size());
    start(sentences.subspan(first, next - first), tokens, vectors.data() + first * width);
  }
  for (auto &[extents, plan] : plans_)
    for (Slot &slot : plan.slots)
      finish(slot);
  return vectors;
}

} // namespace

std::unique_ptr<Encoder> Encoder::open(const sc::Device &device, const Model &model,
                                       safetensors::File &weights, const BatchLimits &limits,
                                       bool f32) {
  if (f32)
    return std::make_unique<EncoderOf<float>>(device, model, weights, limits);
  return std::make_unique<EncoderOf<sc::half>>(device, model, weights, limits);
}

// As forward() makes them.
std::string callsOf(const Model &model, const BatchLimits &limits, bool f32) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string dtype = f32 ? " dtype f32" : " dtype f16";
  const std::string product = f32 ? " opt trans_b=true opt precision=exact" : " opt trans_b=true";
  const std::string width = text(model.hidden), heads = text(model.heads),
                    head = text(model.hidden / model.heads);
  std::string calls, after;
  for (std::int64_t before = 0; const Extents &extents : allExtents(model, limits)) {
    const std::string rows = text(extents.tokens), starts = text(extents.sequences + 1);
    if (extents.tokens != before) {
      before = extents.tokens;
      const auto matmul = [&](std::int64_t n, std::int64_t k, const char *with, const char *opt) {
        calls += "matmul M=" + rows + ",N=" + text(n) + ",K=" + text(k) + dtype + " with " + with +
                 product + opt + "\n";
      };
      calls += "embedding V=" + text(model.vocabulary) + ",H=" + width + ",...=" + rows + dtype +
               ",indices=i32\n";
      calls += "add_positions B=1,S=" + rows + ",H=" + width + ",P=" + text(model.positions) +
               dtype + " with positions,w,b\n";
      matmul(3 * model.hidden, model.hidden, "bias", "");
      matmul(model.hidden, model.hidden, "bias,residual", "");
      matmul(model.inner, model.hidden, "bias", " opt activation=gelu");
      matmul(model.hidden, model.inner, "bias,residual", "");
      calls += "layer_norm ...=" + rows + ",N=" + width + dtype + " with w,b\n";
    }
    calls += "attention_varlen Tq=" + rows + ",Tk=" + rows + ",Hq=" + heads + ",Hkv=" + heads +
             ",D=" + head + ",Dv=" + head + ",B1=" + starts + dtype + "\n";
    calls += "chunk_mean_pool B=1,T=" + rows + ",H=1,D=" + width + ",N=" + starts + dtype +
             " with cu_seqlens";
    for (const auto &[key, value] : poolOptions(model, extents))
      calls += " opt " + key + "=" + value;
    calls += "\n";
  }
  return calls;
}

Model Model::read(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path + " cannot be opened");
  try {
    const auto json = nlohmann::json::parse(file);
    if (json.at("model_type") != "bert" || json.at("hidden_act") != "gelu" ||
        json.value("position_embedding_type", "absolute") != "absolute" ||
        json.at("type_vocab_size") != 2)
      throw std::runtime_error(path +
                               " is not of a BERT with gelu and absolute positions, which is "
                               "what this program computes");
    const Model model{.layers = json.at("num_hidden_layers"),
                      .hidden = json.at("hidden_size"),
                      .heads = json.at("num_attention_heads"),
                      .inner = json.at("intermediate_size"),
                      .positions = json.at("max_position_embeddings"),
                      .vocabulary = json.at("vocab_size"),
                      .eps = json.at("layer_norm_eps")};
    if (std::min({model.layers, model.hidden, model.heads, model.inner, model.positions,
                  model.vocabulary}) < 1 ||
        model.hidden % model.heads != 0)
      throw std::runtime_error(path + " has impossible extents");
    return model;
  } catch (const nlohmann::json::exception &error) {
    throw std::runtime_error(path + " is no model's config.json: " + error.what());
  }
}

} // namespace minilm
