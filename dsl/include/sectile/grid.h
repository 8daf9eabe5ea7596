// Where a program is in the grid, and which tile it works on.
#pragma once
#include <array>
#include <sectile/math.h>

namespace sectile {

namespace detail {
Value programId(const Extent &axis);
Value numPrograms(const Extent &axis);
void checkGroup(int group, Location where);
} // namespace detail

// The index of this program along an axis of the grid (0, 1, 2), and the grid's extent.
inline Int program_id(detail::Extent axis) { return Int(detail::programId(axis)); }
inline Int num_programs(detail::Extent axis) { return Int(detail::numPrograms(axis)); }

// The tile that program `id` of a one-dimensional grid works on, of tiles[0] × tiles[1]. Groups of
// `group` rows of tiles go column by column, so that programs that run together share rows and
// columns. Programs beyond the last tile get rows beyond tiles[0]. `id` is not negative.
inline std::array<Int, 2> grouped_order(const Int &id, const std::array<Int, 2> &tiles, int group,
                                        detail::Location where = detail::Location::current()) {
  using detail::BinaryOp;
  detail::checkGroup(group, where);
  auto op = [&](BinaryOp name, detail::Operand a, detail::Operand b) {
    return Int(detail::binary(name, detail::Kind::index, a, b));
  };
  auto at = [&](const auto &x) { return detail::Operand(x, where); };
  const Int programs = op(BinaryOp::mul, at(tiles[1]), at(group)); // of one group
  const Int first = op(BinaryOp::mul, at(op(BinaryOp::div, at(id), at(programs))), at(group));
  // One at least, so that the column is known not to be negative.
  const Int rows =
      maximum(minimum(op(BinaryOp::sub, at(tiles[0]), at(first)), group, Nan::ignore, where), 1,
              Nan::ignore, where);
  const Int rest = op(BinaryOp::rem, at(id), at(programs));
  return {op(BinaryOp::add, at(first), at(op(BinaryOp::rem, at(rest), at(rows)))),
          op(BinaryOp::div, at(rest), at(rows))};
}

} // namespace sectile
