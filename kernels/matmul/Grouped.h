// Products of rows group by group, for the kernels that end in them: rows may be gathered, and
// pairs of columns may go through a gate.
#pragma once
#include "kernels/blocks/Activations.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"

namespace sectile {

// Columns of a group's matrix of which one is the gate of another: none, neighbours, or those of
// the first half and of the second.
enum class Gate : int { none, interleaved, concatenated };

// c = sums, + bias; or act(g) (u + offset) with g = min(gate, limit) and u = up within -limit and
// limit, where silu is x sigmoid(alpha x).
struct GateNumbers {
  double alpha = 1, limit = 0, offset = 0; // a limit of 0 is none
};
struct GroupedEpilogue {
  Gate gate = Gate::none;
  Activation activation = Activation::none;
  GateNumbers numbers = {};
};

// c [M, N or N / 2] of lhs [M, K], or of rows lhs[rows[i]] of lhs [T, K], and rhs [G, K, N].
template <class T> struct GroupedTensors {
  Tensor<T, 2> lhs;
  Tensor<T, 3> rhs;
  Tensor<std::int32_t, 1> sizes, rows; // no rows: they are not gathered
  Tensor<T, 2> bias;                   // [G, N], or nothing
  Tensor<T, 2> c;
};
template <class T>
void launchGrouped(Use &use, const GroupedTensors<T> &tensors, const GroupedEpilogue &epilogue);

// What kernels with such a product have in common: the configuration, its defaults and the search
// space, and checks of groups. Axes are M, K, N and G; operands have the dtype of `operand`.
void specifyGrouped(KernelSpec &spec, const std::string &operand, bool isGradient = false);
// The lengths of groups, which sum to M.
ArgumentRow groupSizes(const char *name);
void checkGroupSizes(const Invocation &call, std::span<const HostArray> inputs,
                     const char *argument);

// One number after the sums; of a gate the second is multiplied.
template <class T> T gatedNumber(const GroupedEpilogue &epilogue, T gate, T up) {
  const auto [alpha, limit, offset] = epilogue.numbers;
  if (limit > 0) {
    const auto most = static_cast<T>(limit);
    gate = gate > most ? most : gate;
    up = up > most ? most : up < -most ? -most : up;
  }
  const T active = epilogue.activation == Activation::silu
                       ? gate * activation::logistic(static_cast<T>(alpha) * gate)
                       : activate(epilogue.activation, gate);
  return active * (up + static_cast<T>(offset));
}

} // namespace sectile
