// Rotary position embedding as device functions: rows of a tensor in pieces (the first and the
// second number of each pair, and the dims that do not turn), and their rotation. Pieces rather
// than whole rows, because a dot product does not mind the order of the dims.
#pragma once
#include "kernels/position/Angles.h"
#include <array>
#include <sectile/sectile.h>
#include <tuple>
#include <vector>

namespace sectile {

// The shape of a rotation, known while tracing; a part of the kernels' configurations.
struct RotaryShape {
  int dims = 0;             // of a row
  int rotary = 0;           // the first of them, that turn; even
  bool interleaved = false; // pairs are (2i, 2i + 1), else (i, i + rotary / 2)
  bool scaled = false;      // frequencies go through RotaryNumbers::ramp

  int pairs() const { return rotary / 2; }
  // Extents of tiles: good for matrix instructions.
  static int padded(int extent) { return (extent + 15) / 16 * 16; }
  int pairWidth() const { return padded(pairs()); }
  int restWidth() const { return padded(dims - rotary); }
  // The dims that the elements of a piece are.
  Int dimsOf(std::size_t piece) const {
    if (piece == 2)
      return arange(0, restWidth()) + rotary;
    const auto pair = arange(0, pairWidth());
    return interleaved ? pair * 2 + static_cast<int>(piece)
                       : pair + static_cast<int>(piece) * pairs();
  }
};

// What a launch takes of a rotation. magnitude: a factor of what it rotates.
struct RotaryNumbers {
  Scalar<double> step;
  FrequencyRamp ramp;
  Float magnitude;
};

// Tiles [rows, pairWidth], [rows, pairWidth] and, where some dims do not turn, [rows, restWidth].
template <class T> using Pieces = std::vector<Tile<T>>;

// Where a tile of a view lies, but for its last axis: its extents and its place in tiles.
template <int N> struct PieceTile {
  std::array<int, N> extents;
  std::array<Int, N> place;

  // Columns of a view as tiles of this width.
  template <class T>
  Tile<std::remove_const_t<T>> load(const View<T, N + 1> &from, int width) const {
    return std::apply([&](const auto &...where) { return tiled(from, width).load(where..., 0); },
                      place);
  }
  template <class T, class U>
  void store(const View<T, N + 1> &to, int width, const Tile<U> &piece) const {
    std::apply([&](const auto &...where) { tiled(to, width).store(where..., 0, piece); }, place);
  }
  // The piece's tile with other axes instead of the last.
  template <class T, class... Last> Tile<T> reshaped(const Tile<T> &piece, Last... last) const {
    return std::apply([&](auto... extent) { return reshape(piece, extent..., last...); }, extents);
  }

private:
  template <class T> TiledView<T, N + 1> tiled(const View<T, N + 1> &view, int width) const {
    return std::apply([&](auto... extent) { return view.tile(extent..., width); }, extents);
  }
};

template <class T, int N>
Pieces<std::remove_const_t<T>> loadPieces(const View<T, N> &rows, const PieceTile<N - 1> &tile,
                                          const RotaryShape &shape) {
  Pieces<std::remove_const_t<T>> pieces;
  const int pairs = shape.pairs(), width = shape.pairWidth(), last = N - 1;
  if (shape.interleaved) {
    const auto both = tile.load(rows.slice(last, 0, shape.rotary), 2 * width);
    auto [first, second] = split(tile.reshaped(both, width, 2));
    pieces = {first, second};
  } else {
    for (int start : {0, pairs})
      pieces.push_back(tile.load(rows.slice(last, start, pairs), width));
  }
  if (shape.rotary < shape.dims)
    pieces.push_back(
        tile.load(rows.slice(last, shape.rotary, shape.dims - shape.rotary), shape.restWidth()));
  return pieces;
}

// Converts to the view's type. Place: as PieceTile, of a view of N axes.
template <class T, int N, class Place, class U>
void storePieces(const View<T, N> &rows, const Place &tile, const RotaryShape &shape,
                 const Pieces<U> &pieces) {
  const int pairs = shape.pairs(), width = shape.pairWidth(), last = N - 1;
  if (shape.interleaved) {
    tile.store(rows.slice(last, 0, shape.rotary), 2 * width,
               interleave(cast<T>(pieces[0]), cast<T>(pieces[1])));
  } else {
    tile.store(rows.slice(last, 0, pairs), width, pieces[0]);
    tile.store(rows.slice(last, pairs, pairs), width, pieces[1]);
  }
  if (shape.rotary < shape.dims)
    tile.store(rows.slice(last, shape.rotary, shape.dims - shape.rotary), shape.restWidth(),
               pieces[2]);
}
// Of each row and pair, from the rows' positions.
template <class Position>
SinCos rotationAngles(const Position &positions, const RotaryShape &shape,
                      const RotaryNumbers &numbers) {
  const auto ramp = shape.scaled ? std::optional(numbers.ramp) : std::nullopt;
  const auto frequency =
      frequencies(arange(0, shape.pairWidth()), Int(shape.pairs()), numbers.step, ramp);
  const auto [sin, cos] = sinCosOf(phase(expand(positions, 1), expand(frequency, 0)));
  return shape.scaled ? SinCos{sin * numbers.magnitude, cos * numbers.magnitude} : SinCos{sin, cos};
}

template <class T> Pieces<float> inFloat(const Pieces<T> &pieces) {
  Pieces<float> result;
  for (const Tile<T> &piece : pieces)
    result.push_back(cast<float>(piece));
  return result;
}

// By the negative angle with `back`, which is the gradient's way.
inline Pieces<float> rotate(const Pieces<float> &pieces, const SinCos &angles, bool back = false) {
  const auto &first = pieces[0], &second = pieces[1];
  const auto sin = back ? -angles.sin : angles.sin;
  Pieces<float> result{first * angles.cos - second * sin, second * angles.cos + first * sin};
  result.insert(result.end(), pieces.begin() + 2, pieces.end());
  return result;
}

} // namespace sectile
