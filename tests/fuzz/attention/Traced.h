// Drawn terms as flash takes them: a lambda and a visibility whose kernels are traced of `traced`.
// A kernel is compiled once for its types, so a process has one pair of terms.
#pragma once
#include "tests/fuzz/attention/Terms.h"
#include <sectile/flash.h>

namespace sectile::fuzz {

struct Traced {
  ScoreTerm score;
  SightTerm sight;
  int64_t queries = 0, keys = 0; ///< that blocks of a term are made for
};
inline const Traced *traced = nullptr;

inline Bool trace(const Stripes &of, const flash::At &at) {
  return (at.query() * of.query + at.key() * of.key + at.head() * of.head + at.batch() * of.batch) %
             of.modulus !=
         0;
}

/// What leaves that are operands give.
struct TracedTables {
  std::function<flash::Score(ScoreOp)> of;
  std::function<flash::Score(int)> learned;
};
flash::Score trace(const ScoreTerm &term, const flash::Score &score, const flash::At &at,
                   const TracedTables &tables);

/// Lambdas of flash::scores.
struct TracedScore {
  flash::Score operator()(const flash::Score &score, const flash::At &at,
                          const View<const float, 1> &slopes, const View<const float, 3> &ofQueries,
                          const View<const float, 2> &ofKeys,
                          const View<const float, 4> &ofPairs) const {
    return trace(traced->score, score, at,
                 {[&](ScoreOp op) -> flash::Score {
                    return op == ScoreOp::Slope     ? at.per_head(slopes) * at.distance()
                           : op == ScoreOp::OfQuery ? at.per_query(ofQueries)
                           : op == ScoreOp::OfKey   ? at.per_key(ofKeys)
                                                    : at.per_pair(ofPairs);
                  },
                  {}});
  }
};
template <flash::Along A> flash::Score learnedAt(const flash::At &at, const auto &table) {
  if constexpr (A == flash::Along::heads)
    return at.per_head(table);
  else if constexpr (A == flash::Along::queries)
    return at.per_query(table);
  else if constexpr (A == flash::Along::keys)
    return at.per_key(table);
  else if constexpr (A == flash::Along::pairs)
    return at.per_pair(table);
  else
    return at.by_distance(table);
}
template <flash::Along... A> struct TracedLearned {
  flash::Score operator()(const flash::Score &score, const flash::At &at,
                          const View<const float, 1> &slopes,
                          const flash::Learned<A> &...learned) const {
    return trace(traced->score, score, at,
                 {[&](ScoreOp) -> flash::Score { return at.per_head(slopes) * at.distance(); },
                  [&](int which) {
                    flash::Score result = 0.0f;
                    int number = 0;
                    ((number++ == which ? void(result = learnedAt<A>(at, learned)) : void()), ...);
                    return result;
                  }});
  }
};

/// A lambda of flash::where.
struct TracedStripes {
  Bool operator()(const flash::At &at, const Int &query, const Int &key, const Int &head,
                  const Int &batch, const Int &modulus) const {
    return (at.query() * query + at.key() * key + at.head() * head + at.batch() * batch) %
               modulus !=
           0;
  }
};

/// One node of a visibility with those below it. V has the operands.
template <class V> struct Part;
/// No kernel takes one: it is put together while one is traced.
template <class V> constexpr void sectileStructFields(std::type_identity<Part<V>>) {}
template <class V> struct Part {
  const V *of;
  int node;

  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const {
    return visit<flash::Interval>(
        [&](const auto &own) { return flash::keysOf(own, sequence, query); });
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const {
    return visit<flash::Interval>(
        [&](const auto &own) { return flash::queriesOf(own, sequence, key); });
  }
  std::optional<Bool> sees(const flash::At &at) const {
    return visit<std::optional<Bool>>([&](const auto &own) { return flash::sees(own, at); });
  }
  Bool touches(const flash::Region &region) const
    requires(V::hasBlocks)
  {
    return visit<Bool>([&](const auto &own) {
      if constexpr (flash::hasBlocks<std::remove_cvref_t<decltype(own)>>)
        return own.touches(region);
      else
        return Bool(true);
    });
  }
  std::optional<Bool> isWhole(const flash::At &at) const {
    return visit<std::optional<Bool>>([&](const auto &own) { return flash::isWhole(own, at); });
  }

private:
  /// Of these axes of a dense array; kernels have too few words for arguments that are views.
  template <int N, class T>
  static View<T, N> view(const Ptr<T> &from, const Shape &shape,
                         const std::array<size_t, N> &axes) {
    std::array<Int, N> extents;
    std::array<Tile<int64_t>, N> strides;
    for (size_t i = 0; i < N; ++i) {
      extents[i] = Int(shape[axes[i]]);
      int64_t count = 1;
      for (size_t axis = axes[i] + 1; axis < shape.size(); ++axis)
        count *= shape[axis];
      strides[i] = Tile<int64_t>(count);
    }
    return {from, extents, strides};
  }
  /// Numbers of a row: of each key of a batch, or the first of each batch.
  View<const std::int32_t, 2> numbers(int64_t row) const {
    const Shape &shape = traced->sight.shape;
    return view<2>(of->numbers + row * shape[1] * shape[2], {shape[1], shape[2]}, {0, 1});
  }
  template <class Result, class Function> Result visit(const Function &function) const {
    const SightNode &own = traced->sight.nodes[static_cast<size_t>(node)];
    const Part a{of, own.a}, b{of, own.b};
    const auto end = [](const std::optional<int64_t> &distance) {
      return Int(distance.value_or(1 << 29)); // as flash::window has it
    };
    switch (own.op) {
    case SightOp::Causal:
      return function(flash::Causal());
    case SightOp::Window:
      return function(flash::Window{end(own.left), end(own.right)});
    case SightOp::Documents:
      return function(flash::Documents{numbers(own.row), numbers(own.row + 1)});
    case SightOp::Prefix:
      return function(flash::Prefix{numbers(own.row).fix(1, 0)});
    case SightOp::Chunked:
      return function(flash::Chunked{own.size});
    case SightOp::KeyLengths:
      return function(flash::KeyLengths{numbers(own.row).fix(1, 0)});
    case SightOp::KeyMask:
      return function(flash::KeyMask{view<2>(of->masks + own.place, own.maskShape, {0, 3})});
    case SightOp::Mask:
      return function(flash::Mask{view<4>(of->masks + own.place, own.maskShape, {0, 1, 2, 3})});
    case SightOp::Tree:
      return function(flash::Tree{view<2>(
          of->ancestors + own.place, {traced->sight.shape[1], traced->sight.queries}, {0, 1})});
    case SightOp::TokenTree:
      return function(flash::TokenTree{view<2>(of->bits + own.place, own.maskShape, {2, 3})});
    case SightOp::Where: {
      const Stripes &s = own.stripes;
      return function(
          flash::Where<TracedStripes>{{s.query, {s.key, {s.head, {s.batch, {s.modulus, {}}}}}}});
    }
    case SightOp::Blocks:
      if constexpr (V::hasBlocks) {
        const SightTerm &sight = traced->sight;
        return function(flash::MaskBlocks{view<4>(of->blocks, sight.blockShape, {0, 1, 2, 3}),
                                          sight.blockQ, sight.blockK});
      }
      break;
    case SightOp::Listed:
      if constexpr (V::hasBlocks) {
        const SightTerm &sight = traced->sight;
        const auto blocks = [](int64_t extent, int64_t size) { return (extent + size - 1) / size; };
        const Shape shape{sight.listedBatches, sight.listedHeads,
                          blocks(traced->queries, sight.listedQ),
                          blocks(traced->keys, sight.listedK), 2};
        return function(flash::Listed<Part>{
            a, {view<4>(of->kinds, shape, {0, 1, 2, 3}), sight.listedQ, sight.listedK}});
      }
      break;
    case SightOp::Both:
      return function(flash::And<Part, Part>{a, b});
    case SightOp::Either:
      return function(flash::Or<Part, Part>{a, b});
    case SightOp::Everything:
      break;
    }
    return function(flash::Everything());
  }
};

/// The visibility without lists of blocks; or a node's below it, whose blocks are to be listed. Its
/// operands are dense arrays: views would take more words than launches have.
template <bool ofListed> struct TracedTerm {
  static constexpr bool hasBlocks = false;
  Ptr<const std::int32_t> numbers, bits;
  Ptr<const bool> masks;
  Ptr<const std::uint64_t> ancestors;
  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const {
    return root().keysOf(sequence, query);
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const {
    return root().queriesOf(sequence, key);
  }
  std::optional<Bool> sees(const flash::At &at) const { return root().sees(at); }

private:
  Part<TracedTerm> root() const {
    return {this, ofListed ? traced->sight.listed : int(traced->sight.nodes.size()) - 1};
  }
};
template <bool ofListed>
SECTILE_STRUCT(TracedTerm<ofListed>, numbers, bits, masks, ancestors)
using TracedSight = TracedTerm<false>;
using TracedListed = TracedTerm<true>;

/// The visibility with lists: of a mask of blocks, and of blocks that the device has found.
struct TracedBlocks {
  static constexpr bool hasBlocks = true;
  Ptr<const std::int32_t> numbers, bits;
  Ptr<const bool> masks;
  Ptr<const std::uint64_t> ancestors;
  Ptr<const bool> blocks, kinds;
  flash::Interval keysOf(const flash::Sequence &sequence, const Int &query) const {
    return root().keysOf(sequence, query);
  }
  flash::Interval queriesOf(const flash::Sequence &sequence, const Int &key) const {
    return root().queriesOf(sequence, key);
  }
  std::optional<Bool> sees(const flash::At &at) const { return root().sees(at); }
  Bool touches(const flash::Region &region) const { return root().touches(region); }
  std::optional<Bool> isWhole(const flash::At &at) const { return root().isWhole(at); }

private:
  Part<TracedBlocks> root() const { return {this, int(traced->sight.nodes.size()) - 1}; }
};
SECTILE_STRUCT(TracedBlocks, numbers, bits, masks, ancestors, blocks, kinds)

} // namespace sectile::fuzz
