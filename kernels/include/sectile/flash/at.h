// At: where a block of scores lies, and what operands have there.
#pragma once
#include <sectile/flash/learned.h>
#include <sectile/flash/score.h>
#include <sectile/sectile.h>

namespace sectile::flash {

// What one query head of one batch, or of one packed sequence, attends to.
struct Sequence {
  Int batch, head; // head of the queries
  Int queries, keys;
  Int firstQuery = 0, firstKey = 0; // tokens of packed sequences

  // Query i lies beside key i + offset(): the last query beside the last key.
  Int offset() const { return keys - queries; }
};

// A block of queries and keys. What it gives has an axis for the queries and one for the keys, of
// extent 1 where it does not depend on them, in the order in which the pass has them.
struct At {
  Sequence sequence;
  Int row, column;        // numbers of the block's first query and first key
  int rows = 0, keys = 0; // extents of the block
  bool keysFirst = false; // a block is [keys, rows] in place of [rows, keys]
  int heads = 1; // row r is of query r / heads of the head numbered r % heads from there on
  bool differentiates = false; // gradients are traced

  Int batch() const { return sequence.batch; }
  // The query head; where rows are of several heads, that of each row.
  Int head() const;
  // Which query of the sequence, and which key. Behind the last there are none, and nothing that is
  // computed of them is used.
  Int query() const;
  Int key() const;
  // How far a key lies before a query, where the last query lies beside the last key.
  Tile<float> distance() const;

  // Elements of operands; of axes of extent 1 before the last two below, or the last one, the only
  // one. Behind the last query and key they are 0.

  // [H], or [B, H].
  template <class T> Tile<std::remove_const_t<T>> per_head(const View<T, 1> &view) const {
    return load(view.ptr() + place(view, 0, head()));
  }
  template <class T> Tile<std::remove_const_t<T>> per_head(const View<T, 2> &view) const {
    return load(view.ptr() + place(view, 0, batch()) + place(view, 1, head()));
  }
  // [B, H, Sq].
  template <class T> Tile<std::remove_const_t<T>> per_query(const View<T, 3> &view) const {
    if (heads > 1)
      return load(view.ptr() + place(view, 0, batch()) + place(view, 1, head()) +
                      cast<std::int64_t>(query()) * view.stride(2),
                  query() < view.extent(2));
    auto own = view.at(number(view, 0, batch()), number(view, 1, head()));
    return expand(own.tile(rows).load(row / rows), keysFirst ? 0 : 1);
  }
  // [B, H, Sk], where H is that of the queries, or [B, Sk].
  template <class T> Tile<std::remove_const_t<T>> per_key(const View<T, 3> &view) const {
    if (heads > 1)
      return load(view.ptr() + place(view, 0, batch()) + place(view, 1, head()) +
                      cast<std::int64_t>(key()) * view.stride(2),
                  key() < view.extent(2));
    return ofKeys(view.at(number(view, 0, batch()), number(view, 1, head())));
  }
  template <class T> Tile<std::remove_const_t<T>> per_key(const View<T, 2> &view) const {
    return ofKeys(view.at(number(view, 0, batch())));
  }
  // [B, H, Sq, Sk].
  template <class T> Tile<std::remove_const_t<T>> per_pair(const View<T, 4> &view) const {
    return per_pair(view.at(number(view, 0, batch())));
  }
  // [H, Sq, Sk], for whatever batch.
  template <class T> Tile<std::remove_const_t<T>> per_pair(const View<T, 3> &view) const {
    if (heads > 1)
      return ofPairs(view.at(0), place(view, 0, head()));
    return per_pair(view.at(number(view, 0, head())));
  }
  // [Sq, Sk], for whatever head.
  template <class T> Tile<std::remove_const_t<T>> per_pair(const View<T, 2> &view) const {
    if (heads > 1)
      return ofPairs(view, 0);
    return keysFirst ? view.transposed().tile(keys, rows).load(column / keys, row / rows)
                     : view.tile(rows, keys).load(row / rows, column / keys);
  }

  // Of learned operands, with their derivatives.
  template <int Tag> Score per_head(const Learned<Along::heads, Tag> &of) const {
    return withSlope(of, per_head(of.values.fix(2, 0)));
  }
  template <int Tag> Score per_query(const Learned<Along::queries, Tag> &of) const {
    return withSlope(of, per_query(of.values));
  }
  template <int Tag> Score per_key(const Learned<Along::keys, Tag> &of) const {
    return withSlope(of, per_key(of.values));
  }
  template <int Tag> Score by_distance(const Learned<Along::distances, Tag> &of) const {
    return withSlope(of, atDistance(of.values));
  }
  template <int Tag> Score per_pair(const Learned<Along::pairs, Tag> &of) const {
    return withSlope(of, per_pair(of.values));
  }

private:
  template <class L> Score withSlope(const L &, const Tile<float> &values) const {
    const Score score(values);
    return differentiates ? score.as(L::slot) : score;
  }
  Tile<float> atDistance(const View<const float, 3> &table) const;
  // The number along an axis that may have extent 1 for all, and the place of its element.
  template <class V> static Int number(const V &view, int axis, const Int &wanted) {
    return maximum(minimum(wanted, view.extent(axis) - 1), 0);
  }
  template <class V> static auto place(const V &view, int axis, const Int &wanted) {
    return cast<std::int64_t>(number(view, axis, wanted)) * view.stride(axis);
  }
  // Where rows are of several heads: each begins at its own place.
  template <class T, class Places>
  Tile<std::remove_const_t<T>> ofPairs(const View<T, 2> &view, const Places &places) const {
    return load(view.ptr() + places + cast<std::int64_t>(query()) * view.stride(0) +
                    cast<std::int64_t>(key()) * view.stride(1),
                query() < view.extent(0) && key() < view.extent(1));
  }
  template <class T> Tile<std::remove_const_t<T>> ofKeys(const View<T, 1> &view) const {
    return expand(view.tile(keys).load(column / keys), keysFirst ? 1 : 0);
  }
};

} // namespace sectile::flash
