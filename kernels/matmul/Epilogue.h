// What is done with a tile of sums before it is stored, once for all kernels that end in one:
// act(alpha * row_scale * column_scale * sums + beta * residual + bias).
#pragma once
#include "kernels/blocks/Activations.h"
#include <sectile/gemm.h>

namespace sectile {

// Which parts there are, known while tracing.
struct EpilogueParts {
  Activation activation = Activation::none;
  bool scaled = false; // alpha is not 1
  bool bias = false, residual = false, rowScale = false, columnScale = false;

  bool any() const {
    return activation != Activation::none || scaled || bias || residual || rowScale || columnScale;
  }
};

// Of one matrix [M, N].
template <class Out> struct EpilogueOperands {
  View<const Out, 1> bias;          // [N]
  View<const Out, 2> residual;      // [M, N]
  View<const float, 1> rowScale;    // [M]
  View<const float, 1> columnScale; // [N]
  Float alpha, beta;
};

template <class Out>
Tile<float> finishSums(Tile<float> x, const EpilogueOperands<Out> &operands,
                       const EpilogueParts &parts, const GemmPosition &at) {
  if (parts.rowScale)
    x = x * at.per_row(operands.rowScale);
  if (parts.columnScale)
    x = x * at.per_column(operands.columnScale);
  if (parts.scaled)
    x = x * operands.alpha;
  if (parts.residual)
    x = x + operands.beta * cast<float>(at.load(operands.residual));
  if (parts.bias)
    x = x + expand(cast<float>(operands.bias.tile(at.n).load(at.j)), 0);
  return activate(parts.activation, x);
}

// Stores act(sums + bias), in which products of operands with scales of their own end. The
// configuration has the tile's extents m and n, the activation, and whether there is a bias.
template <class Out, class Config>
void storeActivated(const View<Out, 2> &c, const View<const Out, 1> &bias, const Int &i,
                    const Int &j, Tile<float> sums, const Config &config) {
  if (config.bias)
    sums = sums + expand(cast<float>(bias.tile(config.n).load(j)), 0);
  c.tile(config.m, config.n).store(i, j, activate(config.activation, sums));
}

} // namespace sectile
