// A step's numbers of tokens and sequences are rounded, so that there are few kinds of steps. Rows
// that fill a step belong to sequences without keys: they write nothing to the cache, and nobody
// reads what they give.
#include "Engine.h"
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <map>
#include <sectile/sectile.h>
#include <stdexcept>

namespace sc = sectile;

namespace decoder {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }
std::int64_t powerOfTwo(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

// Multiples of 16 up to 128, then four steps to twice as many.
std::int64_t roundTokens(std::int64_t tokens) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(tokens)));
  const std::int64_t step = std::max<std::int64_t>(16, power / 4);
  return sc::cdiv(tokens, step) * step;
}

// A step with tokens of prompts has room for all sequences, and one more to which the tokens belong
// that fill it: so there is one such step for each number of tokens.
Extents mixedExtents(const BatchLimits &limits, std::int64_t tokens) {
  return {roundTokens(tokens), powerOfTwo(limits.sequences + 1), false, false};
}
Extents decodingExtents(std::int64_t sequences, bool plans) {
  const std::int64_t rounded = powerOfTwo(sequences);
  return {rounded, rounded, true, plans};
}
Extents largestExtents(const BatchLimits &limits) {
  const Extents mixed = mixedExtents(limits, limits.tokens);
  return {std::max(mixed.tokens, powerOfTwo(limits.sequences)), mixed.sequences, false, false};
}
std::vector<Extents> allExtents(const BatchLimits &limits) {
  std::vector<Extents> all;
  for (std::int64_t tokens = 1; tokens <= limits.tokens; tokens = all.back().tokens + 1)
    all.push_back(mixedExtents(limits, tokens));
  for (std::int64_t sequences = 1; sequences <= powerOfTwo(limits.sequences); sequences *= 2)
    for (const bool plans : {false, true})
      if (sequences > 1 || !plans)
        all.push_back(decodingExtents(sequences, plans));
  return all;
}

// Without a plan each sequence has as many programs, and the longest one sets the time; a plan
// costs a launch, and some percent where lengths are equal.
bool isUneven(std::span<const Part> parts) {
  std::int64_t longest = 0, sum = 0;
  for (const Part &part : parts) {
    const std::int64_t keys = part.sequence->cached + part.count;
    longest = std::max(longest, keys);
    sum += keys;
  }
  return longest * std::ssize(parts) > 2 * sum;
}

// Where a step's inputs lie in one array, so that one copy brings them all. Each begins at a
// multiple of 16 bytes.
struct Layout {
  std::int64_t seeds, offsets, temperatures, tokens, starts, lengths, rows, tables, words;

  Layout(const Extents &extents, std::int64_t pages) : words(0) {
    const auto reserve = [&](std::int64_t count) {
      const std::int64_t place = words;
      words += sc::cdiv(count, std::int64_t(4)) * 4;
      return place;
    };
    const std::int64_t sequences = extents.sequences;
    seeds = reserve(2 * sequences);
    offsets = reserve(2 * sequences);
    temperatures = reserve(sequences);
    tokens = reserve(extents.tokens);
    starts = reserve(sequences + 1);
    lengths = reserve(sequences);
    rows = reserve(sequences);
    tables = reserve(sequences * pages);
  }
};

template <class T> class EngineOf final : public Engine {
public:
  EngineOf(const sc::Device &device, const Model &model, Weights<T> weights,
           const EngineSettings &settings)
      : device_(device), stream_(device.new_stream()), model_(model), limits_(settings.limits),
        tablePages_(sc::cdiv(limits_.context, limits_.page)),
        network_(device, model, std::move(weights), {limits_.pages, limits_.page},
                 settings.sampling, largestExtents(limits_)),
        logits_(
            device.allocate<float>(size(largestExtents(limits_).sequences * model.vocabulary))) {}

  Texts run(std::span<const Request> requests, bool logits) override;
  Speed measure(std::int64_t sequences, std::int64_t keys, std::int64_t steps) override;
  void prepareAll() override {
    for (const Extents &extents : allExtents(limits_)) {
      const Plan plan = makePlan(extents);
      sc::prepare([&] { step(plan); });
    }
  }

private:
  // All that is kept for steps of some extents.
  struct Plan {
    Extents extents;
    Layout layout;
    sc::HostBuffer<std::int32_t> host, hostNext;
    sc::Buffer<std::int32_t> device, next;
    std::optional<sc::Graph> graph = {};
  };

  Plan makePlan(const Extents &extents) const;
  Plan &planFor(const Extents &extents);
  void step(const Plan &plan, std::optional<Work> only = {}) const;
  sc::Graph capture(const Plan &plan, std::optional<Work> only = {}) const;
  void fill(const Plan &plan, std::span<const Part> parts) const;
  Extents extentsOf(std::span<const Part> parts) const;
  std::span<const std::int32_t> runStep(const Plan &plan, std::span<const Part> parts) const;
  double promptRate(std::int64_t keys);
  void check(std::span<const Request> requests) const;

  sc::Device device_;
  sc::Stream stream_;
  Model model_;
  BatchLimits limits_;
  std::int64_t tablePages_; // of the longest sequence
  Network<T> network_;
  sc::Buffer<float> logits_;
  std::map<Extents, Plan> plans_;
};

template <class T> typename EngineOf<T>::Plan EngineOf<T>::makePlan(const Extents &extents) const {
  const Layout layout(extents, tablePages_);
  return {.extents = extents,
          .layout = layout,
          .host = device_.allocate_host<std::int32_t>(size(layout.words)),
          .hostNext = device_.allocate_host<std::int32_t>(size(extents.sequences)),
          .device = device_.allocate<std::int32_t>(size(layout.words)),
          .next = device_.allocate<std::int32_t>(size(extents.sequences))};
}

template <class T> void EngineOf<T>::step(const Plan &plan, std::optional<Work> only) const {
  const std::int64_t tokens = plan.extents.tokens, sequences = plan.extents.sequences;
  const auto slice = [&](std::int64_t place, std::int64_t count) {
    return plan.device.slice(size(place), size(count));
  };
  const auto ints = [&](std::int64_t place, std::int64_t count) {
    return sc::tensor(slice(place, count), {count});
  };
  // The same words as elements of another type.
  const auto as = [&]<class E>(std::int64_t place, E *) {
    const auto words = slice(place, sequences * static_cast<std::int64_t>(sizeof(E) / 4));
    return sc::Tensor<E, 1>(reinterpret_cast<E *>(words.data()), {sequences}, {1}, words.memory());
  };
  const Layout &at = plan.layout;
  network_.step(
      stream_, plan.extents,
      {.tokens = ints(at.tokens, tokens),
       .starts = ints(at.starts, sequences + 1),
       .lengths = ints(at.lengths, sequences),
       .rows = ints(at.rows, sequences),
       .tables = sc::tensor(slice(at.tables, sequences * tablePages_), {sequences, tablePages_}),
       .temperatures = as(at.temperatures, static_cast<float *>(nullptr)),
       .seeds = as(at.seeds, static_cast<std::int64_t *>(nullptr)),
       .offsets = as(at.offsets, static_cast<std::int64_t *>(nullptr))},
      {.next = sc::tensor(plan.next, {sequences}),
       .logits = sc::tensor(logits_, {sequences, model_.vocabulary})},
      only);
}

template <class T>
sc::Graph EngineOf<T>::capture(const Plan &plan, std::optional<Work> only) const {
  sc::prepare([&] { step(plan, only); });
  stream_.begin_capture();
  step(plan, only);
  return stream_.end_capture();
}

template <class T> typename EngineOf<T>::Plan &EngineOf<T>::planFor(const Extents &extents) {
  const auto found = plans_.find(extents);
  if (found != plans_.end())
    return found->second;
  Plan plan = makePlan(extents);
  plan.graph = capture(plan);
  return plans_.emplace(extents, std::move(plan)).first->second;
}

// Writes a step's inputs.
template <class T> void EngineOf<T>::fill(const Plan &plan, std::span<const Part> parts) const {
  const Layout &at = plan.layout;
  std::int32_t *const words = plan.host.data();
  // Everything that no part writes is 0: token 0, no keys, temperature 0.
  std::memset(words, 0, plan.host.size() * sizeof(std::int32_t));
  const auto put = [&](std::int64_t place, std::size_t index, auto value) {
    std::memcpy(reinterpret_cast<char *>(words + place) + index * sizeof value, &value,
                sizeof value);
  };
  std::int32_t row = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto &[sequence, count] = parts[i];
    const std::int64_t end = sequence->cached + count;
    words[at.starts + static_cast<std::int64_t>(i)] = row;
    for (std::int64_t token = sequence->cached; token < end; ++token)
      words[at.tokens + row++] = sequence->tokens[size(token)];
    words[at.lengths + static_cast<std::int64_t>(i)] = static_cast<std::int32_t>(end);
    words[at.rows + static_cast<std::int64_t>(i)] = row - 1;
    std::ranges::copy(sequence->pages,
                      words + at.tables + static_cast<std::int64_t>(i) * tablePages_);
    put(at.temperatures, i, static_cast<float>(sequence->temperature));
    put(at.seeds, i, sequence->seed);
    put(at.offsets, i, end);
  }
  // The first sequence without a part has the tokens that fill the step; when decoding, each of
  // them has one.
  for (std::int64_t i = std::ssize(parts); i <= plan.extents.sequences; ++i)
    words[at.starts + i] = plan.extents.decodes || i == std::ssize(parts)
                               ? row + static_cast<std::int32_t>(i - std::ssize(parts))
                               : static_cast<std::int32_t>(plan.extents.tokens);
}

template <class T> Extents EngineOf<T>::extentsOf(std::span<const Part> parts) const {
  std::int64_t tokens = 0;
  for (const Part &part : parts)
    tokens += part.count;
  return tokens == std::ssize(parts) ? decodingExtents(tokens, isUneven(parts))
                                     : mixedExtents(limits_, tokens);
}

// Gives the next token of each part, which is valid until the plan runs again.
template <class T>
std::span<const std::int32_t> EngineOf<T>::runStep(const Plan &plan,
                                                   std::span<const Part> parts) const {
  fill(plan, parts);
  plan.device.upload(plan.host, stream_);
  plan.graph->launch(stream_);
  plan.next.download(plan.hostNext, stream_);
  stream_.synchronize();
  return {plan.hostNext.data(), parts.size()};
}

template <class T> void EngineOf<T>::check(std::span<const Request> requests) const {
  for (std::size_t i = 0; i < requests.size(); ++i)
    for (const std::int32_t token : requests[i].prompt)
      if (token < 0 || token >= model_.vocabulary)
        throw std::runtime_error("prompt " + std::to_string(i + 1) + " has token " +
                                 std::to_string(token) + "; the model has those from 0 to " +
                                 std::to_string(model_.vocabulary - 1));
}

template <class T> Texts EngineOf<T>::run(std::span<const Request> requests, bool logits) {
  check(requests);
  Batcher batcher(limits_);
  for (std::size_t i = 0; i < requests.size(); ++i)
    batcher.add(i, requests[i]);
  Texts texts;
  texts.tokens.resize(requests.size());
  texts.logits.resize(requests.size());
  const auto vocabulary = size(model_.vocabulary);
  for (auto parts = batcher.plan(); !parts.empty(); parts = batcher.plan()) {
    const Plan &plan = planFor(extentsOf(parts));
    const std::span<const std::int32_t> next = runStep(plan, parts);
    ++texts.steps;
    texts.plannedSteps += plan.extents.plans;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].gives())
        continue;
      const std::size_t request = parts[i].sequence->request;
      // Sampling gives -1 where there is no distribution.
      if (next[i] < 0)
        throw std::runtime_error("the logits after token " +
                                 std::to_string(parts[i].sequence->tokens.size()) + " of prompt " +
                                 std::to_string(request + 1) +
                                 " are not numbers; the weights may be broken, or too large for "
                                 "this precision");
      texts.tokens[request].push_back(next[i]);
      if (logits) {
        const auto row = logits_.slice(i * vocabulary, vocabulary).download();
        texts.logits[request].insert(texts.logits[request].end(), row.begin(), row.end());
      }
    }
    batcher.finish(next, model_.stops);
  }
  texts.evictions = batcher.evictions();
  return texts;
}

// Tokens a second of some prompts of so many tokens, one after another or several in a step.
template <class T> double EngineOf<T>::promptRate(std::int64_t keys) {
  Batcher batcher(limits_);
  const std::int64_t count = std::max<std::int64_t>(1, sc::cdiv(4 * limits_.tokens, keys));
  for (std::int64_t i = 0; i < count; ++i) {
    Request request{.prompt = {}, .tokens = 1, .temperature = 0, .seed = i};
    for (std::int64_t j = 0; j < keys; ++j)
      request.prompt.push_back(
          static_cast<std::int32_t>((i * 7919 + j * 104729) % model_.vocabulary));
    batcher.add(size(i), request);
  }
  double seconds = 0;
  for (auto parts = batcher.plan(); !parts.empty(); parts = batcher.plan()) {
    const Plan &plan = planFor(extentsOf(parts));
    const auto begin = Clock::now();
    const auto next = runStep(plan, parts);
    seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    batcher.finish(next, {});
  }
  return static_cast<double>(count * keys) / seconds;
}

template <class T>
Speed EngineOf<T>::measure(std::int64_t sequences, std::int64_t keys, std::int64_t steps) {
  // A step warms up, and each step needs room for one more key.
  const std::int64_t longest = keys + steps + 1, pages = sc::cdiv(longest, limits_.page);
  if (sequences > limits_.sequences || longest > limits_.context ||
      sequences * pages > limits_.pages)
    throw std::runtime_error("the cache has no room for " + std::to_string(sequences) +
                             " sequences of " + std::to_string(longest) + " keys");
  Speed speed{.stepSeconds = 0, .promptRate = promptRate(keys), .kernels = 0, .of = {}};
  // Nobody computed the keys of these sequences: they are random.
  network_.fillCache();
  std::vector<Sequence> all(size(sequences));
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < sequences; ++i) {
    Sequence &sequence = all[size(i)];
    sequence.tokens.assign(size(keys + 1), 0);
    sequence.cached = keys;
    for (std::int64_t page = 0; page < pages; ++page)
      sequence.pages.push_back(static_cast<std::int32_t>(i * pages + page));
    parts.push_back({&sequence, 1});
  }
  const Plan &plan = planFor(extentsOf(parts));
  runStep(plan, parts);
  const auto begin = Clock::now();
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto next = runStep(plan, parts);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].tokens.push_back(std::max(next[i], 0));
      ++all[i].cached;
    }
  }
  speed.stepSeconds =
      std::chrono::duration<double>(Clock::now() - begin).count() / static_cast<double>(steps);

  const auto milliseconds = [&](const sc::Graph &graph) {
    graph.launch(stream_);
    const auto from = stream_.record_timed();
    for (std::int64_t i = 0; i < steps; ++i)
      graph.launch(stream_);
    return static_cast<double>(sc::elapsed_ms(from, stream_.record_timed())) /
           static_cast<double>(steps);
  };
  speed.kernels = milliseconds(*plan.graph);
  for (std::size_t i = 0; i < workNames.size(); ++i)
    speed.of.push_back(milliseconds(capture(plan, static_cast<Work>(i))));
  return speed;
}

} // namespace

std::unique_ptr<Engine> Engine::open(const sc::Device &device, const Model &model,
                                     const std::string &folder, Precision precision,
                                     const EngineSettings &settings) {
  const auto make = [&]<class T>(T) -> std::unique_ptr<Engine> {
    if (settings.random)
      return std::make_unique<EngineOf<T>>(device, model, Weights<T>::random(device, model),
                                           settings);
    Checkpoint checkpoint(folder);
    return std::make_unique<EngineOf<T>>(device, model, Weights<T>::read(device, model, checkpoint),
                                         settings);
  };
  switch (precision) {
  case Precision::f32:
    return make(float());
  case Precision::f16:
    return make(sc::half());
  case Precision::bf16:
    return make(sc::bfloat16());
  }
  throw std::runtime_error("there is no such precision");
}

} // namespace decoder
