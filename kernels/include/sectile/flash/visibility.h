// Visibility: which keys a query sees, put together with && and ||. Nothing of it lies in memory
// but what its operands are.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <sectile/flash/at.h>
#include <sectile/sectile.h>
#include <type_traits>

namespace sectile::flash {

// From the first number to the last; without an end where there is none.
struct Interval {
  std::optional<Int> first = {}, last = {};
};

// What lies in both, and the least that holds both.
Interval meet(const Interval &a, const Interval &b);
Interval hull(const Interval &a, const Interval &b);
// Whether a number does, and has been seen where that is asked.
Bool within(const Interval &interval, const Int &number, const std::optional<Bool> &seen);

// Blocks of queries and keys, from the first to the last number of each: scalars, or tiles that
// broadcast. queries and keys: as many as there can be.
struct Region {
  Sequence sequence;
  Int firstQuery, lastQuery, firstKey, lastKey;
  int queries, keys;
};

// A visibility is a plain struct of traced values with some of the functions
//
//   Interval keysOf(const Sequence &, const Int &query) const    that a query may see, and
//   Interval queriesOf(const Sequence &, const Int &key) const   that may see a key: both, or
//                                                                neither. Both ends rise, or stay,
//                                                                with the query or key.
//   Bool sees(const At &) const                                  for each pair of a block
//   Bool touches(const Region &) const                           false only where no query of a
//                                                                block sees any of its keys
//
// A query sees a key where all that there are say so; touches() goes with sees(). Blocks of which
// no query sees a key are never read, as far as the intervals and touches() tell; inside intervals
// nothing is compared. touches() is asked once for each block, before the loops.
template <class V>
concept Visible = KernelStruct<V> &&
                  (requires(const V &v, const Sequence &s, const Int &i) { v.keysOf(s, i); } ==
                   requires(const V &v, const Sequence &s, const Int &i) { v.queriesOf(s, i); });

// The same functions of any type; no ends, and nothing to compare, where it lacks them.
template <Visible V>
Interval keysOf(const V &visibility, const Sequence &sequence, const Int &query) {
  if constexpr (requires { visibility.keysOf(sequence, query); })
    return visibility.keysOf(sequence, query);
  else
    return {};
}
template <Visible V>
Interval queriesOf(const V &visibility, const Sequence &sequence, const Int &key) {
  if constexpr (requires { visibility.queriesOf(sequence, key); })
    return visibility.queriesOf(sequence, key);
  else
    return {};
}
template <Visible V> std::optional<Bool> sees(const V &visibility, const At &at) {
  if constexpr (requires { std::optional<Bool>(visibility.sees(at)); })
    return visibility.sees(at);
  else
    return {};
}

// Whether pairs are to be compared.
template <class V> constexpr bool hasPairs = requires(const V &v, const At &at) { v.sees(at); };
template <Visible V> std::optional<Bool> isWhole(const V &visibility, const At &at) {
  if constexpr (requires { std::optional<Bool>(visibility.isWhole(at)); })
    return visibility.isWhole(at);
  else if constexpr (!hasPairs<V>)
    return Bool(true);
  else
    return {};
}

// Whether it tells of blocks what no interval does.
template <class V>
constexpr bool hasBlocks = requires(const V &v, const Region &region) { v.touches(region); };
// False only where nothing in a region is seen.
Bool overlap(const Interval &least, const Interval &most, const Region &region);
template <Visible V> Bool reaches(const V &visibility, const Region &region) {
  const Bool result = overlap(keysOf(visibility, region.sequence, region.firstQuery),
                              keysOf(visibility, region.sequence, region.lastQuery), region);
  if constexpr (hasBlocks<V>)
    return result && visibility.touches(region);
  else
    return result;
}

// Every key.
struct Everything {};

// Keys up to the one beside the query.
struct Causal {
  Interval keysOf(const Sequence &sequence, const Int &query) const {
    return {{}, query + sequence.offset()};
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const {
    return {key - sequence.offset(), {}};
  }
};

// From `left` keys before the one beside the query to `right` behind it.
struct Window {
  Int left, right;
  Interval keysOf(const Sequence &sequence, const Int &query) const {
    const Int beside = query + sequence.offset();
    return {beside - left, beside + right};
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const {
    const Int beside = key - sequence.offset();
    return {beside - right, beside + left};
  }
};

// Keys of the query's own document; a query before the first key has none. Of each key of a batch,
// where its document starts and ends (its last key and 1): [B, Sk].
struct Documents {
  View<const std::int32_t, 2> starts, ends;
  Interval keysOf(const Sequence &sequence, const Int &query) const;
  Interval queriesOf(const Sequence &sequence, const Int &key) const;
};

// Keys up to the one beside the query, and the first lengths[b] keys: [B].
struct Prefix {
  View<const std::int32_t, 1> lengths;
  Interval keysOf(const Sequence &sequence, const Int &query) const;
  Interval queriesOf(const Sequence &sequence, const Int &key) const;
};

// Keys of the same chunk of `size` as the one beside the query.
struct Chunked {
  Int size;
  Interval keysOf(const Sequence &sequence, const Int &query) const;
  Interval queriesOf(const Sequence &sequence, const Int &key) const;
};

// The first lengths[b] keys: [B].
struct KeyLengths {
  View<const std::int32_t, 1> lengths;
  Interval keysOf(const Sequence &sequence, const Int &query) const;
  Interval queriesOf(const Sequence &sequence, const Int &key) const;
};

// Keys where mask [1 or B, Sk] is true.
struct KeyMask {
  View<const bool, 2> mask;
  Bool sees(const At &at) const { return at.per_key(mask); }
};

// Pairs where mask [1 or B, 1 or H, Sq, Sk] is true.
struct Mask {
  View<const bool, 4> mask;
  Bool sees(const At &at) const { return at.per_pair(mask); }
};

// Blocks of blockQ queries and blockK keys where mask [1 or B, 1 or H, ceil(Sq / blockQ),
// ceil(Sk / blockK)] is true.
struct MaskBlocks {
  View<const bool, 4> mask;
  Int blockQ, blockK;
  Bool sees(const At &at) const;
  Bool touches(const Region &region) const;
  Bool isWhole(const At &at) const;
  // Of a block's own element behind that of the mask: for Listed.
  Bool isFull(const At &at) const;

private:
  Bool at(const Int &batch, const Int &head, const Int &row, const Int &column,
          int behind = 0) const;
};

// The queries are the nodes of a tree, such as drafted tokens: query i sees those queries whose
// bits are set in ancestors[b, i], its own among them, and all keys before the first of them. [B,
// Sq], of at most 64 queries.
struct Tree {
  View<const std::uint64_t, 2> ancestors;
  Bool sees(const At &at) const;
  Bool isWhole(const At &at) const { return at.column + at.keys <= at.sequence.offset(); }
};

// The same of any number of nodes, for packed sequences and pages: of token t of all sequences, bit
// j % 32 of bits[t, j / 32] is of its sequence's query j. Bits that there are not are not set.
// [tokens, words]; without packed sequences, [Sq, words] for all batches.
struct TokenTree {
  View<const std::int32_t, 2> bits;
  Bool sees(const At &at) const;
  Bool isWhole(const At &at) const { return at.column + at.keys <= at.sequence.offset(); }
};

// What both see, and what either does.
template <Visible A, Visible B> struct And {
  A a;
  B b;
  Interval keysOf(const Sequence &sequence, const Int &query) const {
    return meet(flash::keysOf(a, sequence, query), flash::keysOf(b, sequence, query));
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const {
    return meet(flash::queriesOf(a, sequence, key), flash::queriesOf(b, sequence, key));
  }
  std::optional<Bool> sees(const At &at) const {
    const auto first = flash::sees(a, at), second = flash::sees(b, at);
    return first && second ? *first && *second : first ? first : second;
  }
  Bool touches(const Region &region) const
    requires(hasBlocks<A> || hasBlocks<B>)
  {
    return reaches(a, region) && reaches(b, region);
  }
  std::optional<Bool> isWhole(const At &at) const {
    const auto first = flash::isWhole(a, at), second = flash::isWhole(b, at);
    return first && second ? std::optional(*first && *second) : std::nullopt;
  }
};
template <class A, class B> constexpr bool hasPairs<And<A, B>> = hasPairs<A> || hasPairs<B>;

template <Visible A, Visible B> struct Or {
  A a;
  B b;
  Interval keysOf(const Sequence &sequence, const Int &query) const {
    return hull(flash::keysOf(a, sequence, query), flash::keysOf(b, sequence, query));
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const {
    return hull(flash::queriesOf(a, sequence, key), flash::queriesOf(b, sequence, key));
  }
  Bool sees(const At &at) const { return seenBy(a, at) || seenBy(b, at); }
  Bool touches(const Region &region) const
    requires(hasBlocks<A> || hasBlocks<B>)
  {
    return reaches(a, region) || reaches(b, region);
  }

private:
  template <Visible V> static Bool seenBy(const V &visibility, const At &at) {
    return within(flash::keysOf(visibility, at.sequence, at.query()), at.key(),
                  flash::sees(visibility, at));
  }
};

// What follows the fixed parameters of a lambda, as one struct.
// call: f(before..., the operands...).
template <class... P> struct Operands;
template <> struct Operands<> {
  template <class F, class... Before> auto call(const F &f, const Before &...before) const {
    return f(before...);
  }
};
template <class P, class... Rest> struct Operands<P, Rest...> {
  P first;
  Operands<Rest...> rest;
  template <class F, class... Before> auto call(const F &f, const Before &...before) const {
    return rest.call(f, before..., first);
  }
};

namespace detail {

// Of a lambda's parameters all but the first `Fixed`, as Operands.
template <class M> struct Signature {
  static_assert(sectile::detail::always_false<M>,
                "what flash calls is a lambda with typed parameters, not mutable");
};
template <class R, class C, class... P> struct Signature<R (C::*)(P...) const> {
  using Parameters = std::tuple<std::remove_cvref_t<P>...>;
};
template <class R, class C, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (C::*)(P...) const> {};

template <std::size_t Fixed, class Parameters, class Indices> struct OperandsAfter;
template <std::size_t Fixed, class Parameters, std::size_t... I>
struct OperandsAfter<Fixed, Parameters, std::index_sequence<I...>> {
  using type = Operands<std::tuple_element_t<Fixed + I, Parameters>...>;
};
template <std::size_t Fixed, class F> constexpr auto operandsOf() {
  static_assert(std::is_empty_v<F> && std::is_default_constructible_v<F>,
                "a lambda that flash calls captures nothing, because its kernel is compiled once: "
                "pass what it needs as operands");
  if constexpr (requires { &F::operator(); }) {
    using Parameters = typename Signature<decltype(&F::operator())>::Parameters;
    constexpr std::size_t count = std::tuple_size_v<Parameters>;
    static_assert(count >= Fixed,
                  "a lambda of flash::scores takes (Score, const At &, operands...), one of "
                  "flash::where (const At &, operands...)");
    return std::type_identity<typename OperandsAfter<
        // Compilers go on after the assertion, and a negative count would take all memory.
        Fixed, Parameters, std::make_index_sequence<std::max(count, Fixed) - Fixed>>::type>();
  } else {
    static_assert(sectile::detail::always_false<F>,
                  "a lambda that flash calls has typed parameters, it is not a generic one");
  }
}
template <std::size_t Fixed, class F>
using OperandsOf = typename decltype(operandsOf<Fixed, F>())::type;

} // namespace detail

// Pairs for which F says so: a lambda (const At &, operands...) that gives a Bool.
template <class F> struct Where {
  detail::OperandsOf<1, F> operands;
  Bool sees(const At &at) const { return operands.call(F{}, at); }
};

// What V sees, of which a table tells by blocks. Of each block the mask is true where some pair of
// it is seen, and the element behind that where V::sees() is true of all of its pairs.
template <Visible V> struct Listed {
  V of;
  MaskBlocks some;
  Interval keysOf(const Sequence &sequence, const Int &query) const {
    return flash::keysOf(of, sequence, query);
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const {
    return flash::queriesOf(of, sequence, key);
  }
  std::optional<Bool> sees(const At &at) const { return flash::sees(of, at); }
  Bool touches(const Region &region) const { return some.touches(region); }
  Bool isWhole(const At &at) const { return some.isWhole(at) && some.isFull(at); }
};
template <class V> constexpr bool hasPairs<Listed<V>> = hasPairs<V>;

// Blocks of keys or queries that a list has: a loop goes over these and no others.
struct BlockList {
  Int count;
  std::function<Int(const Int &step)> blockOf;    // in the list's order
  std::function<Bool(const Int &block)> has = {}; // for gradients of a bias
};
// Lists [batches, heads, blocks, length] of a launch: of each block of a batch and head how many
// others there are, and then their numbers, in order. Of packed sequences the blocks of all are
// counted as programs are, in the place of one batch. Over pages there is one for each program. No
// view, as kernels have few words for their arguments.
struct BlockLists {
  Ptr<const std::int32_t> lists;
  Int heads, blocks, length;
  BlockList of(const Int &batch, const Int &head, const Int &block) const;
};
struct NoLists {};
// What a launch takes for V.
template <Visible V> using ListsOf = std::conditional_t<hasBlocks<V>, BlockLists, NoLists>;

// A visibility of whatever type, while a kernel is traced.
class AnyVisibility {
public:
  virtual Interval keysOf(const Sequence &sequence, const Int &query) const = 0;
  virtual Interval queriesOf(const Sequence &sequence, const Int &key) const = 0;
  virtual std::optional<Bool> sees(const At &at) const = 0;
  // Called once for each packed sequence that a program has, before its loops.
  virtual void require(const Sequence &) const {}
  // A list, where there is one, of all the blocks of keys that a block of queries sees any of, and
  // of the blocks of queries that see any of a block of keys. Intervals and sees() hold inside
  // them.
  virtual std::optional<BlockList> keyBlocks(const Sequence &, const Int &) const { return {}; }
  virtual std::optional<BlockList> queryBlocks(const Sequence &, const Int &) const { return {}; }
  // Of a block, a scalar: whether sees() is true of all pairs. None: it may be false.
  virtual std::optional<Bool> isWhole(const At &) const { return {}; }
  // What lists are made of.
  virtual Bool reaches(const Region &) const { return true; }

protected:
  ~AnyVisibility() = default;
};
template <Visible V> class Erased final : public AnyVisibility {
public:
  // lists: of the blocks that the launch is of; none: loops go over all blocks of intervals.
  // packedSize: of packed sequences, the tokens of such a block; ofPrograms: the lists are those of
  // programs.
  static constexpr int ofPrograms = -1;
  explicit Erased(const V &visibility, const ListsOf<V> *lists = nullptr, int packedSize = 0)
      : visibility(visibility), lists(lists), packedSize(packedSize) {}
  Interval keysOf(const Sequence &sequence, const Int &query) const override {
    return flash::keysOf(visibility, sequence, query);
  }
  Interval queriesOf(const Sequence &sequence, const Int &key) const override {
    return flash::queriesOf(visibility, sequence, key);
  }
  std::optional<Bool> sees(const At &at) const override { return flash::sees(visibility, at); }
  std::optional<BlockList> keyBlocks(const Sequence &sequence, const Int &block) const override {
    return listed(sequence, sequence.firstQuery, block);
  }
  std::optional<BlockList> queryBlocks(const Sequence &sequence, const Int &block) const override {
    return listed(sequence, sequence.firstKey, block);
  }
  std::optional<Bool> isWhole(const At &at) const override {
    if constexpr (hasBlocks<V>)
      return lists ? flash::isWhole(visibility, at) : std::nullopt;
    else if constexpr (hasPairs<V>)
      return flash::isWhole(visibility, at);
    else
      return {};
  }
  Bool reaches(const Region &region) const override { return flash::reaches(visibility, region); }

private:
  std::optional<BlockList> listed([[maybe_unused]] const Sequence &sequence,
                                  [[maybe_unused]] const Int &firstToken,
                                  [[maybe_unused]] const Int &block) const {
    if constexpr (hasBlocks<V>) {
      if (lists && packedSize == ofPrograms)
        return lists->of(0, program_id(1), program_id(0));
      if (lists && packedSize)
        return lists->of(0, sequence.head, firstToken / packedSize + sequence.batch + block);
      if (lists)
        return lists->of(sequence.batch, sequence.head, block);
    }
    return {};
  }

  const V &visibility;
  const ListsOf<V> *lists;
  int packedSize;
};

} // namespace sectile::flash
