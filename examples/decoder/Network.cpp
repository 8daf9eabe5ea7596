// All extents that a launch depends on are those of the step, and all numbers that change from step
// to step are in device memory: so a step can be captured as a graph and replayed for other tokens.
#include "Network.h"
#include <charconv>
#include <cmath>
#include <sectile/experts.h>
#include <sectile/sampling.h>
#include <sectile/sectile.h>
#include <sectile/serving.h>

namespace sc = sectile;

namespace decoder {

// What the calls of one step share: the first rows of all that is kept between kernels.
template <class T> struct Network<T>::Rows {
  std::int64_t count;
  bool decodes;
  sc::Tensor<T, 2> x, z, y; // states between layers, states within one, normalised states
  sc::PagedSlots slots;
  std::optional<sc::Tensor<std::int32_t, 2>> plan; // of the keys, for all layers
};

namespace {

// Parts of a plan beside one for each sequence: enough for two programs on each of some 130
// multiprocessors where the cache has 8 heads.
constexpr std::int64_t planParts = 32;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

template <class T>
sc::Tensor<T, 2> firstRows(const sc::Buffer<T> &buffer, std::int64_t rows, std::int64_t columns) {
  return sc::tensor(buffer, {rows, columns});
}

// Rows `indices` of a table, times a factor.
template <class T>
void gather(const sc::Stream &stream, const sc::Tensor<T, 2> &table,
            const sc::Tensor<std::int32_t, 1> &indices, double scale, const sc::Tensor<T, 2> &y) {
  char digits[32];
  const std::string text(digits, std::to_chars(digits, std::end(digits), scale).ptr);
  sc::run_kernel(stream, "embedding", {{"table", table}, {"indices", indices}}, {{"scale", text}},
                 {{"y", y}});
}

// y = f(gate) up
template <class T>
void applyGate(const sc::Stream &stream, Gate kind, const sc::Tensor<T, 2> &gate,
               const sc::Tensor<T, 2> &up, const sc::Tensor<T, 2> &y) {
  sc::KernelOptions options;
  if (kind != Gate::silu)
    options = {{"approximate", kind == Gate::gelu ? "none" : "tanh"}};
  sc::run_kernel(stream, kind == Gate::silu ? "swiglu" : "geglu", {{"gate", gate}, {"up", up}},
                 options, {{"y", y}});
}

} // namespace

template <class T>
Network<T>::Network(const sc::Device &device, const Model &model, Weights<T> weights,
                    const CacheShape &cache, const Sampling &sampling, const Extents &largest)
    : model_(model), weights_(std::move(weights)), cache_(cache), sampling_(sampling) {
  const std::int64_t rows = largest.tokens,
                     choices = rows * std::max<std::int64_t>(model.chosen, 1);
  const auto allocate = [&]<class E>(sc::Buffer<E> &buffer, std::int64_t count) {
    buffer = device.allocate<E>(size(count));
  };
  for (sc::Buffer<T> *buffer : {&hidden_, &other_, &normed_})
    allocate(*buffer, rows * model.hidden);
  allocate(qkv_, rows * (model.heads + 2 * model.kvHeads) * model.headSize);
  allocate(attended_, rows * model.heads * model.headSize);
  allocate(inner_, choices * model.inner);
  if (model.experts == 0)
    allocate(gates_, rows * 2 * model.inner);
  else
    allocate(scores_, rows * model.experts);
  allocate(last_, 2 * largest.sequences * model.hidden);
  allocate(rstd_, rows);
  allocate(lse_, rows * model.heads);
  allocate(slots_, rows);
  allocate(positions_, rows);
  allocate(expertWeights_, choices);
  allocate(experts_, choices);
  allocate(plan_, 4 * (largest.sequences + planParts));
  allocate(places_, 2 * model.experts + 1 + 3 * choices);
  const std::int64_t numbers = cache.pages * model.kvHeads * cache.page * model.headSize;
  for (std::int64_t i = 0; i < model.layers; ++i)
    for (auto *tensors : {&keys_, &values_}) {
      cacheMemory_.push_back(device.allocate<T>(size(numbers)));
      tensors->push_back(sc::tensor(cacheMemory_.back(),
                                    {cache.pages, model.kvHeads, cache.page, model.headSize}));
    }
}

template <class T> void Network<T>::fillCache() const {
  Noise<T> noise(cacheMemory_.front().device());
  for (const sc::Buffer<T> &memory : cacheMemory_)
    noise.fill(memory, 1);
}

template <class T>
void Network<T>::normalize(const sc::Stream &stream, const sc::Tensor<T, 2> &x,
                           const sc::Tensor<T, 1> &weight, const sc::Tensor<T, 2> &y) const {
  sc::rms_norm(stream, x, {.w = weight, .eps = model_.eps, .weight_offset = model_.normOffset},
               sc::RmsNormOutputs<T, 2>{y, sc::tensor(rstd_, {x.extent(0)})});
}

template <class T>
void Network<T>::product(const sc::Stream &stream, const sc::Tensor<T, 2> &x,
                         const Linear<T> &linear, const sc::Tensor<T, 2> &y,
                         const std::optional<sc::AnyTensor> &residual) const {
  sc::MatmulOptions options{.trans_b = true, .exact = std::same_as<T, float>, .residual = residual};
  if (linear.bias)
    options.bias = *linear.bias;
  sc::matmul(stream, x, linear.weight, options, y);
}

// z = x + what the linear layer makes of y, or the norm of that
template <class T>
void Network<T>::finish(const sc::Stream &stream, const sc::Tensor<T, 2> &y,
                        const Linear<T> &linear, const std::optional<sc::Tensor<T, 1>> &norm,
                        const sc::Tensor<T, 2> &x, const Rows &rows, const sc::Tensor<T, 2> &z,
                        std::optional<Work> only) const {
  const auto does = [&](Work work) { return !only || *only == work; };
  if (!norm) {
    if (does(Work::products))
      product(stream, y, linear, z, x);
    return;
  }
  if (does(Work::products))
    product(stream, y, linear, rows.y);
  if (does(Work::norms)) {
    normalize(stream, rows.y, *norm, rows.y);
    sc::run_kernel(stream, "vector_add", {{"x", x}, {"y", rows.y}}, {}, {{"z", z}});
  }
}

// z = x + attention of the norm of x
template <class T>
void Network<T>::attend(const sc::Stream &stream, std::size_t number, const StepInputs &inputs,
                        const Rows &rows, std::optional<Work> only) const {
  const auto does = [&](Work work) { return !only || *only == work; };
  const auto &layer = weights_.layers[number];
  const Attention &kind = model_.attention(number);
  const std::int64_t width = model_.headSize, columns = (model_.heads + 2 * model_.kvHeads) * width;
  if (does(Work::norms))
    normalize(stream, rows.x, layer.attentionNorm, rows.y);
  if (does(Work::products))
    product(stream, rows.y, layer.qkv, firstRows(qkv_, rows.count, columns));
  // Queries, keys and values lie side by side in the rows of qkv.
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    const std::size_t offset = size(first * width);
    return sc::tensor(qkv_.slice(offset, qkv_.size() - offset), {rows.count, count, width},
                      {columns, width, 1});
  };
  const auto q = heads(0, model_.heads);
  const auto k = heads(model_.heads, model_.kvHeads),
             v = heads(model_.heads + model_.kvHeads, model_.kvHeads);
  if (does(Work::positions)) {
    sc::RopeAppendOptions options;
    options.theta = kind.theta;
    options.scaling = kind.scaling;
    options.eps = model_.eps;
    options.weight_offset = model_.normOffset;
    if (model_.headNorms)
      options.q_weight = *layer.queryNorm, options.k_weight = *layer.keyNorm;
    sc::rope_append(stream, q, k, v, keys_[number], values_[number], rows.slots.slots,
                    rows.slots.positions, options, q);
  }
  const auto attended = sc::tensor(attended_, {rows.count, model_.heads, width});
  if (does(Work::attention)) {
    sc::AttentionCachedOptions options;
    if (!rows.decodes)
      options.cu_seqlens_q = inputs.starts;
    options.scale = model_.scoreScale;
    if (kind.window > 0)
      options.window_left = kind.window - 1;
    else if (rows.plan)
      options.plan = *rows.plan; // it shares out all keys, not those of windows
    sc::attention_cached(
        stream, q, keys_[number], values_[number], inputs.lengths, inputs.tables, options,
        sc::AttentionOutputs<T, 3>{attended, sc::tensor(lse_, {rows.count, model_.heads})});
  }
  const auto joined = firstRows(attended_, rows.count, model_.heads * width);
  finish(stream, joined, layer.output, layer.attendedNorm, rows.x, rows, rows.z, only);
}

// x = z + the MLP, or experts, of the norm of z
template <class T>
void Network<T>::mix(const sc::Stream &stream, const typename Weights<T>::Layer &layer,
                     const Rows &rows, std::optional<Work> only) const {
  const auto does = [&](Work work) { return !only || *only == work; };
  const std::int64_t count = rows.count, inner = model_.inner;
  if (does(Work::norms))
    normalize(stream, rows.z, layer.norm, rows.y);
  if (model_.experts == 0) {
    if (does(Work::products))
      product(stream, rows.y, *layer.up, firstRows(gates_, count, 2 * inner));
    if (does(Work::gates)) {
      const auto half = [&](std::int64_t first) {
        const std::size_t offset = size(first);
        return sc::tensor(gates_.slice(offset, gates_.size() - offset), {count, inner},
                          {2 * inner, 1});
      };
      applyGate(stream, model_.gate, half(0), half(inner), firstRows(inner_, count, inner));
    }
    finish(stream, firstRows(inner_, count, inner), *layer.down, layer.mixedNorm, rows.z, rows,
           rows.x, only);
    return;
  }
  if (!does(Work::experts))
    return;
  const std::int64_t chosen = model_.chosen, choices = count * chosen;
  const auto scores = firstRows(scores_, count, model_.experts);
  product(stream, rows.y, {.weight = *layer.router}, scores);
  const sc::MoeRouted routed{sc::tensor(expertWeights_, {count, chosen}),
                             sc::tensor(experts_, {count, chosen})};
  sc::moe_route(stream, scores, {.k = chosen, .renormalize = model_.renormalized}, routed);
  std::int64_t place = 0;
  const auto numbers = [&](std::int64_t length) {
    const auto slice = places_.slice(size(place), size(length));
    place += length;
    return slice;
  };
  const sc::MoePlaces places{sc::tensor(numbers(model_.experts), {model_.experts}),
                             sc::tensor(numbers(model_.experts + 1), {model_.experts + 1}),
                             sc::tensor(numbers(choices), {choices}),
                             sc::tensor(numbers(choices), {choices}),
                             sc::tensor(numbers(choices), {count, chosen})};
  sc::moe_permute(stream, routed.experts, {.count = model_.experts}, places);
  constexpr bool exact = std::same_as<T, float>;
  const auto h = firstRows(inner_, choices, inner);
  sc::moe_up(stream, rows.y, *layer.expertUp, places.counts, places.tokens,
             {.trans_w = true, .exact = exact}, h);
  sc::moe_down(stream, h, *layer.expertDown, places.counts, places.inverse, routed.weights,
               {.addend = rows.z, .trans_w = true, .exact = exact}, rows.x);
}

template <class T>
void Network<T>::step(const sc::Stream &stream, const Extents &extents, const StepInputs &inputs,
                      const StepOutputs &outputs, std::optional<Work> only) const {
  const auto does = [&](Work work) { return !only || *only == work; };
  const std::int64_t tokens = extents.tokens, hidden = model_.hidden;
  Rows rows{.count = tokens,
            .decodes = extents.decodes,
            .x = firstRows(hidden_, tokens, hidden),
            .z = firstRows(other_, tokens, hidden),
            .y = firstRows(normed_, tokens, hidden),
            .slots = {sc::tensor(slots_, {tokens}), sc::tensor(positions_, {tokens})},
            .plan = {}};
  if (does(Work::positions)) {
    gather(stream, weights_.table, inputs.tokens, model_.tableScale, rows.x);
    sc::paged_slots(stream, inputs.lengths, inputs.tables, inputs.starts, tokens, cache_.page,
                    rows.slots);
  }
  if (extents.plans) {
    const std::int64_t parts = extents.sequences + planParts;
    rows.plan = sc::tensor(plan_, {parts, 4});
    if (does(Work::attention))
      sc::paged_plan(stream, inputs.lengths, parts, *rows.plan);
  }
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    attend(stream, i, inputs, rows, only);
    mix(stream, weights_.layers[i], rows, only);
  }
  if (!does(Work::head))
    return;
  // Of each sequence only the last token's state goes on.
  auto last = rows.x;
  const std::int64_t sequences = extents.sequences;
  if (!extents.decodes) {
    last = firstRows(last_, sequences, hidden);
    gather(stream, rows.x, inputs.rows, 1, last);
  }
  const auto normed =
      firstRows(last_.slice(size(sequences * hidden), size(sequences * hidden)), sequences, hidden);
  normalize(stream, last, weights_.norm, normed);
  sc::matmul<float>(stream, normed, weights_.head,
                    {.trans_b = true, .exact = std::same_as<T, float>}, outputs.logits);
  sc::SampleOptions options;
  options.temperatures = inputs.temperatures;
  options.cut = {.top_k = sampling_.topK, .top_p = sampling_.topP};
  options.random = {.seeds = inputs.seeds, .offsets = inputs.offsets};
  sc::sample(stream, outputs.logits, options, sc::Sampled{outputs.next});
}

template class Network<float>;
template class Network<sc::half>;
template class Network<sc::bfloat16>;

} // namespace decoder
