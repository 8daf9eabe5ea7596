// Products of rows group by group, for the kernels that end in them: rows may be gathered, and
// pairs of columns may go through a gate.
#pragma once
#include "kernels/blocks/Activations.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/MxNumbers.h"
#include "kernels/matmul/ProductModel.h"
#include <functional>
#include <type_traits>

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

// What products of T are kept in: fp8 codes give bf16.
template <class T> using GroupedResult = std::conditional_t<sizeof(T) == 1, bfloat16, T>;

// Elements of K, and of a matrix's columns, that share an f32 scale (DeepSeek-V3, arXiv
// 2412.19437).
constexpr int scaleBlock = 128;

// c [M, N or N / 2] of lhs [M, K], or of rows lhs[rows[i]] of lhs [T, K], and rhs [G, K, N]; of
// pairs of e2m1 (std::uint8_t) rhs is [G, K / 2, N].
template <class T, class W> struct GroupedTensors {
  static constexpr bool isMx = std::is_same_v<W, std::uint8_t>;
  using Scale = std::conditional_t<isMx, std::uint8_t, float>;
  using Result = GroupedResult<T>;

  Tensor<T, 2> lhs;
  Tensor<W, 3> rhs;
  Tensor<std::int32_t, 1> sizes, rows; // no rows: they are not gathered
  Tensor<Result, 2> bias;              // [G, N], or nothing
  Tensor<Result, 2> c;
  Tensor<float, 2> lhsScales = noTensor<float, 2>(); // like lhs, of blocks of K, or nothing
  Tensor<Scale, 3> rhsScales = noTensor<Scale, 3>(); // of blocks of K and N, or nothing; e8m0 of
                                                     // blocks of K
};
template <class T, class W>
void launchGrouped(Use &use, const GroupedTensors<T, W> &tensors, const GroupedEpilogue &epilogue);

// How the operands of a call are stored, for the choice of a configuration.
struct GroupedCoding {
  bool isMx = false;     // rhs is pairs of e2m1
  bool isScaled = false; // blocks of K have f32 scales
  bool liesAlongK = false;
};
// What kernels with such a product have in common: the configuration, its defaults and the search
// space, and checks of groups. Axes are M, K, N and G; operands have the dtype of `operand`. With
// codingOf, codes may be decoded first.
void specifyGrouped(KernelSpec &spec, const std::string &operand, bool isGradient = false,
                    std::function<GroupedCoding(const Invocation &)> codingOf = nullptr);
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
