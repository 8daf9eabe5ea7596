// Where a program is in the grid, and which tile it works on.
#pragma once
#include <array>
#include <sectile/math.h>

namespace sectile {

namespace detail {
Value programId(const Extent &axis);
Value numPrograms(const Extent &axis);
void setCluster(int programs, Location where);
void checkGroup(int group, int cluster, Location where);
} // namespace detail

// The index of this program along an axis of the grid (0, 1, 2), and the grid's extent.
inline Int program_id(detail::Extent axis) { return Int(detail::programId(axis)); }
inline Int num_programs(detail::Extent axis) { return Int(detail::numPrograms(axis)); }

// Programs 2i and 2i + 1 along the grid's first axis form a cluster, with `programs` = 2: where the
// target has clusters, they run side by side, and what both of them load in a loop is fetched from
// memory once. That is so of a block of a view whose place follows from program_id(0) / 2 and from
// what is the same for all programs. It changes nothing that the kernel computes. The grid's first
// extent has to be a multiple of 2 then; a launch says so where it is not. 1 means no clusters.
inline void program_clusters(int programs, detail::Location where = detail::Location::current()) {
  detail::setCluster(programs, where);
}

// The tile that program `id` of a one-dimensional grid works on, of tiles[0] × tiles[1]. Groups of
// `group` rows of tiles go column by column, so that programs that run together share rows and
// columns. Programs beyond the last tile get rows beyond tiles[0]. `id` is not negative.
//
// The programs of a cluster (program_clusters) get tiles of one column, one below the other: the
// column follows from id / cluster. `group` is a multiple of `cluster`. A grid for it has
// ⌈tiles[0] / cluster⌉ · cluster · tiles[1] programs.
inline std::array<Int, 2> grouped_order(const Int &id, const std::array<Int, 2> &tiles, int group,
                                        int cluster = 1,
                                        detail::Location where = detail::Location::current()) {
  using detail::BinaryOp;
  detail::checkGroup(group, cluster, where);
  auto op = [&](BinaryOp name, detail::Operand a, detail::Operand b) {
    return Int(detail::binary(name, detail::Kind::index, a, b));
  };
  auto at = [&](const auto &x) { return detail::Operand(x, where); };
  if (cluster > 1) {
    const Int rows =
        op(BinaryOp::div, at(op(BinaryOp::add, at(tiles[0]), at(cluster - 1))), at(cluster));
    const auto [row, column] = grouped_order(op(BinaryOp::div, at(id), at(cluster)),
                                             {rows, tiles[1]}, group / cluster, 1, where);
    return {op(BinaryOp::add, at(op(BinaryOp::mul, at(row), at(cluster))),
               at(op(BinaryOp::rem, at(id), at(cluster)))),
            column};
  }
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
