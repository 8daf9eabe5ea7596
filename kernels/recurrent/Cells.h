// What the recurrent cells (rnn, gru, lstm) share, forward and backward: sizes, arguments, views of
// time, and the matrix products over all steps.
#pragma once
#include "kernels/calls/Use.h"
#include <algorithm>
#include <array>
#include <bit>
#include <sectile/error.h>

namespace sectile::cells {

enum Cell { tanhCell, reluCell, gruCell, lstmCell };

// Rows of weights, in units of H, in PyTorch's order: gru r, z, n; lstm i, f, g, o.
constexpr int gatesOf(int cell) { return cell == lstmCell ? 4 : cell == gruCell ? 3 : 1; }
// What `reserve` holds for each step, in units of H: the gates after their activation; of gru also
// what r multiplies, of lstm the cell state; of rnn the state.
constexpr int slotsOf(int cell) { return cell == lstmCell ? 5 : cell == gruCell ? 4 : 1; }

struct StepConfig {
  int b = 16, h = 64, k = 32, warps = 4;
  int cell = 0;
  bool b_ih = false, b_hh = false;
};

// Step s of direction d is at this position; steps before the first and behind the last are at
// positions that no view has.
inline Int positionOf(const Int &step, const Int &direction, const Int &length) {
  return where(direction == 0, step, length - 1 - step);
}

// Columns g H to g H + H - 1 of a view whose last axis holds several such parts.
template <class T> View<T, 2> part(const View<T, 2> &view, int g, const Int &h) {
  return view.slice(1, h * g, h);
}

// What a view of [position, B, H] holds for the step before, or at the first step `first`, of
// [B, H], if there is one.
template <class T, class U>
Tile<float> before(const View<T, 3> &view, const View<U, 2> &first, const Int &step,
                   const Int &position, const Int &row, const Int &column, int rows, int columns) {
  auto earlier =
      reshape(cast<float>(view.tile(1, rows, columns).load(position, row, column)), rows, columns);
  return where(step == 0, cast<float>(first.tile(rows, columns).load(row, column)), earlier);
}

struct ProductConfig {
  int m = 64, n = 64, k = 32, warps = 4;
};

// out[d, i] = a[d, i] b[d]; where out has one d, the sum over all.
template <class T, class Out>
const Kernel productKernel{"recurrent_products", [](View<const T, 4> a, View<const T, 3> b,
                                                    View<Out, 4> out, const ProductConfig &config) {
                             auto outer = program_id(1), direction = program_id(2);
                             auto columns = cdiv(out.extent(3), config.n);
                             auto i = program_id(0) / columns, j = program_id(0) % columns;
                             auto sums = zeros<float>(config.m, config.n);
                             auto last = direction + a.extent(0) / out.extent(0);
                             for (auto d : range(direction, last)) {
                               auto left = a.at(d, outer).tile(config.m, config.k);
                               auto right = b.at(d).tile(config.k, config.n);
                               for (auto k : range(0, cdiv(b.extent(1), config.k)))
                                 sums =
                                     dot(left.load(i, k), right.load(k, j), sums, Precision::ieee);
                             }
                             out.at(direction, outer).tile(config.m, config.n).store(i, j, sums);
                           }};

// Two tensors of [D, T, B, …] with T and B put together where both lie evenly, else the longer one
// last of the two: rows for matrix products.
template <class A, class B> void asRows(Tensor<A, 4> &a, Tensor<B, 4> &b) {
  const std::int64_t t = a.extent(1), n = a.extent(2);
  if (a.stride(1) == a.stride(2) * n && b.stride(1) == b.stride(2) * n) {
    auto joined = [&](const auto &x) {
      return withAxes(x, {x.extent(0), 1, t * n, x.extent(3)},
                      {x.stride(0), x.stride(1), x.stride(2), x.stride(3)});
    };
    a = joined(a);
    b = joined(b);
  } else if (t >= n) {
    a = a.permute({0, 2, 1, 3});
    b = b.permute({0, 2, 1, 3});
  }
}

// An argument of [T, B, N] as [D, T, B, N / D]; of one that all directions share, `shared`, as
// [D, T, B, N] with a step of 0.
template <class T>
Tensor<T, 4> byDirection(const Tensor<T, 3> &x, std::int64_t directions, bool shared) {
  const std::int64_t n = shared ? x.extent(2) : x.extent(2) / std::max<std::int64_t>(directions, 1);
  return withAxes(x, {directions, x.extent(0), x.extent(1), n},
                  {shared ? 0 : n * x.stride(2), x.stride(0), x.stride(1), x.stride(2)});
}

// The first `count` of the last axis.
template <class T, int N> Tensor<T, N> leading(const Tensor<T, N> &x, std::int64_t count) {
  auto extents = x.extents();
  extents[N - 1] = count;
  return {x.data(), extents, x.strides(), x.memory()};
}

inline std::int64_t directionsOf(const Invocation &call) { return elementCount(call.leading); }

template <class T, class Out>
void products(Use &use, Tensor<T, 4> a, const Tensor<T, 3> &b, Tensor<Out, 4> out) {
  asRows(a, out);
  constexpr int tile = std::same_as<T, float> ? 32 : 64;
  const ProductConfig chosen{tile, tile, tile / 2, 4};
  use(productKernel<T, Out>,
      Grid(ceilDiv(out.extent(2), chosen.m) * ceilDiv(out.extent(3), chosen.n), out.extent(1),
           out.extent(0)),
      a, b, out, chosen);
}

// What the descriptions have in common, with the forward kernel's inputs; `part` is the launch that
// is tuned. `cell` is as the kernel's name says; see cellOf.
KernelSpec commonSpec(Cell cell, const char *name, const char *summary, const char *part);
std::function<std::vector<std::string>(std::vector<std::string>, const OptionValues &)> timeFirst();
// With the option of rnn.
int cellOf(const Invocation &call, Cell cell);

} // namespace sectile::cells
