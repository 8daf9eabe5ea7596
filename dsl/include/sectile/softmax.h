// softmax, from exponentials and reductions.
#pragma once
#include <sectile/reduce.h>

namespace sectile {

// exp(x - m) / sum(exp(x - m)) along an axis, m the largest element: no overflow. Below 32 bits it
// is computed in float32 and rounded once. Where every element is -infinity the result is NaN.
template <detail::FloatElement T> Tile<T> softmax(const Tile<T> &x, detail::Extent axis = -1) {
  using Wide = std::conditional_t<std::same_as<T, double>, double, float>;
  constexpr detail::Kind kind = detail::kindOf<Wide>();
  const detail::Location where = axis.where;
  const Tile<Wide> wide(detail::cast(detail::kindOf<T>(), kind, x.handle(), where));
  const auto rank = static_cast<int>(detail::shapeOf(x.handle(), where).size());
  const detail::Axes along(axis.number, where);
  // Back to the tile's rank, so that the result of a reduction meets it along the axis.
  auto kept = [&](const Tile<Wide> &reduced) {
    return Tile<Wide>(detail::expand(reduced.handle(),
                                     {axis.number < 0 ? axis.number + rank : axis.number, where}));
  };
  const Tile<Wide> most = kept(max(wide, along));
  const Tile<Wide> shifted(
      detail::binary(detail::BinaryOp::sub, kind, {wide, where}, {most, where}));
  const Tile<Wide> e = exp(shifted, where);
  const Tile<Wide> total = kept(sum(e, along));
  const Tile<Wide> result(detail::binary(detail::BinaryOp::div, kind, {e, where}, {total, where}));
  return Tile<T>(detail::cast(kind, detail::kindOf<T>(), result.handle(), where));
}

} // namespace sectile
