// flash::attend and flash::backward: attention whose scores are modified by the caller's lambda,
// and of whatever visibility, with its gradients. The kernel `attention` is made of the same loops.
//
//   const auto alibi = flash::scores(
//       [](flash::Score s, const flash::At &at, View<const float, 1> slopes) {
//         return s - at.per_head(slopes) * at.distance();
//       },
//       slopes);
//   auto [o, lse] = flash::attend(stream, q, k, v, alibi, flash::causal());
//   auto [dq, dk, dv] = flash::backward(stream, q, k, v, o, lse, dO, alibi, flash::causal());
#pragma once
#include <sectile/attention.h>
#include <sectile/flash/blocks.h>
#include <sectile/flash/loops.h>
#include <sectile/use.h>

namespace sectile::flash {

struct Options {
  std::optional<double> scale = {}; // of the products q k; 1/sqrt(D) if none
  // [1 or Hq, R]: scores that rows have beside those of their keys, without values.
  std::optional<Tensor<const float, 2>> sinks = {};
  double dropout = 0; // probability to drop a weight
  std::uint64_t seed = 0;
  // [1] in device memory, added to the seed when a call runs: replays of a graph may draw anew.
  std::optional<Tensor<const std::int64_t, 1>> seed_offset = {};
  bool tf32 = false; // f32: products through tf32 instead of in full
  // Fields of the configuration (`sectile list attention` and `attention_backward` show them) that
  // are not left to the library.
  std::map<std::string, std::int64_t> config = {};
};

// A learned operand and its gradient, which flash::backward writes: [B or 1, H or 1, W], or of
// pairs [B or 1, H or 1, Sq, Sk].
template <int N> struct LearnedTensor {
  Tensor<const float, N> values;
  Tensor<float, N> gradient;
};

namespace detail {

struct LearnedGradient {
  Along along;
  int slot;
  Tensor<const float, 4> values; // [B or 1, H or 1, 1, W] but of pairs
  Tensor<float, 4> gradient;     // likewise
};
// Of each learned operand of a lambda in turn, where programs put their parts of its gradient.
using LearnedParts = std::span<const Tensor<float, 4>>;

} // namespace detail

// What flash::scores gives: a lambda F with its operands. Keeps addresses, not memory.
template <class F> struct Scores {
  Arguments<detail::OperandsOf<2, F>> operands;
  // Of learned operands, and all operands as a backward pass takes them.
  std::vector<detail::LearnedGradient> learned = {};
  std::function<Arguments<detail::OperandsOf<2, F>>(detail::LearnedParts)> with = {};
};

namespace detail {

template <class P> constexpr std::optional<Along> learnedAlong = {};
template <Along A, int Tag> constexpr std::optional<Along> learnedAlong<Learned<A, Tag>> = A;
template <class P> constexpr bool isAlongPairs = learnedAlong<P> == Along::pairs;
template <class... P> constexpr bool learnsAny(std::type_identity<Operands<P...>>) {
  return (learnedAlong<P>.has_value() || ...);
}
// Whether no two have one slot.
template <class... P> constexpr bool areApart(std::type_identity<Operands<P...>>) {
  int slots[sizeof...(P) + 1] = {}, count = 0;
  [[maybe_unused]] const auto add = [&]<class Parameter>(std::type_identity<Parameter>) {
    if constexpr (learnedAlong<Parameter>)
      slots[count++] = Parameter::slot;
  };
  (add(std::type_identity<P>()), ...);
  std::sort(slots, slots + count);
  return std::adjacent_find(slots, slots + count) == slots + count;
}
template <class... P> constexpr bool learnsPairs(std::type_identity<Operands<P...>>) {
  return (isAlongPairs<P> || ...);
}

// One operand; takes the next of the parts where it is learned.
template <class P, class Value>
sectile::detail::Argument<P> operandFrom(const Value &value, LearnedParts &parts) {
  if constexpr (learnedAlong<P>) {
    static_assert(
        std::is_same_v<Value, LearnedTensor<isAlongPairs<P> ? 4 : 3>>,
        "an operand that is learned is given by flash::learned, with tensors of four axes "
        "if it is along pairs, else of three");
    Tensor<float, 4> own(nullptr, {0, 0, 0, 0}, {0, 0, 0, 1});
    if (!parts.empty()) {
      own = parts.front();
      parts = parts.subspan(1);
    }
    if constexpr (isAlongPairs<P>)
      return {value.values};
    else
      return {value.values, own};
  } else {
    return value;
  }
}
inline Arguments<Operands<>> operandsFrom(std::type_identity<Operands<>>, LearnedParts &) {
  return {};
}
template <class P, class... Rest, class Value, class... Values>
  requires(sizeof...(Rest) == sizeof...(Values))
Arguments<Operands<P, Rest...>> operandsFrom(std::type_identity<Operands<P, Rest...>>,
                                             LearnedParts &parts, const Value &value,
                                             const Values &...values) {
  const auto own = operandFrom<P>(value, parts);
  return {own, operandsFrom(std::type_identity<Operands<Rest...>>(), parts, values...)};
}
template <class... P, class... Values>
constexpr void requireAsMany(std::type_identity<Operands<P...>>, const Values &...) {
  static_assert(sizeof...(P) == sizeof...(Values),
                "flash is given one operand for each parameter of the lambda after the fixed ones");
}
template <int N>
LearnedTensor<N> learned(const Tensor<const float, N> &values, const Tensor<float, N> &gradient) {
  for (int axis = 0; axis < N; ++axis)
    if (values.extent(axis) != gradient.extent(axis))
      throw LaunchError("flash::learned: axis " + std::to_string(axis) +
                        " of the values has extent " + std::to_string(values.extent(axis)) +
                        ", but that of the gradient " + std::to_string(gradient.extent(axis)));
  return {values, gradient};
}
template <class T> Tensor<T, 4> withFourAxes(const Tensor<T, 4> &of) { return of; }
template <class T> Tensor<T, 4> withFourAxes(const Tensor<T, 3> &of) {
  return {of.data(),
          {of.extent(0), of.extent(1), 1, of.extent(2)},
          {of.stride(0), of.stride(1), 0, of.stride(2)},
          of.memory()};
}
template <class... P, class... Values>
std::vector<LearnedGradient> gradientsOf(std::type_identity<Operands<P...>>,
                                         const Values &...values) {
  std::vector<LearnedGradient> result;
  const auto add = [&]<class Parameter>(std::type_identity<Parameter>, const auto &value) {
    if constexpr (learnedAlong<Parameter>)
      result.push_back({*learnedAlong<Parameter>, Parameter::slot, withFourAxes(value.values),
                        withFourAxes(value.gradient)});
  };
  (add(std::type_identity<P>(), values), ...);
  return result;
}

// Whether keys behind a query are hidden by Causal, so that later queries see more.
template <class V> constexpr bool isCausal = std::is_same_v<V, Causal>;
template <class A, class B> constexpr bool isCausal<And<A, B>> = isCausal<A> || isCausal<B>;

template <class F> constexpr bool learns = learnsAny(std::type_identity<OperandsOf<2, F>>());
template <class F>
constexpr bool learnsOfPairs = learnsPairs(std::type_identity<OperandsOf<2, F>>());

// The scores as they are.
struct Plain {
  Score operator()(const Score &score, const At &) const { return score; }
};

inline void addLearned(LearnedUses &, const Operands<> &) {}
template <class P, class... Rest>
void addLearned(LearnedUses &to, const Operands<P, Rest...> &operands) {
  if constexpr (learnedAlong<P>) {
    LearnedUse &own = to[P::slot] = {*learnedAlong<P>, {}};
    if constexpr (!isAlongPairs<P>)
      own.parts = operands.first.parts;
  }
  addLearned(to, operands.rest);
}
template <class P> LearnedUses learnedOf(const P &operands) {
  LearnedUses result;
  addLearned(result, operands);
  return result;
}

template <class F> Modifier modifierOf(const OperandsOf<2, F> &operands) {
  if constexpr (std::is_same_v<F, Plain>)
    return {};
  else
    return {[&operands](const Score &score, const At &at) -> Score {
              return operands.call(F{}, score, at);
            },
            /*hides=*/true, learnedOf(operands)};
}

// The kernels' functions.
template <class V> struct MakeLists {
  void operator()(V visibility, View<std::int32_t, 4> lists, Int queries, Int keys,
                  const ListConfig &config) const {
    traceLists(config, lists, queries, keys, Erased<V>(visibility));
  }
};
template <class V> struct MakePackedLists {
  void operator()(V visibility, View<std::int32_t, 4> lists,
                  View<const std::int32_t, 1> queryStarts, View<const std::int32_t, 1> keyStarts,
                  Int queries, Int keys, const ListConfig &config) const {
    tracePackedLists(config, lists, queryStarts, keyStarts, queries, keys, Erased<V>(visibility));
  }
};
// Tensors: those of packed sequences, or others.
template <class Tensors>
constexpr bool isPacked = requires(const Tensors &tensors) { tensors.queryStarts; };

template <class Tensors, class F, class V> struct Forward {
  void operator()(Tensors tensors, Numbers numbers, OperandsOf<2, F> operands, V visibility,
                  ListsOf<V> lists, const LoopConfig &config) const {
    traceForward(
        config, tensors,
        {numbers, modifierOf<F>(operands),
         Erased<V>(visibility, config.split ? nullptr : &lists, isPacked<Tensors> ? config.m : 0)});
  }
};
template <class T, class Out, class F, class V> struct Parts {
  void operator()(PartTensors<T, Out> tensors, Numbers numbers, OperandsOf<2, F> operands,
                  V visibility, const LoopConfig &config) const {
    traceParts(config, tensors, {numbers, modifierOf<F>(operands), Erased<V>(visibility)});
  }
};
template <class Tensors, class Gradient, class F, class V> struct QueryGradients {
  void operator()(Tensors tensors, Gradient dq, Numbers numbers, OperandsOf<2, F> operands,
                  V visibility, ListsOf<V> lists, const LoopConfig &config) const {
    // The gradient of a table of distances takes blocks of keys one after the other, all of them.
    traceQueryGradients(
        config, tensors, dq,
        {numbers, modifierOf<F>(operands),
         Erased<V>(visibility, learns<F> ? nullptr : &lists, isPacked<Tensors> ? config.m : 0)});
  }
};
template <class Tensors, class Gradient, class F, class V> struct KeyGradients {
  void operator()(Tensors tensors, Gradient dk, Gradient dv, Numbers numbers,
                  OperandsOf<2, F> operands, V visibility, ListsOf<V> lists,
                  const LoopConfig &config) const {
    const Erased<V> erased(visibility, &lists, isPacked<Tensors> ? config.n : 0);
    const ScoreRules rules{numbers, modifierOf<F>(operands), erased};
    if constexpr (isPacked<Tensors>)
      traceKeyGradients(config, tensors, dk, dv, rules);
    else
      traceKeyGradients(config, tensors, dk, dv, View<float, 4>(), rules);
  }
};
template <class Tensors, class F, class V> struct PairGradients {
  void operator()(Tensors tensors, View<float, 4> gradient, Numbers numbers,
                  OperandsOf<2, F> operands, V visibility, const PairConfig &config) const {
    tracePairGradients(config, tensors, gradient,
                       {numbers, modifierOf<F>(operands), Erased<V>(visibility)});
  }
};

template <class V> struct MakePagedLists {
  void operator()(V visibility, View<std::int32_t, 4> lists, View<const std::int32_t, 1> lengths,
                  View<const std::int32_t, 1> queryStarts, View<const std::int32_t, 2> plan,
                  Int queries, Int keys, const PagedListConfig &config) const {
    tracePagedLists(config, lists, lengths, queryStarts, plan, queries, keys,
                    Erased<V>(visibility));
  }
};
template <class T, class C, class Out, class F, class V> struct PagedForward {
  void operator()(PagedTensors<T, C, Out> tensors, Numbers numbers, OperandsOf<2, F> operands,
                  V visibility, ListsOf<V> lists, const PagedConfig &config) const {
    tracePages(
        config, config, tensors,
        {numbers, modifierOf<F>(operands), Erased<V>(visibility, &lists, Erased<V>::ofPrograms)});
  }
};

// A call of which the library makes launches.
struct Call {
  bool modified, causal; // scores are not as they are; visibility has Causal
  NamedTensors inputs, outputs;
  const Options &options;
  std::vector<LearnedGradient> learned = {};
  bool listed = false; // visibility has blocks
};
template <class V, class F, class Outputs>
Call callOf(NamedTensors inputs, const Scores<F> &scores, const Options &options,
            const std::optional<Outputs> &to) {
  return {!std::is_same_v<F, Plain>,
          isCausal<V>,
          std::move(inputs),
          sectile::detail::namedOutputs(to),
          options,
          scores.learned,
          hasBlocks<V>};
}
// One of them. Tensors that it has are those of its kind.
struct Launch {
  enum class Of { all, parts, pages, queries, keys, keyParts, pairs };
  Of of;
  Grid grid;
  LoopConfig config;
  Arguments<Numbers> numbers;
  AnyTensor sinks = {};                         // of a forward pass
  AnyTensor o = {}, lse = {};                   // of parts, packed sequences and pages
  AnyTensor logs = {}, delta = {}, dqSums = {}; // of gradients
  AnyTensor dk = {}, dv = {};
  std::vector<Tensor<float, 4>> learned = {}; // parts of gradients
  const LearnedGradient *pairs = nullptr;     // the one that is written
  PageConfig pages = {};
  AnyTensor queryStarts = {}; // of pages
  AnyTensor plan = {};        // of packed sequences and of pages
  AnyTensor kScales = {}, vScales = {}, kKeyScales = {}, vKeyScales = {}; // of pages
  std::int64_t queries = 1;                                               // of PagedTensors
};
using Launcher = std::function<void(Use &, const Launch &)>;
// Call `launch` for each launch of a call, in order; give the outputs, allocated where there are
// none. Throw LaunchError for what does not fit.
NamedTensors attend(const Stream &stream, Call call, const Launcher &launch);
NamedTensors backward(const Stream &stream, Call call, const Launcher &launch);

// Lists as a launch takes them.
inline Arguments<BlockLists> asLists(const Tensor<std::int32_t, 4> &of) {
  return {Tensor<std::int32_t, 1>(of.data(), {of.extent(0) * of.stride(0)}, {1}, of.memory()),
          of.extent(1), of.extent(2), of.extent(3)};
}

// Makes the lists that a launch takes, of blocks of its queries or its keys, where it takes any.
// starts: where packed sequences begin among the queries and the keys; none where there are none.
template <class V>
Arguments<ListsOf<V>> listsOf(Use &use, const Launch &launch, const Arguments<V> &visibility,
                              std::initializer_list<Tensor<const std::int32_t, 1>> starts = {}) {
  if constexpr (hasBlocks<V>) {
    if (launch.of == Launch::Of::parts) // which go over all blocks of intervals
      return asLists({nullptr, {}, {}});
    const bool ofQueries = launch.of == Launch::Of::all || launch.of == Launch::Of::queries,
               packed = starts.size() > 0;
    const std::int64_t heads = use.extent("Hq"), queries = use.extent(packed ? "Tq" : "Sq"),
                       keys = use.extent(packed ? "Tk" : "Sk"), m = launch.config.m,
                       n = launch.config.n, rows = (queries + m - 1) / m,
                       columns = (keys + n - 1) / n, others = ofQueries ? columns : rows;
    const ListConfig config{.m = launch.config.m, .n = launch.config.n, .ofQueries = ofQueries};
    if (packed) {
      // As many blocks as there can be.
      const std::int64_t sequences = starts.begin()[0].extent(0) - 1,
                         blocks = sequences ? (ofQueries ? queries / m : keys / n) + sequences : 0;
      const auto lists = use.workspace<std::int32_t, 4>({1, heads, blocks, 1 + others});
      use(kernelOf<MakePackedLists<V>>("flash_packed_lists"), Grid(blocks, heads), visibility,
          lists, starts.begin()[0], starts.begin()[1], queries, keys, config);
      return asLists(lists);
    }
    const std::int64_t batches = use.extent("B"), own = ofQueries ? rows : columns;
    const auto lists = use.workspace<std::int32_t, 4>({batches, heads, own, 1 + others});
    use(kernelOf<MakeLists<V>>("flash_lists"), Grid(own, heads, batches), visibility, lists,
        queries, keys, config);
    return asLists(lists);
  } else {
    return {};
  }
}
// The same over pages, whose tables are [S, max].
template <class V>
Arguments<ListsOf<V>> listsOfPages(Use &use, const Launch &launch, const Arguments<V> &visibility,
                                   const Tensor<const std::int32_t, 1> &lengths,
                                   std::int64_t room) {
  if constexpr (hasBlocks<V>) {
    const LoopConfig &of = launch.config;
    const auto lists = use.workspace<std::int32_t, 4>(
        {1, launch.grid.y, launch.grid.x, 1 + (room + of.n - 1) / of.n});
    use(kernelOf<MakePagedLists<V>>("flash_paged_lists"), Grid(launch.grid.x, launch.grid.y),
        visibility, lists, lengths, launch.queryStarts.as<const std::int32_t, 1>(),
        launch.plan.as<const std::int32_t, 2>(), use.call.tensor("q").shape[0], room,
        PagedListConfig{{.m = of.m, .n = of.n, .group = of.group}, launch.pages});
    return asLists(lists);
  } else {
    return {};
  }
}

// Calls body(Out()) with the type of a launch's o, T or float.
template <class T, class Body> void withOut(const Launch &launch, Body &&body) {
  if (launch.o.dtype == dtype_of<T>)
    body(T());
  else
    body(float());
}

// A launch of gradients, of N axes, of these tensors.
template <class T, int N, class Tensors, class F, class V>
void launchGradients(Use &use, const Launch &launch, const Arguments<Tensors> &in,
                     const Scores<F> &scores, const Arguments<V> &visibility,
                     std::initializer_list<Tensor<const std::int32_t, 1>> starts = {}) {
  constexpr bool packed = isPacked<Tensors>;
  const auto operands = launch.learned.empty() ? scores.operands : scores.with(launch.learned);
  if constexpr (learnsOfPairs<F>)
    if (launch.of == Launch::Of::pairs)
      return use(kernelOf<PairGradients<Tensors, F, V>>(packed ? "flash_packed_backward_pairs"
                                                               : "flash_backward_pairs"),
                 launch.grid, in, launch.pairs->gradient, launch.numbers, operands, visibility,
                 PairConfig{launch.config, {launch.pairs->slot}});
  const auto lists = listsOf<V>(use, launch, visibility, starts);
  const auto with = [&](const auto &function, const auto &...results) {
    use(function, launch.grid, in, results..., launch.numbers, operands, visibility, lists,
        launch.config);
  };
  const auto ofKeys = [&]<class Sum>(const Tensor<Sum, N> &dk, const Tensor<Sum, N> &dv) {
    with(kernelOf<KeyGradients<Tensors, View<Sum, N>, F, V>>(packed ? "flash_packed_backward_kv"
                                                                    : "flash_backward_kv"),
         dk, dv);
  };
  if (launch.of == Launch::Of::queries)
    with(kernelOf<QueryGradients<Tensors, View<T, N>, F, V>>(packed ? "flash_packed_backward_q"
                                                                    : "flash_backward_q"),
         use.tensor<T, N>("dq"));
  else if constexpr (packed)
    ofKeys(use.tensor<T, N>("dk"), use.tensor<T, N>("dv"));
  else if (launch.of == Launch::Of::keys)
    ofKeys(launch.dk.as<T, N>(), launch.dv.as<T, N>());
  else
    ofKeys(launch.dk.as<float, N>(), launch.dv.as<float, N>());
}

} // namespace detail

// Scores as a lambda (Score, const At &, operands...) makes them of the scaled products of queries
// and keys: what it gives is a Score, or converts to one. It captures nothing. Each further
// parameter is given an operand here, as a kernel's is by launch().
template <class F, class... Values> Scores<F> scores(F, const Values &...operands) {
  constexpr std::type_identity<detail::OperandsOf<2, F>> type;
  detail::requireAsMany(type, operands...);
  static_assert(detail::areApart(type), "of two learned operands along the same, each has a tag of "
                                        "its own: Learned<Along::heads, 1>");
  detail::LearnedParts none;
  Scores<F> result{detail::operandsFrom(type, none, operands...)};
  if constexpr (detail::learnsAny(type)) {
    result.learned = detail::gradientsOf(type, operands...);
    result.with = [=](detail::LearnedParts parts) {
      return detail::operandsFrom(type, parts, operands...);
    };
  }
  return result;
}
// An operand for a lambda's parameter Learned<...>: values and gradient [B or 1, H or 1, W], where
// W is 1, Sq, Sk or an odd number of distances, 3 at least; for one along pairs [B or 1, H or 1,
// Sq, Sk]. Over packed sequences B counts these, and Sq and Sk are at least those of the longest
// one; what an operand has behind the end of a sequence is not used, and its gradient there is 0.
// The gradient is summed in a fixed order.
inline LearnedTensor<3> learned(const Tensor<const float, 3> &values,
                                const Tensor<float, 3> &gradient) {
  return detail::learned(values, gradient);
}
inline LearnedTensor<4> learned(const Tensor<const float, 4> &values,
                                const Tensor<float, 4> &gradient) {
  return detail::learned(values, gradient);
}
inline Scores<detail::Plain> plain() { return {}; }

// Visibilities, by the structs of <sectile/flash/visibility.h>.
inline Arguments<Everything> everything() { return {}; }
inline Arguments<Causal> causal() { return {}; }
// left, right: any distance where there is none.
inline Arguments<Window> window(std::optional<std::int64_t> left,
                                std::optional<std::int64_t> right) {
  // Farther than keys can lie, and sums fit an Int.
  const auto distance = [farthest = std::int64_t(1)
                                    << 29](const std::optional<std::int64_t> &given) {
    return std::min(given.value_or(farthest), farthest);
  };
  return {distance(left), distance(right)};
}
inline Arguments<Documents> documents(const Tensor<const std::int32_t, 2> &starts,
                                      const Tensor<const std::int32_t, 2> &ends) {
  return {starts, ends};
}
inline Arguments<Prefix> prefix(const Tensor<const std::int32_t, 1> &lengths) { return {lengths}; }
inline Arguments<Chunked> chunked(std::int64_t size) {
  if (size < 1)
    throw LaunchError("flash::chunked: chunks of " + std::to_string(size) +
                      " keys, but there has to be one at least");
  return {size};
}
inline Arguments<KeyLengths> key_lengths(const Tensor<const std::int32_t, 1> &lengths) {
  return {lengths};
}
inline Arguments<KeyMask> key_mask(const Tensor<const bool, 2> &mask) { return {mask}; }
inline Arguments<Mask> mask(const Tensor<const bool, 4> &mask) { return {mask}; }
// block_q and block_k are 1 at least. Blocks without a pair that is seen are not visited: lists of
// the others are made on the device, once for each call.
inline Arguments<MaskBlocks> block_list(const Tensor<const bool, 4> &mask, std::int64_t block_q,
                                        std::int64_t block_k) {
  if (block_q < 1 || block_k < 1)
    throw LaunchError("flash::block_list: blocks of " + std::to_string(block_q) + " queries and " +
                      std::to_string(block_k) + " keys, but there has to be one at least");
  return {mask, block_q, block_k};
}
inline Arguments<Tree> tree(const Tensor<const std::uint64_t, 2> &ancestors) { return {ancestors}; }
inline Arguments<TokenTree> tree(const Tensor<const std::int32_t, 2> &bits) { return {bits}; }
// Pairs for which a lambda (const At &, operands...) that captures nothing gives true.
template <class F, class... Values>
  requires std::is_class_v<F> && std::is_empty_v<F>
Arguments<Where<F>> where(F, const Values &...operands) {
  constexpr std::type_identity<detail::OperandsOf<1, F>> type;
  static_assert(!detail::learnsAny(type),
                "no operand of flash::where is learned: what a query sees "
                "has no gradient");
  detail::requireAsMany(type, operands...);
  detail::LearnedParts none;
  return {detail::operandsFrom(type, none, operands...)};
}

// o = softmax(scores) v over the keys that a query sees, and lse, for q [B, Hq, Sq, D],
// k [B, Hkv, Sk, D] and v [B, Hkv, Sk, Dv] of any strides, with T half, bfloat16 or float, D and Dv
// from 16 to 256, and Hq a multiple of Hkv. Rows that see no key give o = 0 and lse = -inf. A score
// of -inf hides its key. Launches and does not wait. Writes what is given as `to`, else what it
// allocates. Throws LaunchError for what does not fit.
template <class T, class F, Visible V>
AttentionOutputs<std::remove_const_t<T>, 4>
attend(const Stream &stream, const Tensor<T, 4> &q, const sectile::detail::KernelInput<T, 4> &k,
       const sectile::detail::KernelInput<T, 4> &v, const Scores<F> &scores,
       const Arguments<V> &visibility, const Options &options = {},
       const sectile::detail::AttentionTo<AttentionOutputs, T, 4> &to = {}) {
  using namespace detail;
  using E = std::remove_const_t<T>;
  checkVisibility(visibility, {q.extent(0), q.extent(1), q.extent(2), k.extent(2)});
  const NamedTensors out = detail::attend(
      stream, callOf<V>({{"q", q}, {"k", k}, {"v", v}}, scores, options, to),
      [&](Use &use, const Launch &launch) {
        const auto inQ = use.tensor<E, 4>("q"), inK = use.tensor<E, 4>("k"),
                   inV = use.tensor<E, 4>("v");
        const auto sinks = launch.sinks.as<const float, 2>();
        if (launch.of == Launch::Of::all)
          use(kernelOf<Forward<ForwardTensors<E>, F, V>>("flash_forward"), launch.grid,
              Arguments<ForwardTensors<E>>{inQ, inK, inV, use.tensor<E, 4>("o"),
                                           use.tensor<float, 3>("lse"), sinks},
              launch.numbers, scores.operands, visibility, listsOf<V>(use, launch, visibility),
              launch.config);
        else
          withOut<E>(launch, [&]<class Out>(Out) {
            use(kernelOf<Parts<E, Out, F, V>>("flash_parts"), launch.grid,
                Arguments<PartTensors<E, Out>>{inQ, inK, inV, launch.o.as<Out, 5>(),
                                               launch.lse.as<float, 4>(), sinks},
                launch.numbers, scores.operands, visibility, launch.config);
          });
      });
  return sectile::detail::outputsOf<AttentionOutputs<E, 4>>(out);
}

// The gradients of what has dO for the gradient of o, for the same scores, visibility and options;
// o and lse are what `attend` gave. Sums have a fixed order: two runs give the same bits. `to` as
// above.
template <class T, class F, Visible V>
AttentionGradients<std::remove_const_t<T>, 4>
backward(const Stream &stream, const Tensor<T, 4> &q, const sectile::detail::KernelInput<T, 4> &k,
         const sectile::detail::KernelInput<T, 4> &v, const sectile::detail::KernelInput<T, 4> &o,
         const std::type_identity_t<Tensor<const float, 3>> &lse,
         const sectile::detail::KernelInput<T, 4> &dO, const Scores<F> &scores,
         const Arguments<V> &visibility, const Options &options = {},
         const sectile::detail::AttentionTo<AttentionGradients, T, 4> &to = {}) {
  using namespace detail;
  using E = std::remove_const_t<T>;
  checkVisibility(visibility, {q.extent(0), q.extent(1), q.extent(2), k.extent(2)});
  const NamedTensors out =
      detail::backward(stream,
                       callOf<V>({{"q", q}, {"k", k}, {"v", v}, {"o", o}, {"lse", lse}, {"do", dO}},
                                 scores, options, to),
                       [&](Use &use, const Launch &launch) {
                         launchGradients<E, 4>(use, launch,
                                               Arguments<BackwardTensors<E>>{
                                                   use.tensor<E, 4>("q"), use.tensor<E, 4>("k"),
                                                   use.tensor<E, 4>("v"), use.tensor<E, 4>("do"),
                                                   launch.logs.as<const float, 3>(),
                                                   launch.delta.as<const float, 3>()},
                                               scores, visibility);
                       });
  return sectile::detail::outputsOf<AttentionGradients<E, 4>>(out);
}

// The same of B packed sequences: q [Tq, Hq, D], k [Tk, Hkv, D] and v [Tk, Hkv, Dv], where sequence
// s has the tokens cu_seqlens[s] up to, without it, cu_seqlens[s + 1], in device memory; o is
// [Tq, Hq, Dv] and lse [Hq, Tq]. To a lambda and a visibility the number of a sequence is its
// batch, and queries and keys are counted from its beginning. What cu_seqlens holds is not checked;
// where it falls, or leaves its range, results are undefined, but nothing outside the tensors is
// touched.
template <class T, class F, Visible V>
AttentionOutputs<std::remove_const_t<T>, 3>
attend(const Stream &stream, const Tensor<T, 3> &q, const sectile::detail::KernelInput<T, 3> &k,
       const sectile::detail::KernelInput<T, 3> &v,
       const Tensor<const std::int32_t, 1> &cu_seqlens_q,
       const Tensor<const std::int32_t, 1> &cu_seqlens_k, const Scores<F> &scores,
       const Arguments<V> &visibility, const Options &options = {},
       const sectile::detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  using namespace detail;
  using E = std::remove_const_t<T>;
  checkVisibility(visibility, {cu_seqlens_q.extent(0) - 1, q.extent(1)});
  const NamedTensors out = detail::attend(
      stream,
      callOf<V>({{"q", q},
                 {"k", k},
                 {"v", v},
                 {"cu_seqlens_q", cu_seqlens_q},
                 {"cu_seqlens_k", cu_seqlens_k}},
                scores, options, to),
      [&](Use &use, const Launch &launch) {
        const auto lists = listsOf<V>(use, launch, visibility, {cu_seqlens_q, cu_seqlens_k});
        withOut<E>(launch, [&]<class Out>(Out) {
          using Tensors = PackedForwardTensors<E, Out>;
          use(kernelOf<Forward<Tensors, F, V>>("flash_packed_forward"), launch.grid,
              Arguments<Tensors>{
                  use.tensor<E, 3>("q"), use.tensor<E, 3>("k"), use.tensor<E, 3>("v"), cu_seqlens_q,
                  cu_seqlens_k, launch.o.as<Out, 4>(), launch.lse.as<float, 3>(),
                  launch.sinks.as<const float, 2>(), launch.plan.as<const std::int32_t, 2>()},
              launch.numbers, scores.operands, visibility, lists, launch.config);
        });
      });
  return sectile::detail::outputsOf<AttentionOutputs<E, 3>>(out);
}

// Their gradients, as above.
template <class T, class F, Visible V>
AttentionGradients<std::remove_const_t<T>, 3> backward(
    const Stream &stream, const Tensor<T, 3> &q, const sectile::detail::KernelInput<T, 3> &k,
    const sectile::detail::KernelInput<T, 3> &v, const Tensor<const std::int32_t, 1> &cu_seqlens_q,
    const Tensor<const std::int32_t, 1> &cu_seqlens_k, const sectile::detail::KernelInput<T, 3> &o,
    const std::type_identity_t<Tensor<const float, 2>> &lse,
    const sectile::detail::KernelInput<T, 3> &dO, const Scores<F> &scores,
    const Arguments<V> &visibility, const Options &options = {},
    const sectile::detail::AttentionTo<AttentionGradients, T, 3> &to = {}) {
  using namespace detail;
  using E = std::remove_const_t<T>;
  checkVisibility(visibility, {cu_seqlens_q.extent(0) - 1, q.extent(1)});
  const NamedTensors out = detail::backward(
      stream,
      callOf<V>({{"q", q},
                 {"k", k},
                 {"v", v},
                 {"cu_seqlens_q", cu_seqlens_q},
                 {"cu_seqlens_k", cu_seqlens_k},
                 {"o", o},
                 {"lse", lse},
                 {"do", dO}},
                scores, options, to),
      [&](Use &use, const Launch &launch) {
        launchGradients<E, 3>(use, launch,
                              Arguments<PackedBackwardTensors<E>>{
                                  use.tensor<E, 3>("q"), use.tensor<E, 3>("k"),
                                  use.tensor<E, 3>("v"), cu_seqlens_q, cu_seqlens_k,
                                  use.tensor<E, 3>("do"), launch.logs.as<const float, 2>(),
                                  launch.delta.as<const float, 2>()},
                              scores, visibility, {cu_seqlens_q, cu_seqlens_k});
      });
  return sectile::detail::outputsOf<AttentionGradients<E, 3>>(out);
}

// What numbers of a cache are multiplied by: [1 or blocks, Hkv], or of each key and head
// [blocks, Hkv, page], as kv_append makes them.
struct CacheScales {
  AnyTensor tensor;
  template <class T> CacheScales(const Tensor<T, 2> &of) : tensor(Tensor<const float, 2>(of)) {}
  template <class T> CacheScales(const Tensor<T, 3> &of) : tensor(Tensor<const float, 3>(of)) {}
};
// Keys and values of S sequences in pages, as flash::pages gives them.
template <class C> struct Pages {
  Tensor<const C, 4> k, v;
  Tensor<const std::int32_t, 2> tables;
  Tensor<const std::int32_t, 1> lengths;
  std::optional<CacheScales> kScale, vScale;
  std::optional<Tensor<const std::int32_t, 2>> plan;
};
// Caches [blocks, Hkv, page, D]; key j of sequence s, which has context_lens[s], is key j % page of
// the block block_tables[s, j / page]: [S] and [S, max]. They are of the type of q, or they hold
// numbers of float8_e4m3, float8_e5m2, std::int8_t or, as std::uint8_t with D / 2 of them, pairs of
// 4 bits (-8 to 7, the first in the low half), which are multiplied by scales where these are
// given. plan [parts, 4] is of the kernel paged_plan, for one query a sequence.
template <class C>
Pages<std::remove_const_t<C>> pages(const Tensor<C, 4> &k_cache,
                                    const sectile::detail::KernelInput<C, 4> &v_cache,
                                    const Tensor<const std::int32_t, 2> &block_tables,
                                    const Tensor<const std::int32_t, 1> &context_lens,
                                    const std::optional<CacheScales> &k_scale = {},
                                    const std::optional<CacheScales> &v_scale = {},
                                    const std::optional<Tensor<const std::int32_t, 2>> &plan = {}) {
  return {k_cache, v_cache, block_tables, context_lens, k_scale, v_scale, plan};
}

namespace detail {
// queryStarts: null where each sequence has one query.
template <class T, class C, class F, class V>
AttentionOutputs<std::remove_const_t<T>, 3>
attendPages(const Stream &stream, const Tensor<T, 3> &q, const Pages<C> &pages,
            const Tensor<const std::int32_t, 1> *queryStarts, const Scores<F> &scores,
            const Arguments<V> &visibility, const Options &options,
            const sectile::detail::AttentionTo<AttentionOutputs, T, 3> &to) {
  using E = std::remove_const_t<T>;
  checkVisibility(visibility, {pages.lengths.extent(0), q.extent(1)});
  static_assert(std::is_same_v<C, E> || std::is_same_v<C, float8_e4m3> ||
                    std::is_same_v<C, float8_e5m2> || std::is_same_v<C, std::int8_t> ||
                    std::is_same_v<C, std::uint8_t>,
                "pages are of the type of q, or of float8_e4m3, float8_e5m2, std::int8_t or "
                "std::uint8_t");
  NamedTensors inputs{{"q", q},
                      {"k_cache", pages.k},
                      {"v_cache", pages.v},
                      {"block_tables", pages.tables},
                      {"context_lens", pages.lengths}};
  sectile::detail::addTensor(inputs, "cu_seqlens_q", queryStarts);
  const auto addScales = [&](const std::string &name, const std::optional<CacheScales> &scales) {
    if (scales)
      inputs.emplace(scales->tensor.extents.size() == 3 ? name + "s" : name, scales->tensor);
  };
  addScales("k_scale", pages.kScale);
  addScales("v_scale", pages.vScale);
  sectile::detail::addTensor(inputs, "plan", pages.plan);
  const NamedTensors out = detail::attend(
      stream, callOf<V>(std::move(inputs), scores, options, to),
      [&](Use &use, const Launch &launch) {
        const auto lists =
            listsOfPages<V>(use, launch, visibility, pages.lengths,
                            pages.tables.extent(1) * std::int64_t(launch.pages.page));
        withOut<E>(launch, [&]<class Out>(Out) {
          use(kernelOf<PagedForward<E, C, Out, F, V>>("flash_paged_forward"), launch.grid,
              Arguments<PagedTensors<E, C, Out>>{
                  use.tensor<E, 3>("q"), pages.k, pages.v, pages.lengths, pages.tables,
                  launch.queryStarts.as<const std::int32_t, 1>(),
                  launch.plan.as<const std::int32_t, 2>(), launch.sinks.as<const float, 2>(),
                  launch.kScales.as<const float, 2>(), launch.vScales.as<const float, 2>(),
                  launch.kKeyScales.as<const float, 3>(), launch.vKeyScales.as<const float, 3>(),
                  launch.o.as<Out, 4>(), launch.lse.as<float, 3>(), launch.queries},
              launch.numbers, scores.operands, visibility, lists,
              PagedConfig{launch.config, launch.pages});
        });
      });
  return sectile::detail::outputsOf<AttentionOutputs<E, 3>>(out);
}
} // namespace detail

// The blocks of a visibility over pages, for one query a sequence, or chunks of up to call.queries.
// call.keys is what tables have room for, whatever is given.
template <class C, Visible V>
Blocks blocks_of(const Stream &stream, const Arguments<V> &visibility, BlocksFor call,
                 const Pages<C> &pages, std::int64_t block_q = 128, std::int64_t block_k = 128) {
  call.queries = 1;
  call.keys = pages.tables.extent(1) * pages.k.extent(2);
  return detail::blocksOf(stream, visibility, call, {.keyLengths = &pages.lengths}, block_q,
                          block_k);
}
template <class C, Visible V>
Blocks blocks_of(const Stream &stream, const Arguments<V> &visibility, BlocksFor call,
                 const Pages<C> &pages, const Tensor<const std::int32_t, 1> &cu_seqlens_q,
                 std::int64_t block_q = 128, std::int64_t block_k = 128) {
  call.keys = pages.tables.extent(1) * pages.k.extent(2);
  return detail::blocksOf(stream, visibility, call,
                          {.queryStarts = &cu_seqlens_q, .keyLengths = &pages.lengths}, block_q,
                          block_k);
}

// Attention over keys in pages, forward, for q [S, Hq, D]: one query a sequence, its newest token.
// o is as q, and lse [S, Hq]. To a lambda and a visibility the number of a sequence is its batch,
// keys are counted from its beginning, and the last query lies beside the last key. Entries of
// block_tables for pages that intervals or lists of the visibility leave out, or that lie behind
// context_lens, are not read. What is read of them is not checked, nor are the lengths, which count
// up to what the tables have room for. Throws LaunchError for what does not fit, dropout and tf32
// among it.
template <class T, class C, class F, Visible V>
AttentionOutputs<std::remove_const_t<T>, 3>
attend(const Stream &stream, const Tensor<T, 3> &q, const Pages<C> &pages, const Scores<F> &scores,
       const Arguments<V> &visibility, const Options &options = {},
       const sectile::detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  return detail::attendPages(stream, q, pages, nullptr, scores, visibility, options, to);
}
// The same of several queries a sequence, q [Tq, Hq, D]: sequence s has the tokens
// cu_seqlens_q[s] up to, without it, cu_seqlens_q[s + 1], whose keys are the last ones in its
// pages. lse is [Tq, Hq]. cu_seqlens_q, [S + 1], is not checked.
template <class T, class C, class F, Visible V>
AttentionOutputs<std::remove_const_t<T>, 3>
attend(const Stream &stream, const Tensor<T, 3> &q, const Pages<C> &pages,
       const Tensor<const std::int32_t, 1> &cu_seqlens_q, const Scores<F> &scores,
       const Arguments<V> &visibility, const Options &options = {},
       const sectile::detail::AttentionTo<AttentionOutputs, T, 3> &to = {}) {
  return detail::attendPages(stream, q, pages, &cu_seqlens_q, scores, visibility, options, to);
}

} // namespace sectile::flash

namespace sectile::detail {
// Found for two visibilities: what both see, and what either does.
template <flash::Visible A, flash::Visible B>
Arguments<flash::And<A, B>> operator&&(const Argument<A> &a, const Argument<B> &b) {
  return {a, b};
}
template <flash::Visible A, flash::Visible B>
Arguments<flash::Or<A, B>> operator||(const Argument<A> &a, const Argument<B> &b) {
  return {a, b};
}
} // namespace sectile::detail
