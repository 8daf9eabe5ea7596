// Rotary position embedding as device functions: rows of a tensor in pieces (the first and the
// second number of each pair, and the dims that do not turn), and their rotation. Pieces rather
// than whole rows, because a dot product does not mind the order of the dims.
#pragma once
#include "kernels/position/Angles.h"
#include <sectile/sectile.h>
#include <vector>

namespace sectile {

// The shape of a rotation, known while tracing; a part of the kernels' configurations.
struct RotaryShape {
  int dims = 0;             // of a row
  int rotary = 0;           // the first of them, that turn; even
  bool interleaved = false; // pairs are (2i, 2i + 1), else (i, i + rotary / 2)

  int pairs() const { return rotary / 2; }
  // Extents of tiles: good for matrix instructions.
  static int padded(int extent) { return (extent + 15) / 16 * 16; }
  int pairWidth() const { return padded(pairs()); }
  int restWidth() const { return padded(dims - rotary); }
};

// Tiles [rows, pairWidth], [rows, pairWidth] and, where some dims do not turn, [rows, restWidth].
template <class T> using Pieces = std::vector<Tile<T>>;

template <class T>
Pieces<std::remove_const_t<T>> loadPieces(const View<T, 2> &rows, const Int &block, int extent,
                                          const RotaryShape &shape) {
  Pieces<std::remove_const_t<T>> pieces;
  const int pairs = shape.pairs(), width = shape.pairWidth();
  if (shape.interleaved) {
    const auto both = rows.slice(1, 0, shape.rotary).tile(extent, 2 * width).load(block, 0);
    auto [first, second] = split(reshape(both, extent, width, 2));
    pieces = {first, second};
  } else {
    for (int start : {0, pairs})
      pieces.push_back(rows.slice(1, start, pairs).tile(extent, width).load(block, 0));
  }
  if (shape.rotary < shape.dims)
    pieces.push_back(rows.slice(1, shape.rotary, shape.dims - shape.rotary)
                         .tile(extent, shape.restWidth())
                         .load(block, 0));
  return pieces;
}

// Converts to the view's type.
template <class T, class U>
void storePieces(const View<T, 2> &rows, const Int &block, int extent, const RotaryShape &shape,
                 const Pieces<U> &pieces) {
  const int pairs = shape.pairs(), width = shape.pairWidth();
  if (shape.interleaved) {
    rows.slice(1, 0, shape.rotary)
        .tile(extent, 2 * width)
        .store(block, 0, interleave(cast<T>(pieces[0]), cast<T>(pieces[1])));
  } else {
    rows.slice(1, 0, pairs).tile(extent, width).store(block, 0, pieces[0]);
    rows.slice(1, pairs, pairs).tile(extent, width).store(block, 0, pieces[1]);
  }
  if (shape.rotary < shape.dims)
    rows.slice(1, shape.rotary, shape.dims - shape.rotary)
        .tile(extent, shape.restWidth())
        .store(block, 0, pieces[2]);
}

// Of each row and pair, from the rows' positions.
template <class Position>
SinCos rotationAngles(const Position &positions, const RotaryShape &shape,
                      const Scalar<double> &step) {
  const auto frequency = frequencies(arange(0, shape.pairWidth()), Int(shape.pairs()), step);
  return sinCosOf(phase(expand(positions, 1), expand(frequency, 0)));
}

// In float; by the negative angle with `back`, which is the gradient's way.
template <class T>
Pieces<float> rotate(const Pieces<T> &pieces, const SinCos &angles, bool back = false) {
  const auto first = cast<float>(pieces[0]), second = cast<float>(pieces[1]);
  const auto sin = back ? -angles.sin : angles.sin;
  Pieces<float> result{first * angles.cos - second * sin, second * angles.cos + first * sin};
  for (std::size_t i = 2; i < pieces.size(); ++i)
    result.push_back(cast<float>(pieces[i]));
  return result;
}

} // namespace sectile
