// Ring attention (Liu, Zaharia and Abbeel, arXiv 2310.01889): the library's attention on one slice
// of keys after another, merged by lse:
//   lse = log(e^lse1 + e^lse2), o = (e^lse1 o1 + e^lse2 o2) / e^lse,
// and gradients that are sums over the slices, by attention_backward with the whole rows' o and
// lse. Tensors of the processes that do not go together are refused by all.
#include "kernels/calls/Use.h"
#include "kernels/references/HostArray.h"
#include "kernels/ring/Accumulate.h"
#include <limits>
#include <sectile/ring_attention.h>
#include <sectile/typed_call.h>

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <Element T, int N>
Tensor<T, N> allocate(const Device &device, const std::array<std::int64_t, N> &extents) {
  std::array<std::int64_t, N> strides;
  std::int64_t count = 1;
  for (std::size_t i = N; i-- > 0; count *= extents[i])
    strides[i] = std::max<std::int64_t>(count, 1);
  const Buffer<T> buffer = device.allocate<T>(static_cast<std::size_t>(count));
  return {buffer.data(), extents, strides, buffer.memory()};
}

// An output that was given, and what it should be.
struct GivenOutput {
  const char *name;
  std::vector<std::int64_t> given, wanted;
};

template <class To, class Like>
GivenOutput givenOutput(const char *name, const To &to, const Like &wanted) {
  return {name, {to.extents().begin(), to.extents().end()}, {wanted.begin(), wanted.end()}};
}

// The keys and values of a process on their way round, dense.
template <class T> struct Travelling {
  Tensor<T, 4> k, v;
};

template <class T> class Ring {
public:
  Ring(const Stream &stream, const Communicator &communicator, const Tensor<T, 4> &q,
       const Tensor<T, 4> &k, const Tensor<T, 4> &v, const RingAttentionOptions &options,
       const std::vector<GivenOutput> &outputs)
      : stream(stream), device(stream.device()), communicator(communicator), options(options),
        rank(communicator.rank()), size(communicator.size()), q(q), ownK(k), ownV(v) {
    agree(outputs);
  }

  RingAttention<T> forward(const std::optional<RingAttention<T>> &to);
  RingAttentionGradients<T> backward(const RingAttention<T> &result, const Tensor<T, 4> &gradient,
                                     const std::optional<RingAttentionGradients<T>> &to);

private:
  void agree(const std::vector<GivenOutput> &outputs);
  Travelling<T> own();
  template <class Number> Travelling<Number> room(int owner) const {
    const std::int64_t length = lengths[static_cast<std::size_t>(owner)];
    return {allocate<Number, 4>(device, {ownK.extent(0), ownK.extent(1), length, ownK.extent(3)}),
            allocate<Number, 4>(device, {ownV.extent(0), ownV.extent(1), length, ownV.extent(3)})};
  }
  // Passes them on, and takes those that come.
  template <class Number>
  Transfer pass(const Travelling<Number> &here, const Travelling<Number> &coming) const {
    const Communicator::Message messages[] = {{here.k.memory(), coming.k.memory()},
                                              {here.v.memory(), coming.v.memory()}};
    return communicator.exchange(stream, messages, next(), previous());
  }
  void clear(const Tensor<float, 4> &tensor) const {
    const float zero = 0;
    tensor.memory().fill(&zero, sizeof zero, &stream);
  }
  template <class Kernel, class... Arguments>
  void rows(const Kernel &kernel, const Arguments &...arguments) const {
    eachRow([&](const auto &each, Grid grid,
                const auto &...values) { each.launch(stream, grid, values...); },
            kernel, arguments...);
  }
  // What one call of attention takes of this process's queries and of an owner's keys.
  struct Part {
    Slice queries, keys;
    bool causal = false;
  };
  // None where the queries see none of the keys. With zigzag, first halves are in the order of the
  // processes, and behind them the others in the opposite one: the keys of an earlier process are
  // seen by all queries as far as they are in its first half, those of a later one by the second
  // half of the queries.
  std::optional<Part> partOf(int owner) const {
    const auto half = [](std::int64_t length) { return (length + 1) / 2; };
    const std::int64_t queries = q.extent(2), keys = lengths[static_cast<std::size_t>(owner)];
    Part part{{0, queries}, {0, keys}};
    if (!options.causal)
      return part;
    part.causal = owner == rank;
    if (owner < rank && options.zigzag)
      part.keys.length = half(keys);
    if (owner > rank)
      part.queries = {half(queries), options.zigzag ? queries - half(queries) : 0};
    return part.queries.length && part.keys.length ? std::optional(part) : std::nullopt;
  }
  Tensor<T, 4> dense(const Tensor<T, 4> &tensor) const;
  KernelOptions optionsFor(const Part &part) const {
    return ringOptions(part.causal, options.scale ? sectile::detail::wordOf(*options.scale) : "");
  }
  int owner(int step) const { return (rank - step + 2 * size) % size; }
  int next() const { return (rank + 1) % size; }
  int previous() const { return (rank + size - 1) % size; }

  const Stream &stream;
  const Device device;
  const Communicator &communicator;
  const RingAttentionOptions &options;
  const int rank, size;
  const Tensor<T, 4> q, ownK, ownV;
  std::vector<std::int64_t> lengths; // of the keys of each process
};

// Every process knows the others' lengths, and refuses together with them.
template <class T> void Ring<T>::agree(const std::vector<GivenOutput> &outputs) {
  std::string problem;
  if (ownK.extent(2) != ownV.extent(2))
    problem = "k has " + std::to_string(ownK.extent(2)) + " keys, v " +
              std::to_string(ownV.extent(2)) + " values";
  else if (options.causal && q.extent(2) != ownK.extent(2))
    problem = "a causal ring needs as many queries as keys in each process, not " +
              std::to_string(q.extent(2)) + " and " + std::to_string(ownK.extent(2));
  for (const GivenOutput &output : outputs)
    if (output.given != output.wanted && problem.empty())
      problem = std::string(output.name) + " is given as " + toString(output.given) + ", but is " +
                toString(output.wanted);
  lengths = communicator.all_gather(ownK.extent(2));
  for (const auto &[what, value] : {std::pair<const char *, std::int64_t>{"B", ownK.extent(0)},
                                    {"Hkv", ownK.extent(1)},
                                    {"D", ownK.extent(3)},
                                    {"D of v", ownV.extent(3)},
                                    {"causal", options.causal},
                                    {"zigzag", options.zigzag}}) {
    const std::vector<std::int64_t> all = communicator.all_gather(value);
    for (std::int64_t other : all)
      if (other != value && problem.empty())
        problem = std::string(what) + " is " + std::to_string(value) + " here and " +
                  std::to_string(other) + " in another process";
  }
  std::int64_t wrong = 0;
  for (std::int64_t other : communicator.all_gather(!problem.empty()))
    wrong += other;
  if (wrong && problem.empty())
    problem = "another process has tensors that do not fit";
  if (wrong)
    throw LaunchError("ring_attention: " + problem);
}

template <class T> Tensor<T, 4> Ring<T>::dense(const Tensor<T, 4> &tensor) const {
  const Tensor<T, 4> copy = allocate<T, 4>(device, tensor.extents());
  if (tensor.strides() == copy.strides() && tensor.memory().owner() &&
      tensor.memory().address() == reinterpret_cast<std::uintptr_t>(tensor.data()) &&
      tensor.memory().bytes() == copy.memory().bytes())
    return tensor;
  rows(assignPart<T, T>, copy, tensor);
  return copy;
}

// [B, H, S] as [B, H, S, 1]
Tensor<float, 4> asColumn(const Tensor<float, 3> &t) {
  return {t.data(),
          {t.extent(0), t.extent(1), t.extent(2), 1},
          {t.stride(0), t.stride(1), t.stride(2), 1},
          t.memory()};
}

template <class T> Travelling<T> Ring<T>::own() { return {dense(ownK), dense(ownV)}; }

template <class T> RingAttention<T> Ring<T>::forward(const std::optional<RingAttention<T>> &to) {
  const std::int64_t batch = q.extent(0), heads = q.extent(1), queries = q.extent(2);
  const std::int64_t width = ownV.extent(3);
  const std::array<std::int64_t, 4> shape{batch, heads, queries, width};
  const Tensor<float, 4> sum = allocate<float, 4>(device, shape);
  RingAttention<T> result{to ? to->o : allocate<T, 4>(device, shape),
                          allocate<float, 3>(device, {batch, heads, queries})};
  const float none = -infinity;
  clear(sum);
  result.lse.memory().fill(&none, sizeof none, &stream);

  Travelling<T> here = own();
  for (int step = 0; step < size; ++step) {
    std::optional<Transfer> transfer;
    Travelling<T> coming = here;
    if (step + 1 < size) {
      coming = room<T>(owner(step + 1));
      transfer = pass(here, coming);
    }
    if (const std::optional<Part> part = partOf(owner(step))) {
      const auto to = cut(sum, 2, part->queries);
      const auto found = allocate<float, 4>(device, to.extents());
      const NamedTensors results =
          run_kernel(stream, "attention", ringInputs(q, here.k, here.v, part->queries, part->keys),
                     optionsFor(*part), {{"o", found}});
      rows(mergePart, to, cut(result.lse, 2, part->queries), found,
           results.at("lse").template as<float, 3>());
    }
    if (transfer)
      transfer->wait(stream);
    here = coming;
  }
  rows(assignPart<T, float>, result.o, sum);
  if (to) {
    rows(assignPart<float, float>, asColumn(to->lse), asColumn(result.lse));
    result.lse = to->lse;
  }
  return result;
}

// The sums for a slice arrive from the process that worked on it a step earlier, are added to and
// go on, until they are back with its owner.
template <class T>
RingAttentionGradients<T> Ring<T>::backward(const RingAttention<T> &result,
                                            const Tensor<T, 4> &gradient,
                                            const std::optional<RingAttentionGradients<T>> &to) {
  const Tensor<float, 4> dq = allocate<float, 4>(device, q.extents());
  clear(dq);
  Travelling<T> here = own();
  Travelling<float> sums = room<float>(rank);
  clear(sums.k);
  clear(sums.v);
  std::optional<Transfer> sumsTransfer;
  for (int step = 0; step < size; ++step) {
    std::optional<Transfer> transfer;
    Travelling<T> coming = here;
    if (step + 1 < size) {
      coming = room<T>(owner(step + 1));
      transfer = pass(here, coming);
    }
    struct Found {
      Tensor<float, 4> sums, part;
    };
    std::vector<Found> found;
    const std::optional<Part> part = partOf(owner(step));
    if (part) {
      for (const auto &to :
           {cut(dq, 2, part->queries), cut(sums.k, 2, part->keys), cut(sums.v, 2, part->keys)})
        found.push_back({to, allocate<float, 4>(device, to.extents())});
      run_kernel(
          stream, "attention_backward",
          ringInputs(q, here.k, here.v, result.o, result.lse, gradient, part->queries, part->keys),
          optionsFor(*part), {{"dq", found[0].part}, {"dk", found[1].part}, {"dv", found[2].part}});
    }
    if (sumsTransfer)
      sumsTransfer->wait(stream);
    for (const Found &each : found)
      rows(addPart, each.sums, each.part);
    if (size > 1) {
      const Travelling<float> back = room<float>(owner(step + 1));
      sumsTransfer = pass(sums, back);
      sums = back;
    }
    if (transfer)
      transfer->wait(stream);
    here = coming;
  }
  if (sumsTransfer)
    sumsTransfer->wait(stream);
  const RingAttentionGradients<T> gradients =
      to ? *to
         : RingAttentionGradients<T>{allocate<T, 4>(device, q.extents()),
                                     allocate<T, 4>(device, ownK.extents()),
                                     allocate<T, 4>(device, ownV.extents())};
  rows(assignPart<T, float>, gradients.dq, dq);
  rows(assignPart<T, float>, gradients.dk, sums.k);
  rows(assignPart<T, float>, gradients.dv, sums.v);
  return gradients;
}

} // namespace

template <class T>
RingAttention<T> sectile::ring_attention(const Stream &stream, const Communicator &communicator,
                                         const Tensor<T, 4> &q, const Tensor<T, 4> &k,
                                         const Tensor<T, 4> &v, const RingAttentionOptions &options,
                                         const std::optional<RingAttention<T>> &to) {
  std::vector<GivenOutput> outputs;
  if (to)
    outputs = {
        givenOutput("o", to->o, std::array{q.extent(0), q.extent(1), q.extent(2), v.extent(3)}),
        givenOutput("lse", to->lse, std::array{q.extent(0), q.extent(1), q.extent(2)})};
  return Ring<T>(stream, communicator, q, k, v, options, outputs).forward(to);
}

template <class T>
RingAttentionGradients<T>
sectile::ring_attention_backward(const Stream &stream, const Communicator &communicator,
                                 const Tensor<T, 4> &q, const Tensor<T, 4> &k,
                                 const Tensor<T, 4> &v, const RingAttention<T> &forward,
                                 const Tensor<T, 4> &do_, const RingAttentionOptions &options,
                                 const std::optional<RingAttentionGradients<T>> &to) {
  std::vector<GivenOutput> outputs;
  if (to)
    outputs = {givenOutput("dq", to->dq, q.extents()), givenOutput("dk", to->dk, k.extents()),
               givenOutput("dv", to->dv, v.extents())};
  return Ring<T>(stream, communicator, q, k, v, options, outputs).backward(forward, do_, to);
}

#define INSTANTIATE(T)                                                                             \
  template RingAttention<T> sectile::ring_attention(                                               \
      const Stream &, const Communicator &, const Tensor<T, 4> &, const Tensor<T, 4> &,            \
      const Tensor<T, 4> &, const RingAttentionOptions &,                                          \
      const std::optional<RingAttention<T>> &);                                                    \
  template RingAttentionGradients<T> sectile::ring_attention_backward(                             \
      const Stream &, const Communicator &, const Tensor<T, 4> &, const Tensor<T, 4> &,            \
      const Tensor<T, 4> &, const RingAttention<T> &, const Tensor<T, 4> &,                        \
      const RingAttentionOptions &, const std::optional<RingAttentionGradients<T>> &);
INSTANTIATE(half)
INSTANTIATE(bfloat16)
INSTANTIATE(float)
#undef INSTANTIATE
